"""The row store: round trips, alignment, resume after kill -9, refusals."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_arrays import contents, fill
from strategies import shapes

from distrf import open_rows
from distrf.errors import InputError, InUseError, SpecMismatchError, StoreError
from distrf.store import StoreInfo, create, finish, info, write_block


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


def test_info_and_attributes(tmp_path):
    X = np.arange(50.0).reshape(25, 2)
    store = fill(
        tmp_path / "a.zarr", {"X": X, "y": np.zeros(25, "i4")}, classes=["no", "yes"], columns=["a", "b"], target="t",
        spec={"gamma": float("inf"), "n": np.int64(3)}, provenance={"from": "here"},
    )  # fmt: skip
    assert store == info(tmp_path / "a.zarr")
    assert store.spec == {"gamma": float("inf"), "n": 3}
    assert (store.classes, store.columns, store.target) == (["no", "yes"], ["a", "b"], "t")
    assert (store.n_blocks, store.pending, store.nbytes) == (3, [], 25 * 2 * 8 + 25 * 4)
    assert pickle.loads(pickle.dumps(store)) == store


def test_codecs(tmp_path):
    X = np.zeros((20, 3), "f4")
    for kind, compressed in (("features", False), ("rows", True)):
        fill(tmp_path / kind, {"X": X}, kind=kind)
        array = zarr.open_array(tmp_path / kind / "X", mode="r")
        names = [type(codec).__name__ for codec in array.metadata.codecs]
        assert names[-1] == "Crc32cCodec"
        assert ("ZstdCodec" in names) == compressed
        assert np.isnan(array.fill_value)
        # Zeros leave files too.
        assert (tmp_path / kind / "X/c/0/0").exists()


def test_same_spec_resumes_and_other_spec_is_an_error(tmp_path):
    path = tmp_path / "a.zarr"
    X = np.ones((25, 2))
    fill(path, {"X": X}, spec={"gamma": 1.0, "name": "a"})
    before = contents(path)
    holds = StoreInfo.of({"X": ((2,), "f8")}, 25, 10, kind="rows", spec={"gamma": 1.0, "name": "a"})
    again = create(path, replace(holds, provenance={"x": 1}))
    assert again.complete
    assert info(path).pending == []
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
    fill(path, {"X": np.ones((30, 3), "f4")}, spec={"gamma": 2.0})
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
    with pytest.raises(StoreError, match="not a Zarr store written by distrf"):
        info(tmp_path / "other.zarr")
    with pytest.raises(StoreError, match="no such store or folder"):
        info(tmp_path / "nothing.zarr")
    with pytest.raises(StoreError, match="no such store or folder"):
        write_block(tmp_path / "nothing.zarr", 0, {}, store_id=None)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"X": np.ones((9, 2), "f4"), "y": np.zeros(10, "i4")}, r"has shape \(10, 2\); received \(9, 2\)"),
        ({"X": np.ones((10, 2), "f4")}, r"expected \['X', 'y'\], received \['X'\]"),
        ({"X": np.ones((10, 2), "c8"), "y": np.zeros(10, "i4")}, "stored as float32"),
        ({"X": np.ones((10, 2), "f4"), "y": np.full(10, 2**40)}, "do not fit"),
        ({"X": sp.csr_array(np.ones((10, 2), "f4")), "y": np.zeros(10, "i4")}, "has shape"),
    ],
)
def test_wrong_blocks_are_refused_before_anything_is_written(tmp_path, block, message):
    path = tmp_path / "a.zarr"
    store = create(path, StoreInfo.of({"X": ((2,), "f4"), "y": ((), "i4")}, 20, 10, kind="rows", spec={}))
    with pytest.raises(InputError, match=message):
        write_block(path, 0, block, store_id=store.id)
    assert info(path).pending == [0, 1]
    assert not (path / "X/c").exists()


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
    assert info(path).pending == [0, 1]
    for index in (0, 1):
        write_block(path, index, {"X": 2 * ones}, store_id=second.id)
    with pytest.raises(InUseError, match="another job has made it anew"):
        finish(path, store_id=first.id)
    assert finish(path, store_id=second.id).id is None
    with pytest.raises(InUseError, match="or finished it"):  # a task that Dask ran twice
        write_block(path, 0, {"X": ones}, store_id=second.id)
    assert (open_rows(path)[0].compute(scheduler="sync") == 2).all()
