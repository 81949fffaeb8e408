"""Lazy rows into stores and Parquet part files: refusals, resume, bytes equal to an undisturbed run.

Jobs that are killed are in tests/cli/test_kills.py, workers that are killed in test_workers_lost.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from reductions import count_calls, refuse_row

from distrf import open_rows
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.execution.open_rows import open_array
from distrf.execution.write_parquet import write_parts
from distrf.execution.write_zarr import write_rows
from distrf.store import Contents, create, create_parts, finish_parts, info, pending_blocks, write_block

X = np.random.default_rng(0).normal(size=(95, 4)).astype(np.float32)
Y = np.arange(95)


def contents(path):
    """{relative file name: bytes} of a folder."""
    return {str(p.relative_to(path)): p.read_bytes() for p in Path(path).rglob("*") if p.is_file()}


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


def test_rows_are_written(tmp_path):
    done = write(tmp_path / "a.zarr")
    assert (done.computed, done.blocks, done.info.complete) == (10, 10, True)
    got, y = open_rows(tmp_path / "a.zarr")
    np.testing.assert_array_equal(got.compute(scheduler="sync"), X)
    np.testing.assert_array_equal(y.compute(scheduler="sync"), Y)


def test_other_arrays_follow_the_blocks_of_the_first(tmp_path):
    write(tmp_path / "a.zarr", y=lazy(Y, 7))
    write(tmp_path / "b.zarr")
    assert contents(tmp_path / "a.zarr") == contents(tmp_path / "b.zarr")


def test_text_becomes_codes(tmp_path):
    write(tmp_path / "a.zarr", y=lazy(NAMES), classes=["yes", "no", "maybe"])
    np.testing.assert_array_equal(open_array(tmp_path / "a.zarr", "y").compute(scheduler="sync"), NAMES)


NAMES = np.array(["no", "yes", "maybe"])[Y % 3]


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


@pytest.mark.parametrize("rows", [(10, 20, 65), (10, 10, 75), (50, 20, 25)])
def test_unequal_blocks_are_cut_anew(tmp_path, rows):
    arrays = {"X": lazy(X).rechunk({0: rows}), "y": lazy(Y)}
    written = write_rows(str(tmp_path / "a.zarr"), arrays, kind="rows", spec={})
    assert (written.info.block_rows, written.blocks) == (max(rows), 2)
    for name, array in (("X", X), ("y", Y)):
        np.testing.assert_array_equal(open_array(tmp_path / "a.zarr", name).compute(), array)


# ---- resume -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["threads", "distributed"])
@pytest.mark.parametrize("present", [[0], [1, 4, 5], [9], [0, 2, 4, 6, 8], list(range(10))])
def test_resume_computes_only_unfinished_blocks(tmp_path, present, where, request):
    if where == "distributed":
        request.getfixturevalue("client")
    write(tmp_path / "whole.zarr")
    path = tmp_path / "part.zarr"
    store = create(path, Contents({"X": ((4,), "f4"), "y": ((), "i8")}, 95, 10, kind="rows", spec={"seed": 1}))
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


def test_another_spec_touches_nothing(tmp_path):
    write(tmp_path / "a.zarr")
    before, stamps = contents(tmp_path / "a.zarr"), times(tmp_path / "a.zarr")
    for change, message in (
        ({"spec": {"seed": 2}}, r"spec.seed: 1 -> 2"),
        ({"x": lazy(X, 19), "y": lazy(Y, 19)}, r"block_rows: 10 -> 19"),
        ({"x": lazy(X.astype(float))}, r"arrays.X.dtype"),
        ({"kind": "features"}, "kind"),
    ):
        with pytest.raises(SpecMismatchError, match=rf"{message}.*choose another path, or pass overwrite"):
            write(tmp_path / "a.zarr", **change)
    assert contents(tmp_path / "a.zarr") == before
    assert times(tmp_path / "a.zarr") == stamps
    assert write(tmp_path / "a.zarr", spec={"seed": 2}, overwrite=True).computed == 10


def test_csr_values_that_are_not_finite_name_their_row(tmp_path):
    rows = sp.csr_array(X)
    rows[57, 2] = np.nan
    with pytest.raises(InputError, match=r"X must be finite, but row 57 is not"):
        write(tmp_path / "a.zarr", x=da.from_array(rows, chunks=(10, 4), asarray=False))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_name_their_row(tmp_path, bad):
    values, path = X.copy(), tmp_path / "a.zarr"
    values[57, 2] = bad
    with pytest.raises(InputError, match=r"X must be finite, but row 57 is not.*\[block: rows 50 to 59\]"):
        write(path, x=lazy(values))
    with pytest.raises(StoreError, match=r"only a complete store can be read"):
        open_rows(path)
    assert 5 in pending_blocks(path)
    # The blocks that are there now shift nothing when it is tried again.
    put_blocks(path, (0, 1, 2, 8), info(path).id)
    with pytest.raises(InputError, match=r"row 57 is not.*\[block: rows 50 to 59\]"):
        write(path, x=lazy(values))
    with pytest.raises(InputError, match=r"\[block: from row 50 on\]"):
        write(path, x=lazy(X).map_blocks(refuse_row, X[50, 0], dtype=X.dtype))
    assert write(path).info.complete


def test_paths_are_those_of_the_client(tmp_path, client, monkeypatch):
    """Workers run in a folder of their own."""
    client.run(os.chdir, "/")
    monkeypatch.chdir(tmp_path)
    write("a.zarr")
    write_parts("parts.parquet", {"y": lazy(Y)}, None, None, {})
    assert {p.name for p in tmp_path.iterdir()} == {"a.zarr", "parts.parquet"}


# ---- Parquet part files -----------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """Parquet rows in groups that do not line up with blocks, with two key columns."""
    path = tmp_path / "rows.parquet"
    path.mkdir()
    whole = pa.table({"a": X[:, 0], "b": X[:, 1], "id": [f"r{i}" for i in range(95)], "day": Y * 10})
    pq.write_table(whole[:40], path / "part-1.parquet", row_group_size=13)
    pq.write_table(whole[40:], path / "part-2.parquet", row_group_size=31)
    return str(path)


def read(path):
    return pq.read_table(path).to_pydict()


def test_keys_stand_beside_their_rows(tmp_path, table):
    rows, _ = open_rows(table, columns=["a", "b"], rows_per_block=20)
    assert len(set(rows.chunks[0])) > 1
    arrays, n = {"sum": rows.sum(axis=1), "both": rows}, rows.numblocks[0]
    path = tmp_path / "p.parquet"
    assert write_parts(str(path), arrays, table, ["day", "id"], {}, columns=["a", "b"]) == (n, n)
    got = read(path)
    assert list(got) == ["day", "id", "sum", "both_0", "both_1"]
    assert got["id"] == [f"r{i}" for i in range(95)]
    assert got["day"] == list(range(0, 950, 10))
    np.testing.assert_array_equal(np.array(got["both_1"], dtype=np.float32), X[:, 1])
    np.testing.assert_array_equal(np.array(got["sum"], dtype=np.float32), X[:, 0] + X[:, 1])


def test_keys_of_a_file_that_was_rewritten(tmp_path):
    path = tmp_path / "rows.parquet"
    for number, group in enumerate((20, 30)):
        ids = [f"{number}-{i}" for i in range(60)]
        pq.write_table(pa.table({"a": X[:60, 0], "id": ids}), path, row_group_size=group)
        rows, _ = open_rows(path, columns=["a"], rows_per_block=group)
        write_parts(str(tmp_path / f"p{number}.parquet"), {"x": rows}, str(path), ["id"], {}, columns=["a"])
        assert read(tmp_path / f"p{number}.parquet")["id"] == ids


@pytest.mark.parametrize("present", [[0], [1, 2], [3]])
def test_parts_resume(tmp_path, table, present, client):
    rows, _ = open_rows(table, columns=["a", "b"], rows_per_block=20)
    n = rows.numblocks[0]

    def write_to(path, x):
        return write_parts(str(path), {"both": x}, table, ["id"], {"s": 1}, columns=["a", "b"])

    assert write_to(tmp_path / "whole.parquet", rows) == (n, n)
    path = tmp_path / "part.parquet"
    folder_id, _ = create_parts(path, {"s": 1}, n)
    for index in present:
        name = f"part-{index:06d}.parquet"
        (path / name).write_bytes((tmp_path / "whole.parquet" / name).read_bytes())
    with pytest.raises(StoreError, match=f"{n - len(present)} of {n} part files"):
        finish_parts(path, n, folder_id=folder_id)
    assert write_to(path, counted(tmp_path / "calls", rows)) == (n - len(present), n)
    assert len(list((tmp_path / "calls").iterdir())) == n - len(present)
    assert contents(path) == contents(tmp_path / "whole.parquet")
    with pytest.raises(SpecMismatchError, match=r"spec.s: 1 -> 2"):
        write_parts(str(path), {"both": rows}, table, ["id"], {"s": 2}, columns=["a", "b"])
    assert contents(path) == contents(tmp_path / "whole.parquet")


def test_keys_that_are_not_there(tmp_path, table):
    rows, _ = open_rows(table, columns=["a", "b"])
    missing = "rows that come from Parquet, got None"
    for source, key, message in ((table, "nokey", "nokey"), (None, "id", missing)):
        with pytest.raises(InputError, match=message):
            write_parts(str(tmp_path / "p.parquet"), {"x": rows}, source, [key], {}, columns=["a", "b"])
    assert not (tmp_path / "p.parquet").exists()
