"""The store on S3, against a local moto server."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distrf import open_rows
from distrf.errors import StoreError
from distrf.store import (
    Contents,
    create,
    finish,
    pending_blocks,
    read_model_folder,
    write_block,
    write_model_folder,
)

pytest.importorskip("s3fs", reason="needs s3fs")
server = pytest.importorskip("moto.server", reason="needs moto[server] to imitate S3")

# Of botocore and aiohttp, not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def options():
    running = server.ThreadedMotoServer(port=0)
    running.start()
    host, port = running.get_host_and_port()
    import s3fs

    options = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
    s3fs.S3FileSystem(**options).mkdir("bucket")
    yield options
    running.stop()


def test_rows(options):
    url = "s3://bucket/a.zarr"
    X = np.random.default_rng(0).normal(size=(25, 3)).astype("f4")
    store = create(url, Contents({"X": ((3,), "f4")}, 25, 10, kind="rows", spec={}), storage_options=options)
    for index in (2, 0):
        start, stop = store.bounds(index)
        write_block(url, index, {"X": X[start:stop]}, storage_options=options)
    assert pending_blocks(url, storage_options=options) == [1]
    with pytest.raises(StoreError, match="2 of 3 blocks"):
        open_rows(url, storage_options=options)
    write_block(url, 1, {"X": X[10:20]}, storage_options=options)
    finish(url, storage_options=options)
    rows, _ = open_rows(url, storage_options=options)
    np.testing.assert_array_equal(rows.compute(scheduler="sync"), X)
    assert "endpoint" not in rows.name
    import s3fs

    s3fs.S3FileSystem(**options).rm("bucket/a.zarr/X/c/1/0")
    with pytest.raises(StoreError, match="is missing though"):
        rows.compute(scheduler="sync")
    with pytest.raises(StoreError, match="no such store"):
        open_rows("s3://bucket/none.zarr", storage_options=options)


def test_parquet_and_model_folder(options):
    import s3fs

    fs = s3fs.S3FileSystem(**options)
    for number in range(2):
        with fs.open(f"bucket/data/part-{number}.parquet", "wb") as file:
            pq.write_table(pa.table({"x": np.arange(5.0) + 5 * number, "t": ["a"] * 5}), file)
    X, y = open_rows("s3://bucket/data", target="t", storage_options=options)
    np.testing.assert_array_equal(X.compute(scheduler="sync").ravel(), np.arange(10.0))
    assert set(y.compute(scheduler="sync")) == {"a"}
    write_model_folder("s3://bucket/model", {"seed": 1}, {"w": np.arange(4)}, storage_options=options)
    spec, arrays = read_model_folder("s3://bucket/model", storage_options=options)
    assert spec == {"seed": 1}
    np.testing.assert_array_equal(arrays["w"], np.arange(4))
