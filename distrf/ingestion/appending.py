"""Rows of a table behind those of a row store, which says how they are read and kept."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..execution.progress import current_listener
from ..store import zarr_writer
from ..store.csv_format import CsvFormat, current_format, reading, said_format
from ..store.csv_source import CsvSource
from ..store.files import Options
from ..store.formats import fingerprint
from ..store.row_source import Selection
from ..store.svmlight_source import SvmlightSource
from ..store.zarr_layout import StoreInfo
from .prepared import Prepared
from .shuffle import scratch_of


def append(
    source: str,
    out: str,
    *,
    target: str | None,
    split: str | None,
    zero_based: bool | None,
    seed: int | None,
    again: bool,
    storage_options: Options,
) -> StoreInfo:
    """Append the rows of a table to a row store; see `distrf.ingest`.

    Parameters
    ----------
    source, out : str
        Normalised.
    target, split : str, optional
        None is the target of the store.
    zero_based : bool, optional
        None is as the store was read.
    seed : int, optional
        Of the order of the new rows; None leaves it.
    again : bool
        Append rows that are in the store already.
    storage_options : mapping, optional
        Options of the fsspec file system of the source.

    Returns
    -------
    StoreInfo

    Raises
    ------
    InputError
        The rows have other columns, another width or type than those of the store.
    """
    store = zarr_writer.appendable(out, storage_options=storage_options)
    X, spec = store.arrays["X"], store.spec
    filled, (d, dtype) = spec.get("impute"), (X.shape[1], np.dtype(X.dtype))
    svmlight = SvmlightSource.recognises(source)
    if svmlight and zero_based is None and "zero_based" not in spec:
        raise InputError(
            f"{store.path!r} does not say how indices of svmlight text are counted, since it was made from other files; give "
            "zero_based=True or False"
        )
    selection = Selection(
        target=target or spec.get("target"), columns=store.columns or spec.get("columns"), split=split,
        missing=filled is not None,
        zero_based=spec.get("zero_based") if zero_based is None and svmlight else zero_based,
        storage_options=storage_options,
    )  # fmt: skip
    text = CsvSource.recognises(source, storage_options=storage_options)
    with reading(_as_before(store.path, spec) if text else current_format()):
        rows = Prepared.open(source, selection, "csr" if X.sparse else "dense").filled(filled)
    if rows.source.sparse and rows.width < d:  # the last columns have no entry in these rows
        rows = replace(rows, width=d)
    if rows.width != d:
        raise InputError(f"{store.path!r} has {d} columns, the new rows have {rows.width}")
    labelled = "y" in store.arrays
    if labelled != (rows.labels is not None):
        has, lack = ("has targets", "lack them") if labelled else ("has no targets", "have some")
        raise InputError(f"{store.path!r} {has}, and the new rows {lack}; name them with target=")
    rows = rows.cast(dtype) if rows.dtype != dtype and dtype.kind == "f" else rows
    made = fingerprint(source, storage_options=storage_options)
    part = {
        "fingerprint": zarr_writer.part_fingerprint(made, split),
        "name": os.path.basename(source),
        "target": selection.target,
        "shuffle": None if seed is None else {"seed": seed},
    }
    info = zarr_writer.begin_append(
        out, rows.n_rows, part, classes=rows.classes, again=again, storage_options=storage_options
    )
    rows = replace(rows, classes=rows.classes and info.classes)
    return write(rows, info, seed, storage_options)


def counted(rows: Prepared) -> dict[str, Any]:
    """How the indices of svmlight text were counted, for the spec of the store: those of an append count alike."""
    return {"zero_based": rows.source.zero_based} if isinstance(rows.source, SvmlightSource) else {}


def write(rows: Prepared, info: StoreInfo, seed: int | None, storage_options: Options) -> StoreInfo:
    """Write the pending blocks of a store, or of an append to it, and finish it.

    Parameters
    ----------
    rows : Prepared
        All rows that are written.
    info : StoreInfo
        As `create` or `begin_append` has returned it.
    seed : int, optional
        Of the order of the rows; None leaves it.
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    StoreInfo
    """
    pending = set(zarr_writer.pending_blocks(info.path, store_id=info.id, storage_options=storage_options))
    if pending:
        listener = current_listener()
        first, label = info.first_row // info.block_rows, "append" if info.first_row else "ingest"
        blocks = rows.blocks(
            info.block_rows, info.bounds(first)[1] - info.first_row, seed, scratch_of(info.path)
        )
        with closing(blocks):
            for number, X, y in blocks:
                index = first + number
                if index in pending:
                    block = {"X": X} if y is None else {"X": X, "y": y}
                    zarr_writer.write_block(
                        info.path, index, block, store_id=info.id, storage_options=storage_options
                    )
                if listener is not None:
                    listener(label, info.bounds(index)[1] - info.first_row, rows.n_rows)
    return zarr_writer.finish(info.path, store_id=info.id, storage_options=storage_options)


def _as_before(path: str, spec: dict[str, Any]) -> CsvFormat:
    """How CSV is read: as for the rows of the store. Raises InputError where something else is said."""
    now, before = said_format(), spec.get("csv", {})
    if now and now != before:
        raise InputError(
            f"{path!r} has rows of CSV that was read with {before or 'no options'}, got {now}; leave these out"
        )
    kept: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in before.items()}
    return CsvFormat(**kept)
