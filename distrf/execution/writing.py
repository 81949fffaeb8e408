"""Lazy row arrays into a Zarr store, or a folder of Parquet part files, block by block, resumable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import dask.array as da
import numpy as np

from .. import store
from ..errors import InputError, first_not_finite
from .graph import graph_inputs
from .passes import RowCount, run_pass
from .row_blocks import align_rows, blocks_are_csr, check_dask_rows, lazy_blocks, made_from, take_blocks


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
    overwrite: bool = False,
    **contents: Any,
) -> Written:
    """Write aligned Dask arrays to one store; blocks that the manifest lists as finished are not computed.

    Parameters
    ----------
    path : of the store
    arrays : {name: Dask array with rows in blocks}; the first one sets the blocks, which are cut anew where their rows are
        not equal. Text arrays become codes of `classes`
    kind, spec, classes, contents : see `distrf.store.StoreInfo`
    overwrite : see `distrf.store.create`

    Raises
    ------
    InputError : NaN or infinity; the store then is unfinished. A path at, inside or around one that the arrays are read from
    SpecMismatchError : `path` holds a store with another spec
    """
    aligned = _aligned(path, arrays)
    coded = {name: _codes(a, classes) if a.dtype.kind == "U" else a for name, a in aligned.items()}
    first = next(iter(aligned.values()))
    wanted = store.StoreInfo.of(
        {name: (a.shape[1:], a.dtype) for name, a in coded.items()},
        first.shape[0],
        max(first.chunks[0]),
        kind=kind,
        spec=spec,
        classes=classes,
        sparse=[name for name, a in coded.items() if blocks_are_csr(a)],
        **contents,
    )
    info = store.create(path, wanted, overwrite=overwrite)
    made = getattr(made_from(first)[1], "label", "featurize")
    return _write(info, coded, {"features": made, "predictions": "predict"}.get(kind, "write"))


def write_parts(
    path: str,
    arrays: dict[str, da.Array],
    key_source: str | None,
    keys: list[str] | None,
    spec: dict[str, Any],
    overwrite: bool = False,
    columns: list[str] | None = None,
    *,
    headings: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Written:
    """Write aligned arrays to Parquet part files, one for each block, and key columns of a table beside them.

    Parameters
    ----------
    path : the folder of the part files
    arrays : {column name: Dask array (n,) or (n, k)}; the first one sets the blocks
    headings : names of the columns of some arrays (n, k); without, they are name_0 ... name_{k-1}
    key_source, keys : the table that the rows came from, and the columns of it to carry over
    columns : the feature columns of that table
    spec : what determines the content; another one in the folder is an error, unless `overwrite`
    """
    aligned = _aligned(path, arrays, key_source)
    first = next(iter(aligned.values()))
    blocks, n_blocks = list(aligned.values()), first.numblocks[0]
    numbers = da.map_blocks(_block_number, da.arange(len(first), chunks=(first.chunks[0],)), dtype=np.int64)
    if keys:
        blocks.append(align_rows(first, _key_rows(str(key_source), keys, columns), "keys"))
    info = store.create(path, store.StoreInfo.of({}, n_blocks, 1, kind="parts", spec=spec), overwrite=overwrite)
    pending = info.pending
    named = {name: tuple(headings.get(name, ())) for name in aligned}
    reduction = _PartReduction(info.path, info.id, named, tuple(keys or ()))
    _write_blocks(reduction, [*blocks, numbers], pending, "predict" if "prediction" in arrays else "write")
    store.finish(path, store_id=info.id)
    return Written(None, len(pending), n_blocks)


def _aligned(path: str, arrays: dict[str, da.Array], *others: str | None) -> dict[str, da.Array]:
    """The arrays in the blocks of the first one that have rows. Raises InputError where they are read from what shall be written."""
    store.check_apart(path, [*graph_inputs(arrays.values()), *others])
    name = next(iter(arrays))
    first = check_dask_rows(arrays[name], name)
    lengths = tuple(rows for rows in first.chunks[0] if rows) or (0,)
    first = first.rechunk({0: lengths}, method="tasks")
    return {key: first if key == name else align_rows(first, array, key) for key, array in arrays.items()}


def _write(info: store.StoreInfo, arrays: dict[str, da.Array], label: str) -> Written:
    """Write the pending blocks of a store, and finish it."""
    pending = info.pending
    if pending:
        lengths = tuple(stop - start for start, stop in map(info.bounds, range(info.n_blocks)))
        cut = [a.rechunk({0: lengths}, method="tasks") for a in arrays.values()]
        reduction = _StoreReduction(info.path, info.id, tuple(arrays), info.block_rows)
        _write_blocks(reduction, cut, pending, label)
    return Written(store.finish(info.path, store_id=info.id), len(pending), info.n_blocks)


def _write_blocks(reduction: Any, arrays: Sequence[da.Array], pending: Sequence[int], label: str) -> None:
    """Hand some blocks of aligned arrays to a reduction that writes them."""
    if pending:
        lengths = arrays[0].chunks[0]
        starts = np.cumsum([0, *lengths])[pending].tolist()
        some = arrays if len(pending) == len(lengths) else [take_blocks(a, pending) for a in arrays]
        run_pass(reduction, some, label=label, starts=starts)


def _codes(y: da.Array, classes: list[Any] | None) -> da.Array:
    if classes is None:
        raise InputError("text arrays are written as codes of classes=, which is missing")
    return da.map_blocks(_encode, y, np.asarray(classes), dtype=np.int32)  # type: ignore[arg-type]


def _encode(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)].astype(np.int32)


@dataclass(frozen=True)
class _StoreReduction(RowCount):
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
            with np.errstate(all="ignore"):  # of infinities of both signs
                finite = block.dtype.kind != "f" or np.isfinite(block.sum(dtype=np.float64))
            if not finite and (bad := first_not_finite(block)) is not None:
                raise InputError(
                    f"{name} must be finite, but row {first_row + bad[0]} is not; impute or drop such rows"
                )
        values = dict(zip(self.names, blocks, strict=True))
        return state + store.write_block(self.path, index, values, store_id=self.store_id)


def _block_number(rows: np.ndarray, block_id: tuple[int] | None = None) -> np.ndarray:
    return np.full(len(rows), block_id[0] if block_id else 0)


def _key_rows(path: str, keys: Sequence[str], columns: Sequence[str] | None) -> da.Array:
    """Key columns of a table, lazily: its blocks are Arrow tables. Raises InputError where it has no such columns."""
    # Features may have nulls and texts: only keys are read.
    source = store.open_source(path, store.Selection(columns=columns, coded=True, others=keys))
    found = source.key_blocks(keys)
    readers = {id(reader): _KeyReader(reader) for reader, _, _ in found}  # of many blocks, few
    blocks = [(readers[id(reader)], first, last) for reader, first, last in found]
    return lazy_blocks(blocks, np.empty((0, len(keys)), dtype=object), (len(keys),))


@dataclass(frozen=True)
class _KeyReader:
    """Reads rows as Arrow tables."""

    reader: Any

    @property
    def paths(self) -> tuple[str, ...]:
        return self.reader.paths

    def read(self, first: int, last: int) -> Any:
        return self.reader.read_table(first, last)


@dataclass(frozen=True)
class _PartReduction(RowCount):
    """Writes the part file of each block. The last array tells its number.

    store_id : of the folder at `path` for which the blocks are made; names : of each array, and of its columns
    """

    path: str
    store_id: str | None
    names: dict[str, tuple[str, ...]]
    keys: tuple[str, ...]

    def update(self, state: int, first_row: int, *blocks: Any) -> int:
        columns: dict[str, Any] = {name: blocks[-2].column(name) for name in self.keys}
        for (name, headings), array in zip(self.names.items(), blocks, strict=False):
            columns |= {h: array[:, j] for j, h in enumerate(headings)} if headings else {name: array}
        index = int(blocks[-1].max(initial=0))
        return state + store.write_block(self.path, index, columns, store_id=self.store_id)
