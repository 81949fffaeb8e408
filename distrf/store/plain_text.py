"""Text of a file, plain, packed or in another encoding, that can be read from any byte on."""

from __future__ import annotations

import io
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ..errors import InputError
from . import files

_PACKED = (".gz", ".bz2", ".xz", ".zst")


class PlainText:
    """Bytes of UTF-8 text, which several threads may read at once.

    Parameters
    ----------
    file : file
        Open, and of no one else.
    """

    def __init__(self, file: Any) -> None:
        self._file, self._lock = file, threading.Lock()

    @property
    def size(self) -> int:
        """All bytes."""
        with self._lock:
            return int(self._file.seek(0, io.SEEK_END))

    def read(self, start: int, size: int) -> bytes:
        """At most so many bytes."""
        with self._lock:
            self._file.seek(start)
            return bytes(self._file.read(size))


@contextmanager
def open_plain(name: str, encoding: str) -> Iterator[PlainText]:
    """The text of a file.

    Parameters
    ----------
    name, encoding : str

    Returns
    -------
    context manager of PlainText
        What is packed or of another encoding is held in a file without a name in the folder for temporary files (``TMPDIR``) of
        this machine, which ends with the process; of 64 files, the last ones used.

    Raises
    ------
    InputError
        The text is of another encoding.
    StoreError
        The file is damaged.
    """
    if not name.lower().endswith(_PACKED) and encoding in ("utf-8", "utf-8-sig", "ascii"):
        with files.open_text(name) as file:
            yield PlainText(file)
    else:
        fs, root = files.filesystem(name)
        yield _unpacked(name, encoding, files.fingerprint(fs, root), repr(getattr(name, "options", {})))


@lru_cache(maxsize=64)
def _unpacked(name: str, encoding: str, version: str | None, options: str) -> PlainText:
    out = tempfile.TemporaryFile()  # noqa: SIM115  it is closed when the text is no longer in use
    plain = PlainText(out)
    weakref.finalize(plain, out.close)
    with files.open_text(name) as raw:
        if encoding.startswith("utf-8"):
            shutil.copyfileobj(raw, out, 2**20)
            return plain
        try:
            with io.TextIOWrapper(raw, encoding, newline="") as text:
                while piece := text.read(2**20):
                    out.write(piece.encode())
        except UnicodeError as error:
            raise InputError(
                f"encoding= is that of the text; {name!r} is no {encoding} ({error}); give another"
            ) from None
    return plain
