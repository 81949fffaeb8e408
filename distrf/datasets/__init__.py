"""Real data that needs no download, and a loader for .npz archives."""

from .loaders import distort_digits, expanded_digits, load_digits_split, load_npz

__all__ = ["distort_digits", "expanded_digits", "load_digits_split", "load_npz"]
