"""Rows that `open_rows` reads: segments without Dask graphs give what the graphs give, and read each stored block once.

At the end, how often rows of other arrays are read.
"""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass, field

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from reductions import ListFold, StackFold, SumFold, ViewFold

from distrf import RandomFourierFeatures, StreamingSGDRegressor, open_rows
from distrf.execution.open_rows import lazy_rows
from distrf.execution.passes import run_pass
from distrf.execution.row_blocks import align_rows, map_rows, split_rows, take_blocks
from distrf.execution.sampling import take_rows
from distrf.execution.segments import BlockGraphs
from distrf.execution.stored_blocks import StoredBlocks, blocks_of
from distrf.maps import ScalingMap
from distrf.store.row_source import RowSource

same = np.testing.assert_array_equal
READS: Counter = Counter()


@dataclass(frozen=True, kw_only=True)
class Source(RowSource):
    """Rows in memory that note which of them are read."""

    rows: object = field(compare=False)

    @classmethod
    def recognises(cls, path):
        return False

    @classmethod
    def open(cls, path, selection):
        raise NotImplementedError

    def __dask_tokenize__(self):
        return self.path, self.block_lengths

    def read(self, first, last):
        READS[self.path, first, last] += 1
        return self.rows[first:last]


def stored(rows, lengths, path="rows"):
    return lazy_rows(
        Source(path=path, shape=rows.shape, dtype=rows.dtype, block_lengths=tuple(lengths), rows=rows,
               sparse=sp.issparse(rows))
    )  # fmt: skip


def scaling(d):
    return ScalingMap(d, d, "standard", 1.0, np.arange(d, dtype=float), np.full(d, 2.0))


def without_notes(a):
    return da.Array(dict(a.dask), a.name, a.chunks, meta=a._meta)


def both_ways(arrays, fold):
    """The pass by readers, which is that by the graphs of the same arrays."""
    assert isinstance(blocks_of(arrays), StoredBlocks)
    plain = [without_notes(a) for a in arrays]
    assert isinstance(blocks_of(plain), BlockGraphs)
    with dask.config.set(scheduler="sync"):
        made, by_graphs = run_pass(fold, arrays), run_pass(fold, plain)
    for one, other in zip(made, by_graphs, strict=True):
        same(one, other)
    return made


lengths = st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(sum)


