"""What is known of tables on which distrf is behind, for all pages on tables: one finding, one text."""

from __future__ import annotations

MORE = "more features and rows gain part of it"
_FEW = "few features are chosen for few rows, and favour a long length scale; many of a shorter one"
#: Beside kernel and linear models, and beside boosting, {table: reason}.
KERNELS = {"splice": f"{_FEW} are level"}
BOOSTING = {"census_house": MORE}
#: Beside boosting, where letters are categories, and where they are codes.
SPLICE_CATEGORIES = f"{_FEW} come nearer"
SPLICE_CODES = (
    "single columns decide, which trees cut; a kernel of the distance between whole rows hardly sees them"
)
