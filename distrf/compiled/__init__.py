"""Numba loops for the hot spots: no GIL, one core, cached on disk."""

from .cosine import cos_offset, cos_sin
from .jit import jit
from .quantiles import normal_quantiles, words_to_uniforms

__all__ = ["cos_offset", "cos_sin", "jit", "normal_quantiles", "words_to_uniforms"]
