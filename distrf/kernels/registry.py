"""One name space over the three families of kernels: shift-invariant, semigroup, dot-product."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..errors import InputError
from .dot_product import DOT_PRODUCTS, DotProductKernel, get_dot_product_kernel
from .semigroup import SEMIGROUP_KERNELS, SemigroupKernel, get_semigroup_kernel
from .shift_invariant import KERNELS, Kernel, get_shift_invariant_kernel

AnyKernel: TypeAlias = Kernel | SemigroupKernel | DotProductKernel
FAMILIES: tuple[tuple[Any, dict, Any], ...] = (
    (Kernel, KERNELS, get_shift_invariant_kernel),
    (SemigroupKernel, SEMIGROUP_KERNELS, get_semigroup_kernel),
    (DotProductKernel, DOT_PRODUCTS, get_dot_product_kernel),
)


def get_kernel(kernel: str | AnyKernel | dict[str, Any], **parameters: Any) -> AnyKernel:
    """A kernel of any family from its name, its spec or itself.

    Raises InputError for a name that is in no registry.
    """
    name = kernel.get("name", "") if isinstance(kernel, dict) else kernel
    for family, registry, get in FAMILIES:
        if isinstance(kernel, family) or (isinstance(name, str) and name in registry):
            return get(kernel, **parameters)
    known = sorted(name for _, registry, _ in FAMILIES for name in registry)
    raise InputError(f"unknown kernel {kernel!r}; known: {', '.join(known)}, or a kernel object")
