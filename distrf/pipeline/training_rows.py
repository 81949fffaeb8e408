"""The rows of a training, wherever they come from: a path, a table in memory, arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from dask.base import tokenize

from ..errors import InputError, reworded
from ..execution.labelled import plain_rows
from ..execution.open_table import is_table
from ..scores.passes import as_array
from . import rows as opened
from .rows import NOT_SAID, Parts, rows_with_target
from .tables import coded_table, without_groups


@dataclass(frozen=True)
class Rows:
    """The rows of a training, lazy or in memory, wherever they come from.

    Attributes
    ----------
    X, y, weight, by : as `prepare` and `make_split` take them
    by_name, by_dates : the column that `by` is, and whether it holds dates
    encoder : TableEncoder, unfitted, where the rows are those of a table
    kinds : list of ColumnKind, what its columns are
    target : str, the column that was learned
    reading : dict, how other rows are to be read for the model
    asked : dict, the split as a job notes it
    data : opened.Rows, where they are at a path
    """

    X: Any
    y: Any
    weight: Any
    by: Any = None
    by_name: str | None = None
    by_dates: bool = False
    encoder: Any = None
    kinds: Sequence[Any] = ()
    target: str | None = None
    reading: dict[str, Any] = field(default_factory=lambda: dict(NOT_SAID))
    asked: dict[str, Any] = field(default_factory=dict)
    data: opened.Rows | None = None

    @classmethod
    def of_path(cls, data: opened.Rows, y: Any, sample_weight: Any, split: str, by: Any) -> Rows:
        """Rows that were opened, with targets of their own unless some are given."""
        if sample_weight is not None:
            raise InputError(
                "sample_weight= of rows that are opened is the column that weight= names there; give it as these were opened"
            )
        found, target = data.rows()[0], data.target if y is None else None
        y = rows_with_target(data, "training")[1] if y is None else y
        asked = (
            {}
            if split == "random"
            else {"split": {"split": split, "by": by if isinstance(by, str) else tokenize(by)}}
        )
        name, dates = None, False
        if isinstance(by, str):
            name, (by, dates) = by, data.by_column(by, split)
        return cls(
            found, plain_rows(y, "y"), data.weights(), by, name, dates, data.encoder, data.kinds, target,
            data.description | asked, asked, data,
        )  # fmt: skip

    @classmethod
    def given(
        cls, X: Any, y: Any, sample_weight: Any, split: str, by: Any, of_path: dict[str, Any], of_table: dict[str, Any],
        numbers: bool,
    ) -> Rows:  # fmt: skip
        """Arrays, or a table in memory. Raises InputError for what is said of rows at a path, or of tables, alone."""
        target = of_path.pop("target")
        if of_path:
            raise InputError(
                f"{', '.join(f'{name}=' for name in of_path)}: rows at a path have it, and X is {type(X).__name__}; open them with "
                f"distrf.open_rows(path, {next(iter(of_path))}=...)"
            )
        more: dict[str, Any] = {}
        name = by if isinstance(by, str) else None
        if isinstance(sample_weight, str):
            if not is_table(X) or numbers:
                raise InputError(
                    f"sample_weight={sample_weight!r} names a column of a table; give the weights, shape (n,)"
                )
            of_table = of_table | {"kinds": dict(of_table.get("kinds") or {}) | {sample_weight: "drop"}}
            missing = InputError(
                f"sample_weight={sample_weight!r} is no column of the table; give one, or the weights"
            )
            with reworded(lambda error: missing):
                sample_weight = as_array(X[sample_weight])
        if is_table(X) and not numbers:
            coded = coded_table(X, target=target, by=name, **of_table)
            if name is not None:
                by, dates = coded.by_column(name, split)
                coded = without_groups(coded, name, split, of_table.get("kinds"), None)
                more = {"by_name": name, "by_dates": dates}
            more |= {
                "encoder": coded.encoder,
                "kinds": coded.kinds,
                "target": coded.table.target if y is None else None,
            }
            X, y, sample_weight = coded.X, coded.y if y is None else y, coded.left(sample_weight)
            by = by if name else coded.left(by)
        elif named := [*(["target"] if target is not None else []), *of_table]:
            raise InputError(f"{', '.join(named)} name columns of a table; X is {type(X).__name__}")
        elif name is not None:
            raise InputError(
                f"by={by!r} names a column of a table; X is {type(X).__name__}: give the values, shape (n,)"
            )
        X, y, weight = plain_rows(X), plain_rows(y, "y"), plain_rows(sample_weight, "sample_weight")
        X, y = (
            values if values is None or hasattr(values, "shape") else np.asarray(values) for values in (X, y)
        )
        if weight is not None and np.ndim(weight) == 0:
            raise InputError(f"sample_weight must have one entry for each row, got {weight!r}")
        if split != "random":
            more["asked"] = {"split": {"split": split, "by": name or tokenize(by)}}
        return cls(X, y, weight, by, **more)

    @property
    def source(self) -> str | None:
        """The path."""
        return None if self.data is None else self.data.path

    def identity(self) -> dict[str, Any]:
        """What tells these rows, as they are used, from others."""
        own = {"data": tokenize(self.X, self.y, self.weight)} if self.data is None else self.data.identity
        return own | self.asked

    def parts(self) -> Parts:
        """By what a model knows these rows again."""
        return opened.Rows(self.X, self.y).parts if self.data is None else self.data.parts
