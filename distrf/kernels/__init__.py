"""Kernels: exact values, and the laws of the weights that random features draw."""

from .dot_product import (
    DOT_PRODUCTS,
    DotProductKernel,
    Exponential,
    Homogeneous,
    Polynomial,
    get_dot_product_kernel,
)
from .registry import FAMILIES, AnyKernel, get_kernel
from .semigroup import (
    SEMIGROUP_KERNELS,
    ExponentialSemigroup,
    ReciprocalSemigroup,
    SemigroupKernel,
    get_semigroup_kernel,
    refuse_negative,
)
from .shift_invariant import KERNELS, Cauchy, Gaussian, Kernel, Laplacian, Matern, get_shift_invariant_kernel

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
    "Homogeneous",
    "Kernel",
    "Laplacian",
    "Matern",
    "Polynomial",
    "ReciprocalSemigroup",
    "SemigroupKernel",
    "get_dot_product_kernel",
    "get_kernel",
    "get_semigroup_kernel",
    "get_shift_invariant_kernel",
    "refuse_negative",
]
