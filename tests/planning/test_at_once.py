"""What a plan says of work that can be done at once."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import distrf
from distrf.execution.memory import Workers
from distrf.execution.planned import PlannedRows
from distrf.planning import plan_job


def fourier(D=64):
    return distrf.RandomFourierFeatures(gamma=0.05, n_components=D, random_state=0)


def made_rows(n, block, d=16):
    X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    return da.from_array(X, chunks=(block, d)), da.from_array(y, chunks=block)


# ---- at once ----------------------------------------------------------------------------------------


def planned(steps, X, workers=4, job="featurize"):
    return plan_job(job, steps, PlannedRows.of(X, Workers(workers, 1, 0)))


RIDGE, SGD = distrf.StreamingRidge(1.0), distrf.StreamingSGDClassifier(alpha=1e-4, n_epochs=2, batch_size=500)
FEW = "1 of 4 threads work at once in the narrowest pass: the rows are stored in 1 block(s)"
#: Rows, rows of a block, steps, workers, segments that work at once, and what is said where that is not all threads.
AT_ONCE = [
    (1000, 1000, [fourier(), RIDGE], 4, 1, FEW),
    (1000, 1000, [fourier()], 4, 1, FEW),
    (1000, 100, [fourier()], 4, 10, ""),
    (160_000, 5000, [fourier(2048), RIDGE], 40, 16, "16 of 40 threads work at once .* moving their states"),
    (100_000, 5000, [fourier(), SGD], 100, None, "a batch has no more gradients"),
]  # fmt: skip


@pytest.mark.parametrize(("n", "block", "steps", "workers", "at_once", "said"), AT_ONCE)
def test_work_at_once(n, block, steps, workers, at_once, said):
    made = planned(steps, made_rows(n, block)[0], workers, "fit" if len(steps) > 1 else "featurize")
    assert at_once is None or made.to_dict()["tasks_at_once"] == [at_once, at_once]
    assert (made.idle == "") == (said == "")
    assert all(part in made.idle for part in said.split(" .* "))


def test_who_is_told_of_idle_threads():
    X, _ = made_rows(1000, 1000)
    lazy, held = (distrf.plan(fourier(), rows, workers=10**4).notes for rows in (X, X.compute()))
    assert "work at once" in lazy[0]
    assert not any("at once" in note for note in held)  # all threads work on rows in memory


def test_a_parquet_file_of_pandas_is_one_block(tmp_path):
    """It has a single row group. Where much is computed with a row, several segments read it."""
    values = np.random.default_rng(0).normal(size=(60_000, 4)).astype(np.float32)
    pd.DataFrame(values, columns=list("abcd")).to_parquet(tmp_path / "rows.parquet")
    X, _ = distrf.open_rows(tmp_path / "rows.parquet")
    few, made = planned([fourier(8)], X), planned([fourier(4096)], X)
    assert few.at_once == (1, 1)
    assert "row groups of Parquet" in few.idle
    assert made.blocks > 4
    assert made.at_once == (made.blocks, made.blocks)
    assert made.bytes_read == made.blocks * few.bytes_read
