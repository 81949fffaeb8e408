"""The rows that reach a step of a plan, and the batches that SGD makes of them."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from distrf import RandomFourierFeatures, StreamingScaler, StreamingSGDClassifier, TableEncoder, plan
from distrf.execution.memory import Workers
from distrf.execution.planned import PlannedRows
from distrf.sgd.batch_sizes import most_rows


def fourier(D=64):
    return RandomFourierFeatures(gamma=0.1, n_components=D, random_state=0)


def test_features_of_a_float64_table_are_float32():
    X = pd.DataFrame({"a": np.arange(50.0), "b": ["x", "y"] * 25})
    encoder = TableEncoder().fit(X)
    rows = PlannedRows(1000, 2, 8, 100, 16_000, Workers(1, 1, 0)).after(encoder.map_)
    assert (rows.itemsize, rows.item_read) == (4, 8)
    assert rows.row_bytes == 2 * 8 + encoder.map_.entries_per_row * 4
    scaled = rows.after(StreamingScaler().fit(encoder.transform(X)).map_)
    assert scaled.row_bytes == rows.row_bytes + encoder.map_.entries_per_row * 4  # the scaled copy


def test_batches_are_planned_by_the_usual_and_by_the_largest():
    X = da.zeros((200_000, 8), chunks=(4096, 8), dtype=np.float32)
    model = StreamingSGDClassifier("hinge", alpha=1e-6, n_epochs=1, tol=None)
    auto = plan(make_pipeline(fourier(512), model), X, da.zeros(200_000, chunks=4096, dtype=int))
    assert "batches of 1,000 rows (4,096 at most)" in " ".join(auto.notes)
    largest = plan(
        make_pipeline(fourier(512), model.set_params(batch_size=4096)),
        X,
        da.zeros(200_000, chunks=4096, dtype=int),
    )
    assert auto.memory.parts["features"] == largest.memory.parts["features"]


@pytest.mark.parametrize(
    ("n", "D", "rows"),
    [
        (10**6, 512, 4096),
        (10**6, 65_536, 1024),
        (10**6, 10**6, 256),
        (8000, 512, 500),
        (1000, 512, 1000),
        (1000, 10**6, 256),
        (200, 10**6, 200),
    ],
)
def test_the_most_rows_of_a_batch(n, D, rows):
    assert most_rows("auto", n, D) == rows
    assert most_rows(300, n, D) == min(n, 300)
