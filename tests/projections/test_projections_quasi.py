"""Quasi-random projections: Sobol points against SciPy's, and their scrambling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

from distrf.errors import InputError
from distrf.kernels import Cauchy, Gaussian, Laplacian
from distrf.maps import FourierMap
from distrf.projections.quasi import SobolProjection, digital_net, direction_numbers


class TestAgainstScipy:
    @pytest.mark.parametrize("d", [1, 2, 40, 1111])
    def test_sobol(self, d):
        expected = qmc.Sobol(d, scramble=False, bits=64).random_base2(9)
        generators, zero = direction_numbers(d, 9), np.zeros(d, dtype=np.uint64)
        for start in (0, 1, 13, 256, 312):
            out = digital_net(generators, zero, start, start + 200)
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
