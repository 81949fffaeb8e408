"""Lazy rows into stores and Parquet part files: refusals, resume, bytes equal to an undisturbed run.

Jobs that are killed are in tests/cli/test_kills.py, workers that are killed in test_workers_lost.py.
"""

from __future__ import annotations

from pathlib import Path

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from reductions import count_calls, refuse_row
from stored_arrays import contents, create_parts, stored_array

from distrf import open_rows
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.execution.writing import Written, write_parts, write_rows
from distrf.store import StoreInfo, create, finish, info, write_block

X = np.random.default_rng(0).normal(size=(95, 4)).astype(np.float32)
Y = np.arange(95)


def times(path):
    """{relative file name: time of writing} of the chunks in a folder."""
    return {str(p.relative_to(path)): p.stat().st_mtime_ns for p in Path(path).rglob("*/c/**/*") if p.is_file()}


def lazy(array, rows=10):
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


def counted(folder, rows):
    """Lazy rows that leave one file in `folder` whenever a block is computed."""
    folder.mkdir()
    return rows.map_blocks(count_calls, str(folder), dtype=rows.dtype, meta=np.empty((0, 0), rows.dtype))


def computed(folder):
    """Numbers of the blocks that were computed, one entry for each time."""
    return sorted(X[::10, 0].tolist().index(np.float32(p.read_text())) for p in folder.iterdir())


def put_blocks(path, numbers, store_id):
    for index in numbers:
        rows = slice(index * 10, index * 10 + 10)
        write_block(path, index, {"X": X[rows], "y": Y[rows]}, store_id=store_id)


def write(path, x=None, y=None, **options):
    arrays = {"X": lazy(X) if x is None else x, "y": lazy(Y) if y is None else y}
    return write_rows(str(path), arrays, **{"kind": "rows", "spec": {"seed": 1}, **options})


# ---- what is written --------------------------------------------------------------------------------

NAMES = np.array(["no", "yes", "maybe"])[Y % 3]


@pytest.mark.parametrize(
    ("rows", "y", "options"),
    [
        (10, lazy(Y), {}),
        (10, lazy(Y, 7), {}),  # other arrays follow the blocks of the first
        (10, lazy(NAMES), {"classes": ["yes", "no", "maybe"]}),
        ((10, 20, 65), lazy(Y), {}),  # unequal blocks are cut anew
        ((10, 10, 75), lazy(Y), {}),
        ((50, 20, 25), lazy(Y), {}),
        ((0, 40, 0, 40, 15), lazy(Y), {}),
    ],
)
def test_rows_are_written(tmp_path, rows, y, options):
    path, block = tmp_path / "a.zarr", np.max(rows)
    done = write(path, lazy(X).rechunk({0: rows}), y, **options)
    n = -(-95 // block)
    assert (done.info.block_rows, done.computed, done.blocks, done.info.complete) == (block, n, n, True)
    for name, array in (("X", X), ("y", y)):
        np.testing.assert_array_equal(stored_array(path, name), array)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": lazy(X), "y": lazy(Y[:90])}, "y must have as many rows as X, got 90 and 95"),
        ({"X": X}, "must be a NumPy array|got numpy.ndarray"),
        ({"X": lazy(X)[lazy(Y) > 3]}, "must be known"),
        ({"X": lazy(X), "y": lazy(NAMES)}, "classes=, which is missing"),
    ],
)
def test_what_is_refused(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message):
        write_rows(str(tmp_path / "a.zarr"), arrays, kind="rows", spec={})
    assert not (tmp_path / "a.zarr").exists()


# ---- resume -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["threads", "distributed"])
@pytest.mark.parametrize("present", [[0], [1, 4, 5], [9], [0, 2, 4, 6, 8], list(range(10))])
def test_resume_computes_only_unfinished_blocks(tmp_path, present, where, request):
    if where == "distributed":
        request.getfixturevalue("client")
    write(tmp_path / "whole.zarr")
    path = tmp_path / "part.zarr"
    store = create(
        path, StoreInfo.of({"X": ((4,), "f4"), "y": ((), "i8")}, 95, 10, kind="rows", spec={"seed": 1})
    )
    put_blocks(path, present, store.id)
    before = times(path)
    done = write(path, x=counted(tmp_path / "calls", lazy(X)))
    left = sorted(set(range(10)) - set(present))
    assert (done.computed, done.blocks) == (len(left), 10)
    assert computed(tmp_path / "calls") == left
    after = times(path)
    assert all(after[name] == before[name] for name in before)
    assert contents(path) == contents(tmp_path / "whole.zarr")
    assert write(path, x=counted(tmp_path / "again", lazy(X))).computed == 0
    assert computed(tmp_path / "again") == []


