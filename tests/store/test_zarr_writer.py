"""The row store: round trips, alignment, resume after kill -9, refusals."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import shapes

from distrf import open_rows
from distrf.errors import InputError, InUseError, SpecMismatchError, StoreError
from distrf.store import StoreInfo, create, finish, info, pending_blocks, write_block, zarr_layout

WRITER = """
import sys, time
import numpy as np
from distrf import open_rows
from distrf.store import StoreInfo, create, pending_blocks, write_block, finish
path, delay = sys.argv[1], float(sys.argv[2])
contents = StoreInfo.of({"X": ((7,), "f4"), "y": ((), "i4")}, 410, 20, kind="rows", spec={"seed": 1})
store = create(path, contents)
for index in pending_blocks(path):
    start, stop = store.bounds(index)
    X = np.random.default_rng(index).normal(size=(stop - start, 7)).astype("f4")
    write_block(path, index, {"X": X, "y": np.arange(start, stop)}, store_id=store.id)
    print(index, flush=True)
    time.sleep(delay)
finish(path, store_id=store.id)
"""


def contents(path):
    """{relative file name: bytes} of a folder."""
    root = Path(path)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def fill(path, X, y=None, block_rows=10, kind="rows", **options):
    """A complete store of X and y."""
    sparse = sp.issparse(X)
    arrays = {"X": ((X.shape[1],), X.dtype)}
    if y is not None:
        arrays["y"] = (y.shape[1:], y.dtype)
    options.setdefault("spec", {"seed": 0})
    of_create = {name: options.pop(name) for name in ("overwrite", "provenance") if name in options}
    holds = StoreInfo.of(arrays, X.shape[0], block_rows, kind=kind, sparse=["X"] if sparse else [], **options)
    store = create(path, holds, **of_create)
    for index, start, stop in store.blocks():
        block = {"X": X[start:stop]}
        if y is not None:
            block["y"] = y[start:stop]
        assert write_block(path, index, block, store_id=store.id) == stop - start
    return finish(path, store_id=store.id)


@settings(max_examples=25)
@given(
    shape=shapes(),
    block_rows=st.integers(1, 50),
    dtype=st.sampled_from(["f4", "f8", "u1", "i2"]),
    kind=st.sampled_from(["rows", "features", "predictions"]),
    order=st.randoms(use_true_random=False),
)
def test_round_trip_in_any_block_order(tmp_path_factory, shape, block_rows, dtype, kind, order):
    n, d = shape
    path = tmp_path_factory.mktemp("s") / "a.zarr"
    X = (np.random.default_rng(n).normal(size=(n, d)) * 20).astype(np.int8).astype(dtype)
    store = create(path, StoreInfo.of({"X": ((d,), dtype)}, n, block_rows, kind=kind, spec={}))
    indices = list(range(store.n_blocks))
    order.shuffle(indices)
    for index in indices:
        start, stop = store.bounds(index)
        write_block(path, index, {"X": X[start:stop]}, store_id=store.id)
    assert finish(path, store_id=store.id).complete
    got, y = open_rows(path)
    assert y is None
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.compute(scheduler="sync"), X)


@pytest.mark.slow
@settings(max_examples=20)
@given(
    shape=shapes(columns=30),
    block_rows=st.integers(1, 50),
    per_block=st.integers(1, 4),
    density=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_csr_round_trip(tmp_path_factory, shape, block_rows, per_block, density):
    n, _ = shape
    path = tmp_path_factory.mktemp("s") / "a.zarr"
    X = sp.random_array(shape, density=density, format="csr", dtype=np.float32, rng=np.random.default_rng(n))
    fill(path, X, block_rows=block_rows)
    got, _ = open_rows(path, rows_per_block=min(block_rows, n) * per_block)
    blocks = [b.compute(scheduler="sync") for b in got.to_delayed().ravel()]
    assert all(isinstance(b, sp.csr_array) and b.dtype == np.float32 for b in blocks)
    assert isinstance(got._meta, sp.csr_array)
    np.testing.assert_array_equal(np.concatenate([b.toarray() for b in blocks]), X.toarray())


def test_csr_bytes_depend_on_values_only(tmp_path):
    X = sp.csr_array(([1.0, 2.0, 3.0], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    fill(tmp_path / "a.zarr", X)
    fill(tmp_path / "b.zarr", X.tocsc().tocsr())
    assert contents(tmp_path / "a.zarr") == contents(tmp_path / "b.zarr")


def test_info_and_attributes(tmp_path):
    X = np.arange(50.0).reshape(25, 2)
    store = fill(
        tmp_path / "a.zarr", X, np.zeros(25, "i4"), classes=["no", "yes"], columns=["a", "b"], target="t",
        spec={"gamma": float("inf"), "n": np.int64(3)}, provenance={"from": "here"},
    )  # fmt: skip
    assert store == info(tmp_path / "a.zarr")
    assert store.spec == {"gamma": float("inf"), "n": 3}
    assert (store.classes, store.columns, store.target) == (["no", "yes"], ["a", "b"], "t")
    assert (store.n_blocks, store.pending, store.nbytes) == (3, [], 25 * 2 * 8 + 25 * 4)
    assert info(tmp_path / "a.zarr", measure=True).stored_bytes > 0
    assert pickle.loads(pickle.dumps(store)) == store


def test_codecs(tmp_path):
    X = np.zeros((20, 3), "f4")
    for kind, compressed in (("features", False), ("rows", True)):
        fill(tmp_path / kind, X, kind=kind)
        array = zarr.open_array(tmp_path / kind / "X", mode="r")
        names = [type(codec).__name__ for codec in array.metadata.codecs]
        assert names[-1] == "Crc32cCodec"
        assert ("ZstdCodec" in names) == compressed
        assert np.isnan(array.fill_value)
        # Zeros leave files too.
        assert (tmp_path / kind / "X/c/0/0").exists()


def test_chunks_divide_blocks():
    assert zarr_layout.chunk_shape((1000,), np.dtype("f4"), 16_384) == (16_384, 1000)
    rows, columns = zarr_layout.chunk_shape((1000,), np.dtype("f8"), 100_000)
    assert 100_000 % rows == 0
    assert rows < 100_000
    assert columns == 1000
    assert rows * 8000 <= zarr_layout.CHUNK_BYTES
    assert zarr_layout.chunk_shape((2**24,), np.dtype("f8"), 10) == (1, 2**23)
    assert zarr_layout.chunk_shape((), np.dtype("i4"), 10) == (10,)


def test_kill_and_resume_gives_the_same_bytes(tmp_path):
    whole, killed = tmp_path / "whole.zarr", tmp_path / "killed.zarr"
    script = tmp_path / "writer.py"
    script.write_text(WRITER)
    subprocess.run([sys.executable, script, whole, "0"], check=True, stdout=subprocess.DEVNULL)
    process = subprocess.Popen([sys.executable, script, killed, "0.02"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    left = pending_blocks(killed)
    assert 0 < len(left) < 21
    # What a writer killed inside a write leaves behind.
    (killed / "X/c/9.0123.partial").parent.mkdir(exist_ok=True)
    (killed / "X/c/9.0123.partial").write_bytes(b"half")
    with pytest.raises(StoreError, match=r"only a complete store can be read, .*; run the command"):
        open_rows(killed)
    with pytest.raises(StoreError, match="are missing"):
        finish(killed, store_id=info(killed).id)
    subprocess.run([sys.executable, script, killed, "0"], check=True, stdout=subprocess.DEVNULL)
    assert contents(whole) == contents(killed)
    X, _ = open_rows(killed)
    assert np.isfinite(X.compute(scheduler="sync")).all()


def test_kill_during_creation_is_resumed(tmp_path):
    path = tmp_path / "a.zarr"
    X = np.ones((25, 2))
    fill(path, X)
    expected = contents(path)
    # The group was made, its arrays were not.
    fresh = tmp_path / "b.zarr"
    create(fresh, StoreInfo.of({"X": ((2,), "f8")}, 25, 10, kind="rows", spec={"seed": 0}))
    (fresh / "X/zarr.json").unlink()
    with pytest.raises(StoreError, match="only a complete store can be read"):
        open_rows(fresh)
    fill(fresh, X)
    assert contents(fresh) == expected


def test_same_spec_resumes_and_other_spec_is_an_error(tmp_path):
    path = tmp_path / "a.zarr"
    X = np.ones((25, 2))
    fill(path, X, spec={"gamma": 1.0, "name": "a"})
    before = contents(path)
    holds = StoreInfo.of({"X": ((2,), "f8")}, 25, 10, kind="rows", spec={"gamma": 1.0, "name": "a"})
    again = create(path, holds, provenance={"x": 1})
    assert again.complete
    assert pending_blocks(path) == []
    with pytest.raises(SpecMismatchError, match=r"spec.gamma: 1.0 -> 2.0.*another path.*overwrite") as caught:
        create(path, replace(holds, spec={"gamma": 2.0, "name": "a"}))
    assert "name" not in str(caught.value).replace("spec.gamma", "")
    with pytest.raises(SpecMismatchError, match=r"n_rows: 25 -> 26"):
        create(path, replace(holds, n_rows=26))
    assert contents(path) == before
    other = StoreInfo.of({"X": ((3,), "f4")}, 30, 10, kind="rows", spec={"gamma": 2.0})
    new = create(path, other, overwrite=True)
    assert (new.pending, new.n_rows, new.arrays["X"].tail) == ([0, 1, 2], 30, (3,))
    # The arrays cached by this process are those of the new store.
    fill(path, np.ones((30, 3), "f4"), spec={"gamma": 2.0})
    assert open_rows(path)[0].compute(scheduler="sync").shape == (30, 3)


def test_foreign_paths_are_never_touched(tmp_path):
    zarr.open_group(tmp_path / "other.zarr", mode="w").create_array("X", shape=(3, 2), dtype="f4")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("keep")
    holds = StoreInfo.of({"X": ((2,), "f4")}, 3, 3, kind="rows", spec={})
    for name in ("other.zarr", "notes"):
        for overwrite in (False, True):
            with pytest.raises(StoreError, match="must be free or hold a distrf store"):
                create(tmp_path / name, holds, overwrite=overwrite)
    assert (tmp_path / "notes/a.txt").read_text() == "keep"
    with pytest.raises(StoreError, match="not a store written by distrf"):
        info(tmp_path / "other.zarr")
    with pytest.raises(StoreError, match="no such store"):
        info(tmp_path / "nothing.zarr")
    with pytest.raises(StoreError, match="no such store"):
        write_block(tmp_path / "nothing.zarr", 0, {}, store_id=None)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"X": np.ones((9, 2), "f4"), "y": np.zeros(10, "i4")}, r"has shape \(10, 2\); received \(9, 2\)"),
        ({"X": np.ones((10, 2), "f4")}, r"expected \['X', 'y'\], received \['X'\]"),
        ({"X": np.ones((10, 2), "c8"), "y": np.zeros(10, "i4")}, "stored as float32"),
        ({"X": np.ones((10, 2), "f4"), "y": np.full(10, 2**40)}, "do not fit"),
        ({"X": sp.csr_array(np.ones((10, 2), "f4")), "y": np.zeros(10, "i4")}, "stored dense"),
    ],
)
def test_wrong_blocks_are_refused_before_anything_is_written(tmp_path, block, message):
    path = tmp_path / "a.zarr"
    store = create(path, StoreInfo.of({"X": ((2,), "f4"), "y": ((), "i4")}, 20, 10, kind="rows", spec={}))
    with pytest.raises(InputError, match=message):
        write_block(path, 0, block, store_id=store.id)
    assert pending_blocks(path) == [0, 1]
    assert not (path / "X/c").exists()
    with pytest.raises(StoreError, match="block 2 is outside the store"):
        write_block(path, 2, block, store_id=store.id)


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"X": ((2,), "U3")}, {}, "int32 codes"),
        ({"X": ((0,), "f4")}, {}, "sizes >= 1"),
        ({"X": ((2,), "f4")}, {"spec": {"f": len}}, "spec.f is a builtin_function_or_method"),
    ],
)
def test_wrong_requests_are_refused(tmp_path, arrays, options, message):
    options = {"n_rows": 10, "block_rows": 5, "kind": "rows", "spec": {}, **options}
    with pytest.raises(InputError, match=message):
        create(tmp_path / "a.zarr", StoreInfo.of(arrays, **options))
    assert not (tmp_path / "a.zarr").exists()


def test_remote_store(memory_url):
    X, y = np.arange(50, dtype="f4").reshape(25, 2), np.arange(25) % 2
    fill(f"{memory_url}/a.zarr", X, y.astype("i4"), classes=["no", "yes"])
    got, labels = open_rows(f"{memory_url}/a.zarr")
    np.testing.assert_array_equal(got.compute(scheduler="sync"), X)
    np.testing.assert_array_equal(labels.compute(scheduler="sync"), np.array(["no", "yes"])[y])
    with pytest.raises(SpecMismatchError):
        create(f"{memory_url}/a.zarr", StoreInfo.of({"X": ((2,), "f4")}, 25, 10, kind="rows", spec={}))
    fill(f"{memory_url}/a.zarr", X[:, :1], overwrite=True)
    assert open_rows(f"{memory_url}/a.zarr")[0].shape == (25, 1)


@pytest.fixture
def memory_url():
    import uuid

    import fsspec

    url = f"memory://{uuid.uuid4().hex}"
    yield url
    fsspec.filesystem("memory").rm(url.removeprefix("memory:/"), recursive=True)


def other_store(path):
    """Another job makes the store anew, and writes nothing yet."""
    return create(path, StoreInfo.of({"X": ((2,), "f4")}, 20, 10, kind="rows", spec={"job": 2}), overwrite=True)


@pytest.mark.parametrize("place", ["a.zarr", "memory://ids/a.zarr"])
def test_a_job_does_not_write_into_the_store_of_another(tmp_path, place):
    """The same shapes, so that nothing else tells them apart."""
    path = str(tmp_path / place) if place == "a.zarr" else place
    first = create(
        path, StoreInfo.of({"X": ((2,), "f4")}, 20, 10, kind="rows", spec={"job": 1}), overwrite=True
    )
    ones = np.ones((10, 2), "f4")
    write_block(path, 0, {"X": ones}, store_id=first.id)
    second = other_store(path)
    with pytest.raises(InUseError, match="another job has made it anew"):
        write_block(path, 0, {"X": ones}, store_id=first.id)
    assert pending_blocks(path) == [0, 1]
    for index in (0, 1):
        write_block(path, index, {"X": 2 * ones}, store_id=second.id)
    with pytest.raises(InUseError, match="another job has made it anew"):
        finish(path, store_id=first.id)
    assert finish(path, store_id=second.id).id is None
    with pytest.raises(InUseError, match="or finished it"):  # a task that Dask ran twice
        write_block(path, 0, {"X": ones}, store_id=second.id)
    assert (open_rows(path)[0].compute(scheduler="sync") == 2).all()
