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


RIDGE = distrf.StreamingRidge(1.0)
#: Rows, rows of a block, steps, workers, segments that work at once.
AT_ONCE = [
    (1000, 1000, [fourier(), RIDGE], 4, 1),
    (1000, 1000, [fourier()], 4, 1),
    (1000, 100, [fourier()], 4, 10),
    (160_000, 5000, [fourier(2048), RIDGE], 40, 16),
]


@pytest.mark.parametrize(("n", "block", "steps", "workers", "at_once"), AT_ONCE)
def test_work_at_once(n, block, steps, workers, at_once):
    made = planned(steps, made_rows(n, block)[0], workers, "fit" if len(steps) > 1 else "featurize")
    assert made.to_dict()["tasks_at_once"] == [at_once, at_once]


def test_a_parquet_file_of_pandas_is_one_block(tmp_path):
    """It has a single row group. Where much is computed with a row, several segments read it."""
    values = np.random.default_rng(0).normal(size=(60_000, 4)).astype(np.float32)
    pd.DataFrame(values, columns=list("abcd")).to_parquet(tmp_path / "rows.parquet")
    X, _ = distrf.open_rows(tmp_path / "rows.parquet")
    few, made = planned([fourier(8)], X), planned([fourier(4096)], X)
    assert few.at_once == (1, 1)
    assert made.blocks > 4
    assert made.at_once == (made.blocks, made.blocks)
    assert made.bytes_read == made.blocks * few.bytes_read
