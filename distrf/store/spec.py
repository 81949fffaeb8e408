"""Specs as JSON: conversion with reasons for what cannot be stored, the difference of two; and fingerprints of specs and data."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, SpecMismatchError, StoreError
from . import files
from .file_lists import version_of

_FLOAT = "__float__"  # JSON has no NaN or infinity
_EDGE = 65_536


def to_json(value: Any, where: str = "spec") -> Any:
    """Plain JSON of nested dicts, lists, numbers, text and None; tuples become lists.

    Parameters
    ----------
    value : object
    where : str
        What messages call it.

    Returns
    -------
    object

    Raises
    ------
    InputError
        For anything else: the message names the entry and its type.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_FLOAT: repr(value)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == _FLOAT:
                raise InputError(f"keys of a stored spec are text; {where} has the key {key!r}; rename it")
        return {key: to_json(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item, f"{where}[{i}]") for i, item in enumerate(value)]
    remedy = "store it among the arrays" if isinstance(value, np.ndarray) else "replace it by plain values"
    raise InputError(
        f"a spec holds numbers, text, lists and dicts only; {where} is a {type(value).__qualname__}; {remedy}"
    )


def from_json(value: Any) -> Any:
    """The inverse of `to_json`, up to tuples.

    Parameters
    ----------
    value : object

    Returns
    -------
    object
    """
    if isinstance(value, dict):
        if set(value) == {_FLOAT}:
            return float(value[_FLOAT])
        return {key: from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return value


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Entries in which two JSON values differ.

    Parameters
    ----------
    old, new : object
    where : str
        Name of the entry that holds them.

    Returns
    -------
    list of str
        A line ``entry: old -> new`` for each.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for key in sorted(old.keys() | new.keys()):
            here = f"{where}.{key}" if where else key
            lines += differences(old.get(key, "(absent)"), new.get(key, "(absent)"), here)
        return lines
    # True == 1 in Python, but not in a spec.
    same = old == new and isinstance(old, bool) == isinstance(new, bool)
    return [] if same else [f"{where or 'value'}: {_short(old)} -> {_short(new)}"]


def require_same(
    path: str, old: Any, new: Any, overwrite: bool, what: str = "was made with another spec",
    remedy: str = "choose another path, or pass overwrite=True",
) -> bool:  # fmt: skip
    """Whether what is at an output path was made from the same spec.

    Parameters
    ----------
    path : str
    old, new : object
        JSON of what is there, and of what is wanted.
    overwrite : bool
        Whether another one may be replaced.
    what : str
        What to say of a path that holds another one.
    remedy : str

    Returns
    -------
    bool
        False: it is another one, and shall be replaced.

    Raises
    ------
    SpecMismatchError
        It is another one, and may not be replaced; the message names the entries that differ.
    """
    changed = differences(old, new)
    if changed and not overwrite:
        raise SpecMismatchError(
            f"{path!r} {what} and is not overwritten; old -> new: {'; '.join(changed[:12])}; {remedy}"
        )
    return not changed


def _short(value: Any, width: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."


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


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of JSON with a checksum of itself."""
    fields = {key: value for key, value in document.items() if key != "checksum"}
    return fields | {"checksum": fingerprint_of_spec(fields)}


def check_sealed(found: Any, form: str, what: str) -> None:
    """Raise StoreError for a document of another format, or one that is not as it was `sealed`; `what` names it."""
    said = found.get("format") if isinstance(found, dict) else None
    if said != form:
        raise StoreError(
            f"this release of distrf reads the format {form!r}; {what} has {said!r}; update distrf, or make it again"
        )
    if found != sealed(found):
        raise files.damaged(f"{what} is not what was written (its checksum differs)")


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
