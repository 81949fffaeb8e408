"""Zarr arrays that others wrote: what must be said of them before they are read as rows."""

from __future__ import annotations

import base64
import itertools
import math
import struct
import warnings
from typing import Any

import numpy as np
import zarr

from ..errors import StoreError
from . import files
from .files import Options


def check_foreign(path: str, node: zarr.Array) -> None:
    """Refuse an array whose stored numbers are not its values: xarray and netCDF pack and mask by the CF conventions.

    Raises
    ------
    StoreError
        With the attributes and what to do.
    """
    attributes = dict(node.attrs)
    said = {}
    for name, neutral in (("scale_factor", 1), ("add_offset", 0)):
        if name in attributes and attributes[name] != neutral:
            said[name] = attributes[name]
    for name in ("_FillValue", "missing_value"):
        if name in attributes and not _is_nan(attributes[name], node.dtype):
            said[name] = attributes[name]
    if str(attributes.get("_Unsigned", "false")).lower() == "true":
        said["_Unsigned"] = attributes["_Unsigned"]
    # In Zarr 2, xarray takes the fill value itself for what is missing.
    fill = node.metadata.fill_value
    if (
        node.metadata.zarr_format == 2
        and "_ARRAY_DIMENSIONS" in attributes
        and fill
        and not _is_nan(fill, node.dtype)
    ):
        said["fill_value"] = fill.item() if isinstance(fill, np.generic) else fill
    if said:
        raise StoreError(
            f"rows are read as they are stored; {_named(node, path)} is encoded by the CF "
            f"conventions ({', '.join(f'{name} = {value!r}' for name, value in said.items())}), so its numbers would "
            "be other ones; decode it first: xarray.open_zarr(path).drop_encoding().to_zarr(other)"
        )


def count_missing(path: str, node: zarr.Array, strict: bool, storage_options: Options) -> None:
    """Warn of chunks that are not there. Zarr reads the fill value for them, so a lost file looks like an empty chunk.

    Warns
    -----
    UserWarning
        With the number of chunks; StoreError if ``strict``.
    """
    if files.is_web(path):
        return
    fs, root = files.filesystem(path, storage_options)
    folder = f"{root}/{node.path}".rstrip("/")
    present = {name[len(folder) :].lstrip("/") for name in fs.find(folder)}
    if not present:  # nothing can be listed
        return
    sizes = [-(-size // chunk) for size, chunk in zip(node.shape, node.shards or node.chunks, strict=True)]
    places = itertools.product(*map(range, sizes))
    total, missing = (
        math.prod(sizes),
        sum(node.metadata.encode_chunk_key(place) not in present for place in places),
    )
    if not missing:
        return
    text = (
        f"{missing} of {total} chunks of {_named(node, path)} are not there and are read as its "
        f"fill value {node.fill_value}"
    )
    if strict:
        raise StoreError(f"{text}; restore them, or leave out strict=True if they were empty when written")
    warnings.warn(f"{text}; strict=True (--strict) refuses such a store", UserWarning, stacklevel=2)


def _named(node: zarr.Array, path: str) -> str:
    """An array in a message; one that is the whole store has no name of its own."""
    return f"the array {node.path!r} of {path!r}" if node.path else f"the array {path!r}"


def _is_nan(value: Any, dtype: Any) -> bool:
    """Whether an attribute is NaN, as text that Zarr has for it or as the bytes that xarray writes."""
    if np.dtype(dtype).kind != "f":
        return False
    if isinstance(value, str) and value != "NaN":
        try:
            value = struct.unpack("<d", base64.b64decode(value, validate=True))[0]
        except (ValueError, struct.error):
            return False
    try:
        return bool(np.isnan(float(value)))
    except (TypeError, ValueError):
        return False
