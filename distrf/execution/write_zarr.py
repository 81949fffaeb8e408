"""Lazy row arrays into a Zarr store, block by block, resumable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from .. import store
from ..errors import InputError, first_not_finite
from .graph_inputs import graph_inputs
from .passes import run_pass
from .row_blocks import align_rows, blocks_are_csr, check_dask_rows, maker_label, take_blocks
from .scheduler import computed
from .states import RowCount


@dataclass(frozen=True)
class Written:
    """Result of a write.

    Attributes
    ----------
    info : StoreInfo or None
        The finished store; None for Parquet.
    computed : int
        Blocks that this call computed; the others were there.
    blocks : int
        All blocks.
    """

    info: store.StoreInfo | None
    computed: int
    blocks: int

    def __str__(self) -> str:
        what = "" if self.info is None else f"{self.info.n_rows:,} rows in {self.info.path}: "
        return f"{what}{self.computed:,} of {self.blocks:,} blocks computed"


def write_rows(
    path: str,
    arrays: dict[str, da.Array],
    *,
    kind: str,
    spec: dict[str, Any],
    classes: list[Any] | None = None,
    provenance: dict[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
    overwrite: bool = False,
    **contents: Any,
) -> Written:
    """Write aligned Dask arrays to one store; blocks that the manifest lists as finished are not computed.

    Parameters
    ----------
    path : of the store
    arrays : {name: Dask array with rows in blocks}; the first one sets the blocks. Text arrays become
        codes of `classes`
    kind, spec, classes, contents : see `distrf.store.Contents`
    provenance, storage_options, overwrite : see `distrf.store.create`

    Raises
    ------
    InputError : blocks of unequal rows, NaN or infinity; the store then is unfinished. A path at, inside or around
        one that the arrays are read from
    SpecMismatchError : `path` holds a store with another spec
    """
    names = list(arrays)
    store.check_apart(path, graph_inputs(arrays.values()), storage_options=storage_options)
    first = check_dask_rows(arrays[names[0]], names[0])
    aligned = [first, *(align_rows(first, arrays[name], name) for name in names[1:])]
    block_rows = _uniform_rows(first)
    coded = [_codes(a, classes) if a.dtype.kind == "U" else a for a in aligned]
    wanted = store.Contents(
        {name: (a.shape[1:], a.dtype) for name, a in zip(names, coded, strict=True)},
        first.shape[0],
        block_rows,
        kind=kind,
        spec=spec,
        classes=classes,
        sparse=[name for name, a in zip(names, coded, strict=True) if blocks_are_csr(a)],
        **contents,
    )
    info = store.create(
        path, wanted, provenance=provenance, storage_options=storage_options, overwrite=overwrite
    )
    pending = store.pending_blocks(path, storage_options=storage_options)
    if pending:
        reduction = _WriteReduction(info.path, info.id, tuple(names), block_rows, storage_options)
        left = [take_blocks(a, pending) if len(pending) < info.n_blocks else a for a in coded]
        label = {"features": maker_label(first), "predictions": "predict"}.get(kind, "write")
        run_pass(reduction, left, label=label, starts=[info.bounds(index)[0] for index in pending])
    finished = store.finish(path, store_id=info.id, storage_options=storage_options)
    return Written(finished, len(pending), info.n_blocks)


def append_rows(
    path: str, arrays: dict[str, da.Array], *, part: dict[str, Any], again: bool = False
) -> Written:
    """Append aligned Dask arrays to a store of rows; blocks that an interrupted call has written are not computed.

    Parameters
    ----------
    path : of the store
    arrays : {name: Dask array}; every array of the store
    part, again : see `distrf.store.begin_append`

    Raises
    ------
    InputError : NaN or infinity, other arrays than those of the store, or paths that lie in each other
    SpecMismatchError : the store has these rows
    """
    store.check_apart(path, graph_inputs(arrays.values()))
    names = list(arrays)
    first = check_dask_rows(arrays[names[0]], names[0])
    aligned = [first, *(align_rows(first, arrays[name], name) for name in names[1:])]
    texts = [a for a in aligned if a.dtype.kind == "U"]
    classes = [str(c) for c in np.unique(computed(da.unique(texts[0]))[0])] if texts else None
    _check_like(store.appendable(path), dict(zip(names, aligned, strict=True)))
    info = store.begin_append(path, first.shape[0], part, classes=classes, again=again)
    pending = store.pending_blocks(path, store_id=info.id)
    if pending:
        new = [
            (index, max(start, info.first_row), stop)
            for index, start, stop in info.blocks()
            if stop > info.first_row
        ]
        lengths = tuple(stop - start for _, start, stop in new)
        coded = [_codes(a, info.classes) if a.dtype.kind == "U" else a for a in aligned]
        cut = [a.rechunk({0: lengths}, method="tasks") for a in coded]
        reduction = _WriteReduction(info.path, info.id, tuple(names), info.block_rows, None)
        left = [take_blocks(a, [index - new[0][0] for index in pending]) for a in cut]
        starts = [start for index, start, _ in new if index in set(pending)]
        run_pass(reduction, left, label="append", starts=starts)
    return Written(store.finish(path, store_id=info.id), len(pending), info.n_blocks)


def _check_like(info: store.StoreInfo, arrays: dict[str, da.Array]) -> None:
    """Raise InputError for rows that are not those of a store in their arrays, widths or kind."""
    has = info.arrays
    if has.keys() != arrays.keys():
        raise InputError(f"{info.path!r} has the arrays {sorted(has)}, the new rows have {sorted(arrays)}")
    for name, new in arrays.items():
        old, csr = has[name], blocks_are_csr(new)
        if old.shape[1:] != new.shape[1:] or old.sparse != csr:
            kinds = [f"{'CSR' if of else 'dense'} with {' x '.join(map(str, shape)) or 1} columns"
                     for of, shape in ((old.sparse, old.shape[1:]), (csr, new.shape[1:]))]  # fmt: skip
            raise InputError(f"{name!r} of {info.path!r} is {kinds[0]}, that of the new rows {kinds[1]}")


def _uniform_rows(X: da.Array) -> int:
    rows = X.chunks[0]
    if any(r != rows[0] for r in rows[:-1]) or rows[-1] > rows[0]:
        raise InputError(
            f"blocks to write must have equal rows, the last one at most as many, got {rows[:4]} ... {rows[-1]}; "
            f"use rechunk(({max(rows)}, -1)), or ingest the rows in blocks of a power of two (block_rows=)"
        )
    return int(rows[0])


def _codes(y: da.Array, classes: list[Any] | None) -> da.Array:
    if classes is None:
        raise InputError("text arrays are written as codes of classes=, which is missing")
    return da.map_blocks(_encode, y, np.asarray(classes), dtype=np.int32)  # type: ignore[arg-type]


def _encode(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)].astype(np.int32)


@dataclass(frozen=True)
class _WriteReduction(RowCount):
    """Writes each block and marks it; the state is the number of rows written.

    store_id : of the store at `path` for which the blocks are made
    """

    path: str
    store_id: str | None
    names: tuple[str, ...]
    block_rows: int
    storage_options: Any

    def update(self, state: int, first_row: int, *blocks: Any) -> int:
        index = first_row // self.block_rows
        for name, block in zip(self.names, blocks, strict=True):
            # The sum is not finite if an entry is not: one number to look at instead of a block.
            if block.dtype.kind == "f" and not np.isfinite(block.sum(dtype=np.float64)):
                bad = first_not_finite(block)
                if bad is not None:
                    raise InputError(
                        f"{name} must be finite, but row {first_row + bad[0]} is not; impute or drop such rows"
                    )
        values = dict(zip(self.names, blocks, strict=True))
        return state + store.write_block(
            self.path, index, values, store_id=self.store_id, storage_options=self.storage_options
        )
