"""Reading Parquet: row groups become row blocks; NumPy out (no Dask here)."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from . import files, missing_values
from .files import Options

BLOCK_BYTES = 32 * 2**20
SUFFIXES = (".parquet", ".parq", ".pq")
_INDEX = re.compile(r"__index_level_\d+__")  # row labels that pandas adds

Span = tuple[str, int, int, int]  # file, row group, its first row in the data set, its rows


@dataclass(frozen=True)
class ParquetSource:
    """The row groups of one block and the columns wanted; small enough to travel in a task.

    ``dtype`` of the result: numbers, or ``<U`` text for a target; ``vector`` for a single column (n,).
    """

    spans: tuple[Span, ...]
    columns: tuple[str, ...]
    dtype: str
    identity: str
    impute: tuple[float, ...] | None = None
    vector: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read."""
        return tuple(dict.fromkeys(span[0] for span in self.spans))

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return (
            "ParquetSource", self.spans, self.columns, self.dtype, self.identity, self.impute, self.vector,
        )  # fmt: skip


@dataclass(frozen=True)
class ParquetPlan:
    """The blocks of a Parquet data set: ``(source, start, stop)`` in row order."""

    path: str
    n_rows: int
    columns: tuple[str, ...]
    dtype: np.dtype
    target: str | None
    target_type: pa.DataType | None
    blocks: tuple[tuple[ParquetSource, int, int], ...]
    schema: pa.Schema
    identity: str


def is_parquet(path: str, storage_options: Options = None) -> bool:
    """True for a Parquet file or glob by its name, or a folder with Parquet files in it."""
    if path.endswith(SUFFIXES):
        return True
    if files.is_glob(path, storage_options):
        return True
    fs, root = files.filesystem(path, storage_options)
    if {"zarr.json", ".zgroup", ".zarray"} & files.names_in(fs, root):
        return False
    return fs.isdir(root) and files.holds(fs, root, SUFFIXES)


def plan(
    path: str,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    rows_per_block: int | None = None,
    storage_options: Options = None,
    *,
    impute: str | float | Sequence[float] | None = None,
    check_nulls: bool = True,
    uniform: bool = False,
) -> ParquetPlan:
    """Read the footers, choose columns and cut the rows into blocks.

    Row groups are joined up to ``rows_per_block`` (default: 32 MiB of X), and cut into equal parts if larger by
    a quarter (by default: above 128 MiB, since a part is reached by decoding the rows before it). With ``uniform``
    blocks are cut across row groups to exactly the wanted size (default: a power of two, which later splits evenly).
    The columns that folders like ``year=2020`` stand for are not read.
    """
    footers = _footers(path, storage_options)
    schema = footers[0][1].schema.to_arrow_schema()
    names = _choose(path, schema, target, columns)
    dtype = _common_dtype([schema.field(name).type for name in names], impute is not None)
    _same_schema(footers, [*names, *([target] if target else [])], schema)
    if check_nulls and impute is None:
        _refuse_nulls(footers, names)
    spans = _spans(footers)
    if not spans:
        raise StoreError(f"the Parquet data set {path!r} has no rows")
    n_rows = spans[-1][2] + spans[-1][3]
    slack = 1.25
    if rows_per_block is None:
        rows_per_block, slack = max(1, BLOCK_BYTES // (len(names) * dtype.itemsize)), 4.0
        if uniform:
            rows_per_block = 1 << (rows_per_block.bit_length() - 1)
    if rows_per_block < 1:
        raise InputError(f"rows_per_block is at least 1; received {rows_per_block}")
    identity = _identity([name for name, _ in footers], storage_options)
    base = ParquetSource((), tuple(names), dtype.str, identity, None, False, storage_options)
    cuts = _cut_uniform(spans, rows_per_block) if uniform else _cut(spans, rows_per_block, slack)
    blocks = tuple((replace(base, spans=s), start, stop) for s, start, stop in cuts)
    if impute is not None:
        values = _resolve(impute, blocks, n_rows, names)
        blocks = tuple((replace(source, impute=values), start, stop) for source, start, stop in blocks)
    kind = None if target is None else _value_type(schema.field(target).type)
    return ParquetPlan(path, n_rows, tuple(names), dtype, target, kind, blocks, schema, identity)


def read_parquet(source: ParquetSource, start: int, stop: int) -> np.ndarray:
    """Rows ``start:stop`` as an array (n, d), or (n,) for a vector source.

    Raises
    ------
    InputError
        A null without ``impute``: the message names the column and the row group.
    """
    parts = [_values(source, table, span) for table, span in _tables(source, start, stop)]
    block = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0)
    if block.shape[0] != stop - start:
        raise StoreError(
            f"rows {start}:{stop} were expected, {block.shape[0]} rows were read from "
            f"{[span[0] for span in source.spans][:3]}: the files changed since they were opened; open them again"
        )
    return block


