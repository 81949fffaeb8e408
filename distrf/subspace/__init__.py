"""Dominant subspaces of feature matrices that are never stored."""

from .choice import SubspaceCosts, choose, subspace_costs
from .range_finder import Subspace, check_width, find_subspace
from .sketches import SKETCHES, make_sketch
from .tsqr import TreeQR, orthonormalise, tree_qr

__all__ = [
    "SKETCHES",
    "Subspace",
    "SubspaceCosts",
    "TreeQR",
    "check_width",
    "choose",
    "find_subspace",
    "make_sketch",
    "orthonormalise",
    "subspace_costs",
    "tree_qr",
]
