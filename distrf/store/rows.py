"""`open_rows`: Zarr or Parquet rows as lazy Dask arrays, one task a block (the Dask side)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
import zarr
from dask.base import tokenize
from dask.blockwise import BlockwiseDepDict, blockwise
from dask.highlevelgraph import HighLevelGraph

from ..errors import InputError, StoreError
from . import csr_groups, files, parquet_reader, zarr_writer
from .files import Options
from .foreign_arrays import check_foreign, check_missing
from .missing_values import resolve
from .parquet_reader import ParquetSource, read_parquet
from .zarr_layout import MANIFEST, StoreInfo
from .zarr_reader import ZarrSource, class_array, read_zarr

BLOCK_BYTES = 32 * 2**20

Source = ZarrSource | ParquetSource
Reads = list[tuple[Source, int, int]]


@dataclass(frozen=True)
class RowsInfo:
    """Rows, columns and layout of a data set, known without reading data.

    ``nbytes`` are the bytes of X in memory (of the stored entries for CSR rows).
    """

    path: str
    n: int
    d: int
    dtype: str
    block_rows: int
    classes: list[Any] | None
    columns: list[str] | None
    target: str | None
    nbytes: int
    sparse: bool


def read_block(source: Source, start: int, stop: int) -> Any:
    """Rows ``start:stop`` of a source, as the one task of a block."""
    if isinstance(source, ZarrSource):
        return read_zarr(source, start, stop)
    return read_parquet(source, start, stop)


def open_rows(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | Sequence[int] | None = None,
    rows_per_block: int | None = None,
    impute: str | float | Sequence[float] | None = None,
    uniform: bool = False,
    strict: bool = False,
    storage_options: Options = None,
) -> tuple[da.Array, da.Array | None]:
    """Open rows lazily.

    Parameters
    ----------
    path : path or URL
        A Zarr store of distrf; any other Zarr group (arrays X and y) or 2-D array; Parquet: a file, a folder,
        a glob.
    target : str, optional
        The column (Parquet) or array (Zarr, default ``"y"``) of targets.
    columns : names or, for Zarr, column numbers
        Which columns of X, in this order. Default: all; for Parquet all but the target.
    rows_per_block : int, optional
        Zarr: a whole multiple of the chunk rows; default the block of the store, else near 32 MiB of X.
        Parquet: wanted size; row groups are joined or cut towards it.
    impute : "mean", "median", "zero" or a number
        What replaces nulls and NaN of X. Mean (one pass) and median (of a seeded sample of 100,000 rows) are
        computed now and are fixed numbers from then on.
    uniform : bool
        Parquet: blocks of equal rows, as a Zarr store needs them, at the price of reading some row groups twice.
    strict : bool
        Refuse a Zarr store of others that lacks chunks, which read as its fill value, where a warning counts them.

    Returns
    -------
    X : Dask array (n, d); blocks are csr_array for CSR stores
    y : Dask array (n,) or (n, t), or None; text classes as fixed-width unicode

    Notes
    -----
    Keys change when the metadata of a Zarr store or the files of a Parquet data set change. Chunks of a foreign
    Zarr array rewritten in place do not change them. Arrays that are packed or masked by the CF conventions
    (``scale_factor``, ``_FillValue``, ...) are refused.
    """
    path = files.normalise(path)
    if parquet_reader.is_parquet(path, storage_options):
        return _open_parquet(path, target, columns, rows_per_block, impute, storage_options, uniform)
    group, info = _open_node(path, storage_options)
    _require_complete(info)
    with files.reading(path, "a Zarr store"):
        x_node, x_name = _find_x(group, path)
        y_node, y_name = _find_y(group, path, target)
    if info is None:
        for node in (x_node, y_node):
            if isinstance(node, zarr.Array):
                check_foreign(path, node)
                check_missing(path, node, strict, storage_options)
    n, d = _shape(x_node)
    if y_node is not None and (y_node.ndim not in (1, 2) or y_node.shape[0] != n):
        raise StoreError(
            f"X and y must have the same rows: X has shape {(n, d)}, {y_name!r} has shape {y_node.shape} in "
            f"{path!r}"
        )
    starts = _zarr_bounds(path, x_node, n, d, info, rows_per_block)
    chosen = _column_numbers(path, columns, d, info.columns if info else None)
    source = _zarr_source(path, group, x_name, storage_options, columns=chosen)
    meta = _meta(x_node)
    X = _lazy([(source, *b) for b in starts], (d if chosen is None else len(chosen),), meta)
    if impute is not None:
        X = _impute_zarr(X, source, starts, impute, meta)
    if y_node is None:
        return X, None
    return X, _open_coded(path, group, y_name, y_node, starts, info, storage_options)


def open_array(
    path: str | os.PathLike[str],
    name: str,
    *,
    rows_per_block: int | None = None,
    strict: bool = False,
    storage_options: Options = None,
) -> da.Array:
    """One dense row-aligned array of a Zarr store (a prediction, a sample weight), lazily.

    Integer codes of an array called y or prediction become class names if the store has classes. `strict` is that of
    `open_rows`.
    """
    path = files.normalise(path)
    group, info = _open_node(path, storage_options)
    _require_complete(info)
    with files.reading(path, "a Zarr store"):
        node = group[name] if isinstance(group, zarr.Group) and name in group else None
    if not isinstance(node, zarr.Array):
        raise StoreError(f"{path!r} has no dense array {name!r}; it has {_names(group)}")
    if info is None:
        check_foreign(path, node)
        check_missing(path, node, strict, storage_options)
    starts = _zarr_bounds(path, node, node.shape[0], _row_size(node), info, rows_per_block)
    return _open_coded(path, group, name, node, starts, info, storage_options)


def describe(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | Sequence[int] | None = None,
    rows_per_block: int | None = None,
    impute: float | Sequence[float] | None = None,
    storage_options: Options = None,
) -> RowsInfo:
    """Rows, columns, dtype and blocks of a data set, without reading data; `impute` as numbers, not a rule."""
    path = files.normalise(path)
    if parquet_reader.is_parquet(path, storage_options):
        plan = parquet_reader.plan(
            path, target, _names_only(columns), rows_per_block, storage_options, impute=impute
        )
        d, size = len(plan.columns), plan.dtype.itemsize
        largest = max(stop - start for _, start, stop in plan.blocks)
        return RowsInfo(
            path, plan.n_rows, d, str(plan.dtype), largest, None, list(plan.columns), target,
            plan.n_rows * d * size, False,
        )  # fmt: skip
    group, info = _open_node(path, storage_options)
    with files.reading(path, "a Zarr store"):
        node, name = _find_x(group, path)
    if info is None and isinstance(node, zarr.Array):
        check_foreign(path, node)
    n, d = _shape(node)
    sparse = not isinstance(node, zarr.Array)
    dtype = _meta(node).dtype
    bounds = _zarr_bounds(path, node, n, d, info, rows_per_block)
    chosen = _column_numbers(path, columns, d, info.columns if info else None)
    names = info.columns if info else None
    if names is not None and chosen is not None:
        names = [names[j] for j in chosen]
    width = d if chosen is None else len(chosen)
    if sparse:
        fs, root = files.filesystem(path, storage_options)
        nbytes = int(fs.du(f"{root}/{name}"))
    else:
        nbytes = n * width * dtype.itemsize
    return RowsInfo(
        path, n, width, str(dtype), bounds[0][1] - bounds[0][0], info.classes if info else None, names,
        info.target if info else target, nbytes, sparse,
    )  # fmt: skip


def impute_values(
    path: str | os.PathLike[str],
    rule: str | float | Sequence[float],
    *,
    target: str | None = None,
    columns: Sequence[str] | Sequence[int] | None = None,
    storage_options: Options = None,
) -> list[float] | None:
    """The numbers, one a column, that an imputation rule stands for on these rows; to pass on as ``impute=``.

    None where nothing can be missing (integers, CSR rows).
    """
    X, _ = open_rows(path, target=target, columns=columns, impute=rule, storage_options=storage_options)
    layer: Any = X.dask.layers[X.name]
    source = next(iter(layer.io_deps.values())).mapping[(0, 0)][0]  # the first block's; all share the numbers
    return None if source.impute is None else [float(value) for value in source.impute]


# --- the graph -----------------------------------------------------------------------------------------------


def _read(where: tuple[Source, int, int]) -> Any:
    return read_block(*where)


def _lazy(reads: Reads, tail: tuple[int, ...], meta: Any) -> da.Array:
    """A Dask array with one `read_block` task for every (source, start, stop)."""
    name = "rows-" + tokenize(reads, tail, meta.dtype.str)
    chunks = (tuple(stop - start for _, start, stop in reads), *((size,) for size in tail))
    index = tuple(range(len(chunks)))
    zeros = (0,) * len(tail)
    arguments = BlockwiseDepDict(
        {(i, *zeros): read for i, read in enumerate(reads)}, numblocks=tuple(len(sizes) for sizes in chunks)
    )
    options: dict[str, Any] = {"numblocks": {}, "_data_producer": True}
    layer = blockwise(_read, name, index, arguments, index, **options)
    return da.Array(HighLevelGraph.from_collections(name, layer), name, chunks, meta=meta)


# --- Zarr ----------------------------------------------------------------------------------------------------


def _open_node(path: str, storage_options: Options) -> tuple[zarr.Group | zarr.Array, StoreInfo | None]:
    """The Zarr node, and our information about it if it is our store."""
    files.require(path, storage_options)
    node = files.open_group(path, "r", storage_options)
    if _is_ours(node):
        return node, zarr_writer.info(path, storage_options=storage_options)
    if isinstance(node, zarr.Group) and MANIFEST in node and "distrf" in node[MANIFEST].attrs:
        raise StoreError(
            f"the zarr.json of {path!r} is damaged: it has the manifest of a store of distrf and no distrf attribute; "
            "restore it, or remove the store and make it again"
        )
    return node, None


def _is_ours(group: Any) -> bool:
    return isinstance(group, zarr.Group) and "distrf" in group.attrs


def _names(group: Any) -> list[str]:
    return sorted(key for key in group) if isinstance(group, zarr.Group) else ["(a single array)"]


def _require_complete(info: StoreInfo | None) -> None:
    if info is not None and not info.complete:
        raise StoreError(
            f"only a complete store can be read: {info.n_blocks - info.pending} of {info.n_blocks} blocks of "
            f"{info.path!r} are finished; run the command that writes it again, and it resumes where it stopped"
        )


def _find_x(group: Any, path: str) -> tuple[Any, str]:
    """The node of X and its name; "" for a store that is a single array."""
    if isinstance(group, zarr.Array):
        node, name = group, ""
    elif "X" in group:
        node, name = group["X"], "X"
    else:
        matrices = [key for key, item in group.arrays() if item.ndim == 2]
        if len(matrices) != 1:
            raise StoreError(
                f"X is the array called X, or else the only 2-D array; {path!r} has {_names(group)}; open one "
                "array by its own path, or open_array(path, name)"
            )
        node, name = group[matrices[0]], matrices[0]
    if isinstance(node, zarr.Group) and not csr_groups.is_csr(node):
        raise StoreError(f"{name!r} of {path!r} is a group that is not in distrf's CSR layout")
    if isinstance(node, zarr.Array) and (node.ndim != 2 or node.dtype.kind not in "biuf"):
        raise StoreError(
            f"X is a 2-D numeric array; {name or path!r} has shape {node.shape} and dtype {node.dtype}"
        )
    return node, name


def _find_y(group: Any, path: str, target: str | None) -> tuple[Any, str]:
    if isinstance(group, zarr.Group):
        name = target or "y"
        if name in group and isinstance(group[name], zarr.Array):
            return group[name], name
    if target is None:
        return None, ""
    # An ingested store calls its target y, whatever its name was in the source.
    if _is_ours(group) and group.attrs["distrf"]["target"] == target and "y" in group:
        return group["y"], "y"
    raise StoreError(f"the target {target!r} is not an array of {path!r}; it has {_names(group)}")


def _shape(node: Any) -> tuple[int, int]:
    shape = node.shape if isinstance(node, zarr.Array) else node.attrs["shape"]
    return int(shape[0]), int(shape[1])


def _row_size(node: zarr.Array) -> int:
    return int(np.prod(node.shape[1:], dtype=np.int64))


def _meta(node: Any) -> Any:
    if isinstance(node, zarr.Array):
        return np.empty((0,) * node.ndim, np.dtype(node.dtype))
    return sp.csr_array((0, 0), dtype=node["data"].dtype)


def _zarr_bounds(
    path: str, node: Any, n: int, row_size: int, info: StoreInfo | None, rows_per_block: int | None
) -> list[tuple[int, int]]:
    """Rows of every block: whole chunks, except the last."""
    if isinstance(node, zarr.Array):
        unit = int((node.shards or node.chunks)[0])
        itemsize = node.dtype.itemsize
    else:
        unit, itemsize = int(node.attrs["block_rows"]), 1
    if n < 1 or row_size < 1:
        raise StoreError(f"{path!r} is empty: {n} rows of {row_size} values")
    if rows_per_block is None:
        near = max(1, BLOCK_BYTES // (unit * row_size * itemsize)) * unit
        rows_per_block = info.block_rows if info else near
    elif rows_per_block < 1 or (rows_per_block % unit and rows_per_block < n):
        near = max(unit, rows_per_block // unit * unit)
        raise StoreError(
            f"a block is a whole multiple of the chunks it reads: rows_per_block={rows_per_block}, chunks of "
            f"{unit} rows in {path!r}; use rows_per_block={near} or {near + unit}"
        )
    return [(start, min(n, start + rows_per_block)) for start in range(0, n, rows_per_block)]


def _zarr_source(path: str, group: Any, name: str, storage_options: Options, **fields: Any) -> ZarrSource:
    fs, root = files.filesystem(path, storage_options)
    inner = f"{root}/{name}" if name else root
    parts = [f"{root}/zarr.json", f"{inner}/zarr.json", f"{inner}/.zarray"]
    identity = tokenize([files.exists_identity(fs, part) for part in parts])
    content = files.content_key(fs, parts[0]) if _is_ours(group) else None
    return ZarrSource(path, name, identity, content=content, storage_options=storage_options, **fields)


def _open_coded(
    path: str,
    group: Any,
    name: str,
    node: Any,
    bounds: list[tuple[int, int]],
    info: StoreInfo | None,
    storage_options: Options,
) -> da.Array:
    coded = bool(info and info.classes and node.dtype.kind in "iu" and name in ("y", "prediction"))
    source = _zarr_source(path, group, name, storage_options, decode=coded)
    meta = _meta(node)
    if coded:
        assert info is not None
        assert info.classes is not None
        meta = np.empty((0,) * node.ndim, class_array(info.classes).dtype)
    return _lazy([(source, *b) for b in bounds], tuple(node.shape[1:]), meta)


def _column_numbers(
    path: str, columns: Sequence[Any] | None, d: int, names: list[str] | None
) -> tuple[int, ...] | None:
    if columns is None:
        return None
    chosen = []
    for column in columns:
        if isinstance(column, str) and names and column in names:
            chosen.append(names.index(column))
        elif not isinstance(column, str) and 0 <= int(column) < d:
            chosen.append(int(column))
        else:
            known = f"columns {names[:20]}" if names else f"no column names, only numbers 0..{d - 1}"
            raise InputError(f"column {column!r} is not in {path!r}, which has {known}")
    if not chosen:
        raise InputError("columns= chooses at least one column; received none")
    return tuple(chosen)


def _impute_zarr(
    X: da.Array,
    source: ZarrSource,
    bounds: list[tuple[int, int]],
    impute: str | float | Sequence[float],
    meta: Any,
) -> da.Array:
    if sp.issparse(meta) or meta.dtype.kind != "f":
        return X
    rows = ((start, read_zarr(source, start, stop)) for start, stop in bounds)
    values = resolve(impute, rows, X.shape[0], list(range(X.shape[1])))
    filled = replace(source, impute=values)
    return _lazy([(filled, *b) for b in bounds], (X.shape[1],), meta)


# --- Parquet -------------------------------------------------------------------------------------------------


def _names_only(columns: Sequence[Any] | None) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(c, str) for c in columns):
        raise InputError(f"columns of Parquet are a list of names; received {columns!r}")
    return list(columns)


def _open_parquet(
    path: str,
    target: str | None,
    columns: Sequence[Any] | None,
    rows_per_block: int | None,
    impute: str | float | Sequence[float] | None,
    storage_options: Options,
    uniform: bool,
) -> tuple[da.Array, da.Array | None]:
    plan = parquet_reader.plan(
        path, target, _names_only(columns), rows_per_block, storage_options, impute=impute, uniform=uniform
    )
    X = _lazy(list(plan.blocks), (len(plan.columns),), np.empty((0, 0), plan.dtype))
    if target is None:
        return X, None
    reads, dtype = parquet_reader.target_blocks(plan)
    return X, _lazy(list(reads), (), np.empty((0,), dtype))
