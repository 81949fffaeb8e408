"""What projection="auto" takes for every kernel, and that its estimates have no more variance than those of independent weights."""

from __future__ import annotations

import numpy as np
import pytest

from distrf.kernels import Cauchy, Gaussian, Laplacian, Matern
from distrf.kernels.semigroup import ExponentialSemigroup, ReciprocalSemigroup
from distrf.kernels.shift_invariant import KERNELS
from distrf.projections import auto_projection, make_projection

ISOTROPIC = [Gaussian(), Matern(0.5), Matern(1.5), Matern(2.5)]
OTHERS = [Laplacian(), Cauchy(), ExponentialSemigroup(), ReciprocalSemigroup()]
DIFFERENCES = {
    "random": np.random.default_rng(5).exponential(size=256) * np.tile([1.0, -1.0], 128),
    "smooth": np.sin(np.linspace(0, np.pi, 258))[1:-1],
    "constant": np.ones(256),
}


def test_every_kernel_is_here():
    assert {kernel.name for kernel in [*ISOTROPIC, *OTHERS]} >= set(KERNELS)


#: Of isotropic kernels, by columns and frequencies.
TAKEN = {
    (1, 1): "dense",
    (20, 10**6): "quasi",
    (40, 8192): "quasi",  # transforms cost more than the product
    (64, 4096): "structured_orthogonal",
    (64, 8192): "quasi",  # the noise is no larger than the bias
    (1024, 8192): "structured_orthogonal",
    (4096, 16): "dense",  # a block would be made for 16 of its rows
    (50_000, 16): "dense",  # no Sobol points
}


@pytest.mark.parametrize("kernel", ISOTROPIC, ids=repr)
def test_of_isotropic_kernels(kernel):
    assert {size: auto_projection(kernel, *size) for size in TAKEN} == TAKEN


@pytest.mark.parametrize("kernel", OTHERS, ids=repr)
def test_of_other_kernels(kernel):
    assert {auto_projection(kernel, d, d + 1) for d in (1, 32, 1024, 21_200)} == {"quasi"}
    assert {auto_projection(kernel, d, d) for d in (1, 32, 1024, 21_200)} == {"dense"}  # too few points
    assert auto_projection(kernel, 21_201, 10**6) == "dense"


@pytest.mark.parametrize("d", [1, 64, 21_200, 21_201, 10**6])
@pytest.mark.parametrize("kernel", [*ISOTROPIC, *OTHERS], ids=repr)
def test_what_it_takes_can_be_made(kernel, d):
    name = auto_projection(kernel, d, 64)
    assert make_projection(name, kernel, d, 64, 0).weight_blocks(0, 64, 4)


@pytest.mark.slow
@pytest.mark.parametrize("v", DIFFERENCES)
@pytest.mark.parametrize("d", [8, 256])
@pytest.mark.parametrize("kernel", [*ISOTROPIC, *OTHERS], ids=repr)
def test_variance_is_that_of_independent_weights_or_less(kernel, d, v):
    """Mean squared error over 150 seeds and two distances, over the variance of m independent weights (Rahimi & Recht 2007)."""
    m, unit = 300, DIFFERENCES[v][:d]
    laplace = isinstance(kernel, (ExponentialSemigroup, ReciprocalSemigroup))

    def value(x):
        return kernel.of_sum(np.abs(x)) if laplace else kernel(x[None], np.zeros((1, d)))[0, 0]

    name, ratios = auto_projection(kernel, d, m), []
    weights = [make_projection(name, kernel, d, m, seed).weights() for seed in range(150)]
    for wanted in (0.5, 0.1):
        steps = np.geomspace(1e-9, 1e3, 4000)
        x = unit * steps[np.searchsorted([-value(unit * step) for step in steps], -wanted)]
        k, twice = value(x), value(2 * x)
        if laplace:  # Mukuta et al. 2018, Theorem 1
            variance = twice - k**2
            made = [np.exp(-kernel.weight_scale * (W @ np.abs(x))).mean() for W in weights]
        else:
            variance, made = (1 + twice) / 2 - k**2, [np.cos(W @ x).mean() for W in weights]
        ratios.append(np.mean((np.array(made) - k) ** 2) * m / variance)
    assert np.mean(ratios) <= 1.5, (name, ratios)
