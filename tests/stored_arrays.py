"""One array of a store, lazily, by its name: what a job has written."""

from __future__ import annotations

from distrf.execution.open_rows import lazy_rows
from distrf.store import files
from distrf.store.row_source import Selection
from distrf.store.zarr_source import ZarrSource


def open_array(path, name, *, strict=False):
    source = ZarrSource.open_array(files.normalise(path), name, Selection())
    source.check_missing(strict)
    return lazy_rows(source)
