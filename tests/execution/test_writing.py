"""Lazy rows into stores and Parquet part files: refusals, resume, kills, bytes equal to an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from reductions import count_calls

from distrf import open_rows
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.execution.open_rows import open_array
from distrf.execution.progress import listening
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


def counted(folder, array=X, rows=10):
    """Lazy rows that leave one file in `folder` whenever a block is computed."""
    Path(folder).mkdir(exist_ok=True)
    return lazy(array, rows).map_blocks(count_calls, str(folder), dtype=array.dtype, meta=array[:0])


def computed(folder):
    """Numbers of the blocks that were computed, one entry for each time."""
    firsts = [np.float32(p.read_text()) for p in Path(folder).iterdir()]
    return sorted(X[::10, 0].tolist().index(first) for first in firsts)


def write(path, x=None, y=None, **options):
    options = {"kind": "rows", "spec": {"seed": 1}, **options}
    return write_rows(
        str(path), {"X": lazy(X) if x is None else x, "y": lazy(Y) if y is None else y}, **options
    )


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
    names = np.array(["no", "yes", "maybe"])[Y % 3]
    write(tmp_path / "a.zarr", y=lazy(names), classes=["yes", "no", "maybe"])
    np.testing.assert_array_equal(open_array(tmp_path / "a.zarr", "y").compute(scheduler="sync"), names)
    with pytest.raises(InputError, match="classes=, which is missing"):
        write(tmp_path / "b.zarr", y=lazy(names))
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize("chunks", [(10, 20, 65), (10, 10, 75), (50, 20, 25)])
def test_uneven_blocks_are_refused(tmp_path, chunks):
    with pytest.raises(InputError, match=rf"equal rows.*got .*use rechunk\(\({max(chunks)}, -1\)\)"):
        write(tmp_path / "a.zarr", x=lazy(X).rechunk({0: chunks}))
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": lazy(X), "y": lazy(Y[:90])}, "y must have as many rows as X, got 90 and 95"),
        ({"X": X}, "must be a NumPy array|got numpy.ndarray"),
        ({"X": lazy(X)[lazy(Y) > 3]}, "must be known"),
    ],
    ids=["rows", "numpy", "unknown"],
)
def test_misaligned_arrays_are_refused(tmp_path, arrays, message):
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
    store = create(path, Contents({"X": ((4,), "f4"), "y": ((), "i8")}, 95, 10, kind="rows", spec={"seed": 1}))
    for index in present:
        rows = slice(index * 10, index * 10 + 10)
        write_block(path, index, {"X": X[rows], "y": Y[rows]}, store_id=store.id)
    before = times(path)
    done = write(path, x=counted(tmp_path / "calls"))
    left = sorted(set(range(10)) - set(present))
    assert (done.computed, done.blocks) == (len(left), 10)
    assert computed(tmp_path / "calls") == left
    after = times(path)
    assert all(after[name] == before[name] for name in before)
    assert contents(path) == contents(tmp_path / "whole.zarr")
    assert write(path, x=counted(tmp_path / "again")).computed == 0
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
    lazy_rows = da.from_array(rows, chunks=(10, X.shape[1]), asarray=False)
    with pytest.raises(InputError, match=r"X must be finite, but row 57 is not"):
        write(tmp_path / "a.zarr", x=lazy_rows)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_name_their_row(tmp_path, bad):
    values = X.copy()
    values[57, 2] = bad
    path = tmp_path / "a.zarr"
    with pytest.raises(InputError, match=r"X must be finite, but row 57 is not.*\[block: rows 50 to 59\]"):
        write(path, x=lazy(values))
    with pytest.raises(StoreError, match=r"only a complete store can be read: \d of 10 blocks"):
        open_rows(path)
    assert 5 in pending_blocks(path)
    # The blocks that are there now shift nothing when it is tried again.
    for index in (0, 1, 2, 8):
        rows = slice(index * 10, index * 10 + 10)
        write_block(path, index, {"X": X[rows], "y": Y[rows]}, store_id=info(path).id)
    with pytest.raises(InputError, match=r"row 57 is not.*\[block: rows 50 to 59\]"):
        write(path, x=lazy(values))
    with pytest.raises(InputError, match=r"\[block: from row 50 on\]"):
        write(path, x=lazy(X).map_blocks(_refuse, float(X[50, 0]), dtype=X.dtype))
    assert write(path).info.complete


def _refuse(block, value):
    if block.size and block[0, 0] == value:
        raise InputError("this block is refused")
    return block


def test_paths_are_those_of_the_client(tmp_path, client, monkeypatch):
    """Workers run in a folder of their own."""
    client.run(os.chdir, "/")
    monkeypatch.chdir(tmp_path)
    write("a.zarr")
    write_parts("parts.parquet", {"y": lazy(Y)}, None, None, {})
    assert {p.name for p in tmp_path.iterdir()} == {"a.zarr", "parts.parquet"}


# ---- kills ------------------------------------------------------------------------------------------


def slow(block, seconds):
    time.sleep(seconds)
    return block * 2


@pytest.mark.slow
def test_a_worker_killed_while_writing(tmp_path, client):
    rows = da.from_array(np.random.default_rng(1).normal(size=(600, 50)), chunks=(10, 50))
    arrays = {"X": rows.map_blocks(slow, 0.1, dtype=rows.dtype)}
    write_rows(str(tmp_path / "whole.zarr"), {"X": rows * 2}, kind="features", spec={})
    victim, killed = next(iter(client.run(os.getpid).values())), []

    def kill(label, done, total):
        if done > 100 and not killed:
            killed.append(done)
            os.kill(victim, signal.SIGKILL)

    with listening(kill):
        done = write_rows(str(tmp_path / "killed.zarr"), arrays, kind="features", spec={})
    assert killed[0] < 600
    assert done.info.complete
    client.wait_for_workers(2, timeout=30)
    assert victim not in client.run(os.getpid).values()
    assert contents(tmp_path / "killed.zarr") == contents(tmp_path / "whole.zarr")


@pytest.mark.slow
def test_featurize_killed_half_way(tmp_path, cli):
    """SIGKILL to the command when half the blocks are there; started again, it ends with the same bytes."""
    rows = np.random.default_rng(1).normal(size=(150 * 128, 20)).astype(np.float32)
    write_rows(str(tmp_path / "rows.zarr"), {"X": da.from_array(rows, chunks=(128, 20))}, kind="rows", spec={})
    (tmp_path / "cluster.yaml").write_text(
        "class: distributed.LocalCluster\narguments: {n_workers: 2, threads_per_worker: 1}\nwait: {workers: 2}\n"
    )
    arguments = ["-D", "1024", "--length-scale", "knn", "--seed", "7", "--json"]
    whole, killed = tmp_path / "whole.zarr", tmp_path / "killed.zarr"
    done = json.loads(cli("featurize", tmp_path / "rows.zarr", whole, *arguments, cluster=True).out)
    assert done["blocks_computed"] == 150
    command = [sys.executable, "-m", "distrf", "featurize", tmp_path / "rows.zarr", killed, *arguments]
    command += ["--cluster", tmp_path / "cluster.yaml"]
    # A session of its own: its workers are killed with it, as when a machine dies.
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )

    def finished_blocks():
        """Marks of the manifest; a mark that is still being written has another name."""
        return sum(mark.name.isdigit() for mark in killed.glob("manifest/*/*"))

    while process.poll() is None and finished_blocks() < 60:
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # it had not ended by itself
    left = pending_blocks(killed)
    assert 0 < len(left) <= 90
    with pytest.raises(StoreError, match="only a complete store can be read"):
        open_rows(killed)
    before = times(killed)
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    result = json.loads(again.stdout)
    assert (result["blocks_computed"], result["complete"]) == (len(left), True)
    after = times(killed)
    finished = {str(index) for index in set(range(150)) - set(left)}
    kept = [name for name in before if name.split("/c/")[1].split("/")[0] in finished]
    assert len(kept) == 2 * len(finished)  # the chunk and its mark
    assert all(after[name] == before[name] for name in kept)
    assert contents(killed) == contents(whole)


# ---- Parquet part files -----------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """Parquet rows in groups that do not line up with blocks, with two key columns."""
    path = tmp_path / "rows.parquet"
    path.mkdir()
    columns = {"a": X[:, 0], "b": X[:, 1], "id": [f"r{i}" for i in range(95)], "day": Y * 10}
    whole = pa.table(columns)
    pq.write_table(whole[:40], path / "part-1.parquet", row_group_size=13)
    pq.write_table(whole[40:], path / "part-2.parquet", row_group_size=31)
    return str(path)


def read(path):
    return pq.read_table(path).to_pydict()


def test_keys_stand_beside_their_rows(tmp_path, table):
    rows, _ = open_rows(table, columns=["a", "b"], rows_per_block=20)
    assert len(set(rows.chunks[0])) > 1
    arrays = {"sum": rows.sum(axis=1), "both": rows}
    assert write_parts(str(tmp_path / "p.parquet"), arrays, table, ["day", "id"], {}, columns=["a", "b"]) == (
        rows.numblocks[0],
        rows.numblocks[0],
    )
    got = read(tmp_path / "p.parquet")
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
    folder = tmp_path / "calls"
    folder.mkdir()
    x = rows.map_blocks(count_calls, str(folder), dtype=rows.dtype, meta=np.empty((0, 0), rows.dtype))
    assert write_to(path, x) == (n - len(present), n)
    assert len(list(folder.iterdir())) == n - len(present)
    assert contents(path) == contents(tmp_path / "whole.parquet")
    with pytest.raises(SpecMismatchError, match=r"spec.s: 1 -> 2"):
        write_parts(str(path), {"both": rows}, table, ["id"], {"s": 2}, columns=["a", "b"])
    assert contents(path) == contents(tmp_path / "whole.parquet")


def test_keys_that_are_not_there(tmp_path, table):
    rows, _ = open_rows(table, columns=["a", "b"])
    with pytest.raises(InputError, match="nokey"):
        write_parts(str(tmp_path / "p.parquet"), {"x": rows}, table, ["nokey"], {}, columns=["a", "b"])
    with pytest.raises(InputError, match="rows that come from Parquet, got None"):
        write_parts(str(tmp_path / "p.parquet"), {"x": rows}, None, ["id"], {})
    assert not (tmp_path / "p.parquet").exists()
