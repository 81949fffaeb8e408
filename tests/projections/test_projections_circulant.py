"""Circulant and alternating circulant projections: their matrices, laws and exact variances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import circulant

from distrf.kernels import Cauchy, Gaussian, Laplacian, Matern
from distrf.projections.circulant import (
    AlternatingCirculantLogProjection,
    AlternatingCirculantProjection,
    CirculantProjection,
    fast_order,
)


class Unsigned(CirculantProjection):
    """As Feng et al. 2015 print it, but for signs on the rows, which change nothing."""

    signed = False


ALL = [
    CirculantProjection,
    AlternatingCirculantProjection,
    AlternatingCirculantLogProjection,
]
every = pytest.mark.parametrize("Make", ALL, ids=lambda p: p.name)


class TestMatrix:
    def test_fast_order(self):
        smooth = {16 * 2**a * 3**b * 5**c for a in range(12) for b in range(10) for c in range(7)}
        for d in [*range(1, 1100), 3087, 4095, 4096, 4097, 9999]:
            assert fast_order(d) == min(s for s in smooth if s >= d)

    @every
    @pytest.mark.parametrize("d", [1, 2, 16, 30, 31, 49])
    def test_block_is_circulant_matrices_times_diagonals(self, Make, d):
        """Feng et al. 2015, Definition 2; Mukuta et al. 2018, Eq. 7."""
        projection = Make(Matern(1.5), d, 3 * fast_order(d) - 1, 7)
        L, columns = projection.order, projection.column_factors()
        W = projection.weights()
        for block in range(2):
            made = sum(
                circulant(c)[:, :d] @ np.diag(s)
                for c, s in zip(projection.vectors(block), columns, strict=True)
            )
            made = np.diag(projection.row_factors(block)) @ made
            np.testing.assert_allclose(W[block * L : (block + 1) * L], made, rtol=1e-12)


class TestLaw:
    @every
    @pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Cauchy()], ids=lambda k: k.name)
    def test_each_row_has_the_kernels_law(self, Make, kernel):
        """Coordinates of one row, over seeds: the law each, and no correlation between signs of them."""
        rows = np.array([Make(kernel, 9, 18, seed).weights(13, 14)[0] for seed in range(600)])
        law = {"normal": stats.norm, "cauchy": stats.cauchy, "laplace": stats.laplace}[kernel.law]
        for j in (0, 4, 8):
            assert stats.kstest(rows[:, j], law.cdf).pvalue > 1e-4
        agreement = np.sign(rows).T @ np.sign(rows) / len(rows) - np.eye(9)
        assert abs(agreement).max() < 4.5 / np.sqrt(len(rows))


def differences(d, s):
    """A constant, a smooth and a random vector of squared norm s."""
    V = np.vstack([np.ones(d), np.sin(np.linspace(0.1, 3.0, d)), np.random.default_rng(d).normal(size=d)])
    return V * np.sqrt(s) / np.linalg.norm(V, axis=1, keepdims=True)


def block_variance(V, L, columns):
    """(e^-s / L) sum_k (cosh r_k - 1): one block, paired features, given the factors of the columns.

    r is the circular autocorrelation of the factored difference, padded with zeros to L, summed over the
    mixed matrices. columns : shape (samples, n_mixed, d). Returns shape (samples, len(V)).
    """
    power = abs(np.fft.rfft(columns[:, None] * V[:, None], L, axis=-1)) ** 2
    r = np.fft.irfft(power.sum(axis=2), L, axis=-1)
    s = (V**2).sum(axis=1)
    return np.exp(-s) * (np.cosh(r) - 1).mean(axis=-1)


def sample_columns(rng, samples, mixed, d):
    chosen = rng.integers(mixed, size=(samples, 1, d)) == np.arange(mixed)[:, None]
    return chosen * rng.choice([-1.0, 1.0], (samples, 1, d))


class TestVariance:
    SEEDS = 1500

    def estimates(self, Make, V, m):
        d = V.shape[1]
        return np.array(
            [np.cos(Make(Gaussian(), d, m, seed).weights() @ V.T).mean(axis=0) for seed in range(self.SEEDS)]
        )

    @staticmethod
    def check(made, expected):
        """Variance over seeds within 4.5 standard errors, these from the fourth moment."""
        centred = made - made.mean(axis=0)
        variance = (centred**2).mean(axis=0)
        error = np.sqrt(((centred**4).mean(axis=0) - variance**2) / len(made))
        assert (abs(variance - expected) <= 4.5 * error).all(), variance / expected
        assert (4.5 * error < 0.6 * expected).all()

    @pytest.mark.parametrize("d", [32, 29])
    def test_without_signs_exactly(self, d):
        """With v itself: there is nothing to average over."""
        V, L = differences(d, 1.0), fast_order(d)
        expected = block_variance(V, L, np.ones((1, 1, d)))[0]
        self.check(self.estimates(Unsigned, V, L), expected)
        independent = (1 - np.exp(-1.0)) ** 2 / 2 / L
        if d == L:
            np.testing.assert_allclose(expected[0], d * independent, rtol=1e-12)  # constant v: d times
        assert expected[1] > 5 * independent  # smooth v
        assert expected[2] < 2 * independent

    @pytest.mark.parametrize("blocks", [1, 3])
    @pytest.mark.parametrize("d", [32, 29])
    def test_input_signs(self, d, blocks, rng):
        """Averaged over signs; sharing them between blocks costs nothing."""
        V, L = differences(d, 1.0), fast_order(d)
        expected = block_variance(V, L, sample_columns(rng, 20_000, 1, d)).mean(axis=0) / blocks
        self.check(self.estimates(CirculantProjection, V, blocks * L), expected)
        independent = (1 - np.exp(-1.0)) ** 2 / 2 / (blocks * L)
        assert (expected < 2.2 * independent).all()

    @pytest.mark.parametrize(
        ("Make", "mixed"),
        [(AlternatingCirculantProjection, 2), (AlternatingCirculantLogProjection, 5)],
        ids=lambda v: getattr(v, "name", None),
    )
    def test_alternating(self, Make, mixed, rng):
        V = differences(32, 1.0)
        expected = block_variance(V, 32, sample_columns(rng, 20_000, mixed, 32)).mean(axis=0) / 2
        self.check(self.estimates(Make, V, 64), expected)
