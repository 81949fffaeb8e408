"""Quasi-random projections: Sobol points against SciPy's, and their scrambling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

from distrf.compiled.low_discrepancy import digital_net
from distrf.errors import InputError
from distrf.kernels import Cauchy, Gaussian, Laplacian, Matern
from distrf.maps import FourierMap
from distrf.projections import DenseProjection
from distrf.projections.quasi import SobolProjection, direction_numbers


class TestAgainstScipy:
    @pytest.mark.parametrize("d", [1, 2, 40, 1111])
    def test_sobol(self, d):
        expected = qmc.Sobol(d, scramble=False, bits=64).random_base2(9)
        out, zero = np.empty((200, d)), np.zeros(d, dtype=np.uint64)
        generators = direction_numbers(d, 9)
        for start in (0, 1, 13, 256, 312):
            digital_net(generators, zero, start, out)
            np.testing.assert_array_equal(out - 2.0**-53, expected[start : start + 200])


class TestScrambling:
    @pytest.mark.parametrize("columns", [1, 4, 8])
    def test_sobol_keeps_each_coordinate_stratified(self, columns):
        m = 2**columns
        U = SobolProjection(Gaussian(), 30, m, 9)._points(0, m, 0, 31)
        strata = np.sort(np.floor(U * m).astype(int), axis=0)
        np.testing.assert_array_equal(strata, np.arange(m)[:, None] + np.zeros(31, int))

    def test_sobol_keeps_the_net(self):
        """Coordinates 0 and 1 are a (0, 8, 2)-net: one point in every elementary interval."""
        U = SobolProjection(Gaussian(), 2, 256, 9)._points(0, 256, 0, 2)
        for k in range(9):
            cell = np.floor(U[:, 0] * 2**k).astype(int) * 2 ** (8 - k) + np.floor(
                U[:, 1] * 2 ** (8 - k)
            ).astype(int)
            np.testing.assert_array_equal(np.sort(cell), np.arange(256))

    def test_each_point_is_uniform_on_the_cube(self):
        """Over seeds, for a point whose unscrambled coordinates are mostly zero."""
        for index in (0, 5):
            U = np.array(
                [SobolProjection(Gaussian(), 6, 8, s)._points(index, index + 1, 0, 7)[0] for s in range(1500)]
            )
            assert ((U > 0) & (U < 1)).all()
            for j in range(7):
                assert stats.kstest(U[:, j], "uniform").pvalue > 1e-4
            assert abs(np.corrcoef(U.T) - np.eye(7)).max() < 4.5 / np.sqrt(1500)

    def test_any_part_of_the_points(self):
        projection = SobolProjection(Gaussian(), 30, 1000, 4)
        U = projection._points(0, 1000, 0, 31)
        np.testing.assert_array_equal(projection._points(333, 700, 4, 19), U[333:700, 4:19])

    @pytest.mark.parametrize(
        ("kernel", "pinned"),
        [
            (Gaussian(), [-0.9344404821063987, -1.7662472883341152]),
            (Laplacian(), [-1.6314103252434222, -8.189370829637962]),
            (Matern(0.5), [-0.4957684845713746, -0.9370845530384454]),
        ],
        ids=lambda v: getattr(v, "name", None),
    )
    def test_weights_are_pinned(self, kernel, pinned):
        """Golden values of this definition of the map: a change here breaks stored specs."""
        W = SobolProjection(kernel, 20, 40, 2024).weights(33, 34)
        np.testing.assert_allclose(W[0, :2], pinned, rtol=1e-12)


class TestError:
    @pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Cauchy()], ids=lambda k: k.name)
    @pytest.mark.parametrize("phase", ["paired", "offset"])
    def test_is_below_that_of_independent_weights(self, kernel, phase):
        X = np.random.default_rng(0).normal(size=(40, 3))
        K = kernel(X, length_scale=3.0)

        def mean_square(name):
            maps = (FourierMap(3, 512, kernel, 3.0, name, phase, seed) for seed in range(20))
            return np.mean([(Z @ Z.T - K) ** 2 for Z in (map_(X) for map_ in maps)])

        assert mean_square("quasi") < 0.5 * mean_square("dense")

    def test_many_coordinates_are_no_worse_than_independent(self):
        """Unscrambled, the late coordinates of a short sequence move together and the error explodes."""
        d, m = 400, 256
        v = np.random.default_rng(0).normal(size=d)
        v /= np.linalg.norm(v)
        errors = [
            np.mean(
                [(np.cos(P(Gaussian(), d, m, s).weights() @ v).mean() - np.exp(-0.5)) ** 2 for s in range(200)]
            )
            for P in (SobolProjection, DenseProjection)
        ]
        assert errors[0] < 1.5 * errors[1]


class TestOffsets:
    def test_are_the_next_coordinate(self):
        map_ = FourierMap(5, 64, Gaussian(), 1.0, "quasi", "offset", 7)
        np.testing.assert_array_equal(map_.offsets(), map_.projector._points(0, 64, 5, 6)[:, 0])
        np.testing.assert_array_equal(np.sort(np.floor(map_.offsets() * 64).astype(int)), np.arange(64))


class TestLimits:
    def test_sobol_refuses_too_many_features(self):
        SobolProjection(Gaussian(), 21_200, 8, 0)
        with pytest.raises(InputError, match=r"21201 coordinates.*got 21201 features.*dense"):
            FourierMap(21_201, 8, Gaussian(), 1.0, "quasi", "offset", 0)

    def test_sobol_at_its_limit(self):
        W = SobolProjection(Gaussian(), 21_200, 8, 0).weights()
        assert np.isfinite(W).all()
        assert abs(W.mean()) < 4.5 / np.sqrt(21_200)
