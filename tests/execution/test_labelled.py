"""Data frames as plain rows: values, names, lengths, and what is refused."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import dask.bag
import numpy as np
import pandas as pd
import pytest

from distrf.errors import InputError
from distrf.execution.labelled import header, plain_rows, reading_of, with_header
from distrf.execution.open_rows import open_rows
from distrf.execution.row_blocks import check_dask_rows
from distrf.ingestion import ingest

dd = pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]")

same = np.testing.assert_array_equal
whole = np.arange(10)
FRAME = pd.DataFrame({"a": whole.astype("f8"), "b": whole.astype("f4"), "c": whole, "d": whole % 2 == 0})


@pytest.fixture(autouse=True)
def _sync():
    with dask.config.set(scheduler="sync"):
        yield


def lazy(frame, partitions=3):
    return dd.from_pandas(frame, npartitions=partitions, sort=False)


WORDS = pd.Series(["yes", "no", "perhaps"] * 3 + ["no"])
NULLABLE = [1, 0, None, 1, 1, 1, 0, None, 0, 1]
#: Frames, and series that are targets; the dtype of their values.
VALUES = [
    *((FRAME[list(columns)], dtype) for columns, dtype in
      (("a", "f8"), ("b", "f4"), ("d", "?"), ("bd", "f4"), ("abcd", "f8"), ("cd", "i8"))),
    *((pd.DataFrame({"a": pd.array(NULLABLE, dtype=kind)}), dtype) for kind, dtype in
      (("Int64", "f8"), ("Float32", "f4"), ("boolean", "f8"), ("double[pyarrow]", "f8"))),
    (FRAME["c"], "i8"),
    *((WORDS.astype(kind), "U") for kind in ("str", "object", "category")),
]  # fmt: skip


@pytest.mark.parametrize(("made", "dtype"), VALUES)
def test_values(made, dtype):
    rows = lazy(made.to_frame("t"))["t"] if made.ndim == 1 else lazy(made)
    unchecked = dd.from_delayed([dask.delayed(made)], meta=made.iloc[:0], verify_meta=False)
    expected = made.to_numpy(object).astype(str) if dtype == "U" else made.to_numpy(dtype, na_value=np.nan)
    for lazy_rows, chunks in ((rows, (4, 3, 3)), (unchecked, (10,))):
        X = plain_rows(lazy_rows, "y" if made.ndim == 1 else "X")
        assert isinstance(X, da.Array)
        assert X.chunks == (chunks, *((width,) for width in made.shape[1:]))
        assert dtype in (X.dtype, X.dtype.kind)
        assert dtype in (X.compute().dtype, X.compute().dtype.kind)
        same(X.compute(), expected)
        if made.ndim == 2:
            assert list(header(X).columns) == list(header(check_dask_rows(X)).columns) == list(made.columns)


def test_missing_targets():
    y = lazy(WORDS.where(WORDS.index != 4).to_frame("t"))["t"]
    with pytest.raises(
        InputError, match=r"^t must have a value in every row, but row 0 of a partition \(index 4\)"
    ):
        plain_rows(y, "y").compute()
    with pytest.raises(InputError, match="sample_weight must be numeric, but columns t are not"):
        plain_rows(y, "sample_weight")


def test_unknown_lengths_are_counted_once(tmp_path):
    def note(part):
        (tmp_path / f"{len(list(tmp_path.iterdir()))}").touch()
        return part[part["a"] != 5]

    frame = lazy(FRAME).map_partitions(note, meta=FRAME)
    for _ in range(3):
        assert plain_rows(frame).chunks == ((4, 2, 3), (4,))
    assert len(list(tmp_path.iterdir())) == 3


def test_notes_travel_with_an_array(tmp_path):
    """In copies and pickles; not with an edit in place, nor to another array over the same blocks."""
    np.save(tmp_path / "x.npy", np.arange(8.0).reshape(4, 2))
    ingest(tmp_path / "x.npy", tmp_path / "x.zarr")
    X, _ = open_rows(tmp_path / "x.zarr", columns=[1, 0])
    assert reading_of(X)["columns"] == [1, 0]
    for other in (X.copy(), pickle.loads(pickle.dumps(X))):
        assert reading_of(other) == reading_of(X)
    values = da.ones((4, 2), chunks=2)
    first, second = (with_header(values, pd.DataFrame(columns=names)) for names in (["a", "b"], ["c", "d"]))
    assert list(header(pickle.loads(pickle.dumps(first))).columns) == ["a", "b"]
    assert list(header(second).columns) == ["c", "d"]
    assert header(values) is values
    X[0] = 1.0
    assert reading_of(X) == {}
