"""Model and spec files: a folder of ``model.json`` and ``arrays.zarr``, data and never code.

Each writer has a folder of its own for the arrays, which its ``model.json`` names. That file is written or replaced in one step,
when all else is there: until then, and if the writer is killed, the old model is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from ..errors import InputError, StoreError, reworded
from ..machine import machine_memory
from . import files
from .files import Options
from .job_lock import check, held
from .spec import from_json, require_same, to_json
from .zarr_layout import CHUNK_BYTES

FORMAT = "distrf-model"
VERSION = 2
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_ARRAYS = "arrays.zarr"
_SOME_ARRAYS = re.compile(r"arrays(-[0-9a-f]{16})?\.zarr")


def write_model_folder(
    path: str | os.PathLike[str],
    spec: Mapping[str, Any],
    arrays: Mapping[str, Any],
    overwrite: bool = False,
    *,
    storage_options: Options = None,
) -> None:
    """Write a spec and its arrays; the model appears whole or not at all, and what it replaces stays until then.

    Parameters
    ----------
    path : path or URL
    spec : mapping
        Numbers, text, lists and dicts; NaN and infinities are kept, tuples become lists.
    arrays : mapping of str to array
        Numbers, booleans, complex numbers or fixed-width text, of any shape.
    overwrite : bool
        Replace a folder with another spec. One with the same spec is always replaced.
    storage_options : mapping, optional
        Options of the fsspec file system.

    Raises
    ------
    InputError
        An entry that is not plain data (the message names it).
    SpecMismatchError
        Another model is at `path`.
    StoreError
        Something else is at `path`.
    """
    check()
    path = files.normalise(path)
    fs, root = files.filesystem(path, storage_options)
    stored = {name: _storable(name, value) for name, value in arrays.items()}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "spec": to_json(spec),
        "arrays": {name: _record(array, np.asarray(arrays[name])) for name, array in stored.items()},
    }
    done = False
    while not done:  # again where another job has put a model there meanwhile
        old = _existing(path, fs, root)
        if old is not None:
            require_same(path, old["spec"], document["spec"], overwrite, "holds a model with another spec")
        done = _write(path, fs, root, old, document, stored, storage_options)


def _write(
    path: str,
    fs: Any,
    root: str,
    old: dict[str, Any] | None,
    document: dict[str, Any],
    stored: Mapping[str, np.ndarray],
    storage_options: Options,
) -> bool:
    """Write arrays of a name of their own into a folder, then model.json in one step; then remove what nothing reads.

    Returns False where model.json is no longer the old one: another job has written a model meanwhile.
    """
    name, local = f"arrays-{uuid.uuid4().hex[:16]}.zarr", files.is_local(path)
    if old is None and local:
        with suppress(FileExistsError):  # of another job, or one that was killed
            os.makedirs(f"{path}/{_ARRAYS}")
            name = _ARRAYS  # so that equal models are equal files
    document = with_checksum({**document, "arrays_in": name})
    left = [] if old is None else [_arrays_of(path, old)]
    if held():  # no other job writes here: the rest is of writers that were killed
        left = [other for other in files.names_in(fs, root) if _SOME_ARRAYS.fullmatch(other)]
    done = False
    try:
        _write_arrays(f"{path}/{name}", stored, storage_options)
        check()  # another job may have taken over meanwhile
        if old is None:
            done = files.create_json(fs, f"{root}/model.json", document)
        elif _document(path, fs, root) == old:
            files.write_json(fs, f"{root}/model.json", document)
            done = True
        done = done or _document(path, fs, root) == document  # it was written, and the answer was lost
    finally:
        if not done:
            files.remove(fs, f"{root}/{name}")
            if local:
                with suppress(OSError):  # it is not empty
                    os.rmdir(path)
    for other in left:
        if done and other != name:
            files.remove(fs, f"{root}/{other}")
    return done


def _arrays_of(path: str, document: Mapping[str, Any]) -> str:
    """The folder of the arrays of a model. Raises StoreError for a name that no model has."""
    name = document.get("arrays_in", _ARRAYS)
    if not (isinstance(name, str) and _SOME_ARRAYS.fullmatch(name)):
        raise StoreError(f"the model.json of {path!r} is damaged: its arrays are in {name!r}; restore it")
    return str(name)


def read_model_folder(
    path: str | os.PathLike[str], *, storage_options: Options = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model folder and check its version and every checksum.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    spec : dict
    arrays : dict of str to array

    Raises
    ------
    StoreError
        No model, a newer format, a missing array, or an array that is not what was written.
    """
    path = files.normalise(path)
    while True:
        document = _required(path, storage_options)
        try:
            return from_json(document["spec"]), _read_arrays(path, document, storage_options)
        except StoreError:
            if _required(path, storage_options) == document:
                raise  # else the model was replaced while it was read


