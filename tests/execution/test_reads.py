"""How often rows are read, and what reading costs: counts that a plan relies on."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest

from distrf import RandomFourierFeatures, StreamingRidge, StreamingSGDRegressor


class Source:
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
    return Source(X, 500), Source(X[:, 0] ** 2 + X[:, 1], 500)


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


def test_arrays_in_memory_are_not_copied_for_threads(rng):
    """In threads of one process blocks are views: before, each was turned into bytes and back."""
    X = rng.normal(size=(40_000, 100))
    y = X[:, 0]
    dX, dy = da.from_array(X, chunks=(2_000, 100)), da.from_array(y, chunks=2_000)
    model = StreamingRidge(1e-3)
    with dask.config.set(scheduler="threads", num_workers=1):
        model.fit(dX, dy)
        tracemalloc.start()
        try:
            model.fit(dX, dy)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < X.nbytes / 3