def stream(
    table: ParquetPlan, dtype: np.dtype, allow_nulls: bool, batch_rows: int
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """``(X, target)`` in batches, in one run over every file; nulls of X become NaN if allowed.

    Reading block by block would decode a large row group again for each of its parts.
    """
    holes = (float("nan"),) * len(table.columns) if allow_nulls else None
    spans = tuple(dict.fromkeys(span for source, _, _ in table.blocks for span in source.spans))
    base = replace(table.blocks[0][0], spans=spans, dtype=dtype.str, impute=holes)
    labels = target_blocks(table)[0][0][0] if table.target is not None else None
    wanted = base if labels is None else replace(base, columns=(*base.columns, *labels.columns))
    for part, span in _tables(wanted, 0, table.n_rows, batch_rows):
        yield _values(base, part, span), None if labels is None else _values(labels, part, span)


def target_blocks(table: ParquetPlan) -> tuple[tuple[tuple[ParquetSource, int, int], ...], np.dtype]:
    """The blocks of the target column, and its dtype; text takes one pass to find its width."""
    assert table.target is not None
    assert table.target_type is not None
    if is_text(table.target_type):
        width = max((len(name) for name in target_classes(table)), default=1)
        dtype = np.dtype(f"<U{max(1, width)}")
    elif pa.types.is_decimal(table.target_type):
        dtype = np.dtype(np.float64)
    else:
        dtype = np.dtype(table.target_type.to_pandas_dtype())
    reads = tuple(
        (replace(s, columns=(table.target,), dtype=dtype.str, impute=None, vector=True), start, stop)
        for s, start, stop in table.blocks
    )
    return reads, dtype


def target_classes(table: ParquetPlan) -> list[str]:
    """The sorted distinct texts of the target column: one pass over that column."""
    assert table.target is not None
    found: set[str] = set()
    for source, start, stop in table.blocks:
        for part, span in _tables(replace(source, columns=(table.target,)), start, stop):
            column = part.column(table.target)
            if column.null_count:
                raise _null_error(table.target, span)
            found.update(pc.unique(column.cast(pa.large_string())).to_pylist())
    return sorted(found)


def read_table(source: ParquetSource, start: int, stop: int) -> pa.Table:
    """Rows ``start:stop`` of the columns of a source as they are in the file (key columns: ids, dates)."""
    tables = [part for part, _ in _tables(source, start, stop)]
    return pa.concat_tables(tables).select(list(source.columns))


def key_blocks(
    path: str | os.PathLike[str],
    keys: Sequence[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    rows_per_block: int | None = None,
    storage_options: Options = None,
) -> list[tuple[ParquetSource, int, int]]:
    """For every block that `open_rows` makes with these arguments: what `read_table` needs for its keys."""
    table = plan(files.normalise(path), target, columns, rows_per_block, storage_options, check_nulls=False)
    _require_columns(table.path, table.schema, keys)
    return [(replace(source, columns=tuple(keys)), start, stop) for source, start, stop in table.blocks]


def is_text(kind: pa.DataType) -> bool:
    """True for the Arrow text types."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def table_columns(path: str, storage_options: Options = None) -> tuple[int, int, dict[str, str]]:
    """Rows, row groups and {column: type} of a Parquet data set, from its footers."""
    footers = _footers(path, storage_options)
    schema = footers[0][1].schema.to_arrow_schema()
    rows = sum(footer.num_rows for _, footer in footers)
    groups = sum(footer.num_row_groups for _, footer in footers)
    return rows, groups, {field.name: str(field.type) for field in schema}


# --- planning ------------------------------------------------------------------------------------------------


def list_files(path: str, storage_options: Options = None) -> list[str]:
    """The Parquet files of a path in natural order (part-2 before part-10)."""
    fs, root = files.filesystem(path, storage_options)
    if files.is_glob(path, storage_options):
        found = glob.glob(root, recursive=True) if files.is_local(path) else fs.glob(root)
    elif fs.isdir(root):
        inside = fs.find(root)
        if f"{root}/_spec.json" in inside and f"{root}/_SUCCESS" not in inside:  # parts of ours, still written
            raise StoreError(
                f"only a complete folder of parts can be read: {path!r} has no _SUCCESS; run the command that writes "
                "it again, and it resumes where it stopped"
            )
        found = [name for name in inside if name.endswith(SUFFIXES)]
        found = [name for name in found if not name[len(root) :].lstrip("/").startswith(("_", "."))]
    else:
        found = [root] if fs.exists(root) else []
    if not found:
        raise StoreError(f"no such data: no Parquet file at {path!r}; check the path")
    if not files.is_local(path):
        found = [fs.unstrip_protocol(name) for name in found]
    return sorted(found, key=lambda name: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", name)])


@contextmanager
def _open(name: str, storage_options: Options) -> Iterator[pq.ParquetFile]:
    with files.reading(name, "Parquet"):
        if files.is_local(name):
            # Pre-buffering would hold the bytes of a whole row group beside its values.
            with pq.ParquetFile(
                name, pre_buffer=False, buffer_size=2**16, page_checksum_verification=True
            ) as file:
                yield file
        else:
            fs, inner = files.filesystem(name, storage_options)
            # One request for each run of column chunks; no read-ahead on top of it.
            with (
                fs.open(inner, "rb", cache_type="none") as raw,
                pq.ParquetFile(raw, pre_buffer=True, page_checksum_verification=True) as file,
            ):
                yield file


def _footers(path: str, storage_options: Options) -> list[tuple[str, pq.FileMetaData]]:
    def footer(name: str) -> tuple[str, pq.FileMetaData]:
        with _open(name, storage_options) as file:
            return name, file.metadata

    names = list_files(path, storage_options)
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(footer, names))


def _identity(names: Sequence[str], storage_options: Options) -> str:
    digest = hashlib.sha256()
    for name in names:
        fs, inner = files.filesystem(name, storage_options)
        digest.update(f"{name}\0{files.identity(fs, inner)}\0".encode())
    return digest.hexdigest()[:16]


def _require_columns(path: str, schema: pa.Schema, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise InputError(f"columns {missing} are not in {path!r}; its columns are {schema.names[:50]}")


def _choose(path: str, schema: pa.Schema, target: str | None, columns: Sequence[str] | None) -> list[str]:
    _require_columns(path, schema, [*(columns or []), *([target] if target is not None else [])])
    if columns is None:
        names = [name for name in schema.names if name != target and not _INDEX.fullmatch(name)]
    else:
        names = list(columns)
    if target in names:
        raise InputError(f"the target {target!r} is among columns=; leave it out")
    other = [
        f"{name} ({schema.field(name).type})" for name in names if not _is_numeric(schema.field(name).type)
    ]
    if other:
        raise InputError(
            f"features are numbers or booleans; {path!r} has the columns {other[:20]}; choose others with "
            "columns=, name the target with target=, or encode them first"
        )
    if not names:
        raise InputError(f"no feature column is left in {path!r}; its columns are {schema.names[:50]}")
    if target is not None:
        kind = _value_type(schema.field(target).type)
        if not (_is_numeric(kind) or is_text(kind)):
            raise InputError(f"a target is numbers, booleans or text; {target!r} has type {kind}")
    return names


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_numeric(kind: pa.DataType) -> bool:
    test = pa.types
    return test.is_integer(kind) or test.is_floating(kind) or test.is_boolean(kind) or test.is_decimal(kind)


def _common_dtype(kinds: Sequence[pa.DataType], imputed: bool) -> np.dtype:
    """One type keeps its dtype; a mix is float32 where that is exact, else float64."""
    wide = any(
        pa.types.is_decimal(k) or pa.types.is_float64(k) or (pa.types.is_integer(k) and k.bit_width > 16)
        for k in kinds
    )
    if wide:
        return np.dtype(np.float64)
    if len(set(kinds)) == 1 and pa.types.is_integer(kinds[0]) and not imputed:
        return np.dtype(kinds[0].to_pandas_dtype())
    return np.dtype(np.float32)


def _same_schema(
    footers: Sequence[tuple[str, pq.FileMetaData]], names: Sequence[str], schema: pa.Schema
) -> None:
    for file, footer in footers[1:]:
        other = footer.schema.to_arrow_schema()
        wrong = [n for n in names if n not in other.names or _value_type(other.field(n).type)
                 != _value_type(schema.field(n).type)]  # fmt: skip
        if wrong:
            raise StoreError(
                f"the files of a data set have the same columns; {wrong[:10]} of {file!r} differ from "
                f"{footers[0][0]!r}; write them with one schema"
            )


def _refuse_nulls(footers: Sequence[tuple[str, pq.FileMetaData]], names: Sequence[str]) -> None:
    """Nulls that the footers already count are refused now, not hours later."""
    wanted = set(names)
    for file, footer in footers:
        leaves = [(j, footer.schema.column(j).path) for j in range(footer.num_columns)]
        leaves = [(j, name) for j, name in leaves if name in wanted]
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            for j, name in leaves:
                statistics = row_group.column(j).statistics
                if statistics is not None and statistics.has_null_count and statistics.null_count:
                    raise _null_error(name, (file, group, 0, 0))


def _null_error(name: str, span: Span) -> InputError:
    return InputError(
        f"values may not be missing; column {name!r} has nulls in row group {span[1]} of {span[0]!r}; pass "
        'impute="mean", "median", "zero" or a number, or leave the column out'
    )


def _spans(footers: Sequence[tuple[str, pq.FileMetaData]]) -> list[Span]:
    spans, row = [], 0
    for file, footer in footers:
        for group in range(footer.num_row_groups):
            count = footer.row_group(group).num_rows
            if count:
                spans.append((file, group, row, count))
            row += count
    return spans


def _cut(
    spans: Sequence[Span], rows_per_block: int, slack: float
) -> Iterator[tuple[tuple[Span, ...], int, int]]:
    """Blocks ``(spans, start, stop)`` near the wanted size; a row group up to slack times larger is not cut."""
    held: list[Span] = []
    for span in spans:
        start, count = span[2], span[3]
        if held and start + count - held[0][2] > rows_per_block:
            yield tuple(held), held[0][2], start
            held = []
        if count > slack * rows_per_block:
            size = -(-count // -(-count // rows_per_block))
            for low in range(start, start + count, size):
                yield (span,), low, min(low + size, start + count)
        else:
            held.append(span)
    if held:
        yield tuple(held), held[0][2], held[-1][2] + held[-1][3]


def _cut_uniform(spans: Sequence[Span], rows_per_block: int) -> Iterator[tuple[tuple[Span, ...], int, int]]:
    """Blocks ``(spans, start, stop)`` of exactly the wanted size, but for the last."""
    n_rows = spans[-1][2] + spans[-1][3]
    for start in range(0, n_rows, rows_per_block):
        stop = min(start + rows_per_block, n_rows)
        yield tuple(s for s in spans if s[2] < stop and start < s[2] + s[3]), start, stop


def _resolve(
    rule: str | float | Sequence[float],
    blocks: Sequence[tuple[ParquetSource, int, int]],
    n: int,
    names: Sequence[str],
) -> tuple[float, ...]:
    nothing = (float("nan"),) * len(names)
    rows = ((start, read_parquet(replace(s, impute=nothing), start, stop)) for s, start, stop in blocks)
    return missing_values.resolve(rule, rows, n, names)


# --- reading -------------------------------------------------------------------------------------------------


def _tables(
    source: ParquetSource, start: int, stop: int, batch_rows: int | None = None
) -> Iterator[tuple[pa.Table, Span]]:
    """The rows as Arrow tables, one or more a row group; one core, since Dask owns the others.

    A whole row group is read at once unless ``batch_rows`` is given.
    """
    by_file: dict[str, list[Span]] = {}
    for span in source.spans:
        if span[2] < stop and start < span[2] + span[3]:
            by_file.setdefault(span[0], []).append(span)
    if not by_file:
        return
    for name, spans in by_file.items():
        with _open(name, source.storage_options) as file:
            for span in spans:
                _, group, first, count = span
                low, high = max(start, first) - first, min(stop, first + count) - first
                columns = list(dict.fromkeys(source.columns))
                if (low, high) == (0, count) and batch_rows is None:
                    yield file.read_row_group(group, columns=columns, use_threads=False), span
                    continue
                row = 0
                size = batch_rows or 65_536
                for batch in file.iter_batches(size, row_groups=[group], columns=columns, use_threads=False):
                    part = pa.Table.from_batches([batch])
                    inside = part.slice(max(0, low - row), max(0, min(high, row + len(part)) - max(low, row)))
                    row += len(part)
                    if len(inside):
                        yield inside, span
                    if row >= high:
                        break


def _values(source: ParquetSource, table: pa.Table, span: Span) -> np.ndarray:
    """The columns of a source as rows, missing values filled."""
    dtype = np.dtype(source.dtype)
    if source.vector:
        name = source.columns[0]
        return np.asarray(_column(source, table.column(name), name, span, dtype)).astype(dtype, copy=False)
    # Columns first: a strided write for every value is slower than one transposed copy.
    out = np.empty((len(source.columns), table.num_rows), dtype)
    for j, name in enumerate(source.columns):
        out[j] = _column(source, table.column(name), name, span, dtype)
        if source.impute is not None and dtype.kind == "f":
            out[j, np.isnan(out[j])] = source.impute[j]
    return np.ascontiguousarray(out.T)


def _column(
    source: ParquetSource, column: pa.ChunkedArray, name: str, span: Span, dtype: np.dtype
) -> np.ndarray:
    if column.null_count and (source.impute is None or dtype.kind != "f"):
        raise _null_error(name, span)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if dtype.kind == "U":
        return column.to_numpy(zero_copy_only=False).astype(dtype) if len(column) else np.empty(0, dtype)
    if dtype.kind == "f" and (column.null_count or pa.types.is_decimal(column.type)):
        column = column.cast(pa.float64(), safe=False)
    return column.to_numpy(zero_copy_only=False)
