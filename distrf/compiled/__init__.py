"""The loops that cost most of the time, compiled by Numba: each runs on one core, without Python's global lock."""

from .cosine import cos_offset, cos_sin
from .jit import jit
from .walsh_hadamard import hadamard_blocks, walsh_hadamard

__all__ = [
    "cos_offset",
    "cos_sin",
    "hadamard_blocks",
    "jit",
    "walsh_hadamard",
]
