"""Every source against its in-memory reference; resume, refusals."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import shutil
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr
from sklearn.datasets import dump_svmlight_file
from stored_arrays import contents, read

from distrf import ingest, open_rows, write_rows
from distrf.errors import InputError, ParameterError, SpecMismatchError, StoreError
from distrf.progress import listening
from distrf.store.zarr_foreign import ForeignSource

RNG = np.random.default_rng(0)
X = RNG.normal(size=(37, 3))
LABELS = np.array(["no", "yes", "maybe"])[RNG.integers(0, 3, 37)]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Batches of a few rows, so that every seam is crossed."""
    from distrf.store import matrix_files

    monkeypatch.setattr(matrix_files, "BLOCK_BYTES", 256)


CLASSES = ["maybe", "no", "yes"]
DIGITS = RNG.integers(0, 255, (37, 5)).astype("u1")
COUNTS = sp.random_array((30, 20), density=0.1, format="csr", rng=np.random.default_rng(0))
COUNTS.data = np.ceil(COUNTS.data * 9).astype("u1")
FULL = sp.csr_array(np.where(X > 0.5, X, 0))


ARCHIVE = {"X": DIGITS, "y": LABELS, "pos": X[:, :2]}
TABLE = {"a": X[:, 0], "label": LABELS, "b": X[:, 1], "n": np.arange(37)}
NUMBERS = np.c_[X[:, :2], np.arange(37)]
MIXED = {"a": X[:, 0].astype("f4"), "b": np.arange(37, dtype="u1"), "t": LABELS}
HOLES = {"a": pa.array([1, None, 3], pa.int32()), "t": [1, 2, 3]}


def csv(path, columns, header=True):
    options = pa.csv.WriteOptions(include_header=header, quoting_style="none")
    with io.BytesIO() as file:
        pa.csv.write_csv(pa.table(columns), file, options)
        path.write_bytes(gzip.compress(file.getvalue()) if path.suffix == ".gz" else file.getvalue())


def kinds(last):
    return {"x": np.arange(61.0), "t": ["1", "2"] * 30 + [last]}


def written(folder, name, content):
    """A file of these contents, by the ending of its name."""
    path = folder / name
    if name.endswith(".npy"):
        np.save(path, content)
    elif name.endswith(".npz"):
        np.savez(path, **content)
    elif name.endswith(".zarr"):
        write_rows(content["X"], path, content.get("y"))
    elif name.endswith(".parquet"):
        pq.write_table(pa.table(content), path, row_group_size=5)
    elif isinstance(content, dict):
        csv(path, content)
    else:
        path.write_text(content)
    return path


