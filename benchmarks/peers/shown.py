"""Tables of the page on peers."""

from __future__ import annotations
from benchmarks.benchmark import Record, markdown


def _show(records):
    return markdown(["m"], [[str(r)] for r in records])


show_features = show_ridge = show_tables = show_subspace = _show
