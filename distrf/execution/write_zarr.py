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
from .row_blocks import align_rows, blocks_are_csr, check_dask_rows, made_from, take_blocks
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
    overwrite: bool = False,
    **contents: Any,
) -> Written:
    """Write aligned Dask arrays to one store; blocks that the manifest lists as finished are not computed.

    Parameters
    ----------
    path : of the store
    arrays : {name: Dask array with rows in blocks}; the first one sets the blocks, which are cut anew where their rows are
        not equal. Text arrays become codes of `classes`
    kind, spec, classes, contents : see `distrf.store.Contents`
    provenance, overwrite : see `distrf.store.create`

    Raises
    ------
    InputError : NaN or infinity; the store then is unfinished. A path at, inside or around one that the arrays are read from
    SpecMismatchError : `path` holds a store with another spec
    """
    aligned = _aligned(path, arrays)
    coded = {name: _codes(a, classes) if a.dtype.kind == "U" else a for name, a in aligned.items()}
    first = next(iter(aligned.values()))
    wanted = store.Contents(
        {name: (a.shape[1:], a.dtype) for name, a in coded.items()},
        first.shape[0],
        max(first.chunks[0]),
        kind=kind,
        spec=spec,
        classes=classes,
        sparse=[name for name, a in coded.items() if blocks_are_csr(a)],
        **contents,
    )
    info = store.create(path, wanted, provenance=provenance, overwrite=overwrite)
    made = getattr(made_from(first)[1], "label", "featurize")
    return _write(info, coded, {"features": made, "predictions": "predict"}.get(kind, "write"))


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
    aligned = _aligned(path, arrays)
    texts = [a for a in aligned.values() if a.dtype.kind == "U"]
    classes = [str(c) for c in np.unique(computed(da.unique(texts[0]))[0])] if texts else None
    _check_like(store.appendable(path), aligned)
    n_rows = next(iter(aligned.values())).shape[0]
    info = store.begin_append(path, n_rows, part, classes=classes, again=again)
    coded = {name: _codes(a, info.classes) if a.dtype.kind == "U" else a for name, a in aligned.items()}
    return _write(info, coded, "append")


def _aligned(path: str, arrays: dict[str, da.Array]) -> dict[str, da.Array]:
    """The arrays in the blocks of the first one. Raises InputError where they are read from what shall be written."""
    store.check_apart(path, graph_inputs(arrays.values()))
    name = next(iter(arrays))
    first = check_dask_rows(arrays[name], name)
    return {key: first if key == name else align_rows(first, array, key) for key, array in arrays.items()}


def _write(info: store.StoreInfo, arrays: dict[str, da.Array], label: str) -> Written:
    """Write the pending blocks of a store, or of an append to it, and finish it."""
    pending = store.pending_blocks(info.path, store_id=info.id)
    if pending:
        first = info.first_row // info.block_rows
        starts = [max(start, info.first_row) for _, start, _ in info.blocks()][first:]
        lengths = tuple(np.diff([*starts, info.n_rows]).tolist())
        cut = [a.rechunk({0: lengths}, method="tasks") for a in arrays.values()]
        if len(pending) < len(lengths):
            cut = [take_blocks(a, [index - first for index in pending]) for a in cut]
        reduction = _WriteReduction(info.path, info.id, tuple(arrays), info.block_rows)
        run_pass(reduction, cut, label=label, starts=[starts[index - first] for index in pending])
    return Written(store.finish(info.path, store_id=info.id), len(pending), info.n_blocks)


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
        return state + store.write_block(self.path, index, values, store_id=self.store_id)
