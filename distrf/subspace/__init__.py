"""Dominant subspaces of feature matrices that are never stored."""

from .choice import Search, choose, subspace_costs
from .range_finder import RangeFinder, check_width
from .sketches import SKETCHES

__all__ = ["SKETCHES", "RangeFinder", "Search", "check_width", "choose", "subspace_costs"]
