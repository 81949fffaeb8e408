"""One array of a store by its name, read by Zarr alone; and folders of part files that are begun."""

from __future__ import annotations

import numpy as np
import zarr

from distrf.store import StoreInfo, create, pending_blocks


def stored_array(path, name):
    """Codes of labels as their names."""
    group = zarr.open_group(path, mode="r")
    values, classes = group[name][...], group.attrs["distrf"]["classes"]
    return np.asarray(classes)[values] if classes and values.dtype.kind in "iu" else values


def create_parts(path, spec, n_blocks, **options):
    """The id of a folder of part files, and the blocks that it lacks."""
    begun = create(path, StoreInfo.of({}, n_blocks, 1, kind="parts", spec=spec), **options)
    return begun.id, pending_blocks(path)
