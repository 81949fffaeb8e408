"""Values as JSON with their arrays beside it, and back: what specs and model folders are made of. And values as text, to be read.

JSON has no tuples, slices, NumPy scalars or arrays. They become entries with a mark, a key that begins with ``$``. Decoding
makes values of these kinds and no others, so that a file cannot run code.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .errors import InputError

Arrays = dict[str, np.ndarray]
#: encoder(value, where, arrays, codec): its JSON, or NotImplemented for a value of another kind.
Encoder = Callable[[Any, str, Arrays, "Codec"], Any]
#: decoder(what the mark holds, the whole entry, arrays, codec): the value.
Decoder = Callable[[Any, dict[str, Any], Mapping[str, np.ndarray], "Codec"], Any]

#: Types that parameters such as `dtype` may name.
_TYPES: dict[str, type] = {kind.__name__: kind for kind in (bool, int, float, str, object)}
_TYPES |= {
    f"numpy.{kind.__name__}": kind for kind in (*np.sctypeDict.values(), np.number, np.integer, np.floating)
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_STORED = "biufcU"


class Codec:
    """Encodes plain values, and those of the kinds that are added.

    None, truth values, numbers, text, lists, tuples, dicts, slices, paths, dtypes, NumPy scalars and arrays are plain, also
    arrays of objects that are plain. The decoded value is equal, and of the same type.

    Parameters
    ----------
    encoders : for values of further kinds, the first that knows one wins
    decoders : by mark
    """

    def __init__(self, encoders: Sequence[Encoder] = (), decoders: Mapping[str, Decoder] | None = None):
        self.encoders = tuple(encoders)
        self.decoders = _DECODERS | dict(decoders or {})

    def encode(self, value: Any, where: str, arrays: Arrays) -> Any:
        """JSON of a value; its arrays are added to `arrays`.

        Parameters
        ----------
        value : object
        where : what messages call it, such as "model.scaler.mean_"; arrays are named by it
        arrays : dict, changed

        Raises
        ------
        InputError : the value, or one in it, is not plain data
        """
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, np.generic):
            if value.dtype.kind not in "biufU" or value.dtype == np.longdouble:
                _refuse(value, where)
            return {"$scalar": value.item(), "dtype": value.dtype.str}
        if isinstance(value, np.ndarray):
            return self._array(value, where, arrays)
        for encoder in self.encoders:
            entry = encoder(value, where, arrays, self)
            if entry is not NotImplemented:
                return entry
        if isinstance(value, (list, tuple)):
            items = [self.encode(v, f"{where}.{i}", arrays) for i, v in enumerate(value)]
            return {"$tuple": items} if isinstance(value, tuple) else items
        if isinstance(value, dict):
            pairs = [
                [self.encode(key, f"{where}.key{i}", arrays), self.encode(item, _below(where, key, i), arrays)]
                for i, (key, item) in enumerate(value.items())
            ]
            return {"$pairs": pairs}
        if isinstance(value, slice):
            bounds = (value.start, value.stop, value.step)
            return {"$slice": [self.encode(bound, where, arrays) for bound in bounds]}
        if isinstance(value, os.PathLike):  # the folder of a checkpoint
            return os.fspath(value)
        if isinstance(value, type) and value in _NAMES:
            return {"$type": _NAMES[value]}
        if isinstance(value, np.dtype) and value.kind in _STORED + "O":
            return {"$dtype": value.str}
        _refuse(value, where)

    def _array(self, value: np.ndarray, where: str, arrays: Arrays) -> dict[str, Any]:
        if value.dtype.kind == "O":
            items = value.ravel().tolist()
            return {"$objects": self.encode(items, where, arrays), "shape": list(value.shape)}
        plain = isinstance(value, np.memmap) or type(value) is np.ndarray
        if not plain or value.dtype.kind not in _STORED or value.dtype.char in "gG":
            _refuse(value, where)
        name = array_name(where, arrays)
        # BLAS rounds otherwise for columns than for rows.
        columns = value.ndim == 2 and 0 < value.strides[0] < value.strides[1]
        arrays[name] = np.asarray(value, order="F" if columns else "C")
        return {"$array": name, **({"order": "F"} if columns else {})}

    def decode(self, entry: Any, arrays: Mapping[str, np.ndarray]) -> Any:
        """The value of an entry. Raises KeyError, TypeError or ValueError for what `encode` did not write."""
        if isinstance(entry, list):
            return [self.decode(item, arrays) for item in entry]
        if isinstance(entry, dict):
            mark = next((key for key in entry if key.startswith("$")), "")
            return self.decoders[mark](entry[mark], entry, arrays, self)
        return entry


def array_name(where: str, arrays: Arrays) -> str:
    """A name that a store takes, and no array has yet, for the array at `where`; steps may have any name."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", where)
    while name in arrays:
        name += "_"
    return name


def _refuse(value: Any, where: str) -> Any:
    kind = type(value).__name__
    if isinstance(value, np.ndarray | np.generic):
        kind += f" of dtype {value.dtype}"
    elif callable(value) and hasattr(value, "__qualname__"):
        kind += f" ({getattr(value, '__module__', '')}.{value.__qualname__})"
    raise InputError(f"{where} is a {kind}, which is not plain data and cannot be saved")


def _below(where: str, key: Any, i: int) -> str:
    return f"{where}.{key if isinstance(key, str) and key.isidentifier() else i}"


def _objects(items: Any, entry: Any, arrays: Any, codec: Codec) -> np.ndarray:
    shape = tuple(entry["shape"])
    if len(items) != math.prod(shape):
        raise ValueError(f"{len(items)} objects for an array of shape {shape}")
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # one by one: NumPy would make a matrix of arrays of equal length
        array[i] = codec.decode(item, arrays)
    return array.reshape(shape)


def _dtype(text: str) -> np.dtype:
    dtype = np.dtype(text)
    if dtype.kind not in _STORED + "O":
        raise ValueError(f"dtype {text!r}")
    return dtype


def _stored(name: str, entry: Any, arrays: Any) -> np.ndarray:
    return np.asfortranarray(arrays[name]) if entry.get("order") == "F" else arrays[name]


_DECODERS: dict[str, Decoder] = {
    "$scalar": lambda item, entry, arrays, codec: _dtype(entry["dtype"]).type(item),
    "$array": lambda name, entry, arrays, codec: _stored(name, entry, arrays),
    "$objects": _objects,
    "$tuple": lambda items, entry, arrays, codec: tuple(codec.decode(item, arrays) for item in items),
    "$pairs": lambda pairs, entry, arrays, codec: {
        codec.decode(key, arrays): codec.decode(item, arrays) for key, item in pairs
    },
    "$slice": lambda bounds, entry, arrays, codec: slice(*(codec.decode(b, arrays) for b in bounds)),
    "$type": lambda name, entry, arrays, codec: _TYPES[name],
    "$dtype": lambda text, entry, arrays, codec: _dtype(text),
}


#: Most letters of a value.
_MOST = 500


def size(nbytes: float) -> str:
    """Bytes in words: "3.05 MiB"."""
    from dask.utils import format_bytes  # what is shown once need not be loaded before

    return format_bytes(int(nbytes))


def shown(value: Any) -> str:
    """A value as text: numbers rounded, with thousands separators, and what is long cut."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        value = ", ".join(shown(v) for v in value)
    text = str(value)
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."
