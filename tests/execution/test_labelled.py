"""Data frames and labelled arrays as plain rows: values, names, lengths, and what is refused."""

from __future__ import annotations

import dask.array as da
import dask.bag
import numpy as np
import pandas as pd
import pytest
from dask.base import is_dask_collection

from distrf.errors import InputError
from distrf.execution.labelled import (
    frame_blocks,
    has_frames,
    header,
    is_frame,
    is_lazy_frame,
    plain_rows,
    take_frame_rows,
)
from distrf.execution.row_blocks import check_dask_rows

dd = pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]")
xr = pytest.importorskip("xarray", reason="needs xarray")

FRAME = pd.DataFrame(
    {
        "a": np.arange(10.0),
        "b": np.arange(10, dtype=np.float32),
        "c": np.arange(10),
        "d": np.arange(10) % 2 == 0,
    }
)


def lazy(frame, partitions=3):
    return dd.from_pandas(frame, npartitions=partitions, sort=False)


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [("a", "f8"), ("b", "f4"), ("d", "?"), ("bd", "f4"), ("abcd", "f8"), ("cd", "i8")],
)
def test_values_of_frames(columns, dtype):
    part = FRAME[list(columns)]
    X = plain_rows(lazy(part))
    assert isinstance(X, da.Array)
    assert X.dtype == dtype
    assert X.chunks == ((4, 3, 3), (len(columns),))
    made = X.compute(scheduler="sync")
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, part.to_numpy().astype(dtype))
    assert list(header(X).columns) == list(columns)
    assert list(header(check_dask_rows(X)).columns) == list(columns)


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "boolean", "double[pyarrow]"])
def test_nullable_columns(dtype):
    values = pd.array([1, 0, None, 1], dtype=dtype)
    X = plain_rows(lazy(pd.DataFrame({"a": values}), 2))
    assert X.dtype == (np.float32 if dtype == "Float32" else np.float64)
    np.testing.assert_array_equal(X.compute(scheduler="sync")[:, 0], [1, 0, np.nan, 1])


def test_series():
    y = plain_rows(lazy(FRAME)["c"], "y")
    assert (y.chunks, y.dtype) == (((4, 3, 3),), np.int64)
    np.testing.assert_array_equal(y.compute(scheduler="sync"), FRAME["c"])
    words = pd.Series(["yes", "no", "perhaps"] * 3)
    for kind in ("str", "object", "category"):
        text = plain_rows(lazy(words.astype(kind).to_frame("t"))["t"], "y")
        assert text.dtype.kind == "U"
        np.testing.assert_array_equal(text.compute(scheduler="sync"), words.to_numpy(dtype=object).astype(str))
    words[4] = None
    with pytest.raises(
        InputError, match=r"y must have a value in every row, but row 1 of a partition \(index 4\)"
    ):
        plain_rows(lazy(words.to_frame("t"))["t"], "y").compute(scheduler="sync")
    with pytest.raises(InputError, match="sample_weight must be numeric, got a Series of dtype str"):
        plain_rows(lazy(words.to_frame("t"))["t"], "sample_weight")


def test_unknown_lengths_are_counted_once(tmp_path):
    def note(part):
        (tmp_path / f"{len(list(tmp_path.iterdir()))}").touch()
        return part[part["a"] != 5]

    frame = lazy(FRAME).map_partitions(note, meta=FRAME)
    for _ in range(3):
        assert plain_rows(frame).chunks == ((4, 2, 3), (4,))
    assert len(list(tmp_path.iterdir())) == 3


def test_empty_partitions():
    frame = lazy(FRAME)
    X = plain_rows(frame[frame["a"] > 4])
    assert X.chunks[0] == (0, 2, 3)
    np.testing.assert_array_equal(X.compute(scheduler="sync")[:, 0], np.arange(5.0, 10))
    with pytest.raises(InputError, match=r"0 sample\(s\)"):
        plain_rows(frame[frame["a"] > 40])


