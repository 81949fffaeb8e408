"""Operations of a plan: what takes longer than a matrix product in float32 counts as more of them."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

from distrf import (
    RandomFourierFeatures,
    RandomLaplaceFeatures,
    StreamingRidge,
    StreamingScaler,
    StreamingSGDClassifier,
    TableEncoder,
    plan,
    write_rows,
)
from distrf.execution.memory import Workers
from distrf.execution.planned import PlannedRows
from distrf.execution.timing import Speeds
from distrf.projections.base import CSR_COST, VECTOR_FOURIER_COST
from distrf.sgd.batch_sizes import most_rows

N, D_IN = 400, 500


@pytest.fixture(scope="module")
def rows():
    """The same rows as CSR and dense: five entries in each."""
    rng = np.random.default_rng(0)
    columns = np.stack([rng.permutation(D_IN)[:5] for _ in range(N)])
    dense = np.zeros((N, D_IN), dtype=np.float32)
    np.put_along_axis(dense, columns, 1.0, axis=1)
    return sp.csr_matrix(dense), dense


def flops(X, *steps):
    return plan(make_pipeline(*steps), X, np.zeros(len(X) if isinstance(X, np.ndarray) else X.shape[0])).flops


def fourier(D=64, **options):
    return RandomFourierFeatures(gamma=0.1, n_components=D, random_state=0, **options)


def test_products_with_csr_rows_count_their_entries(rows):
    csr, dense = rows
    saved = 2.0 * N * (D_IN - CSR_COST * 5) * 32
    got = flops(dense, fourier(), StreamingRidge(1.0)) - flops(csr, fourier(), StreamingRidge(1.0))
    assert got == pytest.approx(saved, rel=0.06)  # the starts of rows are counted as entries
    scaled = [flops(X, StreamingScaler("maxabs"), fourier(), StreamingRidge(1.0)) for X in (dense, csr)]
    assert scaled[0] - scaled[1] == pytest.approx(saved, rel=0.06)
    laplace = RandomLaplaceFeatures(beta=1.0, n_components=32, random_state=0)
    assert flops(csr, laplace, StreamingRidge(1.0)) < flops(dense, laplace, StreamingRidge(1.0))


def test_csr_rows_of_a_store(tmp_path):
    """Their entries are known from the bytes that are stored, which are compressed."""
    csr = sp.random(N, 5000, 0.01, format="csr", dtype=np.float32, random_state=np.random.default_rng(0))
    write_rows(csr, tmp_path / "csr.zarr", np.zeros(N))
    given, stored, dense = (
        plan(fourier(), X, job="featurize").flops
        for X in (csr, tmp_path / "csr.zarr", np.empty(csr.shape, np.float32))
    )
    assert 0.5 * given < stored < given < 0.5 * dense


def test_a_projection_that_makes_rows_dense_counts_all_columns(rows):
    csr, dense = rows
    steps = fourier(projection="circulant"), StreamingRidge(1.0)
    assert flops(csr, *steps) == flops(dense, *steps)
    transforms = 2.5 * 512 * 9  # of 512 numbers
    assert fourier(projection="circulant").planned_map(512).work()[0] == pytest.approx(
        VECTOR_FOURIER_COST * (2 * transforms + 4 * 512) + 60 * 64
    )


def test_products_in_float64_count_twice():
    """Few features are multiplied in float64, and features of float64 rows."""
    X = da.zeros((4096, 8), chunks=(1024, 8), dtype=np.float32)
    for D, doubled in ((1024, 2), (1032, 1)):
        model = StreamingRidge(1.0)
        gram, solve, adding = D**2 + 4 * D, D**3 / 3 * 2 + 500 * D**2, 4 * 150 * D**2
        expected = 4096 * (fourier(D).planned_map(8).work()[0] + doubled * gram) + adding + solve
        assert flops_of(X, fourier(D), model) == pytest.approx(expected, rel=1e-3)
        assert flops_of(X.astype(np.float64), fourier(D), model) == pytest.approx(
            expected + (2 - doubled) * 4096 * gram, rel=1e-3
        )


def flops_of(X, *steps):
    return plan(make_pipeline(*steps), X, da.zeros(len(X), chunks=1024)).flops


def test_features_of_a_float64_table_are_float32():
    X = pd.DataFrame({"a": np.arange(50.0), "b": ["x", "y"] * 25})
    encoder = TableEncoder().fit(X)
    rows = PlannedRows(1000, 2, 8, 100, 16_000, Workers(1, 1, 0)).after(encoder.map_)
    assert (rows.itemsize, rows.item_read) == (4, 8)
    assert rows.row_bytes == 2 * 8 + encoder.map_.entries_per_row * 4
    scaled = rows.after(StreamingScaler().fit(encoder.transform(X)).map_)
    assert scaled.row_bytes == rows.row_bytes + encoder.map_.entries_per_row * 4  # the scaled copy


def test_each_stored_block_takes_time():
    said = Speeds(flops=1e9, block=0.5, task=0.0, step=0.0)
    few, many = (
        plan(StreamingRidge(1.0), da.zeros((4096, 8), chunks=(rows, 8), dtype=np.float32), np.zeros(4096))
        for rows in (4096, 256)
    )
    assert many.seconds(said) - few.seconds(said) == pytest.approx(0.5 * 15, rel=0.1)


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
