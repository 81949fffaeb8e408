"""A short text that tells data sets apart without reading them."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from . import files, parquet_reader, zarr_writer
from .files import Options

_EDGE = 65_536


def fingerprint(path: str | os.PathLike[str], *, storage_options: Options = None) -> str:
    """The same for a copy of the data and other for other data, as far as sizes and edges tell.

    A store of distrf: what it was made from. Another Zarr store: its path and metadata; chunks rewritten in
    place do not show. Files: their sizes, first and last 64 KiB.
    """
    path = files.normalise(path)
    fs, root = files.filesystem(path, storage_options)
    digest = hashlib.sha256()
    if parquet_reader.is_parquet(path, storage_options) or not fs.isdir(root):
        names = [path]
        if parquet_reader.is_parquet(path, storage_options):
            names = parquet_reader.list_files(path, storage_options)
        for name in names:
            fs, inner = files.filesystem(name, storage_options)
            size = fs.size(inner)
            digest.update(f"{size} ".encode())
            digest.update(fs.cat_file(inner, start=0, end=min(size, _EDGE)))
            digest.update(fs.cat_file(inner, start=max(0, size - _EDGE), end=size))
        return digest.hexdigest()[:32]
    ours: Any = zarr_writer.made_from(path, storage_options=storage_options)
    if ours is not None:
        digest.update(json.dumps(ours, sort_keys=True).encode())
        return digest.hexdigest()[:32]
    digest.update(path.encode())
    for name in sorted(fs.find(root, maxdepth=2)):
        if name.rsplit("/", 1)[-1] in ("zarr.json", ".zarray", ".zattrs", ".zgroup"):
            digest.update(fs.cat_file(name))
    return digest.hexdigest()[:32]
