"""Short texts that tell data sets apart without reading them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from . import files
from .file_lists import version_of

_EDGE = 65_536


def fingerprint_of_files(names: Sequence[str]) -> str:
    """A text that differs where the sizes, or the first or last 64 KiB, of files differ.

    Parameters
    ----------
    names : sequence of str
        Normalised paths or URLs, in the order of the rows. Names themselves do not count: a copy has the same
        fingerprint.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    found = hashlib.sha256()
    for name in names:
        fs, inner = files.filesystem(name)
        size = fs.size(inner)
        found.update(f"{size} ".encode())
        found.update(fs.cat_file(inner, start=0, end=min(size, _EDGE)))
        found.update(fs.cat_file(inner, start=max(0, size - _EDGE), end=size))
    return found.hexdigest()[:32]


def content_of_files(names: Sequence[str]) -> str:
    """A text that differs where any byte of files differs: of local ones they are read, of others the store says it (etag).

    Parameters
    ----------
    names : sequence of str
        Normalised paths or URLs.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    found = hashlib.sha256()
    for name in names:
        if files.is_local(name):
            with open(name, "rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        else:
            found.update(version_of([name]).encode())
    return found.hexdigest()[:32]


def fingerprint_of_spec(spec: Any) -> str:
    """A text that differs where JSON differs.

    Parameters
    ----------
    spec : JSON values

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:32]
