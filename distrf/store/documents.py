"""Documents: a folder of one JSON file and the arrays that it names, data and never code. Models and checkpoints are such.

Arrays are in ``arrays-<checksum>.npz`` files, whose names are in the JSON file. A new file has a new name, and the JSON file
is replaced last, in one step; then what it does not name is removed. Until then, and if the writer is killed, the old document is read.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..errors import InUseError, StoreError
from . import files
from .outputs import hold
from .spec import check_sealed, from_json, require_same, sealed, to_json

VERSION = 5
_FILE = re.compile(r"arrays-[0-9a-f]{32}\.npz")


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
    def file(self) -> str:
        """The JSON file."""
        return f"{self.path}/{self.kind}.json"

    @property
    def form(self) -> str:
        """Name and version of the format."""
        return f"distrf-{self.kind} {VERSION}"

    def read(self) -> dict[str, Any] | None:
        """The content of the JSON file.

        Returns
        -------
        dict, or None where there is none
            Its ``spec`` is JSON (see `spec.from_json`), its ``arrays`` are records of files of arrays, by the name of the file's use.

        Raises
        ------
        StoreError
            It is damaged, or of another version.
        """
        with files.reading(self.file, "JSON"):
            found: dict[str, Any] | None = files.read_json(self.file)
        if found is not None:
            check_sealed(found, self.form, f"the {self.kind}.json of {self.path!r}")
        return found

    def existing(self) -> dict[str, Any] | None:
        """`read`; StoreError where the path holds something else. Arrays alone are of a writer that was killed."""
        found = self.read()
        files.require_ours(self.path, found, f"a distrf {self.kind}", free=_FILE.pattern)
        return found

    def write(
        self,
        spec: Mapping[str, Any],
        arrays: Mapping[str, Mapping[str, Any]],
        *,
        kept: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Write files of arrays, then the JSON file in one step; then remove the files that it does not name.

        Parameters
        ----------
        spec : mapping
            Numbers, text, lists and dicts; NaN and infinities are kept, tuples become lists.
        arrays : mapping of str to mapping of str to array
            For each new file its arrays: numbers, booleans, complex numbers or fixed-width text, of any shape.
        kept : mapping, optional
            Records of files that are there and remain.

        Returns
        -------
        dict
            The records of all files.

        Raises
        ------
        InputError
            An entry that is not plain data (the message names it).
        InUseError
            Another job writes here.
        """
        records = dict(kept or {})
        stored = {key: _storable(members) for key, members in arrays.items() if members}
        for key, members in stored.items():
            shapes = {name: f"{array.shape} {array.dtype.str}" for name, array in members.items()}
            records[key] = {"file": _file_of(members), "shapes": shapes}
        document = sealed({"format": self.form, "spec": to_json(spec), "arrays": records})
        for key, members in stored.items():
            files.write_file(f"{self.path}/{records[key]['file']}", partial(_write_arrays, arrays=members))
        named = {record["file"] for record in records.values()}
        if named - files.names_in(self.path):
            raise InUseError(
                f"another job writes the {self.kind} {self.path!r} at the same time; give each its own path"
            )
        files.write_json(self.file, document)
        for name in files.names_in(self.path):
            if (_FILE.fullmatch(name) and name not in named) or re.fullmatch(files.PARTIAL, name):
                files.remove(f"{self.path}/{name}")
        return records

    def arrays(self, record: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The arrays of a file of the document, whose checksum is verified.

        Parameters
        ----------
        record : mapping
            One of ``arrays`` of the document.

        Returns
        -------
        dict of str to array

        Raises
        ------
        StoreError
            The file is missing, or is not what was written.
        """
        path = f"{self.path}/{os.path.basename(record['file'])}"
        with files.reading(path, f"arrays of a {self.kind}"), files.opened(path) as packed:
            with np.load(packed, allow_pickle=False) as members:
                # A small file that claims large arrays would fill the memory.
                if any(member.compress_type != zipfile.ZIP_STORED for member in members.zip.infolist()):
                    raise ValueError("it is compressed")
                found = dict(members)
            if _file_of(found) != record["file"]:
                raise ValueError("its checksum differs: it is not the one that was written")
            return found


def _storable(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays in a dtype and an order that are the same everywhere."""
    found = {name: np.asarray(value, order="C") for name, value in arrays.items()}
    return {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in found.items()}


def _file_of(arrays: Mapping[str, np.ndarray]) -> str:
    """The name of the file of some arrays, by a checksum of all that they hold."""
    found = hashlib.sha256()
    for name, array in arrays.items():
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).data)
    return f"arrays-{found.hexdigest()[:32]}.npz"


def _write_arrays(file: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file. `np.savez` takes no array of any name, and before NumPy 2.2 `allow_pickle=` is one to it."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


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
    with hold(place.path):
        old = place.existing()
        if old is not None:
            require_same(place.path, old["spec"], to_json(spec), overwrite, "holds a model with another spec")
        place.write(spec, {"model": arrays})


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
        document = _required(place)
        record = document["arrays"].get("model")
        try:
            return from_json(document["spec"]), place.arrays(record) if record else {}
        except StoreError:
            if _required(place) == document:
                raise  # else the model was replaced while it was read


def read_spec(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The spec of a model folder, without its arrays. Raises StoreError where there is no model, or it is damaged."""
    spec: dict[str, Any] = from_json(_required(_model(path))["spec"])
    return spec


def array_shapes(path: str | os.PathLike[str]) -> dict[str, str]:
    """Shapes and dtypes of the arrays of a model folder by name, "shape dtype", without reading them."""
    shapes: dict[str, str] = _required(_model(path))["arrays"].get("model", {"shapes": {}})["shapes"]
    return shapes


def is_model_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder has a ``model.json``."""
    return files.exists(_model(path).file)


def existing_model_folder(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The content of the model.json at an output path, None where it is free. Raises StoreError for something else there."""
    return _model(path).existing()


def _model(path: str | os.PathLike[str]) -> Document:
    return Document(files.normalise(path), "model")


def _required(place: Document) -> dict[str, Any]:
    found = place.read()
    if found is None:
        files.require(place.path)
        raise StoreError(
            f"{place.path!r} is not a model: it has no model.json; a model is a folder that distrf saved"
        )
    return found