def test_parquet(tmp_path):
    """Dask reads several files as one partition, and other ones where it needs fewer columns."""
    for i in range(6):
        FRAME.to_parquet(tmp_path / f"{i}.parquet")
    frame = dd.read_parquet(tmp_path)
    for part in (frame, frame[["a"]], frame["a"]):
        X = plain_rows(part)
        assert X.shape[0] == 60
        made = X.compute(scheduler="sync")
        np.testing.assert_array_equal(made if made.ndim == 1 else made[:, 0], np.tile(FRAME["a"], 6))
        for block, rows in zip(X.to_delayed().ravel(), X.chunks[0], strict=True):
            assert len(block.compute(scheduler="sync")) == rows


def test_frames_as_blocks():
    frame = FRAME.assign(text=["x", None] * 5, kind=pd.Categorical(["p", "q"] * 5))
    blocks = frame_blocks(lazy(frame))
    assert has_frames(blocks)
    assert not has_frames(plain_rows(lazy(FRAME)))
    assert blocks.chunks == ((4, 3, 3), (6,))
    block = blocks.to_delayed()[1, 0].compute(scheduler="sync")
    assert block["text"].dtype == object
    assert block["text"].tolist()[0] == "x"
    assert np.isnan(block["text"].tolist()[1])
    assert isinstance(block["kind"].dtype, pd.CategoricalDtype)
    rows = np.array([0, 3, 4, 9])
    taken = take_frame_rows(lazy(frame), rows)
    pd.testing.assert_frame_equal(taken[["a", "kind"]], frame[["a", "kind"]].iloc[rows])


def test_data_arrays():
    values = np.arange(12.0).reshape(4, 3)
    bare = xr.DataArray(values, dims=("row", "column"))
    assert plain_rows(bare) is bare.data
    named = xr.DataArray(values, dims=("row", "column"), coords={"column": ["x", "y", "z"]})
    frame = plain_rows(named)
    assert list(frame.columns) == ["x", "y", "z"]
    np.testing.assert_array_equal(frame, values)
    lazy_rows = plain_rows(named.chunk(row=2))
    assert isinstance(lazy_rows, da.Array)
    assert lazy_rows.chunks == ((2, 2), (3,))
    assert list(header(lazy_rows).columns) == ["x", "y", "z"]
    np.testing.assert_array_equal(lazy_rows.compute(scheduler="sync"), values)
    assert header(plain_rows(bare.chunk(row=2))).shape == (4, 3)
    y = plain_rows(named[:, 0].chunk(row=2), "y")
    np.testing.assert_array_equal(y.compute(scheduler="sync"), values[:, 0])
    with pytest.raises(
        InputError, match=r"dimensions \(rows, columns\), got {'row': 4, 'column': 3, 'more': 1}"
    ):
        plain_rows(bare.expand_dims("more", -1))
    with pytest.raises(InputError, match=r"X must be a DataArray .*, got an xarray Dataset; take one"):
        plain_rows(bare.to_dataset(name="v"))
    with pytest.raises(InputError, match=r"X must be a DataArray .*, got an xarray Dataset; take one"):
        plain_rows(bare.chunk(row=2).to_dataset(name="v"))


def test_what_is_what():
    frame = lazy(FRAME)
    assert is_lazy_frame(frame)
    assert is_lazy_frame(frame["a"])
    assert is_frame(frame)
    assert is_frame(FRAME)
    for other in (FRAME["a"], frame["a"], np.zeros((2, 2)), da.zeros((2, 2)), [1], None):
        assert not is_frame(other)
        assert is_dask_collection(other) or plain_rows(other) is other


def test_refusals():
    with pytest.raises(InputError, match="X must be numeric, but columns when, word are not: encode them"):
        plain_rows(lazy(FRAME.assign(when=pd.Timestamp("2020-01-01"), word="x")))
    with pytest.raises(InputError, match=r"at least one column, got shape \(n, 0\)"):
        plain_rows(lazy(FRAME)[[]])
    with pytest.raises(InputError, match=r"got dask\.bag\.core\.Bag"):
        check_dask_rows(dask.bag.from_sequence([1, 2]))
