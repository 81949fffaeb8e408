"""Coded rows of a table as features: one encoding after the other, see `distrf.maps.table_columns`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, SpecMismatchError
from ..typing import Rows
from .base import FeatureMap, arrays_fingerprint, check_rows, dense, row_tiles
from .table_columns import ENCODINGS, FOLDS, Encoding, TargetMeans
from .table_missing import MISSING, with_missing

#: Bytes of the slots of one tile of rows: a value and a feature each.
_TILE_BYTES = 2**18
#: Features are CSR where there are more than so many, and entries take less than a quarter of the memory of all features.
_DENSE = 1024


@dataclass(frozen=True)
class TableMap(FeatureMap):
    """Encoded columns of a table beside each other, float32 whatever the dtype of the rows.

    Parameters
    ----------
    n_features_in : d, the columns of coded rows
    n_components : D
    slots : the most features of one row that are not zero
    held : bytes of the learned arrays
    csr : whether features are CSR arrays, which hold no zeros
    cross : whether one more column of the rows holds their folds, the last one, and target means are those without the fold
        of a row: at training, never at prediction
    parts : array of shape (P, 6), int64: of each encoding its kind (place in `ENCODINGS`), its column, its first feature and
        first slot, and where its numbers start and stop
    numbers : array of float64, the numbers of all encodings after each other
    """

    slots: int
    held: int
    csr: bool = False
    cross: bool = False
    parts: np.ndarray | None = field(default=None, compare=False, repr=False)
    numbers: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "table"
    label: ClassVar[str] = "encode table"  # type: ignore[misc]
    whole_rows: ClassVar[bool] = True

    @classmethod
    def of_encodings(
        cls, n_features_in: int, encodings: Sequence[Encoding], csr: bool | None = None, cross: bool = False
    ) -> Self:
        """The map whose features are those of some encodings, in their order.

        Parameters
        ----------
        n_features_in : d, with the column of folds where `cross`
        encodings : at least one; a column may have several, or none
        csr : whether features are CSR arrays; None where that takes less than a quarter of the memory, and D > 1,024
        cross : as in the class

        Raises
        ------
        InputError : there is no encoding, or one is of a column that the rows do not have
        """
        if not encodings or max(e.column for e in encodings) >= n_features_in:
            raise InputError(
                f"a table map of {n_features_in} columns needs at least one encoding, each of a column below "
                f"{n_features_in}, got {[e.column for e in encodings]}"
            )
        vectors = [e.numbers() for e in encodings]
        sizes = np.array([(e.width, e.slots, len(v)) for e, v in zip(encodings, vectors, strict=True)])
        stops = np.cumsum(sizes, axis=0)
        starts = stops - sizes
        D, slots, _ = stops[-1].tolist()
        kinds = [(ENCODINGS.index(type(e)), e.column) for e in encodings]
        parts = np.ascontiguousarray(np.column_stack([kinds, starts, stops[:, 2:]]), dtype=np.int64)
        numbers = np.concatenate(vectors) + 0.0  # -0 is 0
        csr = D > _DENSE and 2 * slots < D / 4 if csr is None else csr
        return cls(n_features_in, D, slots, parts.nbytes + numbers.nbytes, csr, cross, parts, numbers)

    def encodings(self) -> list[Encoding]:
        """The encodings that the map was made of."""
        assert self.parts is not None
        assert self.numbers is not None
        return [
            ENCODINGS[kind].of_numbers(column, self.numbers[a:b])
            for kind, column, _, _, a, b in self.parts.tolist()
        ]

    @property
    def sparse_output(self) -> bool:  # type: ignore[override]
        return self.csr

    @property
    def entries_per_row(self) -> int:
        return 2 * self.slots if self.csr else self.n_components  # of CSR rows a value and a column each

    def out_dtype(self, dtype: np.dtype) -> np.dtype:
        return np.dtype(np.float32)  # the rows are float64 for the sake of codes and seconds

    def columns(self, X: Rows, start: int, stop: int) -> Rows:
        if not self.csr:
            return super().columns(X, start, stop)
        made = self._sparse_features(check_rows(X, self.n_features_in))
        return made if (start, stop) == (0, self.n_components) else made[:, start:stop]

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        from ..compiled.table_rows import spread_slots  # late, with Numba

        # Without one-hot parts every feature has a slot of its own, in the order of the features.
        direct = self.slots == self.n_components
        whole = (start, stop) == (0, self.n_components) and out.dtype == np.float32
        values, places = self._tile_arrays(X.shape[0], self.slots if whole else self.n_components)
        tile = None if whole else np.empty((len(values), self.n_components), dtype=np.float32)
        for a, b in row_tiles(X.shape[0], len(values)):
            made = out[a:b] if tile is None else tile[: b - a]
            if direct:
                self._fill_slots(X[a:b], made, places)
            else:
                self._fill_slots(X[a:b], values, places)
                spread_slots(values[: b - a], places[: b - a], made)
            if tile is not None:
                out[a:b] = made[:, start:stop]

    def _sparse_features(self, X: Rows) -> sp.csr_array:
        from ..compiled.table_rows import append_slots

        n = X.shape[0]
        index = np.int32 if n * self.slots < 2**31 else np.int64
        data, indices = np.empty(n * self.slots, dtype=np.float32), np.empty(n * self.slots, dtype=index)
        indptr = np.zeros(n + 1, dtype=index)
        values, places = self._tile_arrays(n, self.slots)
        for a, b in row_tiles(n, len(values)):
            self._fill_slots(X[a:b], values, places)
            append_slots(values[: b - a], places[: b - a], data, indices, indptr[a : b + 1])
        for array in (data, indices):  # gives back the memory of the zeros, without a copy
            array.resize(int(indptr[-1]), refcheck=False)
        return sp.csr_array((data, indices, indptr), shape=(n, self.n_components))

    def _tile_arrays(self, n: int, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Room for the slots of one tile of a block of n rows, which takes so many numbers of a row: values, and their
        features, filled in."""
        assert self.parts is not None
        first, slot = self.parts[:, 2], self.parts[:, 3]
        counts = np.diff(slot, append=self.slots)
        features = np.repeat(first - slot, counts) + np.arange(self.slots)
        shape = (min(_tile_rows(width), max(n, 1)), self.slots)
        return np.empty(shape, dtype=np.float32), np.array(np.broadcast_to(features, shape), dtype=np.int32)

    def crossed(self) -> Self:
        """This map for training rows, which hold their folds in one more column.

        Returns
        -------
        TableMap
            Itself where no encoding depends on folds.
        """
        if not any(isinstance(one, TargetMeans) for one in self.encodings()):
            return self
        return replace(self, n_features_in=self.n_features_in + 1, cross=True)

    def _fill_slots(self, X: Rows, values: np.ndarray, places: np.ndarray) -> None:
        """Fill the slots of a tile of rows."""
        from ..compiled.table_rows import fill_slots

        assert self.parts is not None
        assert self.numbers is not None
        tile = with_missing(np.ascontiguousarray(dense(X), dtype=np.float64))
        n = len(tile)
        folds = (
            np.clip(tile[:, -1], 0, FOLDS).astype(np.int8) if self.cross else np.full(n, FOLDS, dtype=np.int8)
        )
        x, parts, numbers = _read_only(tile), _read_only(self.parts), _read_only(self.numbers)
        fill_slots(x, folds, parts, numbers, MISSING, values[:n], places[:n])

    def work(self) -> tuple[float, float]:
        return 20.0 * self.n_features_in + 2.0 * self.slots + self.n_components, 0.0

    def held_bytes(self, itemsize: int) -> int:
        return self.held

    def scratch_bytes(self, itemsize: int) -> int:
        # the slots of a tile, a tile of rows in another order or dtype, their folds, and some columns of a tile
        return _tile_rows(self.slots) * (8 * self.slots + 8 * self.n_features_in + 1) + max(
            4 * self.n_components, _TILE_BYTES
        )

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> TableMap:
        map_: Any = super().from_spec(spec, arrays)
        # The compiled loops trust the arrays, so that they must be those of some encodings.
        try:
            again = cls.of_encodings(map_.n_features_in, map_.encodings(), map_.csr, map_.cross)
            same = again == map_ and arrays_fingerprint(again.arrays) == spec["digest"]
        except (InputError, AssertionError, ValueError, TypeError, IndexError, OverflowError) as error:
            raise SpecMismatchError(
                f"the arrays of a table map hold no encodings: {error}; save the map again"
            ) from None
        if not same:
            raise SpecMismatchError("the arrays of a table map are not those of its spec; save the map again")
        return map_


def _tile_rows(width: int) -> int:
    """Rows of a tile of which each takes so many numbers."""
    return max(1, _TILE_BYTES // (8 * width))


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written: so the loops are compiled once, whether or not the caller's array can be."""
    view = array.view()
    view.flags.writeable = False
    return view
