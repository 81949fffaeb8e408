"""Handwritten digits, small or expanded to millions of rows."""

from .digits import distort_digits, load_digits_split
from .loaders import expanded_digits

__all__ = ["distort_digits", "expanded_digits", "load_digits_split"]
