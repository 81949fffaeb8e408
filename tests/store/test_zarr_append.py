"""Rows appended to a store: the bytes of one write of all rows, the old rows until the last step and for who opened them."""

from __future__ import annotations

import itertools
import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_arrays import contents, read

from distrf import ingest, open_rows, write_rows
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.progress import listening
from distrf.store import info, zarr_layout
from distrf.store.zarr_arrays import CsrArray


def rows(n, d=3, seed=0, dtype="f4", sparse=False):
    rng = np.random.default_rng([n, d, seed])
    X = rng.normal(size=(n, d)).astype(dtype)
    # A quarter of the entries at most is stored, however few rows there are.
    return sp.csr_array(np.pad(np.where(X > 0.5, X, 0), [(0, 0), (0, 3 * d)])) if sparse else X


def add(X, path, y=None, **options):
    """Ingest rows from a file, or of CSR rows a store, beside the store."""
    file = source_of(path, X)
    if sp.issparse(X):
        write_rows(X, file, y, overwrite=True)
    else:
        np.savez(file, X=X, **({} if y is None else {"y": y}))
    return ingest(file, path, **options)


def source_of(path, X):
    return Path(path).with_suffix(".source.zarr" if sp.issparse(X) else ".npz")


def data_of(path):
    """The chunks of the arrays, without what names the source."""
    return {k: v for k, v in contents(path).items() if not k.startswith("manifest") and k != "zarr.json"}


CASES = {
    "counts": st.lists(st.integers(1, 40), min_size=2, max_size=4),
    "block_rows": st.integers(1, 25),
    "sparse": st.booleans(),
    "labelled": st.sampled_from([None, "numbers", "text", "several"]),
    "narrow": st.booleans(),
}


def check_appends(tmp_path_factory, counts, block_rows, sparse, labelled, narrow):
    """Chunks of several blocks and of several columns, CSR rows, labels of several kinds."""
    folder, n = tmp_path_factory.mktemp("a"), sum(counts)
    rng = np.random.default_rng(counts)
    X = rows(n, 5, sparse=sparse)
    y = {
        None: None,
        "numbers": rng.normal(size=n),
        "text": np.sort(rng.choice(["a", "b", "c"], n)),
        "several": rng.normal(size=(n, 2)),
    }[labelled]
    ends = np.cumsum(counts)
    old_chunk = zarr_layout.CHUNK_BYTES
    options = {"block_rows": min(block_rows, counts[0])}
    try:
        zarr_layout.CHUNK_BYTES = 8 if narrow else old_chunk
        add(X[: ends[0]], folder / "a.zarr", None if y is None else y[: ends[0]], **options)
        for a, b in itertools.pairwise(ends):
            add(X[a:b], folder / "a.zarr", None if y is None else y[a:b], append=True)
        add(X, folder / "b.zarr", y, **options)
    finally:
        zarr_layout.CHUNK_BYTES = old_chunk
    got, labels = read(folder / "a.zarr")
    np.testing.assert_array_equal(got, X.toarray() if sparse else X)
    if y is not None:
        np.testing.assert_array_equal(labels, y)
    assert data_of(folder / "a.zarr") == data_of(folder / "b.zarr")
    made = info(folder / "a.zarr")
    assert made.complete
    assert made.block_rows == options["block_rows"]
    assert [part["rows"] for part in made.spec["parts"]] == counts


@pytest.mark.slow
@settings(max_examples=40)
@given(**CASES)
def test_appends_make_the_bytes_of_one_write(tmp_path_factory, counts, block_rows, sparse, labelled, narrow):
    check_appends(tmp_path_factory, counts, block_rows, sparse, labelled, narrow)


@pytest.mark.parametrize("sparse", [False, True])
def test_an_append_makes_the_bytes_of_one_write(tmp_path_factory, sparse):
    check_appends(tmp_path_factory, [25, 3, 30], 10, sparse, "text", narrow=False)


# ---- interruptions --------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The end of a process; what it had written stays."""


