"""Damage of a row store is an error that names it; what is drawn at random is in test_garbled.py."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from stored_arrays import fill, read

from distrf import open_rows
from distrf.errors import StoreError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(50, 4))
S = sp.random_array((50, 6), density=0.4, format="csr", rng=np.random.default_rng(6))
Y = np.arange(50) % 3


def stored(path, sparse=False, seed=1, values=X):
    arrays = {"X": S if sparse else values, "y": Y.astype("i4")}
    fill(path, arrays, 20, spec={"seed": seed}, classes=["cat", "cow", "dog"], overwrite=True)
    return path


def test_a_missing_chunk_is_named(tmp_path):
    path = stored(tmp_path / "a.zarr")
    (path / "X/c/1/0").unlink()
    with pytest.raises(
        StoreError, match=r"a.zarr' cannot be read as rows 20:40 of array 'X'.*X/c/1/0' is missing"
    ):
        read(path)


def test_whole_chunks_that_are_exchanged_are_not_found(tmp_path):
    """The limit of checksums that say nothing of the place: see docs/how/reading_and_writing.md."""
    path = stored(tmp_path / "a.zarr")
    for a, b in (("X/c/0/0", "aside"), ("X/c/1/0", "X/c/0/0"), ("aside", "X/c/1/0")):
        (path / a).rename(path / b)
    np.testing.assert_array_equal(read(path)[0][:40], np.concatenate([X[20:40], X[:20]]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"distrf": {', '"distrg": {', "one of a store of distrf; open that"),
        ('"seed": 1', '"seed": 2', "the zarr.json of .* is not what was written"),
        ('"cow"', '"cod"', "the zarr.json of .* is not what was written"),
        ('"format": "distrf-store 7"', '"format": "distrf-store 9"', "has 'distrf-store 9'; update distrf"),
    ],
)
def test_an_edited_document(tmp_path, old, new, message):
    path = stored(tmp_path / "a.zarr")
    text = (path / "zarr.json").read_text()
    assert old in text
    (path / "zarr.json").write_text(text.replace(old, new, 1))
    with pytest.raises(StoreError, match=message):
        open_rows(path)


def test_an_edited_array(tmp_path):
    path = stored(tmp_path / "a.zarr")
    file = path / "X/zarr.json"
    text = file.read_text()
    for old, new in (("        20,", "        10,"), ("50", "30")):
        assert old in text
        file.write_text(text.replace(old, new, 1))
        with pytest.raises(StoreError, match=r"the metadata of array 'X' .* are not what was written"):
            open_rows(path)
    file.write_bytes(b"\xff")
    with pytest.raises(
        StoreError, match=r"cannot be read as a Zarr array \(UnicodeDecodeError: .*; it is damaged"
    ):
        stored(path)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (None, "No such file"),
        (S[:7], r"0.npz' has the shape \(7, 6\)"),
        (S[:20, :5], r"has the shape \(20, 5\)"),
        (S[:20].astype("f4"), "dtype float32"),
    ],
    ids=str,
)
def test_another_block_of_csr_rows(tmp_path, block, message):
    path = stored(tmp_path / "a.zarr", sparse=True)
    (path / "X/0.npz").unlink()
    if block is not None:
        sp.save_npz(path / "X/0.npz", block)
    with pytest.raises(StoreError, match=message):
        read(path)


def test_rows_that_are_open_while_the_store_is_made_anew(tmp_path):
    """Same shapes, so that nothing else tells the stores apart."""
    path = stored(tmp_path / "a.zarr")
    rows, _ = open_rows(path)
    other, _ = open_rows(path)
    rows.compute(scheduler="sync")
    stored(path, seed=2, values=X + 1)
    for lazy in (rows, other):
        with pytest.raises(StoreError, match="written again since it was opened; call open_rows again"):
            lazy.compute(scheduler="sync")
    np.testing.assert_array_equal(read(path)[0], X + 1)
