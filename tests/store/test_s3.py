"""Every place may be in an object store: on S3, against moto or an endpoint of one's own.

`DISTRF_TEST_S3_URL` names a server, whose credentials are in the environment; `.ci/ceph` starts Ceph's gateway. All requests go through a proxy, which counts them and answers some with an error.
"""

from __future__ import annotations

import pickle
import re
import threading
import uuid
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import dask
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from s3_servers import Proxy, endpoint
from sklearn.pipeline import make_pipeline

from distrf import (
    RandomFourierFeatures,
    StreamingRidgeClassifier,
    featurize,
    ingest,
    load_model,
    open_rows,
    predict,
    save_model,
    write_rows,
)
from distrf.errors import InputError, StoreError
from distrf.store import (
    StoreInfo,
    create,
    finish,
    info,
    read_model_folder,
    write_block,
    write_model_folder,
)

s3fs = pytest.importorskip("s3fs", reason="needs s3fs")

pytestmark = [
    # Of botocore and aiohttp, not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*the loss still falls:sklearn.exceptions.ConvergenceWarning"),
]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3)).astype("f4")
Y = (X[:, 0] > 0).astype("i4")
MAP = RandomFourierFeatures(n_components=8, length_scale=2.0, random_state=0)
#: Without these, botocore would look for credentials of the machine.
NOWHERE = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "AWS_CONFIG_FILE": "/nonexistent",
}


@pytest.fixture(scope="module")
def s3_endpoint():
    """A proxy in front of the server, and the environment that reaches it."""
    with endpoint() as (url, credentials), Proxy(url) as proxy:
        yield SimpleNamespace(
            proxy=proxy, environment={**NOWHERE, "AWS_ENDPOINT_URL": proxy.url, **credentials}
        )


