"""Kernels: exact values, and the laws of the weights that random features draw."""

from .base import AnyKernel, get_kernel, register_kernel
from .dot_product import DOT_PRODUCTS, DotProductKernel, Exponential, Polynomial
from .semigroup import SEMIGROUP_KERNELS, ExponentialSemigroup, ReciprocalSemigroup, SemigroupKernel
from .shift_invariant import KERNELS, Cauchy, Gaussian, Kernel, Laplacian, Matern

#: The families, in the order in which messages name their kernels.
FAMILIES: tuple[type[AnyKernel], ...] = (Kernel, SemigroupKernel, DotProductKernel)
