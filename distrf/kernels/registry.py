"""`get_kernel`: a kernel of any of the three families (shift-invariant, semigroup, dot-product) by its name."""

from __future__ import annotations

from typing import Any

from .base import AnyKernel, find_kernel
from .dot_product import DotProductKernel
from .semigroup import SemigroupKernel
from .shift_invariant import Kernel

#: The families, in the order in which messages name their kernels.
FAMILIES: tuple[type[AnyKernel], ...] = (Kernel, SemigroupKernel, DotProductKernel)


def get_kernel(kernel: str | AnyKernel | dict[str, Any], **parameters: Any) -> AnyKernel:
    """A kernel of any family from its name and its parameters, from its spec, or itself.

    Raises InputError for a name that is in no registry, and for parameters that the kernel does not have.
    """
    return find_kernel(kernel, AnyKernel, parameters)
