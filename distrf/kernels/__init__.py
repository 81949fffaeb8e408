"""Kernels: exact values, and the laws of the weights that random features draw."""

from .base import AnyKernel, KernelParameter, declared, get_kernel, kernel_with, register_kernel
from .dot_product import (
    DOT_PRODUCTS,
    DotProductKernel,
    Exponential,
    Homogeneous,
    Polynomial,
    get_dot_product_kernel,
)
from .semigroup import (
    SEMIGROUP_KERNELS,
    ExponentialSemigroup,
    ReciprocalSemigroup,
    SemigroupKernel,
    get_semigroup_kernel,
    refuse_negative,
)
from .shift_invariant import KERNELS, Cauchy, Gaussian, Kernel, Laplacian, Matern, get_shift_invariant_kernel

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
    "Homogeneous",
    "Kernel",
    "KernelParameter",
    "Laplacian",
    "Matern",
    "Polynomial",
    "ReciprocalSemigroup",
    "SemigroupKernel",
    "declared",
    "get_dot_product_kernel",
    "get_kernel",
    "get_semigroup_kernel",
    "get_shift_invariant_kernel",
    "kernel_with",
    "refuse_negative",
    "register_kernel",
]
