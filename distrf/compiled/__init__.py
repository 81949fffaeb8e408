"""The loops that cost most of the time, compiled by Numba: each runs on one core, without Python's global lock."""

from .cosine import cos_offset, cos_sin
from .jit import jit
from .normal_quantiles import normal_quantiles, words_to_uniforms
from .walsh_hadamard import hadamard_blocks, walsh_hadamard

__all__ = [
    "cos_offset",
    "cos_sin",
    "hadamard_blocks",
    "jit",
    "normal_quantiles",
    "walsh_hadamard",
    "words_to_uniforms",
]
