"""Text that is packed or in another encoding, as a copy that can be read from any byte on."""

from __future__ import annotations

import atexit
import hashlib
import io
import lzma
import os
import shutil
import tempfile
import uuid
from contextlib import suppress

import pyarrow as pa

from ..errors import InputError
from . import files
from .files import Options

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}
#: Copies that this process made.
_COPIES: set[str] = set()


def plain_file(name: str, encoding: str, storage_options: Options) -> str:
    """A file of UTF-8 text that can be read from any byte on: the file itself, or a copy of one that is packed or otherwise encoded.

    Parameters
    ----------
    name, encoding : str
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    str
        A copy is in the folder for temporary files (``TMPDIR``) of this machine, made anew where it is gone.

    Raises
    ------
    InputError
        The text is of another encoding.
    StoreError
        The file is damaged.
    """
    codec = _CODECS.get(os.path.splitext(name)[1].lower())
    if codec is None and encoding in ("utf-8", "utf-8-sig", "ascii"):
        return name
    fs, root = files.filesystem(name, storage_options)
    version = hashlib.sha256(f"{name} {encoding} {files.fingerprint(fs, root)}".encode()).hexdigest()[:24]
    folder = os.path.join(tempfile.gettempdir(), f"distrf-text-{os.getuid() if hasattr(os, 'getuid') else 0}")
    copy = os.path.join(folder, version)
    if os.path.exists(copy):
        return copy
    os.makedirs(folder, mode=0o700, exist_ok=True)
    partial = f"{copy}.{uuid.uuid4().hex}.partial"
    try:
        with files.reading(name, "text"), fs.open(root, "rb") as raw, open(partial, "wb") as out:
            if codec == "xz":
                raw = lzma.LZMAFile(raw)  # noqa: SIM115  nothing to close beside raw
            elif codec is not None:
                raw = pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec)
            if encoding.startswith("utf-8"):
                shutil.copyfileobj(raw, out, 2**20)
            else:
                with io.TextIOWrapper(raw, encoding, newline="") as text:
                    while piece := text.read(2**20):
                        out.write(piece.encode())
        os.replace(partial, copy)
    except UnicodeError as error:
        raise InputError(
            f"encoding= is that of the text; {name!r} is no {encoding} ({error}); give another"
        ) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)
    if not _COPIES:
        atexit.register(_remove, os.getpid())
    _COPIES.add(copy)
    return copy


def _remove(owner: int) -> None:
    """The copies go when the process ends: whoever reads on makes them again."""
    if os.getpid() == owner:
        for path in _COPIES:
            with suppress(OSError):
                os.unlink(path)
