"""Documents: a folder of one JSON file and the arrays that it names, data and never code. Models and checkpoints are such.

New arrays are written to a folder of their own, ``arrays-<id>.zarr``. The JSON file is written or replaced last, in one step,
and then what it does not name is removed: until then, and if the writer is killed, the old document is read.
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
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from ..errors import InputError, InUseError, StoreError, reworded
from . import files
from .job_lock import hold
from .spec import from_json, require_same, to_json
from .zarr_layout import CHUNK_BYTES

VERSION = 3
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_FOLDER = re.compile(r"arrays-[0-9a-f]{16}\.zarr")


@dataclass(frozen=True)
class Document:
    """A place of a document.

    Parameters
    ----------
    path : str
        The folder, normalised.
    kind : "model" or "checkpoint"
        The JSON file is called so.
    """

    path: str
    kind: str

    @property
    def file(self) -> tuple[Any, str]:
        """The file system, and the JSON file in it."""
        fs, root = files.filesystem(self.path)
        return fs, f"{root}/{self.kind}.json"

    def read(self) -> dict[str, Any] | None:
        """The content of the JSON file.

        Returns
        -------
        dict, or None where there is none
            Its ``spec`` is JSON (see `spec.from_json`), its ``arrays`` are records of arrays by name.

        Raises
        ------
        StoreError
            It is damaged, or of another version.
        """
        what = f"the {self.kind}.json of {self.path!r}"
        try:
            found = files.read_json(*self.file)
        except ValueError as error:
            raise StoreError(f"{what} cannot be read ({error}); restore it") from error
        if found is None:
            return None
        if not isinstance(found, dict) or found.get("format") != f"distrf-{self.kind}":
            raise StoreError(f"{what} is not of distrf: it does not say format 'distrf-{self.kind}'")
        if found.get("version") != VERSION:
            raise StoreError(
                f"this release of distrf reads version {VERSION}; {what} has version {found.get('version')!r}; update distrf "
                "or make it again"
            )
        if found != with_checksum(found):
            raise StoreError(
                f"{what} is not what was written: it is damaged or was edited (its checksum differs); restore it, or "
                f"remove the folder and make the {self.kind} again"
            )
        records: Any = found.get("arrays")
        whole = isinstance(found.get("spec"), dict) and isinstance(records, dict)
        if not whole or not all(
            isinstance(r, dict) and _FOLDER.fullmatch(str(r.get("in"))) for r in records.values()
        ):
            raise StoreError(f"{what} is damaged: its spec, or where its arrays are; restore it")
        return found

    def required(self) -> dict[str, Any]:
        """`read`; StoreError where there is none."""
        found = self.read()
        if found is None:
            files.require(self.path)
            raise StoreError(
                f"{self.path!r} is not a {self.kind}: it has no {self.kind}.json; a {self.kind} is a folder that distrf saved"
            )
        return found

    def existing(self) -> dict[str, Any] | None:
        """`read`; StoreError where the path holds something else. Arrays alone are of a writer that was killed."""
        found = self.read()
        fs, root = files.filesystem(self.path)
        files.require_ours(self.path, found, fs, root, f"a distrf {self.kind}", free=_FOLDER.pattern)
        return found

    def write(
        self,
        spec: Mapping[str, Any],
        arrays: Mapping[str, Any],
        *,
        kept: Mapping[str, Any] | None = None,
        new: bool = False,
    ) -> dict[str, Any]:
        """Write new arrays, then the JSON file in one step; then remove the arrays that it does not name.

        Parameters
        ----------
        spec : mapping
            Numbers, text, lists and dicts; NaN and infinities are kept, tuples become lists.
        arrays : mapping of str to array
            Numbers, booleans, complex numbers or fixed-width text, of any shape.
        kept : mapping, optional
            Records of arrays that are there and remain.
        new : bool
            Refuse to replace a document that another job has written meanwhile.

        Returns
        -------
        dict
            The records of all arrays.

        Raises
        ------
        InputError
            An entry that is not plain data (the message names it).
        FileExistsError
            With `new`, another document is there.
        InUseError
            Another job writes here.
        """
        fs, file = self.file
        root = os.path.dirname(file)
        stored = {name: _storable(name, value) for name, value in arrays.items()}
        records = {
            name: {"dtype": array.dtype.str, "shape": list(array.shape), "text": np.asarray(arrays[name]).dtype.kind == "U", "sha256": _checksum(array)}
            for name, array in stored.items()
        }  # fmt: skip
        wanted = to_json(spec)
        # Equal documents are equal files, unless such arrays are there, of the same document or of a writer that was killed.
        folder = f"arrays-{_sha256([wanted, records])[:16]}.zarr"
        if fs.exists(f"{root}/{folder}"):
            folder = f"arrays-{uuid.uuid4().hex[:16]}.zarr"
        records = {**(kept or {}), **{name: {"in": folder} | record for name, record in records.items()}}
        document = with_checksum(
            {"format": f"distrf-{self.kind}", "version": VERSION, "spec": wanted, "arrays": records}
        )
        try:
            _write_arrays(f"{self.path}/{folder}", stored)
            if stored and not fs.exists(f"{root}/{folder}/zarr.json"):  # or be one that no lock excludes
                raise InUseError(
                    f"another job writes the {self.kind} {self.path!r} at the same time; give each its own path"
                )
            if not new:
                files.write_json(fs, file, document)
            elif not files.create_json(fs, file, document) and self.read() != document:
                raise FileExistsError(file)  # else the answer was lost
        except BaseException:
            with suppress(Exception):  # the file may be written, and the answer lost
                if self.read() != document:
                    files.remove(fs, f"{root}/{folder}")
            raise
        named = {record["in"] for record in records.values()}
        for name in files.names_in(fs, root):
            if (_FOLDER.fullmatch(name) and name not in named) or name.endswith(".partial"):
                files.remove(fs, f"{root}/{name}")
        return records

    def arrays(self, records: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Arrays of a document, each with its checksum verified.

        Parameters
        ----------
        records : mapping
            Some of ``arrays`` of the document.

        Returns
        -------
        dict of str to array

        Raises
        ------
        StoreError
            An array is missing, or is not what was written.
        """
        fs, file = self.file
        groups: dict[str, Any] = {}
        arrays = {}

        def damaged(error: Exception) -> StoreError:
            what = f"the array {name!r} of the {self.kind} {self.path!r} is damaged"
            return StoreError(f"{what} ({error}); restore it or make it again")

        for name, record in records.items():
            folder = record["in"]
            with reworded(damaged):
                if folder not in groups:
                    groups[folder] = files.open_group(f"{self.path}/{folder}", "r")
                node = groups[folder].get(name)
                _check_size(node, record)
                if (there := int(fs.du(f"{os.path.dirname(file)}/{folder}/{name}"))) < node.nbytes:
                    raise ValueError(f"it declares {node.nbytes:,} bytes of which {there:,} are there")
                array = np.asarray(node[...])
                if _checksum(array) != record["sha256"]:
                    raise ValueError("SHA-256 differs: it is not the one that was written")
                if record["text"]:
                    array = np.ascontiguousarray(array, "<u4").view(f"<U{array.shape[-1]}")[..., 0]
                arrays[name] = array
        return arrays