@pytest.fixture
def s3(s3_endpoint, monkeypatch):
    """A bucket of its own: `url`, the plain file system `fs`, the `proxy`, and the `environment`."""

    for name, value in s3_endpoint.environment.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()  # read their environment once
    fs = s3fs.S3FileSystem(use_listings_cache=False)
    bucket = f"distrf-{uuid.uuid4().hex[:12]}"
    fs.mkdir(bucket)
    s3_endpoint.proxy.requests.clear()
    with dask.config.set(scheduler="synchronous"):
        yield SimpleNamespace(
            url=f"s3://{bucket}", bucket=bucket, fs=fs, proxy=s3_endpoint.proxy,
            environment=s3_endpoint.environment,
        )  # fmt: skip
    s3_endpoint.proxy.fault = lambda request: None
    if fs.exists(bucket):
        fs.rm(bucket, recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


def write(url, n=160, block=10, **spec):
    """A store of distrf."""
    store = create(url, StoreInfo.of({"X": ((3,), "f4"), "y": ((), "i4")}, n, block, kind="rows", spec=spec))
    for index in info(url).pending:
        rows = slice(index * block, (index + 1) * block)
        write_block(url, index, {"X": X[:n][rows], "y": Y[:n][rows]}, store_id=store.id)
    finish(url, store_id=store.id)
    return url


def everything(fs, path):
    """The bytes of all objects there."""
    names = fs.find(path)
    return {name.removeprefix(path): found for name, found in fs.cat(names).items()} if names else {}


def test_rows(s3):
    url = f"{s3.url}/a.zarr"
    store = create(url, StoreInfo.of({"X": ((3,), "f4")}, 25, 10, kind="rows", spec={}))
    for index in (2, 0):
        start, stop = store.bounds(index)
        write_block(url, index, {"X": X[start:stop]}, store_id=store.id)
    assert info(url).pending == [1]
    with pytest.raises(StoreError, match="only a complete store can be read"):
        open_rows(url)
    write_block(url, 1, {"X": X[10:20]}, store_id=store.id)
    finish(url, store_id=store.id)
    rows, _ = open_rows(url)
    np.testing.assert_array_equal(rows.compute(), X[:25])
    s3.fs.rm(f"{s3.bucket}/a.zarr/X/c/1/0")
    with pytest.raises(StoreError, match="is missing though"):
        rows.compute()
    with pytest.raises(StoreError, match="no such store or folder"):
        open_rows(f"{s3.url}/none.zarr")


def test_parquet_and_models(s3):
    for number in range(2):
        with s3.fs.open(f"{s3.bucket}/data/part-{number}.parquet", "wb") as file:
            pq.write_table(pa.table({"x": np.arange(5.0) + 5 * number, "t": ["a"] * 5}), file)
    rows, y = open_rows(f"{s3.url}/data", target="t")
    np.testing.assert_array_equal(rows.compute().ravel(), np.arange(10.0))
    assert set(y.compute()) == {"a"}
    write_model_folder(f"{s3.url}/model", {"seed": 1}, {"w": np.arange(4)})
    spec, arrays = read_model_folder(f"{s3.url}/model")
    assert spec == {"seed": 1}
    np.testing.assert_array_equal(arrays["w"], np.arange(4))


def test_credentials_stay_where_they_are(s3):
    """In no task and no file."""
    secret = s3.environment["AWS_SECRET_ACCESS_KEY"]
    rows, y = open_rows(write(f"{s3.url}/a.zarr"))
    assert secret.encode() not in pickle.dumps(dict(rows.dask))
    model = make_pipeline(MAP, StreamingRidgeClassifier(alpha=1e-3)).fit(rows, y)
    save_model(model, f"{s3.url}/model")
    assert (load_model(f"{s3.url}/model").predict(X) == model.predict(X)).all()
    assert not any(secret.encode() in data for data in everything(s3.fs, s3.bucket).values())
    for url in ("https://me:x@host/a.zarr", "https://host/a.zarr?X-Amz-Signature=x"):
        with pytest.raises(InputError, match="a URL with a password"):
            open_rows(url)


def test_refused(s3):
    url = write(f"{s3.url}/a.zarr")
    s3.proxy.fault = lambda request: 403
    for job in (
        lambda: open_rows(url),
        lambda: create(f"{s3.url}/b.zarr", StoreInfo.of({"X": ((3,), "f4")}, 20, 10, kind="rows", spec={})),
        lambda: read_model_folder(f"{s3.url}/model"),
        lambda: open_rows(f"{s3.url}/data/*.parquet"),
    ):
        with pytest.raises(StoreError, match=r"cannot use 's3://.*PermissionError.*AWS_SECRET_ACCESS_KEY"):
            job()


def after(count, pattern, act):
    """From the request on that is number `count` of those to match, call `act`."""
    seen = []

    def fault(request):
        if re.search(pattern, f"{request.method} {request.path}"):
            seen.append(request)
        return act() if len(seen) > count else None

    return fault


@pytest.mark.parametrize(
    ("job", "block"),
    [("featurize", ".zarr/manifest/"), ("predict", ".zarr/manifest/"), ("predict", ".parquet/part-")],
)
def test_resumed(s3, job, block):
    url, end = write(f"{s3.url}/a.zarr", 80), block.partition("/")[0]
    save_model(make_pipeline(MAP, StreamingRidgeClassifier(alpha=1e-3)).fit(X[:80], Y[:80]), f"{s3.url}/model")
    run = partial(featurize, MAP, url) if job == "featurize" else partial(predict, f"{s3.url}/model", url)
    run(f"{s3.url}/whole{end}")
    s3.proxy.fault = after(3, f"PUT .*half{block}", lambda: 403)
    with pytest.raises(StoreError, match="PermissionError"):
        run(f"{s3.url}/half{end}")
    s3.proxy.fault = lambda request: None
    assert run(f"{s3.url}/half{end}").computed == 5
    whole, half = (everything(s3.fs, f"{s3.bucket}/{name}{end}") for name in ("whole", "half"))
    assert whole == half


class Listing(SimpleHTTPRequestHandler):
    """A web server that says what is in a folder."""

    def log_message(self, *args):
        pass


class Plain(Listing):
    """One that does not."""

    def list_directory(self, path):
        self.send_error(403)


@pytest.mark.parametrize("handler", [Listing, Plain])
def test_read_over_http(tmp_path, handler):
    write(tmp_path / "a.zarr", 40)
    write_model_folder(tmp_path / "model", {"seed": 1}, {"w": np.arange(4)})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        np.testing.assert_array_equal(open_rows(f"{url}/a.zarr")[0].compute(scheduler="sync"), X[:40])
        if handler is Listing:
            assert read_model_folder(f"{url}/model")[0] == {"seed": 1}
        server.shutdown()


@pytest.mark.parametrize("failed", ["manifest", "zarr.json", None])
def test_rows_are_appended_in_place(s3, tmp_path, failed):
    """Also where the store refuses a request half-way: the old rows remain, and the same call goes on."""
    url = write_rows(X[:25], f"{s3.url}/a.zarr", Y[:25]).info.path
    before, _ = open_rows(url)
    np.savez(tmp_path / "more.npz", X=X[25:], y=Y[25:])
    if failed:
        s3.proxy.fault = after(2, f"PUT .*a.zarr/.*{failed}", lambda: 403)
        with pytest.raises(StoreError, match="PermissionError"):
            ingest(tmp_path / "more.npz", url, append=True)
        s3.proxy.fault = lambda request: None
        np.testing.assert_array_equal(open_rows(url)[0].compute(), X[:25])
    assert ingest(tmp_path / "more.npz", url, append=True).n_rows == 160
    rows, y = open_rows(url)
    np.testing.assert_array_equal(rows.compute(), X)
    np.testing.assert_array_equal(y.compute(), Y)
    np.testing.assert_array_equal(before.compute(), X[:25])
    assert not [
        name for name in everything(s3.fs, f"{s3.bucket}/a.zarr") if "manifest" in name or "append.json" in name
    ]
