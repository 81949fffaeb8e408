"""Dominant subspaces of feature matrices that are never stored."""

from .choice import Search, SubspaceCosts, choose, subspace_costs
from .range_finder import RangeFinder, Subspace, check_width
from .sketches import SKETCHES, make_sketch
from .tsqr import TreeQR, orthonormalise, tree_qr

__all__ = [
    "SKETCHES",
    "RangeFinder",
    "Search",
    "Subspace",
    "SubspaceCosts",
    "TreeQR",
    "check_width",
    "choose",
    "make_sketch",
    "orthonormalise",
    "subspace_costs",
    "tree_qr",
]
