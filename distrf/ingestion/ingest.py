"""Any rows into a row store: resumable, and shuffled on request."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from distrf import __version__

from ..errors import InputError
from ..parameters import COLUMNS, FLAG, NONE, Rule, one_of, ruled, whole
from ..store import file_lists, files, zarr_writer
from ..store.csv_format import reads_csv, said_format
from ..store.files import Options
from ..store.fingerprints import content_of_files
from ..store.formats import fingerprint
from ..store.job_lock import hold
from ..store.outputs import check_apart, check_writable
from ..store.row_source import Selection
from ..store.zarr_layout import Contents, StoreInfo
from ..store.zarr_writer import existing_store
from . import appending
from .prepared import Prepared

BLOCK_BYTES = 32 * 2**20
BLOCK_ROWS = 2**17  # rows of narrow or sparse data grow when they are featurised
_FLOATS = ("float32", "float64", np.float32, np.float64)


# Its keyword-only parameters are the options that a user has; each is one of the command too.
@reads_csv
@ruled(
    columns=COLUMNS,
    sparse=one_of("csr", "dense") | NONE,
    seed=whole(0),
    block_rows=whole(1) | NONE,
    n_features=whole(1) | NONE,
    zero_based=FLAG | NONE,
    dtype=Rule(("'float32'", "'float64'"), lambda dtype: dtype in _FLOATS) | NONE,
)
def ingest(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[Any] | None = None,
    sparse: str | None = None,
    shuffle: bool = False,
    seed: int = 0,
    block_rows: int | None = None,
    dtype: Any = None,
    impute: str | float | None = None,
    split: str | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    overwrite: bool = False,
    append: bool = False,
    again: bool = False,
    storage_options: Options = None,
) -> StoreInfo:
    """Write a table as a row store; run again after an interruption, it resumes.

    Parameters
    ----------
    source : str or PathLike
        A .npy, .npz or .svmlight (.libsvm) file, or what `open_rows` reads: .parquet or .csv (a file, a folder, a
        glob), a Zarr store, a registered format. Text may be packed. A few pieces are held in memory; members of
        .npz are read whole.
    out : str or PathLike
        The Zarr store to write.
    target : str or None, default=None
        The column of the labels; the member of .npz or the array of Zarr (y where None is given); the number of
        the column of .npy. An svmlight file has its labels always.
    columns : sequence or None, default=None
        Feature columns, by name or, without names, by number. None takes all.
    sparse : {"csr", "dense"} or None, default=None
        How X is stored: "csr" or "dense". None keeps dense sources dense, and CSR ones CSR below one quarter of
        nonzeros.
    shuffle : bool, default=False
        Shuffle all rows (files sorted by date or class). Their order depends on `seed` and the row numbers alone.
    seed : int, default=0
        Seed of the shuffle.
    block_rows : int or None, default=None
        Rows of a block, at least 1. None takes a power of two near 32 MiB of X, at most 131,072, and about 16 blocks
        or more.
    dtype : {"float32", "float64"}, dtype or None, default=None
        Type of X: "float32" or "float64". None is that of the source (CSV and svmlight: float64).
    impute : {"mean", "median", "zero"}, float or None, default=None
        What replaces missing values: "mean", "median", "zero" or a number. None refuses them.
    split : str or None, default=None
        Which members of an .npz file: "train" reads X_train and y_train, "test" X_test and y_test.
    n_features : int or None, default=None
        Columns of an svmlight file, where its rows have no entry in the last ones: those of the rows that a model was trained
        on. None takes the highest index.
    zero_based : bool or None, default=None
        Whether the indices of an svmlight file count from 0. None: where a 0 occurs, and as those of the store with `append`.
    overwrite : bool, default=False
        Replace a store of other data or options.
    append : bool, default=False
        Append the rows to the store that is there, in its blocks. The store says how rows are read: columns, type,
        what replaces missing values. Labels that it does not know join its classes; `shuffle` orders the new rows alone.
        Until all is written the store has its old rows, and so it has for those that opened it before.
    again : bool, default=False
        Append rows that are in the store already, which else are refused.
    storage_options : dict or None, default=None
        Options of fsspec, for URLs.

    Returns
    -------
    StoreInfo
        What the finished store holds.

    Raises
    ------
    InputError
        Missing or infinite values, text features, unknown columns: with the row and the column. A parameter breaks
        its rule.
    SpecMismatchError
        `out` holds a store of other data or options; with `append`, it holds these rows.
    StoreError
        `out` cannot be written.
    """
    source, out = files.normalise(source), files.normalise(out)
    files.refuse_root(source)
    check_writable(out)
    check_apart(out, [source], storage_options=storage_options)
    existing_store(out, storage_options=storage_options)  # refuses a path that holds something else
    if append:
        given = {
            "columns": columns, "sparse": sparse, "block_rows": block_rows, "dtype": dtype, "impute": impute,
            "n_features": n_features,
        }  # fmt: skip
        if said := [name for name, value in given.items() if value is not None] + ["overwrite"] * overwrite:
            raise InputError(f"append=True adds rows as the store has them; leave out {', '.join(said)}")
        with hold(out, storage_options=storage_options):
            return appending.append(
                source, out, target=target, split=split, zero_based=zero_based, seed=int(seed) if shuffle else None,
                again=again, storage_options=storage_options,
            )  # fmt: skip
    if again:
        raise InputError("again=True is for append=True")
    selection = Selection(
        target=target, columns=columns, split=split, missing=impute is not None, n_features=n_features,
        zero_based=zero_based, storage_options=storage_options,
    )  # fmt: skip
    with hold(out, takeover=overwrite, storage_options=storage_options):
        read = file_lists.all_files(source, storage_options)
        state = file_lists.version_of(read, storage_options)  # of what is read from now on
        rows = Prepared.open(source, selection, sparse).filled(impute)
        if dtype is not None:
            rows = rows.cast(dtype)
        old = existing_store(out, storage_options=storage_options) or {}
        content = old["spec"]["source"]["content"] if old.get("provenance", {}).get("state") == state else None
        spec = {
            "source": {
                "name": os.path.basename(source),
                "fingerprint": fingerprint(source, storage_options=storage_options),
                "content": content or content_of_files(read, storage_options),
            },
            "target": target,
            "columns": None if columns is None else list(columns),
            "split": split,
            "impute": rows.impute,
            "shuffle": {"seed": int(seed)} if shuffle else None,
        } | appending.counted(rows)
        if csv := said_format():
            spec["csv"] = csv
        info = zarr_writer.create(
            out,
            _contents(rows, block_rows, spec),
            provenance={"source": source, "state": state, "distrf": __version__},
            storage_options=storage_options,
            overwrite=overwrite,
        )
        return appending.write(rows, info, int(seed) if shuffle else None, storage_options)


def _contents(rows: Prepared, block_rows: int | None, spec: dict[str, Any]) -> Contents:
    """What the store of some rows holds."""
    if block_rows is None:
        near = max(1, min(BLOCK_ROWS, BLOCK_BYTES // rows.row_bytes, max(4096, rows.n_rows // 16)))
        block_rows = min(rows.n_rows, 1 << (near.bit_length() - 1))  # a power of two: splits evenly
    return Contents(
        rows.arrays, rows.n_rows, block_rows, kind="rows", spec=spec, classes=rows.classes, columns=rows.source.columns,
        target=spec["target"], sparse=["X"] if rows.sparse else [],
    )  # fmt: skip
