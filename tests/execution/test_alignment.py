"""Results do not depend on where an array lies in memory: what travelled gives the bits of what did not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from distrf.execution.graph import aligned
from distrf.execution.segments import add_block
from distrf.losses import LOSSES
from distrf.ridge.gram import GramReduction
from distrf.sgd.batch_work import BatchWork
from distrf.sgd.dask_batches import _gradients, _take
from distrf.sgd.schedules import BlockRows
from distrf.targets import Targets


def travelled(array, offset=3):
    """The same values at an odd address, read-only, as a message leaves them."""
    buffer = np.zeros(array.nbytes + offset, dtype=np.uint8)
    buffer[offset:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), dtype=np.uint8)
    out = buffer[offset:].view(array.dtype).reshape(array.shape)
    out.flags.writeable = False
    assert not out.flags.aligned
    return out


def view(array):
    """The same values as every second entry of a larger array."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), dtype=array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


MOVES = {"travelled": travelled, "view": view}


def rows(dtype=np.float32, n=301, d=17):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)).astype(dtype), rng.normal(size=n), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("move", MOVES)
def test_aligned(move):
    X, _, _ = rows()
    out = aligned({"a": [MOVES[move](X), (X, None, 3)]})
    assert out["a"][0].flags.aligned
    assert out["a"][0].flags.forc
    assert out["a"][1][0] is X
    np.testing.assert_array_equal(out["a"][0], X)


def test_aligned_csr():
    S = sp.random_array((20, 9), density=0.3, rng=np.random.default_rng(0), format="csr")
    assert aligned(S) is S
    moved = sp.csr_array((travelled(S.data), travelled(S.indices), travelled(S.indptr)), shape=S.shape)
    out = aligned(moved)
    assert out.data.flags.aligned
    np.testing.assert_array_equal(out.toarray(), S.toarray())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("move", MOVES)
def test_a_reduction(move, dtype):
    X, y, w = rows(dtype)
    fold = GramReduction(17, Targets(None, np.zeros(1)))
    here = add_block(fold, fold.initial(), 0, [X, y, w])
    moved = add_block(fold, fold.initial(), 0, [MOVES[move](a) for a in (X, y, w)])
    for name in ("tiles", "products", "sums", "weight", "targets", "squares"):
        np.testing.assert_array_equal(getattr(here, name), getattr(moved, name))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_gradient(loss, move, dtype):
    X, y, w = rows(dtype)
    classes = np.array([0, 1]) if LOSSES[loss].task != "regression" else None
    if LOSSES[loss].task == "classification":
        y = (y > 0).astype(np.int64)
    elif classes is not None:
        classes = None
    work = BatchWork(Targets(classes, np.zeros(1)), LOSSES[loss](0.1), 0.5, 0)
    moved, W = MOVES[move], np.random.default_rng(1).normal(size=(18, 1))
    microbatch = [(BlockRows(0, 0, 200),)]
    here = _gradients(work, _take(work, [], 0, microbatch, (), (X, y, w)), {"W": W})[0]
    taken = _take(work, [], 0, microbatch, (), (moved(X), moved(y), moved(w)))
    there = _gradients(work, [tuple(moved(a) for a in taken[0][:3]) + taken[0][3:]], {"W": moved(W)})[0]
    np.testing.assert_array_equal(here.gradient, there.gradient)
    assert here[1:] == there[1:]