def killed(monkeypatch, step, action):
    """Run the action until it has changed so many files, then end it: a process that is gone writes nothing more.

    True where it was ended.
    """
    seen = []

    def dying(real):
        def change(*args, **kwargs):
            seen.append(None)
            if len(seen) > step:
                raise Killed
            return real(*args, **kwargs)

        return change

    with monkeypatch.context() as context, suppress(Killed):
        for name in ("replace", "rmdir", "remove"):
            context.setattr(os, name, dying(getattr(os, name)))
        action()
    return len(seen) > step


@pytest.mark.parametrize("sparse", [False, True])
def test_an_append_that_is_killed_at_any_change_of_a_file(tmp_path, monkeypatch, sparse):
    """The store has the old rows or all, also for who opened it before; called again, the append ends with the same bytes."""
    X, y = rows(44, dtype="f8", sparse=sparse), np.array(["b", "a", "c"])[np.arange(44) // 20]
    old, path, ends = tmp_path / "old.zarr", tmp_path / "a.zarr", tmp_path / "ends.zarr"
    add(X[:25], old, y[:25], block_rows=10)
    shutil.copytree(old, ends)
    add(X[25:], ends, y[25:], append=True)
    new = source_of(ends, X)
    X = X.toarray() if sparse else X
    for step in range(100):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(old, path)
        opened, _ = open_rows(path)
        if not killed(monkeypatch, step, lambda: ingest(new, path, append=True)):
            break
        got, labels = read(path)
        assert len(got) in (25, 44), step
        np.testing.assert_array_equal(got, X[: len(got)])
        np.testing.assert_array_equal(labels, y[: len(got)])
        if len(got) == 25:
            ingest(new, path, append=True)
        else:
            with pytest.raises(SpecMismatchError, match="has these rows already"):
                ingest(new, path, append=True)
            shutil.rmtree(path / "manifest", ignore_errors=True)  # else the next append removes them
            (path / "append.json").unlink(missing_ok=True)
        assert contents(path) == contents(ends), step
        before = [b.compute(scheduler="sync") for b in opened.to_delayed().ravel()]
        np.testing.assert_array_equal(sp.vstack(before).toarray() if sparse else np.concatenate(before), X[:25])
    assert 12 < step < 50


def test_another_append_takes_the_place_of_one_that_was_killed(tmp_path, monkeypatch):
    """Whatever step it had come to; and behind it comes a third one."""
    X, path = rows(70, dtype="f8"), tmp_path / "a.zarr"
    for name, part in (("1", X[:25]), ("2", rows(40, seed=1, dtype="f8")), ("3", X[25:40]), ("4", X[40:])):
        np.save(tmp_path / f"{name}.npy", part)
    ingest(tmp_path / "1.npy", tmp_path / "all.zarr", block_rows=10)
    for step in range(0, 20, 3):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(tmp_path / "all.zarr", path)
        assert killed(monkeypatch, step, lambda: ingest(tmp_path / "2.npy", path, append=True))
        if info(path).n_rows == 65:
            break
        for name in "34":
            ingest(tmp_path / f"{name}.npy", path, append=True)
        np.testing.assert_array_equal(read(path)[0], X)
        assert not [name for name in contents(path) if name.startswith(("manifest", "append", "X/c/7"))]


def test_what_a_killed_writer_left_behind_the_old_rows_of_csr(tmp_path):
    for name in ("2.npz", "3.npz", f"3.npz.{'0' * 32}.partial"):
        (tmp_path / name).touch()
    CsrArray(str(tmp_path), (35, 3), 10, np.dtype("f4")).resize((25, 3))
    assert [path.name for path in tmp_path.iterdir()] == ["2.npz"]


# ---- what is refused ------------------------------------------------------------------------------------------


def test_refusals(tmp_path):
    X, y = rows(25), np.arange(25.0)
    path = tmp_path / "a.zarr"
    write_rows(X, path, y)
    before = data_of(path)
    for given_rows, given_y, message in [
        (rows(5, 4), y[:5], r"of the shapes {'X': \(3,\), 'y': \(\), .* the new ones {'X': \(4,\)"),
        (X[:5], None, r"the new ones {'X': \(3,\), 'labels'"),
        (X[:5], np.array(list("abcde")), "'labels': 'numbers'}, the new ones .*'labels': 'text'"),
        (X[:0], y[:0], "at least one row"),
    ]:
        with pytest.raises(InputError, match=message):
            add(given_rows, path, given_y, append=True)
        assert data_of(path) == before
        assert info(path).n_rows == 25
    add(X[:5] + 1, path, y[:5], append=True)
    with pytest.raises(SpecMismatchError, match="has these rows already"):
        add(X[:5] + 1, path, y[:5], append=True)


@pytest.mark.parametrize("how", ["missing", "flipped"])
def test_damage_is_not_taken_over(tmp_path, how):
    """The last block is read and written again."""
    path = tmp_path / "a.zarr"
    add(rows(25), path, block_rows=10)
    chunk = path / "X/c/2/0"
    data = bytearray(chunk.read_bytes())
    data[9] ^= 1
    chunk.unlink() if how == "missing" else chunk.write_bytes(data)
    with pytest.raises(StoreError, match=r"is missing|is damaged"):
        add(rows(4, seed=1), path, append=True)


def test_the_ending_of_a_store_in_capitals(tmp_path):
    assert add(rows(5), tmp_path / "A.ZARR").n_rows == 5


def test_a_damaged_append_begins_anew(tmp_path):
    """Its document alone is lost: nobody is told to remove the store, whose rows are whole."""
    path = tmp_path / "a.zarr"
    add(rows(25), path, block_rows=10)
    damaged = (path / "zarr.json").read_text().replace('"n_rows": 25', '"n_rows": 26')
    (path / "append.json").write_text(damaged)
    add(rows(9, seed=1), path, append=True)
    assert read(path)[0].tolist() == [*rows(25).tolist(), *rows(9, seed=1).tolist()]
    assert not (path / "append.json").exists()


# ---- tables ---------------------------------------------------------------------------------------------------


def test_tables_are_read_as_the_store_was(tmp_path):
    """Columns by name, in the order of the store; missing values; its type; labels that are new."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50, 3)), columns=list("abc"))
    frame["label"] = rng.choice(["no", "yes"], 50)
    frame.loc[3, "b"] = np.nan
    frame[:30].to_csv(tmp_path / "1.csv", index=False)
    ingest(tmp_path / "1.csv", tmp_path / "a.zarr", target="label", dtype="float32", block_rows=8)
    later = frame[30:].copy()
    later.iloc[0, 1] = np.nan
    later.iloc[4, 3] = "maybe"
    later["more"] = 1.0
    later = later[["more", "label", "c", "b", "a"]]
    pq.write_table(pa.Table.from_pandas(later, preserve_index=False), tmp_path / "2.parquet")
    done = []
    with listening(lambda *step: done.append(step)):
        made = ingest(tmp_path / "2.parquet", tmp_path / "a.zarr", append=True)
    assert done[-1] == ("append", 20, 20)
    assert made.n_rows == 50
    assert made.classes == ["no", "yes", "maybe"]
    got, labels = read(tmp_path / "a.zarr")
    wanted = pd.concat([frame[:30], later[frame.columns]])
    np.testing.assert_array_equal(labels, wanted["label"])
    np.testing.assert_array_equal(got, wanted[list("abc")].to_numpy("f4"))
    for name in ("1.csv", "2.parquet"):
        with pytest.raises(SpecMismatchError, match="has these rows already"):
            ingest(tmp_path / name, tmp_path / "a.zarr", append=True)


def test_what_the_store_says_is_not_said_again(tmp_path):
    for name, part in (("1", rows(20, 1)), ("3", rows(20, 2))):
        np.save(tmp_path / f"{name}.npy", part)
    store = tmp_path / "a.zarr"
    ingest(tmp_path / "1.npy", store, block_rows=8)
    with pytest.raises(InputError, match=r"{'X': \(1,\), .* the new ones {'X': \(2,\),"):
        ingest(tmp_path / "3.npy", store, append=True)
    with pytest.raises(InputError, match="leave out columns, block_rows, dtype"):
        ingest(tmp_path / "1.npy", store, append=True, dtype="float32", block_rows=4, overwrite=True)
