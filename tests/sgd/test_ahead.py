"""How many batches of features are made before their turn, and what a plan counts for them."""

from __future__ import annotations

import pytest

from distrf.execution.memory import Workers
from distrf.sgd.ahead import _FEATURE_BYTES, _MORE_BATCHES, Ahead, BatchLayout


def workers(threads: int) -> Workers:
    return Workers(count=threads, threads=1, memory_limit=0)


def layout(rows: int) -> BatchLayout:
    return BatchLayout(
        window_blocks=16, window_batches=20, rows=rows, microbatches=4, microbatch_rows=rows // 4
    )


@pytest.mark.parametrize("threads", [1, 2, 4, 5, 32])
@pytest.mark.parametrize("rows", [100, 1000, 4000, 100_000])
def test_features_made_ahead_are_no_more_than_planned(threads, rows):
    row_bytes = 4.0 * 4096
    ahead = Ahead.choose(workers(threads), layout(rows), row_bytes, 2**20)
    held = (ahead.batches + _MORE_BATCHES) * rows * row_bytes
    assert held <= Ahead.most_bytes(workers(threads), rows * row_bytes)
    assert ahead.batches >= 1


@pytest.mark.parametrize(("batch_bytes", "batches"), [(1, 2), (2**24, 2), (2**24 + 2**14, 1), (2**30, 1)])
def test_two_batches_ahead_where_they_fit_into_32_mib_of_a_thread(batch_bytes, batches):
    row_bytes = min(batch_bytes, 2**14)
    assert Ahead.choose(workers(1), layout(batch_bytes // row_bytes), row_bytes, 2**20).batches == batches


def test_a_plan_counts_the_largest_batches_that_fit():
    """The plan knows only the largest batch: smaller ones may fit twice where that one fits once."""
    large = 0.9 * _FEATURE_BYTES
    assert Ahead.most_bytes(workers(1), large) == pytest.approx(_MORE_BATCHES * large + _FEATURE_BYTES)
    assert Ahead.most_bytes(workers(1), 100.0) == (_MORE_BATCHES + 2) * 100.0
    assert Ahead.most_bytes(workers(1), 2**40) == (_MORE_BATCHES + 1) * 2**40
