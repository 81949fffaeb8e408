"""The rule that sets gamma of a dot-product kernel from a seeded sample of rows."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ..blocks.samples import sampled_rows, take_rows
from ..dot_products import DotProductKernel, get_dot_product
from ..errors import InputError

RULES = ("norm",)
_SAMPLE = 1000


def resolve_gamma(gamma: float | str, X: Any, seed: int) -> float:
    """A number as it is; "norm": 1 / mean |x|^2 over at most 1,000 sampled rows, so that gamma x.x is 1 on average.

    Raises InputError for other rules and for rows that are all zero.
    """
    if isinstance(gamma, numbers.Real) and 0 < float(gamma) < float("inf"):
        return float(gamma)
    if gamma != "norm":
        raise InputError(f"gamma must be a positive number or 'norm' (1 / mean |x|^2), got {gamma!r}")
    rows = take_rows(X, sampled_rows(X.shape[0], _SAMPLE, seed, "length-scale")).astype(np.float64)
    mean = float((rows * rows).sum(axis=1).mean())
    if not np.isfinite(mean):
        raise InputError("X must be finite, but the sampled rows hold NaN or infinity; impute or drop them")
    if mean == 0.0:
        raise InputError("the rule gamma='norm' needs a row that is not all zeros, got none; give a number")
    return 1.0 / mean


def resolve_dot_product(
    kernel: str | DotProductKernel, degree: int, gamma: float | str, coef0: float, X: Any, seed: int
) -> DotProductKernel:
    """The kernel of that name with its parameters; an object as it is."""
    if isinstance(kernel, DotProductKernel):
        return kernel
    get_dot_product(kernel)  # an unknown name is refused before any row is read
    every = {"degree": degree, "gamma": resolve_gamma(gamma, X, seed), "coef0": coef0}
    taken = {"polynomial": every, "homogeneous": {k: every[k] for k in ("degree", "gamma")}}
    return get_dot_product(kernel, **taken.get(kernel, {"gamma": every["gamma"]}))