def _read_arrays(path: str, document: Mapping[str, Any], storage_options: Options) -> dict[str, np.ndarray]:
    """The arrays of a model, each with its checksum verified."""
    fs, root = files.filesystem(path, storage_options)
    arrays = {}
    _check_total(path, document["arrays"])
    folder = _arrays_of(path, document)
    group = files.open_group(f"{path}/{folder}", "r", storage_options)
    for name, record in document["arrays"].items():
        what = f"the array {name!r} of the model {path!r}"
        with reworded(lambda error: StoreError(f"{what} is damaged ({error}); restore it or save it again")):  # noqa: B023
            node = group[name] if isinstance(group, zarr.Group) and name in group else None
            if node is not None:
                _check_size(node, record, int(fs.du(f"{root}/{folder}/{name}")))
                array = np.asarray(node[...])  # type: ignore[index]
        if node is None:
            raise StoreError(f"{what} is missing; restore it or save it again")
        if _checksum(array) != record.get("sha256"):
            raise StoreError(
                f"{what} is not the one that was saved (SHA-256 differs); restore it or save it again"
            )
        if record.get("text"):
            array = np.ascontiguousarray(array, "<u4").view(f"<U{array.shape[-1]}")[..., 0]
        arrays[name] = array
    return arrays


def read_spec(path: str | os.PathLike[str], *, storage_options: Options = None) -> dict[str, Any]:
    """The spec of a model folder alone, without its arrays.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    dict

    Raises
    ------
    StoreError
        There is no model, or its model.json is damaged.
    """
    return from_json(_required(files.normalise(path), storage_options)["spec"])


def array_shapes(path: str | os.PathLike[str], *, storage_options: Options = None) -> dict[str, str]:
    """Shapes and dtypes of the arrays of a model folder, without reading them.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    dict of str to str
        "shape dtype" by name; empty where there is no model.
    """
    path = files.normalise(path)
    fs, root = files.filesystem(path, storage_options)
    records = (_document(path, fs, root) or {"arrays": {}})["arrays"]
    return {
        name: f"{tuple(r['shape'][:-1])} text" if r["text"] else f"{tuple(r['shape'])} {r['dtype']}"
        for name, r in records.items()
    }


def is_model_folder(path: str | os.PathLike[str], *, storage_options: Options = None) -> bool:
    """Whether a folder has a ``model.json``.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    bool
    """
    fs, root = files.filesystem(files.normalise(path), storage_options)
    return bool(fs.exists(f"{root}/model.json"))


def existing_model_folder(
    path: str | os.PathLike[str], *, storage_options: Options = None
) -> dict[str, Any] | None:
    """What of distrf is at an output path.

    Parameters
    ----------
    path : path or URL
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    dict, or None where the path is free
        The content of model.json.

    Raises
    ------
    StoreError
        The path holds something else.
    """
    path = files.normalise(path)
    return _existing(path, *files.filesystem(path, storage_options))


def _document(path: str, fs: Any, root: str) -> dict[str, Any] | None:
    try:
        document = files.read_json(fs, f"{root}/model.json")
    except (ValueError, NotADirectoryError) as error:
        raise StoreError(f"the model.json of {path!r} cannot be read ({error}); restore it") from error
    if document is None:
        return None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StoreError(f"{path!r} is not a distrf model: its model.json does not say format {FORMAT!r}")
    if document.get("version") != VERSION:
        raise StoreError(
            f"this version of distrf reads models of version {VERSION}; {path!r} has version "
            f"{document.get('version')!r}; update distrf or save the model again"
        )
    if document != with_checksum(document):
        raise StoreError(
            f"the model.json of {path!r} is not what was written: it is damaged or was edited (its checksum differs); "
            "restore it, or remove the folder and save the model again"
        )
    if not isinstance(document.get("spec"), dict) or not isinstance(document.get("arrays"), dict):
        raise StoreError(f"the model.json of {path!r} is damaged: spec or arrays are missing; restore it")
    return document


def _required(path: str, storage_options: Options) -> dict[str, Any]:
    document = _document(path, *files.filesystem(path, storage_options))
    if document is None:
        files.require(path, storage_options)
        raise StoreError(
            f"{path!r} is not a model: it has no model.json; a model is a folder that distrf saved"
        )
    return document