@pytest.mark.parametrize(("bad", "csr"), [(np.nan, False), (np.inf, False), (np.nan, True)])
def test_values_that_are_not_finite_name_their_row(tmp_path, bad, csr):
    values, path = X.copy(), tmp_path / "a.zarr"
    values[57, 2:] = bad, -bad  # the sum of both is told by no warning of NumPy
    rows = da.from_array(sp.csr_array(values), chunks=(10, 4), asarray=False) if csr else lazy(values)
    with pytest.raises(InputError, match=r"X must be finite, but row 57 is not.*\[block: rows 50 to 59\]"):
        write(path, rows)
    with pytest.raises(StoreError, match=r"only a complete store can be read"):
        open_rows(path)
    assert 5 in info(path).pending
    if csr:
        return
    # The blocks that are there now shift nothing when it is tried again.
    put_blocks(path, (0, 1, 2, 8), info(path).id)
    for again, message in (
        (lazy(values), r"row 57 is not.*\[block: rows 50 to 59\]"),
        (lazy(X).map_blocks(refuse_row, X[50, 0], dtype=X.dtype), r"\[block: from row 50 on\]"),
    ):
        with pytest.raises(InputError, match=message):
            write(path, again)
    assert write(path).info.complete


# ---- Parquet part files -----------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """Parquet rows in groups that do not line up with blocks, with two key columns; and the rows, lazily."""
    path = tmp_path / "rows.parquet"
    path.mkdir()
    whole = pa.table({"a": X[:, 0], "b": X[:, 1], "id": [f"r{i}" for i in range(95)], "day": Y * 10})
    pq.write_table(whole[:40], path / "part-1.parquet", row_group_size=13)
    pq.write_table(whole[40:], path / "part-2.parquet", row_group_size=31)
    return str(path), open_rows(path, columns=["a", "b"], rows_per_block=20)[0]


def parts(path, arrays, source, keys, spec=None):
    return write_parts(str(path), arrays, str(source), keys, spec or {}, columns=["a", "b"])


def test_keys_stand_beside_their_rows(tmp_path, table):
    source, rows = table
    assert len(set(rows.chunks[0])) > 1
    n, empty = rows.numblocks[0], rows.rechunk({0: (0, *rows.chunks[0], 0)})
    for i, both in enumerate((rows, empty)):  # blocks without rows get no part file
        path = tmp_path / f"p{i}.parquet"
        assert parts(path, {"sum": both.sum(axis=1), "both": both}, source, ["day", "id"]) == Written(
            None, n, n
        )
        got = pq.read_table(path).to_pydict()
        assert list(got) == ["day", "id", "sum", "both_0", "both_1"]
        assert got["id"] == [f"r{i}" for i in range(95)]
        assert got["day"] == list(range(0, 950, 10))
        np.testing.assert_array_equal(np.array(got["both_1"], dtype=np.float32), X[:, 1])
        np.testing.assert_array_equal(np.array(got["sum"], dtype=np.float32), X[:, 0] + X[:, 1])
    with pytest.raises(InputError, match="nokey"):
        parts(tmp_path / "none.parquet", {"x": rows}, source, ["nokey"])
    assert not (tmp_path / "none.parquet").exists()


@pytest.mark.parametrize("present", [[0], [1, 2], [3]])
def test_parts_resume(tmp_path, table, present, client):
    source, rows = table
    n, path, whole = rows.numblocks[0], tmp_path / "part.parquet", tmp_path / "whole.parquet"
    assert parts(whole, {"both": rows}, source, ["id"], {"s": 1}).computed == n
    folder_id, _ = create_parts(path, {"s": 1}, n)
    for index in present:
        name = f"part-{index:06d}.parquet"
        (path / name).write_bytes((whole / name).read_bytes())
    left = n - len(present)
    with pytest.raises(StoreError, match=f"{left} of {n} blocks"):
        finish(path, store_id=folder_id)
    calls = tmp_path / "calls"
    assert parts(path, {"both": counted(calls, rows)}, source, ["id"], {"s": 1}) == Written(None, left, n)
    assert len(list(calls.iterdir())) == left
    with pytest.raises(SpecMismatchError, match=r"spec.s: 1 -> 2"):
        parts(path, {"both": rows}, source, ["id"], {"s": 2})
    assert contents(path) == contents(whole)