def write_model_folder(
    path: str | os.PathLike[str],
    spec: Mapping[str, Any],
    arrays: Mapping[str, Any],
    overwrite: bool = False,
) -> None:
    """Write a spec and its arrays; the model appears whole or not at all, and what it replaces stays until then.

    Parameters
    ----------
    path : path or URL
    spec, arrays
        See `Document.write`.
    overwrite : bool
        Replace a folder with another spec. One with the same spec is always replaced.

    Raises
    ------
    InputError
        An entry that is not plain data (the message names it).
    SpecMismatchError
        Another model is at `path`.
    InUseError
        Another job writes there.
    StoreError
        Something else is at `path`.
    """
    place = _model(path)
    wanted = to_json(spec)
    for name, value in arrays.items():
        _storable(name, value)  # before anything is made
    with hold(place.path, takeover=overwrite):
        while True:  # again where a job that no lock excludes has put a model there meanwhile
            old = place.existing()
            if old is not None:
                require_same(place.path, old["spec"], wanted, overwrite, "holds a model with another spec")
            with suppress(FileExistsError):
                place.write(spec, arrays, new=old is None)
                return


def read_model_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model folder and check its version and every checksum.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    spec : dict
    arrays : dict of str to array

    Raises
    ------
    StoreError
        No model, another version, a missing array, or an array that is not what was written.
    """
    place = _model(path)
    while True:
        document = place.required()
        try:
            return from_json(document["spec"]), place.arrays(document["arrays"])
        except StoreError:
            if place.required() == document:
                raise  # else the model was replaced while it was read


def read_spec(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The spec of a model folder, without its arrays. Raises StoreError where there is no model, or it is damaged."""
    spec: dict[str, Any] = from_json(_model(path).required()["spec"])
    return spec