#: Name and contents of a file, options; X with its dtype, y, and what the store says.
SOURCES = {
    "npy": ("a.npy", X, {}, X, None, {"columns": None}),
    "npy, by columns": ("a.npy", np.asfortranarray(X), {"block_rows": 10}, X, None, {}),
    "npy with a target": ("a.npy", X, {"target": "-1", "columns": [1], "dtype": "float32"}, X[:, [1]].astype("f4"), X[:, 2], {}),
    "npz": ("a.npz", ARCHIVE, {"block_rows": 6}, DIGITS, LABELS, {"classes": CLASSES}),
    "npz, other targets": ("a.npz", ARCHIVE, {"target": "pos", "columns": [4, 0]}, DIGITS[:, [4, 0]], X[:, :2], {}),
    "zarr, sparse": ("a.zarr", {"X": COUNTS, "y": np.arange(30)}, {"block_rows": 7}, COUNTS.toarray(), np.arange(30), {"sparse": True}),
    "zarr, more than a quarter stored": ("a.zarr", {"X": FULL}, {}, FULL.toarray(), None, {"sparse": False}),
    **{f"csv{packed}": (f"a.csv{packed}", TABLE, {"target": "label", "block_rows": 10}, NUMBERS, LABELS, {"columns": ["a", "b", "n"], "target": "label", "classes": CLASSES})
       for packed in ("", ".gz")},
    "csv, integer target": ("a.csv", TABLE, {"target": "n", "columns": ["b"]}, X[:, [1]], np.arange(37), {}),
    **{f"csv, labels with {last}": ("a.csv", kinds(last), {"target": "t"}, np.arange(61.0)[:, None], np.array(kinds(last)["t"], kind), {})
       for last, kind in (("3", "i8"), ("2.5", "f8"), ("blue", "U4"))},
    "parquet": ("a.parquet", MIXED, {"target": "t", "block_rows": 8}, np.c_[MIXED["a"], MIXED["b"]].astype("f4"), LABELS, {"classes": CLASSES}),
    "parquet with gaps": ("a.parquet", HOLES, {"target": "t"}, np.array([[1.0], [np.nan], [3]]), np.arange(1, 4), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", SOURCES)
def test_each_source_against_its_reference(tmp_path, case):
    name, content, options, rows, labels, facts = SOURCES[case]
    done = []
    with listening(lambda *step: done.append(step)):
        store = ingest(written(tmp_path, name, content), tmp_path / "out.zarr", **options)
    assert done[-1] == ("ingest", len(rows), len(rows))
    assert store.complete
    got, y = read(tmp_path / "out.zarr")
    np.testing.assert_array_equal(got, rows)
    if "gaps" not in case:
        assert got.dtype == rows.dtype
    assert (y is None) == (labels is None)
    if labels is not None:
        assert y.dtype.kind == labels.dtype.kind
        np.testing.assert_array_equal(y, labels)
    assert store.arrays["X"].sparse == facts.pop("sparse", False)
    assert {name: getattr(store, name) for name in facts} == facts


def test_a_store_into_another(tmp_path):
    first = write_rows(COUNTS, tmp_path / "a.zarr", LABELS[:30]).info
    store = ingest(tmp_path / "a.zarr", tmp_path / "b.zarr", block_rows=16)
    assert (
        (store.arrays["X"].sparse, store.classes)
        == (True, CLASSES)
        == (first.arrays["X"].sparse, first.classes)
    )
    for one, other in zip(read(tmp_path / "a.zarr"), read(tmp_path / "b.zarr"), strict=True):
        np.testing.assert_array_equal(one, other)


BAD_Y = {"X": X, "y": np.where(np.arange(37) == 9, np.nan, 1.0)}
#: Name and contents of a file, options, and what is refused.
REFUSED = {
    "npz without X": ("a.npz", {"X_train": DIGITS}, {}, r"has the members \['X_train'\]; name them X and y"),
    "npz without the target": ("a.npz", ARCHIVE, {"target": "q"}, r"member 'q'; .* has the members \['X', 'y', 'pos'\]"),
    "npz of other lengths": ("a.npz", {"X": X, "y": np.arange(5)}, {}, r"X has 37 rows, the target has shape \(5,\)"),
    "npz of objects": ("a.npz", {"X": np.array([[object()]])}, {}, "without running code"),
    "labels that are not finite": ("a.npz", BAD_Y, {}, "targets must be finite; row 9"),
    "npy with n_features": ("a.npy", X, {"n_features": 3}, "are of svmlight text; .*a.npy. is none"),
    "npy, no such target": ("a.npy", X, {"target": "3"}, r"a column number in -3\.\.2; received '3'"),
    "npy, target twice": ("a.npy", X, {"target": "1", "columns": [1]}, "the target column 1 is among columns="),
    "too large for float32": ("a.npy", np.full((3, 2), 1e300), {"dtype": "float32"}, "row 0, column 0 is inf in float32"),
    "dtype": ("a.npy", X, {"dtype": "int8"}, "dtype must be 'float32', 'float64' or None, got 'int8'"),
    "no format": ("a.jpg", "1 2", {}, "told by the name"),
    "csv, text": ("a.csv", {"a": X[:, 0], "label": LABELS}, {}, r"columns \['label \(string\)'\].*target="),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(tmp_path, case):
    name, content, options, message = REFUSED[case]
    with pytest.raises((InputError, StoreError), match=message):
        ingest(written(tmp_path, name, content), tmp_path / "o.zarr", **options)
    if (tmp_path / "o.zarr").exists():  # refused while rows were written
        with pytest.raises(StoreError, match="blocks"):
            open_rows(tmp_path / "o.zarr")


PACKERS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": partial(pa.compress, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".zst"])
def test_svmlight(tmp_path, zero_based, suffix):
    M = sp.random_array((40, 12), density=0.2, format="csr", rng=np.random.default_rng(0)).tolil()
    M[3, 0], M[39, 11] = 0.5, 1.5
    M = M.tocsr()
    y = np.where(np.arange(40) % 3 == 0, 1, -1)
    text = io.BytesIO()
    dump_svmlight_file(M, y, text, zero_based=zero_based)
    path = tmp_path / f"a.svmlight{suffix}"
    path.write_bytes(PACKERS[suffix](text.getvalue()))
    assert ingest(path, tmp_path / "a.zarr", block_rows=11).arrays["X"].sparse
    got, labels = read(tmp_path / "a.zarr")
    np.testing.assert_allclose(got, M.toarray(), rtol=1e-14)
    np.testing.assert_array_equal(labels, y)
    assert labels.dtype == np.int64


TEXT = b"# comment\n1.5 2:1 3:2 # more\n\n-2 \n0.5 qid:3 1:7"
#: Text, options, and the rows or what is refused.
SVMLIGHT = {
    "oddities": (TEXT, {}, [[0, 1, 2], [0, 0, 0], [7, 0, 0]]),
    "wider": (b"1 1:7\n", {"n_features": 3}, [[7, 0, 0]]),
    "wider and zero-based": (b"1 1:7\n", {"n_features": 3, "zero_based": True}, [[0, 7, 0]]),
    "no entry": (b"1\n2\n", {"n_features": 2}, [[0, 0], [0, 0]]),
    "nothing": (b"1\n2\n", {}, "no rows with values"),
    "narrower": (b"1 3:7\n", {"n_features": 2}, "at most n_features= columns; .* contains 3 features"),
    "narrower and zero-based": (b"1 0:1 3:7\n", {"n_features": 3}, "contains 4 features"),
    "not from 1": (b"1 0:7\n", {"zero_based": False}, "counted as zero_based= says.* Invalid index 0"),
    "not a number": (b"1 2:x\n", {}, "lines are `label index:value ...` .*is not so"),
    "columns": (TEXT, {"columns": [1]}, [[1], [0], [0]]),
    "target": (TEXT, {"target": "q"}, r"member 'q'; .* has the members \['X', 'y'\]"),
}


@pytest.mark.parametrize("case", SVMLIGHT)
def test_svmlight_text(tmp_path, case):
    text, options, expected = SVMLIGHT[case]
    (tmp_path / "a.libsvm").write_bytes(text)
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            ingest(tmp_path / "a.libsvm", tmp_path / "a.zarr", **options)
        assert not (tmp_path / "a.zarr").exists()
    else:
        ingest(tmp_path / "a.libsvm", tmp_path / "a.zarr", **options)
        np.testing.assert_array_equal(read(tmp_path / "a.zarr")[0], expected)


def test_svmlight_behind_chosen_columns(tmp_path):
    (tmp_path / "a.svm").write_bytes(TEXT)
    (tmp_path / "b.svm").write_bytes(b"3 1:4 2:5 3:6\n")
    ingest(tmp_path / "a.svm", tmp_path / "a.zarr", columns=[2, 0])
    ingest(tmp_path / "b.svm", tmp_path / "a.zarr", append=True, zero_based=False)
    assert read(tmp_path / "a.zarr")[0].tolist() == [[2, 0], [0, 0], [0, 7], [6, 4]]


def test_svmlight_that_is_counted_otherwise(tmp_path):
    (tmp_path / "a.svm").write_bytes(b"1 1:7\n")
    ingest(tmp_path / "a.svm", tmp_path / "a.zarr", n_features=3)
    with pytest.raises(SpecMismatchError, match="zero_based: None -> True"):
        ingest(tmp_path / "a.svm", tmp_path / "a.zarr", n_features=3, zero_based=True)


def test_a_chunk_is_decoded_once(tmp_path, monkeypatch):
    """Also where it holds several blocks of the output."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("X", data=X, chunks=(20, 3))
    group.create_array("y", data=X[:, 0], chunks=(5,))
    read, places = ForeignSource.read, []
    monkeypatch.setattr(ForeignSource, "read", lambda self, *rows: places.append(rows) or read(self, *rows))
    ingest(tmp_path / "a.zarr", tmp_path / "b.zarr", block_rows=4)
    assert sorted(places) == [(0, 37), (0, 37)]
    got, y = open_rows(tmp_path / "b.zarr")
    np.testing.assert_array_equal(got.compute(scheduler="sync"), X)
    np.testing.assert_array_equal(y.compute(scheduler="sync"), X[:, 0])


def test_svmlight_is_read_as_it_is(tmp_path):
    (tmp_path / "a.svm").write_bytes(TEXT)
    rows, y = open_rows(tmp_path / "a.svm")
    assert rows.compute(scheduler="sync").toarray().tolist() == [[0, 1, 2], [0, 0, 0], [7, 0, 0]]
    assert y.compute(scheduler="sync").tolist() == [1.5, -2, 0.5]


def test_svmlight_behind_rows_of_another_format(tmp_path):
    """Whether its indices count from 0 must be said."""
    np.savez(tmp_path / "a.npz", X=X, y=np.arange(37))
    ingest(tmp_path / "a.npz", tmp_path / "a.zarr")
    (tmp_path / "b.svm").write_bytes(b"3 1:9\n")
    with pytest.raises(InputError, match="give zero_based=True or False"):
        ingest(tmp_path / "b.svm", tmp_path / "a.zarr", append=True)
    ingest(tmp_path / "b.svm", tmp_path / "a.zarr", append=True, zero_based=False)
    np.testing.assert_array_equal(read(tmp_path / "a.zarr")[0][-1], [9, 0, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(tmp_path, bad):
    data = X.copy()
    data[30, 1] = bad
    np.save(tmp_path / "a.npy", data)
    if np.isnan(bad):  # a missing value
        ingest(tmp_path / "a.npy", tmp_path / "a.zarr", block_rows=10)
        assert np.isnan(read(tmp_path / "a.zarr")[0]).sum() == 1
    else:
        with pytest.raises(InputError, match=rf"row 30, column 1 is {bad}"):
            ingest(tmp_path / "a.npy", tmp_path / "a.zarr", block_rows=10)
        assert not list(tmp_path.glob(".*"))
        with pytest.raises(StoreError, match="only a complete store can be read"):
            open_rows(tmp_path / "a.zarr")
    (tmp_path / "s.svm").write_text("0 1:1\n" * 30 + f"0 2:{bad}\n")
    with pytest.raises(InputError, match="row 30, column 1"):
        ingest(tmp_path / "s.svm", tmp_path / "c.zarr", n_features=9)


def test_no_rows(tmp_path):
    np.savez(tmp_path / "a.npz", X=X[:0], y=LABELS[:0])
    store = ingest(tmp_path / "a.npz", tmp_path / "a.zarr")
    assert (store.n_rows, store.complete) == (0, True)
    got, y = read(tmp_path / "a.zarr")
    assert (got.shape, y.shape) == ((0, 3), (0,))
    np.savez(tmp_path / "b.npz", X=X, y=LABELS)
    ingest(tmp_path / "b.npz", tmp_path / "a.zarr", append=True)
    np.testing.assert_array_equal(read(tmp_path / "a.zarr")[1], LABELS)


@pytest.mark.parametrize("rows", [0, -1])
def test_blocks_of_npy_have_rows(tmp_path, rows):
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(ParameterError, match=f"rows_per_block must be .* got {rows}"):
        open_rows(tmp_path / "a.npy", rows_per_block=rows)


def test_rows_of_npy_are_read_where_they_lie(tmp_path):
    np.save(tmp_path / "a.npy", X)
    rows, y = open_rows(tmp_path / "a.npy", target="-1", rows_per_block=10)
    assert rows.chunks == ((10, 10, 10, 7), (2,))
    np.testing.assert_array_equal(rows.compute(), X[:, :2])
    np.testing.assert_array_equal(y.compute(), X[:, 2])
    shutil.copy2(tmp_path / "a.npy", tmp_path / "copy")  # as on the disk of another machine
    os.replace(tmp_path / "copy", tmp_path / "a.npy")
    np.testing.assert_array_equal(rows.compute(), X[:, :2])
    np.save(tmp_path / "a.npy", X + 1)
    with pytest.raises(StoreError, match="written anew"):
        rows.compute()


def test_no_source(tmp_path):
    for name, message in (
        ("none.csv", "no such data"),
        ("none.npy", "no such file"),
        ("none.zarr", "no such store or folder"),
    ):
        with pytest.raises(StoreError, match=message):
            ingest(tmp_path / name, tmp_path / "o.zarr")


def test_other_data_at_the_same_path(tmp_path):
    np.save(tmp_path / "a.npy", X)
    ingest(tmp_path / "a.npy", tmp_path / "a.zarr")
    before = contents(tmp_path / "a.zarr")
    assert ingest(tmp_path / "a.npy", tmp_path / "a.zarr").complete
    with pytest.raises(SpecMismatchError, match="columns"):
        ingest(tmp_path / "a.npy", tmp_path / "a.zarr", columns=[0, 1, 2])
    np.save(tmp_path / "a.npy", X + 1)
    with pytest.raises(SpecMismatchError, match="fingerprint"):
        ingest(tmp_path / "a.npy", tmp_path / "a.zarr")
    assert contents(tmp_path / "a.zarr") == before
    ingest(tmp_path / "a.npy", tmp_path / "a.zarr", overwrite=True)
    np.testing.assert_array_equal(read(tmp_path / "a.zarr")[0], X + 1)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy", "folder"])
def test_a_source_that_changed_is_no_older_store(tmp_path, suffix):
    """One byte in the middle, of the same size and time. A copy is the same."""
    path = tmp_path / f"a{suffix}"
    table = pa.table({"x": np.arange(40_000.0), "z": np.ones(40_000)})
    if suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif suffix == ".npy":
        np.save(path, np.c_[table["x"], table["z"]])
    else:
        path.mkdir() if suffix == "folder" else None
        pq.write_table(
            table, path / "0.parquet" if suffix == "folder" else path, use_dictionary=False, compression="none"
        )
    file = path / "0.parquet" if path.is_dir() else path
    out, first = tmp_path / "o.zarr", ingest(path, tmp_path / "o.zarr")
    assert ingest(path, out).id == first.id
    times = file.stat()
    data = bytearray(file.read_bytes())
    at = next(k for k in range(len(data) // 2, len(data)) if suffix != ".csv" or data[k] in b"02468")
    data[at] = data[at] ^ 1
    file.write_bytes(data)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(SpecMismatchError, match="source"):
        ingest(path, out)
    data[at] = data[at] ^ 1
    file.write_bytes(data)
    os.utime(file, (0, 0))
    assert ingest(path, out).id == first.id


def test_a_store_knows_how_its_csv_was_read(tmp_path):
    """Other options are another store, and rows that are added are read as those before."""
    first, then, out = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "out.zarr"
    first.write_text("x;y\n" + "".join(f"{100 + k};1\n" for k in range(50)))
    then.write_text("x;y\n" + "".join(f"{200 + k};1\n" for k in range(50)) + "-1;1\n")
    ingest(first, out, target="y", na_values=["-1"])
    ingest(then, out, append=True)
    X, _ = open_rows(out)
    assert np.isnan(X[-1].compute()).all()
    with pytest.raises(SpecMismatchError, match="csv"):
        ingest(first, out, target="y")