def _existing(path: str, fs: Any, root: str) -> dict[str, Any] | None:
    found = _document(path, fs, root)
    # Arrays without model.json are of a writer that was killed.
    files.require_ours(path, found, fs, root, "a distrf model", free=_SOME_ARRAYS.pattern)
    return found


def _check_total(path: str, records: dict[str, Any]) -> None:
    """Refuse, before anything is read, arrays that do not fit in the memory of this machine."""
    what = f"the model.json of {path!r} is damaged: a shape or dtype of its arrays cannot be read"
    with reworded(lambda error: StoreError(f"{what} ({error!r}); restore it")):
        total = sum(
            math.prod(_sizes(record)) * np.dtype(record["dtype"]).itemsize for record in records.values()
        )
    have = machine_memory()
    if total > have:
        raise StoreError(
            f"the arrays of a model are read into memory: {path!r} declares {total:,} bytes, this machine has "
            f"{have:,}; load it on a larger one, or restore the model if it should be smaller"
        )


def _sizes(record: dict[str, Any]) -> list[int]:
    sizes = record["shape"]
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ValueError(f"shape {sizes!r}")
    return list(sizes)


def _check_size(node: Any, record: dict[str, Any], stored: int) -> None:
    """Raise ValueError unless an array is what model.json says, and as large on disk as in memory.

    A small file that claims to be a large array would fill the memory of whoever loads the model.
    """
    shape, dtype = tuple(_sizes(record)), np.dtype(record["dtype"])
    if not isinstance(node, zarr.Array) or tuple(node.shape) != shape or node.dtype != dtype:
        raise ValueError(f"it is {node!r}, where model.json says shape {shape}, dtype {dtype}")
    codecs = [type(codec).__name__ for codec in getattr(node.metadata, "codecs", ())]
    if codecs not in (["BytesCodec", "Crc32cCodec"], ["BytesCodec"]):
        raise ValueError(f"it is stored with {codecs}, where models are not compressed")
    size = math.prod(shape) * dtype.itemsize
    if stored < size or math.prod(node.chunks) > math.prod(max(1, n) for n in shape):
        raise ValueError(f"it declares {size:,} bytes of which {stored:,} are there")


def _storable(name: str, value: Any) -> np.ndarray:
    """The array in a dtype that Zarr stores the same way everywhere; text as code points."""
    array = np.asarray(value)
    if not _NAME.fullmatch(name):
        raise InputError(f"names of arrays are letters, digits, _ . -; received {name!r}; rename it")
    if array.dtype.kind == "U":
        width = max(1, array.dtype.itemsize // 4)
        text = np.ascontiguousarray(array, f"<U{width}")
        return text.reshape(array.shape).view("<u4").reshape(*array.shape, width) if array.ndim else (
            np.frombuffer(text.tobytes(), "<u4")
        )  # fmt: skip
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16 or array.dtype == np.longdouble:
        raise InputError(
            f"stored arrays are numbers, booleans or fixed-width text; {name!r} has dtype {array.dtype}; convert "
            "it first (pickled objects are never written)"
        )
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _record(stored: np.ndarray, original: np.ndarray) -> dict[str, Any]:
    return {
        "dtype": stored.dtype.str,
        "shape": list(stored.shape),
        "text": original.dtype.kind == "U",
        "sha256": _checksum(stored),
    }


def with_checksum(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its checksum as the entry ``sha256``."""
    said = {key: value for key, value in document.items() if key != "sha256"}
    return said | {"sha256": hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()}


def _checksum(array: np.ndarray) -> str:
    array = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    checksum = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    if array.size:
        checksum.update(array.reshape(-1).view(np.uint8).data)
    return checksum.hexdigest()


def _write_arrays(path: str, arrays: Mapping[str, np.ndarray], storage_options: Options) -> None:
    group = zarr.open_group(store=files.zarr_store(path, False, storage_options), mode="w", zarr_format=3)
    for name, array in arrays.items():
        rows = array.shape[0] if array.ndim else 1
        row_bytes = max(1, array.nbytes // max(1, rows))
        chunks = tuple(max(1, size) for size in array.shape)
        if array.ndim:
            chunks = (max(1, min(chunks[0], CHUNK_BYTES // row_bytes)), *chunks[1:])
        node = group.create_array(
            name, shape=array.shape, chunks=chunks, dtype=array.dtype, fill_value=0,
            compressors=[Crc32cCodec()], config={"write_empty_chunks": True},
        )  # fmt: skip
        node[...] = array