def array_shapes(path: str | os.PathLike[str]) -> dict[str, str]:
    """Shapes and dtypes of the arrays of a model folder by name, "shape dtype", without reading them."""
    records = (_model(path).read() or {"arrays": {}})["arrays"]
    return {
        name: f"{tuple(r['shape'][:-1])} text" if r["text"] else f"{tuple(r['shape'])} {r['dtype']}"
        for name, r in records.items()
    }


def is_model_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder has a ``model.json``."""
    fs, file = _model(path).file
    return bool(fs.exists(file))


def existing_model_folder(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The content of the model.json at an output path, None where it is free. Raises StoreError for something else there."""
    return _model(path).existing()


def with_checksum(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its checksum as the entry ``sha256``."""
    others = {key: value for key, value in document.items() if key != "sha256"}
    return others | {"sha256": _sha256(others)}


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _model(path: str | os.PathLike[str]) -> Document:
    return Document(files.normalise(path), "model")


def _check_size(node: Any, record: dict[str, Any]) -> None:
    """Raise ValueError unless an array is what its record says, and is as large in files as in memory.

    A small file that claims to be a large array would fill the memory of whoever reads it.
    """
    if not isinstance(node, zarr.Array):
        raise ValueError("it is missing")
    if list(node.shape) != record["shape"] or node.dtype.str != record["dtype"]:
        raise ValueError(
            f"it has shape {node.shape}, dtype {node.dtype}, where the document says {record['shape']}, {record['dtype']}"
        )
    codecs = [type(codec).__name__ for codec in getattr(node.metadata, "codecs", ())]
    if codecs != ["BytesCodec"]:
        raise ValueError(f"it is stored with {codecs}, where arrays are not compressed")
    if math.prod(node.chunks) > math.prod(max(1, n) for n in node.shape):
        raise ValueError(f"it declares {node.nbytes:,} bytes of which not all are there: its chunks are larger")


def _storable(name: str, value: Any) -> np.ndarray:
    """The array in a dtype that Zarr stores the same way everywhere; text as code points."""
    array = np.asarray(value)
    if not _NAME.fullmatch(name):
        raise InputError(f"names of arrays are letters, digits, _ . -; received {name!r}; rename it")
    if array.dtype.kind == "U":
        width = max(1, array.dtype.itemsize // 4)
        text = np.ascontiguousarray(array, f"<U{width}")
        return np.frombuffer(text.tobytes(), "<u4").reshape(*array.shape, width)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16 or array.dtype == np.longdouble:
        raise InputError(
            f"stored arrays are numbers, booleans or fixed-width text; {name!r} has dtype {array.dtype}; convert "
            "it first (pickled objects are never written)"
        )
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _checksum(array: np.ndarray) -> str:
    array = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    checksum = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    if array.size:
        checksum.update(array.reshape(-1).view(np.uint8).data)
    return checksum.hexdigest()


def _write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    if not arrays:
        return
    group = zarr.open_group(store=files.zarr_store(path, False), mode="w", zarr_format=3)
    for name, array in arrays.items():
        chunks = tuple(max(1, size) for size in array.shape)
        if array.nbytes > CHUNK_BYTES:
            chunks = (max(1, chunks[0] * CHUNK_BYTES // array.nbytes), *chunks[1:])
        node = group.create_array(
            name, shape=array.shape, chunks=chunks, dtype=array.dtype, fill_value=0, compressors=None,
            config={"write_empty_chunks": True},
        )  # fmt: skip
        node[...] = array
