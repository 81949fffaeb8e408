"""The synthetic design of Feng et al. (2015, section 5.1): how the kernel error of every projection falls with D."""

from __future__ import annotations

import numpy as np
import pytest

from distrf.kernels import Gaussian
from distrf.maps import FourierMap
from distrf.metrics import kernel_error
from distrf.projections import PROJECTIONS

ROWS = np.random.default_rng(0).uniform(size=(150, 16))
SCALE = Gaussian().length_scale_of_gamma(0.25)
SMALL, LARGE, SEEDS = 64, 1024, 60
#: Padded to blocks of 16, SORF has a bias of its own: at most s^2 / (4 p) in an entry.
BIASED = "structured_orthogonal"
#: Evenly spread points do better than the rate.
QUASI = "quasi"


def squared_errors(name, D):
    maps = (FourierMap(16, D, Gaussian(), SCALE, name, "paired", seed) for seed in range(SEEDS))
    return np.array([kernel_error(m, ROWS, n_rows=len(ROWS)) ** 2 for m in maps])


@pytest.mark.parametrize("name", PROJECTIONS)
def test_error_falls_as_one_over_root_D(name):
    """Blocks of frequencies are uncorrelated, so D times the mean squared error does not depend on D."""
    small, large = (D * squared_errors(name, D) for D in (SMALL, LARGE))
    ratio = large.mean() / small.mean()
    # Standard error of the ratio of means, from the draws themselves; far from a rate of 1 / D or none at all.
    error = ratio * np.hypot(*(x.std(ddof=1) / SEEDS**0.5 / x.mean() for x in (small, large)))
    assert error < 0.15
    assert ratio < 1 + 4 * error if name != BIASED else ratio < 1 + 4 * error + bias_share(small.mean())
    if name != QUASI:
        assert ratio > 1 - 4 * error


def bias_share(mean):
    """The most that squared bias, the same at every D, adds to the ratio."""
    s = ((ROWS[:, None] - ROWS) ** 2).sum(axis=2) / SCALE**2
    K = np.exp(-s / 2)
    return LARGE * ((K * s**2 / (4 * 16)) ** 2).sum() / (K**2).sum() / mean
