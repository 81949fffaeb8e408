"""Fastfood and SORF against their explicit matrices and their laws; the Walsh-Hadamard transform."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import hadamard
from strategies import dtypes, ranges, seeds

from distrf.compiled.walsh_hadamard import hadamard_blocks, walsh_hadamard
from distrf.errors import InputError
from distrf.kernels import Cauchy, Gaussian, Laplacian, Matern
from distrf.maps import FourierMap
from distrf.projections import PROJECTIONS, DenseProjection
from distrf.projections.hadamard import FastfoodProjection, StructuredOrthogonalProjection
from distrf.randomness import chi, signs

BOTH = [FastfoodProjection, StructuredOrthogonalProjection]
both = pytest.mark.parametrize("Make", BOTH, ids=lambda p: p.name)
precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


def phases(projection, X, start, stop, scale=1.0, dtype=None):
    """Panels side by side, checked against the contract on the way."""
    dtype, out, at = np.dtype(dtype or X.dtype), [], start
    for first, products in projection.phases(X.astype(dtype), start, stop, scale, dtype):
        assert first == at
        assert products.dtype == dtype
        assert products.flags.c_contiguous
        at += products.shape[1]
        out.append(products.copy())
    assert at == stop
    return np.concatenate(out, axis=1)


def assert_close(got, X, W, scale):
    """Within rounding of the norms of the factors: a phase may cancel to any smallness."""
    eps = np.finfo(got.dtype).eps
    size = scale * np.linalg.norm(X, axis=1)[:, None] * max(1.0, np.linalg.norm(W, axis=1).max())
    assert np.all(abs(got - scale * X @ W.T) <= 16 * eps * size)


class TestTransform:
    @precisions
    @pytest.mark.parametrize("p", [2**k for k in range(12)])
    def test_is_sylvesters_matrix(self, p, dtype):
        X = np.random.default_rng(p).normal(size=(5, p)).astype(dtype)
        Y = X.copy()
        walsh_hadamard(Y)
        bound = 4 * np.finfo(dtype).eps * np.sqrt(p) * np.linalg.norm(X, axis=1)[:, None]
        assert np.all(abs(Y - X.astype(float) @ hadamard(p)) <= bound)

    @precisions
    @pytest.mark.parametrize("p", [1, 8, 64, 4096, 2**15])
    def test_is_exact_on_integers_and_an_involution(self, p, dtype):
        X = np.random.default_rng(p).integers(-8, 9, size=(3, p)).astype(dtype)
        Y = X.copy()
        walsh_hadamard(Y)
        assert np.array_equal(Y[:, 0], X.sum(axis=1))
        walsh_hadamard(Y)
        assert np.array_equal(Y, p * X)

    @precisions
    def test_a_row_does_not_depend_on_its_neighbours(self, dtype):
        X = np.random.default_rng(0).normal(size=(7, 256)).astype(dtype)
        alone, together = X[3:4].copy(), X.copy()
        walsh_hadamard(alone)
        walsh_hadamard(together)
        assert np.array_equal(alone[0], together[3])

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

    def test_sorf_blocks_are_orthogonal(self):
        W = StructuredOrthogonalProjection(Gaussian(), 64, 192, 3).weights()
        for block in range(3):
            rows = W[block * 64 : (block + 1) * 64]
            np.testing.assert_allclose(rows @ rows.T, 64 * np.eye(64), atol=1e-11)

    def test_padding_cuts_columns(self):
        # Ten columns of the d = 16 matrix: the same p, streams and blocks.
        for Make in BOTH:
            wide, narrow = Make(Gaussian(), 16, 40, 1).weights(), Make(Gaussian(), 10, 40, 1).weights()
            np.testing.assert_array_equal(narrow, wide[:, :10])

    def test_matern_scales_rows(self):
        for Make in BOTH:
            gaussian, matern = Make(Gaussian(), 20, 70, 1).weights(), Make(Matern(1.5), 20, 70, 1).weights()
            radii = np.concatenate([Matern(1.5).radii(1, block, 32) for block in range(3)])[:70]
            np.testing.assert_allclose(matern, radii[:, None] * gaussian, rtol=1e-12)

    @both
    def test_weights_are_pinned(self, Make):
        """Golden values of this definition of the map: a change here breaks stored specs."""
        pinned = {
            "fastfood": PINNED_FASTFOOD,
            "structured_orthogonal": PINNED_SORF,
        }[Make.name]
        np.testing.assert_allclose(Make(Matern(2.5), 20, 40, 2024).weights(33, 34)[0, :4], pinned, rtol=1e-13)


PINNED_FASTFOOD = [-0.9327311288881027, 1.2238715871033918, 0.5356546892634287, 0.8117684168498874]
PINNED_SORF = [1.5700289559732652, -2.5120463295572244, 0.9420173735839592, 0.6280115823893061]


class TestPhases:
    @both
    @pytest.mark.parametrize("d", [1, 2, 3, 7, 16, 17, 64, 100, 128, 521, 1100])
    def test_are_products_with_the_matrix(self, Make, d):
        m = 2 * max(16, 1 << (d - 1).bit_length()) + 5
        projection = Make(Gaussian(), d, m, 11)
        W, parts = projection.weights(), ((1, m), (m - 1, m), (m // 3, m // 2), (5, 5 + m // 2))
        for start, stop in parts:
            np.testing.assert_array_equal(projection.weights(start, stop), W[start:stop])
        for dtype in (np.float32, np.float64):
            X = np.random.default_rng(d).normal(size=(6, d)).astype(dtype)
            whole = phases(projection, X, 0, m, 0.3)
            assert_close(whole, X.astype(float), W, 0.3)
            for start, stop in parts:
                np.testing.assert_array_equal(phases(projection, X, start, stop, 0.3), whole[:, start:stop])

    @settings(max_examples=60)
    @given(st.data())
    def test_any_shape_and_range(self, data):
        Make = data.draw(st.sampled_from(BOTH))
        kernel = data.draw(st.sampled_from([Gaussian(), Matern(0.5), Matern(2.5)]))
        dtype = data.draw(dtypes)
        n, d, m = (data.draw(st.integers(1, top)) for top in (5, 70, 2500))
        start, stop = data.draw(ranges(m))
        projection = Make(kernel, d, m, data.draw(seeds))
        X = np.random.default_rng(n).normal(size=(n, d)).astype(dtype)
        assert_close(
            phases(projection, X, start, stop, 0.7), X.astype(float), projection.weights(start, stop), 0.7
        )

    @both
    def test_makes_only_the_blocks_it_needs(self, Make, monkeypatch):
        made = set()
        original = Make.diagonals

        def spy(self, block):
            made.add(block)
            return original(self, block)

        monkeypatch.setattr(Make, "diagonals", spy)
        projection = Make(Gaussian(), 2000, 2048 * 20, 2)
        phases(projection, np.ones((1, 2000)), 2048 * 3 + 5, 2048 * 4 + 1)
        assert made == {3, 4}
        made.clear()
        projection.weights(2048 * 7, 2048 * 7 + 1)
        assert made == {7}


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

    @pytest.mark.parametrize("kernel", [Gaussian(), Matern(0.5), Matern(1.5)], ids=str)
    @pytest.mark.parametrize("d", [1, *(pytest.param(d, marks=pytest.mark.slow) for d in (3, 16, 50)), 24])
    def test_fastfood_is_unbiased(self, kernel, d):
        V = self.differences(d, 1.5)
        k = kernel(V, np.zeros((1, d)))[:, 0]
        k_wrong = kernel(V, np.zeros((1, d)), length_scale=1.1)[:, 0]
        made = self.estimates(FastfoodProjection, kernel, V, 64)
        error = made.std(axis=0) / np.sqrt(self.SEEDS)
        assert np.all(abs(made.mean(axis=0) - k) <= 4.5 * error)
        assert np.all(4.5 * error < 0.5 * abs(k - k_wrong))  # a bandwidth off by 1.1 would fail

    @pytest.mark.parametrize("d", [16, 50])
    def test_fastfood_is_unbiased_given_the_common_rotation(self, d, monkeypatch):
        monkeypatch.setattr(FastfoodProjection, "common_signs", lambda self: np.ones(self.block_rows))
        monkeypatch.setattr(FastfoodProjection, "permutes", False)
        V = self.differences(d, 1.5)
        made = self.estimates(FastfoodProjection, Gaussian(), V, 64)
        assert np.all(abs(made.mean(axis=0) - np.exp(-0.75)) <= 4.5 * made.std(axis=0) / np.sqrt(self.SEEDS))

    @pytest.mark.parametrize("s", [0.5, 1.5, 4.0])
    @pytest.mark.parametrize("d", [1, *(pytest.param(d, marks=pytest.mark.slow) for d in (3, 16, 64)), 24])
    def test_sorf_bias_is_within_the_bound(self, d, s):
        p = max(16, 1 << (d - 1).bit_length())
        V = self.differences(d, s)
        made = self.estimates(StructuredOrthogonalProjection, Gaussian(), V, 128)
        error = made.std(axis=0) / np.sqrt(self.SEEDS)
        assert np.all(abs(made.mean(axis=0) - np.exp(-s / 2)) <= s**2 / (4 * p) + 4.5 * error)

    def test_sorf_bias_to_first_order(self):
        """-k s^2 / (4 p), up to its own next order s / p."""
        d, s = 32, 1.5
        V = self.differences(d, s)
        made = self.estimates(StructuredOrthogonalProjection, Gaussian(), V, 64, seeds=6000)
        bias, k = made.mean(axis=0) - np.exp(-s / 2), np.exp(-s / 2)
        expected = -k * s**2 / (4 * d)
        tolerance = 4.5 * made.std(axis=0) / np.sqrt(6000) + abs(expected) * (2 + 2 * s) / d
        assert np.all(abs(bias - expected) <= tolerance)
        assert np.all(tolerance < 0.8 * abs(expected))

    def test_sorf_with_matern_radii(self):
        V = self.differences(64, 1.0)
        k = Matern(1.5)(V, np.zeros((1, 64)))[:, 0]
        made = self.estimates(StructuredOrthogonalProjection, Matern(1.5), V, 128)
        # E over the radius r of the bound min(r^4 s^2 / (4 p), 2)
        r = Matern(1.5).radii(0, 0, 100_000)
        bound = np.minimum(r**4 / (4 * 64), 2.0).mean()
        assert np.all(abs(made.mean(axis=0) - k) <= bound + 4.5 * made.std(axis=0) / np.sqrt(self.SEEDS))

    @pytest.mark.parametrize("d", [16, 24, 33])
    def test_fastfood_row_norms_are_chi(self, d):
        rows = np.array([FastfoodProjection(Gaussian(), d, 64, s).weights(5, 6)[0] for s in range(1000)])
        assert stats.kstest(np.linalg.norm(rows, axis=1), stats.chi(d).cdf).pvalue > 1e-3
        assert stats.kstest(rows[:, d // 2], stats.norm.cdf).pvalue > 1e-3

    def test_sorf_row_norms_are_constant(self):
        norms = np.linalg.norm(StructuredOrthogonalProjection(Gaussian(), 128, 300, 1).weights(), axis=1)
        np.testing.assert_allclose(norms, np.sqrt(128), rtol=1e-12)

    @pytest.mark.parametrize(("d", "blocks"), [(32, 1), (32, 4), (24, 2)])
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


class TestMap:
    @both
    @pytest.mark.parametrize("phase", ["paired", "offset"])
    def test_features_are_cosines_of_the_matrix(self, Make, phase):
        map_ = FourierMap(50, 300, Gaussian(), 2.0, Make.name, phase, 9)
        X = np.random.default_rng(0).normal(size=(130, 50))
        turns = X @ map_.frequencies().T
        if phase == "paired":
            Z = np.stack([np.cos(turns), np.sin(turns)], axis=-1).reshape(130, 300)
        else:
            Z = np.cos(turns + 2 * np.pi * map_.offsets())
        np.testing.assert_allclose(map_(X), np.sqrt(2 / 300) * Z, atol=1e-13)
        np.testing.assert_allclose(map_(X.astype(np.float32)), map_(X), atol=2e-6)
        np.testing.assert_array_equal(map_(sp.csr_array(X)), map_(X))
        np.testing.assert_array_equal(map_.columns(X, 101, 257), map_(X)[:, 101:257])
        np.testing.assert_array_equal(np.vstack([map_(X[:37]), map_(X[37:])]), map_(X))

    @both
    def test_pickle_is_a_seed(self, Make):
        map_ = FourierMap(100_000, 1_000_000, Matern(0.5), 1.0, Make.name, "paired", 2**62)
        X = np.ones((1, 100_000), np.float32)
        before = map_.columns(X, 0, 8)
        assert len(pickle.dumps(map_)) < 1024
        assert np.array_equal(pickle.loads(pickle.dumps(map_)).columns(X, 0, 8), before)

    @both
    def test_parameters_grow_with_D_alone(self, Make):
        for d in (100, 1000, 4000):
            assert Make(Gaussian(), d, 8192, 0).work()[1] <= 4.0 * (3 * 8192 + 4096)

    @both
    @pytest.mark.parametrize("kernel", [Laplacian(), Cauchy()], ids=lambda k: k.name)
    def test_refuses_kernels_that_are_not_isotropic(self, Make, kernel):
        assert PROJECTIONS[Make.name] is Make
        with pytest.raises(InputError, match=r"isotropic.*dense"):
            FourierMap(8, 32, kernel, 1.0, Make.name, "paired", 0)


class TestStreams:
    @pytest.mark.parametrize("dof", [2, 16, 1024])
    def test_chi(self, dof):
        draws = chi(3, "test", 0, 20_000, dof)
        assert stats.kstest(draws, stats.chi(dof).cdf).pvalue > 1e-3
        assert np.array_equal(draws, chi(3, "test", 0, 20_000, dof))

    def test_signs(self):
        draws = signs(3, "test", 0, 100_001)
        assert set(draws) == {-1.0, 1.0}
        assert abs(draws.mean()) < 4.5 / np.sqrt(100_001)
        assert np.array_equal(draws[:65], signs(3, "test", 0, 65))
