"""Rows by the values of a column: by value, or by quarter of the numbers; the rest; what is missing. Number code."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..execution.passes import StateOfStates
from .labels import as_column, codes_of

#: Slices for values; a column of more values is cut into quarters, or the rarer ones are one slice.
VALUES = 20


@dataclass(frozen=True)
class Slices:
    """Which slice a row is in, by the value of a column.

    Parameters
    ----------
    values : array of shape (s,), or None
        In ascending order; a slice for each, and one for all others.
    edges : float64 array of shape (e,), or None
        In ascending order: numbers up to the first, up to the second, ..., above the last.
    """

    values: np.ndarray | None = None
    edges: np.ndarray | None = None

    @classmethod
    def of_sample(cls, column: np.ndarray) -> Slices:
        """Choose slices for a column from a sample of its values.

        Parameters
        ----------
        column : array of shape (rows,): numbers, booleans or text; NaN and None are missing
            Up to 20 values get a slice each. Numbers of more values are cut at their quartiles; of text the most frequent get one.

        Returns
        -------
        Slices
        """
        values, counts = np.unique(as_column(column)[0], return_counts=True)
        if len(values) > VALUES and values.dtype.kind != "U":
            quartiles = values[np.searchsorted(np.cumsum(counts), np.array([0.25, 0.5, 0.75]) * counts.sum())]
            return cls(edges=np.unique(quartiles.astype(np.float64)))
        return cls(values=values[np.sort(np.argsort(-counts, kind="stable")[:VALUES])])

    @property
    def names(self) -> list[Any]:
        """What each slice is, as plain data: values or intervals, then "other values" and "missing"."""
        if self.edges is None:
            assert self.values is not None
            values = self.values.tolist()
            named = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
        else:
            edges = [f"{edge:.6g}" for edge in self.edges.tolist()]
            between = [f"({low}, {high}]" for low, high in itertools.pairwise(edges)]
            named = [f"<= {edges[0]}", *between, f"> {edges[-1]}"]
        return [*named, "other values", "missing"]

    def codes(self, column: Any) -> np.ndarray:
        """The number of the slice of each row of a block.

        Parameters
        ----------
        column : array or CSR matrix of shape (rows,) or (rows, 1)

        Returns
        -------
        int array of shape (rows,)
        """
        there, missing = as_column(column)
        known = self.values if self.edges is None else self.edges
        assert known is not None
        if len(there) and len(known) and (there.dtype.kind == "U") != (known.dtype.kind == "U"):
            raise InputError("slices are by values of one type; give a column of numbers or one of text")
        codes = np.full(len(missing), len(self.names) - 1)
        found = codes_of(known, there) if self.edges is None else np.searchsorted(known, there)
        codes[~missing] = np.where(found < 0, len(self.names) - 2, found)
        return codes


@dataclass
class Sliced(StateOfStates):
    """The sums of all rows, and those of each slice.

    Parameters
    ----------
    names : tuple of str
        Of the arrays that `add` takes, as the sums have them; "by" is the column of the slices.
    whole : ClassifierSums or RegressorSums
    parts : list of them, one for each slice
    slices : Slices, or None: the rows are not sliced
    """

    names: tuple[str, ...]
    whole: Any
    parts: list[Any] = field(default_factory=list)
    slices: Slices | None = None

    states = property(lambda self: [self.whole, *self.parts])  # type: ignore[assignment]

    def add(self, *blocks: np.ndarray) -> None:
        """Count the rows of a block."""
        given = dict(zip(self.names, blocks, strict=True))
        codes = np.empty(0) if self.slices is None else self.slices.codes(given.pop("by"))
        self.whole.add(**given)
        for k in np.unique(codes).tolist():
            self.parts[k].add(**{name: block[codes == k] for name, block in given.items()})

    def report(self) -> list[dict[str, Any]]:
        """The scores of each slice that has rows, as plain JSON."""
        return [
            {"value": name, "rows": part.rows, **part.scores(self.whole)}
            for name, part in zip(self.slices.names if self.slices else (), self.parts, strict=True)
            if part.rows
        ]
