"""Stores as tests write and read them: complete ones, their files, their rows; an array by its name; part files that are begun."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import zarr

from distrf import open_rows
from distrf.store import StoreInfo, create, finish, write_block


def fill(path, arrays, block_rows=10, *, overwrite=False, **options):
    """A complete store of these arrays."""
    n = next(iter(arrays.values())).shape[0]
    sparse = [name for name, a in arrays.items() if sp.issparse(a)]
    tails = {name: (a.shape[1:], a.dtype) for name, a in arrays.items()}
    options = {"kind": "rows", "spec": {}, **options}
    holds = StoreInfo.of(tails, n, block_rows, sparse=sparse, **options)
    store = create(path, holds, overwrite=overwrite)
    for index in range(store.n_blocks):
        start, stop = store.bounds(index)
        write_block(path, index, {name: a[start:stop] for name, a in arrays.items()}, store_id=store.id)
    return finish(path, store_id=store.id)


def contents(path):
    """{relative file name: bytes} of a folder."""
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(Path(path).rglob("*")) if p.is_file()}


def read(path, **options):
    """X (dense) and y of a store."""
    rows, y = open_rows(path, **options)
    blocks = [b.compute(scheduler="sync") for b in rows.to_delayed().ravel()]
    dense = np.concatenate([b.toarray() if sp.issparse(b) else b for b in blocks])
    return dense, None if y is None else y.compute(scheduler="sync")


def stored_array(path, name):
    """Codes of labels as their names."""
    group = zarr.open_group(path, mode="r")
    values, classes = group[name][...], group.attrs["distrf"]["classes"]
    return np.asarray(classes)[values] if classes and values.dtype.kind in "iu" else values


def create_parts(path, spec, n_blocks, **options):
    """The id of a folder of part files, and the blocks that it lacks."""
    begun = create(path, StoreInfo.of({}, n_blocks, 1, kind="parts", spec=spec), **options)
    return begun.id, begun.pending
