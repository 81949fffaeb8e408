"""Orthogonal random features: Haar blocks with chi norms (Yu et al. 2016)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from distrf.errors import InputError
from distrf.kernels import Gaussian
from distrf.maps import FourierMap
from distrf.projections import DenseProjection
from distrf.projections import orthogonal as module
from distrf.projections.base import WeightCache
from distrf.projections.orthogonal import OrthogonalProjection


class TestMatrix:
    @pytest.mark.parametrize("d", [1, 2, 13, 64])
    def test_rows_of_a_block_are_orthogonal(self, d):
        W = OrthogonalProjection(Gaussian(), d, 3 * d - d // 2, 3).weights()
        for block in range(3):
            rows = W[block * d : (block + 1) * d]
            gram = rows @ rows.T
            np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12 * d)


class TestLaw:
    SEEDS = 1500

    @pytest.mark.parametrize("d", [2, 9])
    def test_norms_are_chi_and_directions_haar(self, d):
        blocks = np.array([OrthogonalProjection(Gaussian(), d, d, s).weights() for s in range(self.SEEDS)])
        norms = np.linalg.norm(blocks, axis=2)
        Q = blocks / norms[:, :, None]
        for row in (0, d - 1):
            assert stats.kstest(norms[:, row], stats.chi(d).cdf).pvalue > 1e-4
            for column in (0, d - 1):  # a coordinate of a uniform direction: its square is Beta(1/2, (d - 1)/2)
                square = stats.beta(0.5, (d - 1) / 2)
                assert stats.kstest(Q[:, row, column] ** 2, square.cdf).pvalue > 1e-4
                assert abs(np.sign(Q[:, row, column]).mean()) < 4.5 / np.sqrt(self.SEEDS)
        # Haar: E tr Q = 0, E (tr Q)^2 = 1, E det Q = 0. QR without the sign fix fails all three.
        trace, determinant = np.trace(Q, axis1=1, axis2=2), np.linalg.det(Q)
        assert abs(trace.mean()) < 4.5 / np.sqrt(self.SEEDS)
        assert abs((trace**2).mean() - 1) < 4.5 * np.sqrt(2 / self.SEEDS)
        assert abs(determinant.mean()) < 4.5 / np.sqrt(self.SEEDS)
        # The norms are independent of each other and of the directions.
        both = np.column_stack([norms[:, 0], norms[:, -1], trace, abs(trace), Q[:, -1, 0]])
        correlation = np.corrcoef(both.T) - np.eye(5)
        assert abs(correlation[:2]).max() < 4.5 / np.sqrt(self.SEEDS)

    @pytest.mark.parametrize("s", [0.3, 1.0])
    def test_variance_is_lower_by_the_papers_factor(self, s):
        """Yu et al. 2016, Theorem 1: 1 - (m - 1) / d e^-s s^2 / (1 - e^-s)^2 to first order in 1 / d."""
        d, k = 32, np.exp(-s / 2)
        V = np.random.default_rng(0).normal(size=(40, d))
        V *= np.sqrt(s) / np.linalg.norm(V, axis=1, keepdims=True)
        for m in (16, 32, 64):
            dense, orthogonal = (
                np.array(
                    [np.cos(Make(Gaussian(), d, m, seed).weights() @ V.T).mean(axis=0) for seed in range(600)]
                )
                .var(axis=0)
                .mean()
                for Make in (DenseProjection, OrthogonalProjection)
            )
            saved = (min(m, d) - 1) / d * k**2 * s**2 / (1 - k**2) ** 2
            # 4 % for a variance from 600 seeds in 40 directions, each; next order of the theorem.
            assert abs(orthogonal / dense - (1 - saved)) < 0.06 + (1 + s) / d
            assert orthogonal < dense


def test_refuses_what_does_not_fit(monkeypatch):
    monkeypatch.setattr(module, "weight_cache", WeightCache(8 * 100 * 1000))
    OrthogonalProjection(Gaussian(), 100, 1000, 0)
    with pytest.raises(InputError, match=r"1001 x 100 .* MiB.*structured_orthogonal.*DISTRF_CACHE_BYTES"):
        FourierMap(100, 1001, Gaussian(), 1.0, "orthogonal", "offset", 0)
