"""Kernels: exact values, and the laws of the weights that random features draw."""

from .base import AnyKernel, declared, get_kernel, kernel_with, register_kernel
from .dot_product import (
    DOT_PRODUCTS,
    DotProductKernel,
    Exponential,
    Polynomial,
)
from .semigroup import (
    SEMIGROUP_KERNELS,
    ExponentialSemigroup,
    ReciprocalSemigroup,
    SemigroupKernel,
    refuse_negative,
)
from .shift_invariant import KERNELS, Cauchy, Gaussian, Kernel, Laplacian, Matern

#: The families, in the order in which messages name their kernels.
FAMILIES: tuple[type[AnyKernel], ...] = (Kernel, SemigroupKernel, DotProductKernel)

__all__ = [
    "DOT_PRODUCTS",
    "FAMILIES",
    "KERNELS",
    "SEMIGROUP_KERNELS",
    "AnyKernel",
    "Cauchy",
    "DotProductKernel",
    "Exponential",
    "ExponentialSemigroup",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Matern",
    "Polynomial",
    "ReciprocalSemigroup",
    "SemigroupKernel",
    "declared",
    "get_kernel",
    "kernel_with",
    "refuse_negative",
    "register_kernel",
]
