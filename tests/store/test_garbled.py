"""Files with garbled bytes: an error that says which file, or data, and of our own files never other numbers."""

from __future__ import annotations

import gzip
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import Pipeline
from stored_arrays import create_parts

from distrf import RandomFourierFeatures, StreamingRidge, ingest, load_model, open_rows, save_model, write_rows
from distrf.errors import InputError, StoreError
from distrf.store import find_format, finish, write_block

RNG = np.random.default_rng(8)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
S = sp.csr_array(np.where(np.abs(X) > 1.3, X, 0))

#: {kind: (what is read, files that are garbled, whether the numbers can be told to be the same)}
KINDS = {
    "store": ("store.zarr", "**/*", True),
    "store-metadata": ("store.zarr", "**/*.json", True),
    "sparse-store": ("sparse.zarr", "**/*", True),
    "appended-store": ("appended.zarr", "**/*", True),
    "model": ("model", "**/*", True),
    "model-json": ("model", "model.json", True),
    "parts": ("parts.parquet", "part-*", True),
    "npy": ("rows.npy", "", False),
    "npz": ("rows.npz", "", True),
    "npz-packed": ("packed.npz", "", True),
    "csv": ("rows.csv", "", False),
    "csv.gz": ("rows.csv.gz", "", False),
    "svmlight": ("rows.svmlight", "", False),
    "svmlight.gz": ("rows.svmlight.gz", "", False),
    "parquet": ("rows.parquet", "", False),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small file or folder of every kind."""
    folder = tmp_path_factory.mktemp("whole")
    np.savez(folder / "rows.npz", X=X, y=Y)
    np.savez_compressed(folder / "packed.npz", X=X, y=Y)
    write_rows(S, folder / "whole.zarr", Y)
    np.save(folder / "rows.npy", X)
    lines = [
        "a,b,c,label",
        *(",".join(f"{v:.4f}" for v in row) + (",up" if k else ",down") for row, k in zip(X, Y, strict=True)),
    ]
    text = "\n".join(lines).encode()
    (folder / "rows.csv").write_bytes(text)
    (folder / "rows.csv.gz").write_bytes(gzip.compress(text, mtime=0))
    dump_svmlight_file(S.toarray(), Y, str(folder / "rows.svmlight"))
    (folder / "rows.svmlight.gz").write_bytes(gzip.compress((folder / "rows.svmlight").read_bytes(), mtime=0))
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "t": Y}), folder / "rows.parquet", row_group_size=20)
    folder_id, _ = create_parts(folder / "parts.parquet", {}, 2)
    for index in range(2):
        block = {"p": X[30 * index : 30 * index + 30]}
        write_block(folder / "parts.parquet", index, block, store_id=folder_id)
    finish(folder / "parts.parquet", store_id=folder_id)
    ingest(folder / "rows.npz", folder / "store.zarr", block_rows=20)
    ingest(folder / "whole.zarr", folder / "sparse.zarr", block_rows=20)
    ingest(folder / "rows.npz", folder / "appended.zarr", block_rows=20)
    np.savez(folder / "more.npz", X=X[:7] + 1, y=Y[:7])
    ingest(folder / "more.npz", folder / "appended.zarr", append=True)
    steps = [("map", RandomFourierFeatures(n_components=8, random_state=0)), ("model", StreamingRidge(1.0))]
    save_model(Pipeline(steps).fit(X, X[:, 0]), folder / "model")
    return folder


def garble(data, rng):
    """The bytes with a fault: a bit, a run overwritten, lost, repeated or inserted, or the end missing."""
    data = bytearray(data)
    if not data:
        return b"\0"
    at = int(rng.integers(len(data)))
    run = int(rng.integers(1, 9))
    how = rng.integers(7)
    if how <= 1:
        data[at] ^= 1 << int(rng.integers(8))
    elif how == 2:
        data[at : at + run] = rng.bytes(len(data[at : at + run]))
    elif how == 3:
        del data[at : at + run]
    elif how == 4:
        data[at:at] = data[max(0, at - run) : at]
    elif how == 5:
        del data[at:]
    else:
        digits = [i for i, b in enumerate(data) if chr(b).isdigit()] or [at]
        data[digits[int(rng.integers(len(digits)))]] = int(rng.choice(list(b"0123456789-.eE")))
    return bytes(data)


def garble_pages(data, rng):
    """Parquet: the pages. PyArrow itself ends the process over a footer whose types contradict each other."""
    cut = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if rng.integers(8) == 0:
        return data[: int(rng.integers(len(data)))]
    return garble(data[:cut], rng) + data[cut:]


def read(path, out):
    """The numbers of a file or folder, by whatever reads its kind."""
    if path.name == "model":
        return [load_model(path).predict(X)]
    if path.suffix == ".zarr" or find_format(path).table:
        rows, y = open_rows(path, target="t" if path.name == "rows.parquet" else None)
    else:
        target = "label" if ".csv" in path.name else "y" if path.suffix == ".npz" else None
        ingest(path, out, target=target)
        rows, y = open_rows(out)
    found = [a.compute(scheduler="sync") for a in (rows, y) if a is not None]
    return [a.toarray() if sp.issparse(a) else a for a in found]


def check(whole, folder, kind, seed):
    """One fault in one file of a kind."""
    name, pattern, certain = KINDS[kind]
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    source, path = whole / name, folder / name
    if source.is_dir():
        shutil.copytree(source, path)
        places = sorted(p for p in path.glob(pattern) if p.is_file())
        place = places[int(rng.integers(len(places)))]
    else:
        shutil.copy(source, path)
        place = path
    if rng.integers(8) == 0:
        place.unlink()
    else:
        fault = garble_pages if place.suffix == ".parquet" else garble
        place.write_bytes(fault(place.read_bytes(), rng))
    try:
        found = read(path, folder / "out.zarr")
    except (StoreError, InputError) as error:
        assert str(folder) in str(error) or isinstance(error, InputError), (place, error)  # noqa: PT017
    else:
        if certain:
            expected = read(source, folder / "expected.zarr")
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b)
    finally:
        for made in folder.iterdir():
            shutil.rmtree(made) if made.is_dir() else made.unlink()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_a_garbled_file(whole, tmp_path, kind, seed):
    check(whole, tmp_path, kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_garbled_files(whole, tmp_path, kind):
    for seed in range(100, 140):
        check(whole, tmp_path, kind, seed)
