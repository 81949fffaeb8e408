"""What became of the claims of Yu et al. (2015)."""

from __future__ import annotations

from benchmarks.benchmark import Claim, Record


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    return []