@given(lengths=lengths, others=lengths, limit=st.integers(1, 12), nbytes=st.sampled_from([8, 4000]))
def test_blocks_are_those_of_the_graphs(lengths, others, limit, nbytes):
    n = min(sum(lengths), sum(others))
    X = np.random.default_rng(n).normal(size=(sum(lengths), 3)).astype(np.float32)
    others = [*others, sum(lengths) - n] if sum(others) <= sum(lengths) else [sum(lengths)]
    rows, y = stored(X, lengths), stored(np.arange(len(X)), others, "targets")
    cut = split_rows(rows, limit)
    mapped = map_rows(scaling(3), cut, 3, np.float32)
    again = map_rows(scaling(3), mapped, 3, np.float32)
    arrays = [mapped, align_rows(mapped, y, "y"), cut, again]
    made = both_ways(arrays, StackFold(nbytes, 1e6))
    same(np.concatenate(made[2::4]), X)
    same(np.concatenate(made[1::4]), np.arange(len(X)))
    numbers = sorted({0, len(cut.chunks[0]) // 2, len(cut.chunks[0]) - 1})
    both_ways([take_blocks(a, numbers) for a in arrays], StackFold(nbytes, 1e6))


def test_arrays_beside_stored_ones():
    """In memory, made by other tasks, and predictions of shape (n,)."""
    X = np.random.default_rng(0).normal(size=(100, 3))
    rows = stored(X, (40, 60))
    cut = split_rows(rows, 16)
    one = map_rows(ScalingMap(3, 1, "standard", 1.0, np.zeros(1), np.ones(1)), cut, None, float)
    assert one.ndim == 1
    given = align_rows(cut, np.arange(100), "y")
    arrays = [cut, given, align_rows(cut, rows[:, 0] > 0, "sign"), one]
    made = both_ways(arrays, StackFold())
    same(np.concatenate(made[2::4]), X[:, 0] > 0)
    some = both_ways([take_blocks(a, [0, 5]) for a in arrays], StackFold())
    same(np.concatenate(some[1::4]), [*range(10), *range(55, 70)])
    whole = stored(np.arange(25.0), (10, 15), "of the same lengths")
    pairs = run_pass(StackFold(), [take_blocks(cut, [0, 5]), whole])
    same(np.concatenate(pairs[1::2]), np.arange(25))


def test_a_block_holds_no_other_rows():
    """What SGD leaves on a worker would hold the stored block that it was cut from."""
    rows = split_rows(stored(np.ones((1000, 3)), (1000,)), 100)
    for array in (rows, without_notes(rows)):
        with dask.config.set(scheduler="sync"):
            blocks = run_pass(ViewFold(), [array])
        assert len(blocks) == 10
        assert all(block.base is None for block in blocks)


def test_pickled_rows_are_read_as_before(tmp_path, rng):
    """What an array is read, cut, taken and mapped from travels with it: the same segments, so the same bits."""
    table = pd.DataFrame(rng.normal(size=(4000, 3)), columns=list("abc")).assign(y=1.0)
    table.to_parquet(tmp_path / "one.parquet")
    X, y = open_rows(tmp_path / "one.parquet", target="y")
    cut = split_rows(X, 32)
    arrays = [
        cut,
        map_rows(scaling(3), cut, 3, float),
        align_rows(cut, y, "y"),
        align_rows(cut, np.ones(4000), "w"),
    ]
    some = [take_blocks(a, range(100)) for a in arrays]
    fold = ListFold(nbytes=8, flops_per_row=1e6)
    for before in (arrays, some):
        travelled = pickle.loads(pickle.dumps(before))
        assert isinstance(blocks_of(travelled), StoredBlocks)
        with dask.config.set(scheduler="sync"):
            assert run_pass(fold, travelled) == run_pass(fold, before)


def test_an_edit_of_the_rows_is_none_of_what_was_made_of_them():
    rows = stored(np.ones((20, 3)), (10, 10))
    mapped = map_rows(scaling(3), rows, 3, float)
    before = run_pass(StackFold(), [mapped])
    rows[:, 0] = 7.0
    assert isinstance(blocks_of([mapped]), StoredBlocks)
    same(run_pass(StackFold(), [mapped]), before)


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_each_stored_block_is_read_once(scheduler):
    """Also where blocks are cut from it, and several arrays are made from it."""
    rows = stored(np.ones((120, 3)), (40, 50, 30))
    cut = split_rows(rows, 7)
    mapped = map_rows(scaling(3), cut, 3, float)
    READS.clear()
    with dask.config.set(scheduler=scheduler):
        run_pass(SumFold(9), [mapped, cut, cut])
    assert READS == {("rows", 0, 40): 1, ("rows", 40, 90): 1, ("rows", 90, 120): 1}
    READS.clear()
    take_rows(cut, np.array([3, 4, 95]))
    assert READS == {("rows", 0, 40): 1, ("rows", 90, 120): 1}


# ---- a file of one row group ------------------------------------------------------------------------


# ---- how often rows of other arrays are read, and what reading costs: what a plan relies on -----------


class Counted:
    """Rows that count how often each of their blocks is read."""

    dtype = np.dtype(np.float64)

    def __init__(self, rows, chunk):
        self.rows, self.chunk = rows, chunk
        self.shape, self.ndim = rows.shape, rows.ndim
        self.reads = Counter()

    def __getitem__(self, index):
        rows = self.rows[index]
        first = index[0].start if isinstance(index, tuple) else index.start
        self.reads[first or 0] += len(rows) > 0
        return rows

    def lazy(self):
        return da.from_array(self, chunks=(self.chunk, *self.shape[1:]), name=False)


@pytest.fixture
def sources(rng):
    X = rng.normal(size=(4_000, 5))
    return Counted(X, 500), Counted(X[:, 0] ** 2 + X[:, 1], 500)


@pytest.mark.parametrize(("epochs", "size"), [(1, "128MiB"), (3, "128MiB"), (3, "32KiB")])
def test_one_read_beyond_those_of_the_epochs(sources, epochs, size):
    """The row sample takes one, of rows and targets together; the targets' mean takes one of these alone.

    Batches take rows of stored blocks, also where features are cut into smaller ones.
    """
    X, y = sources
    with dask.config.set({"scheduler": "sync", "array.chunk-size": size}):
        features = RandomFourierFeatures(length_scale=1.0, n_components=64, random_state=0).fit(X.lazy())
        Z = features.transform(X.lazy())
        assert Z.numblocks[0] == (8 if size == "128MiB" else 80)
        StreamingSGDRegressor(n_epochs=epochs, tol=None, alpha=1e-4, random_state=0).fit(Z, y.lazy())
    assert len(X.reads) == len(y.reads) == 8
    assert set(X.reads.values()) == {2}  # blocks that were read are held for the epochs that follow
    assert set(y.reads.values()) == {3}
