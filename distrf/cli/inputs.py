"""The rows a command works on: where they are, how they are read, how they are scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from .. import store
from ..blocks.rows import split_chunk, target_block_bytes
from ..features import StreamingScaler
from ..features.scaler import scaler_from_spec
from ..maps import working_dtype
from . import options as o


@dataclass(frozen=True)
class Input:
    """Described rows; nothing is read until `rows` is called and computed."""

    info: Any
    target: str | None
    columns: list[str] | None
    impute: Any

    @property
    def d(self) -> int:
        return int(self.info.d)

    @property
    def dtype(self) -> np.dtype:
        return working_dtype(np.dtype(self.info.dtype))

    @property
    def description(self) -> dict[str, Any]:
        """How the rows were read: part of the spec of whatever is made from them."""
        return {
            "data": store.fingerprint(self.info.path),
            "rows": self.info.n,
            "columns": self.info.columns,
            "target": self.target,
            "impute": self.impute,
            "preprocessing": self.info.preprocessing,
        }

    def block_rows(self, widest: int) -> int:
        """Rows of the blocks to read so that `widest` columns stay near Dask's chunk size."""
        limit = max(1, target_block_bytes() // (max(widest, self.d) * self.dtype.itemsize))
        return int(
            self.info.block_rows if self.info.block_rows <= limit else split_chunk(self.info.block_rows, limit)
        )

    def scaler(self) -> StreamingScaler | None:
        """The store's own scaling as a fitted step, or None."""
        if not self.info.preprocessing:
            return None
        scaling = scaler_from_spec(self.info.preprocessing)
        step = StreamingScaler(scaling.method, divisor=scaling.divisor)  # type: ignore[attr-defined]
        step.map_, step.n_features_in_ = scaling, self.d  # type: ignore[assignment]
        return step

    def rows(self, *, scaled: bool = True, uniform: bool = False) -> tuple[da.Array, da.Array | None]:
        """Lazy (X, y); `uniform` makes the blocks of Parquet equal, as a store that is written needs them."""
        return store.open_rows(
            self.info.path,
            target=self.target,
            columns=self.columns,
            impute=self.impute,
            scaled=scaled,
            uniform=uniform,
        )

    def classes(self, y: da.Array | None) -> list[Any] | None:
        """Names behind coded labels."""
        if y is None or y.dtype.kind != "U":
            return None
        if self.info.classes:
            return list(self.info.classes)
        return [str(c) for c in np.unique(da.unique(y).compute())]


def open_input(path: str, target: str | None, columns: str | list[str] | None, impute: Any) -> Input:
    """Describe the rows at `path`; an imputation rule reads them once to become numbers.

    Raises StoreError for a missing or unfinished store.
    """
    names = o.listed(columns) if isinstance(columns, str) else columns
    info = store.describe(path, target=target, columns=names)
    rule = o.number_or_rule(impute) if isinstance(impute, str) else impute
    if isinstance(rule, (str, float)):  # fixed numbers, so that later rows are filled as these are
        rule = store.impute_values(path, rule, target=target, columns=names)
    return Input(info, target, names, rule)
