"""Operations of a plan: what takes longer than a matrix product in float32 counts as more of them."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

from distrf import (
    RandomFourierFeatures,
    RandomLaplaceFeatures,
    StreamingRidge,
    StreamingScaler,
    plan,
    write_rows,
)
from distrf.projections.base import CSR_COST, VECTOR_FOURIER_COST

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
