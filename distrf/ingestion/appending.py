"""Rows of a table behind those of a row store, which says how they are read and kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..execution.progress import current_listener
from ..store import zarr_writer
from ..store.files import Options
from ..store.formats import fingerprint
from ..store.job_lock import check
from ..store.zarr_layout import StoreInfo
from . import streams
from .shuffle import scratch_of, shuffled
from .sources import open_stream
from .streams import RowStream, TableSelection


def append(
    source: str,
    out: str,
    *,
    target: str | None,
    split: str | None,
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
    seed : int, optional
        Of the order of the new rows; None leaves it.
    again : bool
        Append rows that are in the store already.
    storage_options : mapping, optional
        Options of the fsspec file system of the source.

    Returns
    -------
    StoreInfo
    """
    store = zarr_writer.appendable(out, storage_options=storage_options)
    stream = _like(store, _opened(source, store, target, split, storage_options))
    made = fingerprint(source, storage_options=storage_options)
    part = {
        "fingerprint": zarr_writer.part_fingerprint(made, split),
        "name": os.path.basename(source),
        "shuffle": None if seed is None else {"seed": seed},
    }
    info = zarr_writer.begin_append(
        out, stream.n_rows, part, classes=stream.classes, again=again, storage_options=storage_options
    )
    return write(_coded(stream, info.classes), info, seed, storage_options)


def _opened(
    source: str, store: StoreInfo, target: str | None, split: str | None, storage_options: Options
) -> RowStream:
    """The rows, with the columns of the store, and its numbers for missing values."""
    filled = store.spec.get("impute")
    selection = TableSelection(
        target=target or store.spec.get("target"),
        columns=store.columns or store.spec.get("columns"),
        split=split,
        missing=filled is not None,
        storage_options=storage_options,
    )
    stream = open_stream(source, selection)
    stream = streams.as_stored(stream, "csr" if store.array("X").sparse else "dense")
    return stream if filled is None else streams.fill(stream, filled)[0]


def _like(store: StoreInfo, stream: RowStream) -> RowStream:
    """The rows in width and type of the store. Raises InputError where they are others."""
    X = store.array("X")
    d, dtype = X.shape[1], np.dtype(X.dtype)
    if stream.sparse and stream.n_columns < d:  # the last columns have no entry in these rows
        stream = _widened(stream, d)
    if stream.n_columns != d:
        raise InputError(f"{store.path!r} has {d} columns, the new rows have {stream.n_columns}")
    labelled = any(array.name == "y" for array in store.arrays)
    if labelled != (stream.y_dtype is not None):
        has, lack = ("has targets", "lack them") if labelled else ("has no targets", "have some")
        raise InputError(f"{store.path!r} {has}, and the new rows {lack}; name them with target=")
    return streams.cast(stream, dtype) if stream.dtype != dtype and dtype.kind == "f" else stream


def _widened(stream: RowStream, d: int) -> RowStream:
    def read() -> Iterator[tuple[Any, Any]]:
        for X, y in stream.read():
            yield sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], d)), y

    return replace(stream, n_columns=d, read=read)


def _coded(stream: RowStream, classes: list[Any] | None) -> RowStream:
    """The rows with codes of the classes of the store in place of their own."""
    if stream.classes is None or classes is None:
        return stream
    codes = np.array([classes.index(name) for name in stream.classes], dtype=np.int32)

    def read() -> Iterator[tuple[Any, Any]]:
        for X, y in stream.read():
            yield X, codes[y]

    return replace(stream, classes=classes, read=read)


def write(stream: RowStream, info: StoreInfo, seed: int | None, storage_options: Options) -> StoreInfo:
    """Write the pending blocks of a store, or of an append to it, and finish it.

    Parameters
    ----------
    stream : RowStream
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
        stream = streams.checked(stream)
        if seed is not None:
            stream = shuffled(stream, seed, scratch_of(info.path))
        pieces, listener = stream.read(), current_listener()
        first, label = info.first_row // info.block_rows, "append" if info.first_row else "ingest"
        try:
            blocks = streams.reblock(pieces, info.block_rows, info.bounds(first)[1] - info.first_row)
            for number, X, y in blocks:
                index = first + number
                if index in pending:
                    check()
                    block = {"X": X} if y is None else {"X": X, "y": y}
                    zarr_writer.write_block(
                        info.path, index, block, store_id=info.id, storage_options=storage_options
                    )
                if listener is not None:
                    listener(label, info.bounds(index)[1] - info.first_row, stream.n_rows)
        finally:
            pieces.close()  # type: ignore[attr-defined]
    return zarr_writer.finish(info.path, store_id=info.id, storage_options=storage_options)
