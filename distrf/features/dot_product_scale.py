"""The rule that sets gamma of a dot-product kernel from a seeded sample of rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..execution.sampling import sampled_rows, take_rows
from ..kernels.base import kernel_with
from ..kernels.dot_product import DotProductKernel
from ..parameters import number, one_of
from ..typing import ArrayLike

RULES = ("norm",)
DOT_GAMMA = number(above=0) | one_of(*RULES)
_SAMPLE = 1000


def known_gamma(gamma: float | str) -> float:
    """gamma before any rows are read, for a plan: 1 in place of what a rule would give."""
    return 1.0 if gamma in RULES else float(gamma)


def resolve_gamma(gamma: float | str, X: ArrayLike, seed: int) -> float:
    """The number that `gamma` stands for on the rows of X.

    Parameters
    ----------
    gamma : a number, which is returned, or "norm": 1 / mean |x|^2 over at most 1,000 sampled rows, so that gamma x.x
        is 1 on average
    X : array, CSR matrix or Dask array of shape (n, d); only a rule reads rows
    seed : int, of the sample

    Raises
    ------
    InputError : the sampled rows are all zero, or not finite
    """
    if gamma not in RULES:
        return float(gamma)
    picked = sampled_rows(X.shape[0], _SAMPLE, seed, "length-scale")
    rows = take_rows(X, picked, sparse=True).astype(np.float64)  # hashed text has a million columns
    squares = rows.multiply(rows) if sp.issparse(rows) else rows * rows
    mean = float(squares.sum(axis=1).mean())
    if not np.isfinite(mean):
        raise InputError("X must be finite, but the sampled rows hold NaN or infinity; impute or drop them")
    if mean == 0.0:
        raise InputError("the rule gamma='norm' needs a row that is not all zeros, got none; give a number")
    return 1.0 / mean


def make_dot_product(
    kernel: str | DotProductKernel, degree: int, gamma: float, coef0: float
) -> DotProductKernel:
    """A kernel by name, with those of the parameters that it has; a kernel object is returned as it is."""
    return kernel_with(kernel, {"degree": degree, "gamma": gamma, "coef0": coef0}, DotProductKernel)


def resolve_dot_product(
    kernel: str | DotProductKernel, degree: int, gamma: float | str, coef0: float, X: ArrayLike, seed: int
) -> DotProductKernel:
    """The kernel of `make_dot_product`, with gamma set by its rule. Rows of X are read only if gamma is a rule."""
    chosen = make_dot_product(kernel, degree, known_gamma(gamma), coef0)
    if isinstance(kernel, DotProductKernel) or gamma not in RULES:
        return chosen
    return make_dot_product(kernel, degree, resolve_gamma(gamma, X, seed), coef0)
