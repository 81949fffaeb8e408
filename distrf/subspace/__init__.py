"""Dominant subspaces of feature matrices that are never stored."""

from .range_finder import Subspace, check_parameters, find_subspace
from .sketches import SKETCHES, make_sketch
from .tsqr import TreeQR, orthonormal, tree_qr

__all__ = [
    "SKETCHES",
    "Subspace",
    "TreeQR",
    "check_parameters",
    "find_subspace",
    "make_sketch",
    "orthonormal",
    "tree_qr",
]
