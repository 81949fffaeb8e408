"""Checksums over what a store says of itself, and over which chunk belongs where."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from distrf import open_rows
from distrf.errors import StoreError
from distrf.execution.open_rows import open_array
from distrf.store import (
    Contents,
    checksums,
    create,
    describe,
    finish,
    pending_blocks,
    write_block,
)

RNG = np.random.default_rng(5)
X = RNG.normal(size=(50, 4))
S = sp.random_array((50, 6), density=0.4, format="csr", rng=np.random.default_rng(6))


def fill(path, sparse=False, chunk_rows=None, values=X, kind="rows", seed=1):
    arrays = {"X": ((S.shape[1],) if sparse else (4,), "f8"), "y": ((), "i4")}
    store = create(
        path,
        Contents(
            arrays,
            50,
            20,
            kind=kind,
            spec={"seed": seed},
            sparse=["X"] if sparse else (),
            chunk_rows=chunk_rows,
        ),
    )
    for index in pending_blocks(path):
        rows = slice(20 * index, min(50, 20 * index + 20))
        block = {"X": (S if sparse else values)[rows], "y": np.arange(50, dtype="i4")[rows]}
        write_block(path, index, block, store_id=store.id)
    finish(path, store_id=store.id)
    return Path(path)


def read(path):
    got, y = open_rows(path)
    got, y = got.compute(scheduler="sync"), y.compute(scheduler="sync")
    return (got.toarray() if sp.issparse(got) else got), y


def swap(a, b):
    aside = a.with_name("aside")
    os.rename(a, aside)
    os.rename(b, a)
    os.rename(aside, b)


@pytest.mark.parametrize(
    ("pair", "options"),
    [
        (("X/c/0/0", "X/c/1/0"), {}),
        (("y/c/0", "y/c/1"), {}),
        (("X/c/0/0", "X/c/1/0"), {"chunk_rows": 10}),
        (("X/c/2/0", "X/c/3/0"), {"kind": "features", "chunk_rows": 10}),
        (("X/data/c/0", "X/data/c/1"), {"sparse": True}),
        (("X/indices/c/0", "X/indices/c/1"), {"sparse": True}),
        (("X/indptr_counts/c/0", "X/indptr_counts/c/1"), {"sparse": True}),
        (("manifest/c/0", "manifest/c/1"), {}),
    ],
)
def test_swapped_chunks(tmp_path, pair, options):
    path = fill(tmp_path / "a.zarr", **options)
    read(path)
    swap(*(path / name for name in pair))
    path = path.rename(tmp_path / "moved.zarr")  # a process keeps the records that it has read
    with pytest.raises(
        StoreError, match=r"c/\d.* damaged.*restore the file, or remove the store and make it again"
    ):
        read(path)


def test_whole_blocks_swapped_with_their_records(tmp_path):
    path = fill(tmp_path / "a.zarr")
    for array in ("X/c/{}/0", "y/c/{}", "manifest/c/{}"):
        swap(path / array.format(0), path / array.format(1))
    with pytest.raises(StoreError, match="belongs to another block or store"):
        read(path)


def test_a_block_of_another_store(tmp_path):
    path, other = fill(tmp_path / "a.zarr"), fill(tmp_path / "b.zarr", values=X + 1, seed=2)
    for name in ("X/c/0/0", "manifest/c/0"):
        shutil.copy(other / name, path / name)
    with pytest.raises(StoreError, match="belongs to another block or store"):
        read(path)


def test_blocks_joined_and_cut_on_reading(tmp_path):
    path = fill(tmp_path / "a.zarr", chunk_rows=5)
    for rows in (5, 15, 20, 45, 50):
        got = open_rows(path, rows_per_block=rows)[0].compute(scheduler="sync")
        np.testing.assert_array_equal(got, X)
        np.testing.assert_array_equal(
            open_array(path, "y", rows_per_block=rows).compute(scheduler="sync"), range(50)
        )


@pytest.mark.parametrize("file", ["zarr.json", "X/zarr.json", "y/zarr.json", "manifest/zarr.json"])
def test_every_flipped_bit_of_the_metadata(tmp_path, file):
    """An error or the same numbers, whatever bit it is."""
    path = fill(tmp_path / "a.zarr")
    whole = (path / file).read_bytes()
    rng = np.random.default_rng(3)
    refused = 0
    for bit in rng.choice(8 * len(whole), 60, replace=False):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        (path / file).write_bytes(data)
        try:
            got, y = read(path)
        except StoreError:
            refused += 1
            continue
        np.testing.assert_array_equal(got, X)
        np.testing.assert_array_equal(y, range(50))
    assert refused > 30


def test_a_store_that_became_a_foreign_one(tmp_path):
    path = fill(tmp_path / "a.zarr")
    text = (path / "zarr.json").read_text()
    (path / "zarr.json").write_text(text.replace('"distrf"', '"distrg"'))
    with pytest.raises(StoreError, match="has the manifest of a store of distrf and no distrf attribute"):
        open_rows(path)


def test_changed_attributes(tmp_path):
    path = fill(tmp_path / "a.zarr")
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"]["distrf"]["spec"]["seed"] = 2
    (path / "zarr.json").write_text(json.dumps(document))
    for call in (open_rows, describe):
        with pytest.raises(StoreError, match=r"a zarr.json in it is damaged or was edited"):
            call(path)


def test_the_check_costs_little(tmp_path):
    """Of a block of 32 MiB: a small part of reading it, which is itself a small part of a pass."""
    rows, d = 2**15, 256
    path = tmp_path / "a.zarr"
    store = create(path, Contents({"X": ((d,), "f4")}, 2 * rows, rows, kind="features", spec={}))
    block = RNG.normal(size=(rows, d)).astype("f4")
    for index in range(2):
        write_block(path, index, {"X": block}, store_id=store.id)
    finish(path, store_id=store.id)
    lazy, _ = open_rows(path)
    spent = []

    def timed(function):
        def call(*arguments):
            start = time.perf_counter()
            found = function(*arguments)
            spent.append(time.perf_counter() - start)
            return found

        return call

    whole, check = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "last_sum", timed(checksums.last_sum))
        patch.setattr(checksums.Ledger, "read", timed(checksums.Ledger.read))
        for _ in range(3):
            spent.clear()
            start = time.perf_counter()
            lazy.compute(scheduler="sync")
            whole.append(time.perf_counter() - start)
            check.append(sum(spent))
    assert min(check) < 0.15 * min(whole)
