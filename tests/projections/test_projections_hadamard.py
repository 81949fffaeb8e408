"""Fastfood and SORF against their explicit matrices and their laws; the Walsh-Hadamard transform."""

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import hadamard

from distrf.compiled.walsh_hadamard import hadamard_blocks, walsh_hadamard
from distrf.kernels import Gaussian
from distrf.projections import DenseProjection
from distrf.projections.hadamard import FastfoodProjection, StructuredOrthogonalProjection

BOTH = [FastfoodProjection, StructuredOrthogonalProjection]
precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


class TestTransform:
    @precisions
    @pytest.mark.parametrize("p", [2**k for k in range(4, 12)])
    def test_is_sylvesters_matrix(self, p, dtype):
        X = np.random.default_rng(p).normal(size=(5, p)).astype(dtype)
        Y = X.copy()
        walsh_hadamard(Y)
        bound = 4 * np.finfo(dtype).eps * np.sqrt(p) * np.linalg.norm(X, axis=1)[:, None]
        assert np.all(abs(Y - X.astype(float) @ hadamard(p)) <= bound)

    def test_fewer_numbers_than_a_vector_are_refused(self):
        with pytest.raises(ValueError, match="16 numbers at least"):
            walsh_hadamard(np.ones((3, 8)))

    @precisions
    def test_blocks_follow_the_formula(self, dtype):
        rng, p, blocks, k = np.random.default_rng(0), 32, 3, 2
        U = rng.normal(size=(4, p)).astype(dtype)
        G, S = rng.normal(size=(blocks, k, p)).astype(dtype), rng.normal(size=(blocks, p)).astype(dtype)
        H = hadamard(p)
        for s in (S, None):
            out = np.empty((4, blocks * p), dtype)
            hadamard_blocks(U, G, s, out)
            for b in range(blocks):
                T = H @ np.diag(G[b, 1]) @ H @ np.diag(G[b, 0])
                T = T if s is None else np.diag(s[b]) @ T
                size = abs(T).max() * np.sqrt(p) * np.linalg.norm(U, axis=1)[:, None]
                assert np.all(abs(out[:, b * p : (b + 1) * p] - U @ T.T) <= 16 * np.finfo(dtype).eps * size)


class TestMatrix:
    def test_fastfood_is_S_H_G_P_H_B(self):
        projection = FastfoodProjection(Gaussian(), 32, 64, 7)
        p, H = 32, hadamard(32)
        B, P = np.diag(projection.common_signs()), np.eye(p)[projection.common_order()]
        for block in range(2):
            g = projection.diagonals(block)[0]
            S = np.diag(projection.row_factors(block)) / np.sqrt(p)
            W = S @ H @ np.diag(g) @ P @ H @ B
            np.testing.assert_allclose(projection.weights(block * p, (block + 1) * p), W, atol=1e-12)

    def test_sorf_is_three_rotations(self):
        projection = StructuredOrthogonalProjection(Gaussian(), 64, 128, 7)
        p, H = 64, hadamard(64) / 8.0
        D3 = np.diag(projection.common_signs())
        for block in range(2):
            D2, D1 = (np.diag(g) for g in projection.diagonals(block))
            W = np.sqrt(p) * H @ D1 @ H @ D2 @ H @ D3
            np.testing.assert_allclose(projection.weights(block * p, (block + 1) * p), W, atol=1e-12)

    def test_padding_cuts_columns(self):
        # Ten columns of the d = 16 matrix: the same p, streams and blocks.
        for Make in BOTH:
            wide, narrow = Make(Gaussian(), 16, 40, 1).weights(), Make(Gaussian(), 10, 40, 1).weights()
            np.testing.assert_array_equal(narrow, wide[:, :10])


class TestLaw:
    """Expectations over seeds, with the standard error that the seeds themselves show."""

    SEEDS = 600

    def estimates(self, Make, kernel, V, m, seeds=SEEDS):
        """Kernel estimates mean_i cos(w_i . v), shape (seeds, *V.shape[:-1])."""
        d = V.shape[-1]
        products = (Make(kernel, d, m, s).weights() @ V.reshape(-1, d).T for s in range(seeds))
        return np.array([np.cos(P).mean(axis=0) for P in products]).reshape(seeds, *V.shape[:-1])

    @staticmethod
    def differences(d, s):
        """A one-hot, a constant, a smooth and two random vectors of squared norm s."""
        rng = np.random.default_rng(d)
        V = np.vstack([np.eye(d)[0], np.ones(d), np.sin(np.linspace(0.1, 3.0, d)), rng.normal(size=(2, d))])
        return V * np.sqrt(s) / np.linalg.norm(V, axis=1, keepdims=True)

    def test_sorf_bias_to_first_order(self):
        """-k s^2 / (4 p), up to its own next order s / p."""
        d, s = 32, 1.5
        V = self.differences(d, s)
        made = self.estimates(StructuredOrthogonalProjection, Gaussian(), V, 256, seeds=1500)
        bias, k = made.mean(axis=0) - np.exp(-s / 2), np.exp(-s / 2)
        expected = -k * s**2 / (4 * d)
        tolerance = 4.5 * made.std(axis=0) / np.sqrt(1500) + abs(expected) * (2 + 2 * s) / d
        assert np.all(abs(bias - expected) <= tolerance)
        assert np.all(tolerance < 0.8 * abs(expected))

    @pytest.mark.parametrize("d", [16, 24, 33])
    def test_fastfood_row_norms_are_chi(self, d):
        rows = np.array([FastfoodProjection(Gaussian(), d, 64, s).weights(5, 6)[0] for s in range(1000)])
        assert stats.kstest(np.linalg.norm(rows, axis=1), stats.chi(d).cdf).pvalue > 1e-3
        assert stats.kstest(rows[:, d // 2], stats.norm.cdf).pvalue > 1e-3

    @pytest.mark.parametrize(("d", "blocks"), [(32, 1), pytest.param(32, 4, marks=pytest.mark.slow), (24, 2)])
    def test_variances_are_as_computed_and_ordered(self, d, blocks):
        """With q = k^2 s^2 / (1 - k^2)^2 and u = sum v_j^4 / s^2, in units of (1 - k^2)^2 / 2 m:

        dense 1, Fastfood 1 + (1 - 2 u) q, SORF 1 - (p - 1) / p q, to first order in 1/p, for one block as
        for many: the common rotation correlates no blocks.
        """
        p, scales = 32, (0.3, 1.0)
        V = np.random.default_rng(0).normal(size=(40, d))
        V /= np.linalg.norm(V, axis=1, keepdims=True)
        all_scales = np.sqrt(scales)[:, None, None] * V  # of the same matrices
        made = [self.estimates(Make, Gaussian(), all_scales, blocks * p) for Make in (DenseProjection, *BOTH)]
        variances = np.var(made, axis=1).mean(axis=-1)
        for s, (dense, fastfood, sorf) in zip(scales, variances.T, strict=True):
            k = np.exp(-s / 2)
            unit = (1 - k**2) ** 2 / (2 * blocks * p)
            q, u = k**2 * s**2 / (1 - k**2) ** 2, (V**4).sum(axis=1).mean()
            noise = 0.04  # a variance from 600 seeds has 6 %; from 40 directions at once, less
            order = (1 + s) / p
            assert abs(dense / unit - 1) < noise
            assert abs(fastfood / unit - (1 + (1 - 2 * u) * q)) < 2 * (noise + order)
            assert abs(sorf / unit - (1 - (p - 1) / p * q)) < noise + order
            assert sorf < dense < fastfood
