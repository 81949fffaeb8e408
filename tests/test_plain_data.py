"""Plain values as JSON and arrays: what comes back, and what is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distrf.errors import InputError
from distrf.plain_data import Codec

CODEC = Codec()


def through(value):
    arrays = {}
    entry = json.loads(json.dumps(CODEC.encode(value, "here", arrays)))
    return CODEC.decode(entry, arrays)


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if a.dtype.kind == "O":
            for mine, other in zip(a.ravel(), b.ravel(), strict=True):
                assert_same(mine, other)
        else:
            np.testing.assert_array_equal(a, b)
            assert a.ndim != 2 or (a.strides[0] < a.strides[1]) == (
                b.strides[0] < b.strides[1]
            )  # rows or columns
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for mine, other in zip(a, b, strict=True):
            assert_same(mine, other)
    elif isinstance(a, dict):
        assert_same(list(a.items()), list(b.items()))
    else:
        assert a == b or (math.isnan(a) and math.isnan(b))


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.floats(width=32).map(np.float32) | st.integers(-9, 9).map(np.int8) | st.booleans().map(np.bool_),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.integers() | st.text(max_size=3) | st.floats(allow_nan=False), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(plain)
def test_round_trip(value):
    assert_same(value, through(value))


def objects(*items):
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


KINDS = [
    np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3)),
    np.arange(12).reshape(3, 4)[:, ::2], np.arange(12).reshape(3, 4).T[:2], np.array(3.0), np.zeros((0, 3), dtype=np.int32),
    np.array(["a", "bcd"]), np.array([True, False]), objects("a", "b"), objects("a", None, math.nan, 1, True, np.float64(2.0)),
    objects(np.arange(3.0), np.arange(3.0)), objects(np.arange(3.0), np.arange(2.0)), objects(*"abcdef").reshape(2, 3), objects(),
    slice(1, None, 2), np.float64, float, object, np.dtype("<U3"), np.dtype(object), np.str_("x"),
    {"a": {1: (np.arange(3.0), [slice(None)])}}, {"my step": np.arange(2.0), "my_step": np.arange(3.0)},
]  # fmt: skip


@pytest.mark.parametrize(
    "value", KINDS, ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}"
)
def test_kinds(value):
    assert_same(value, through(value))


REFUSED = [
    ({"f": print}, r"here\.f is a builtin_function_or_method \(builtins\.print\), which is not plain data"),
    ([lambda: 1], r"here\.0 is a function"), (b"x", "here is a bytes"), ({1, 2}, "here is a set"), (1j, "here is a complex"),
    (np.random.RandomState(0), "here is a RandomState"), (np.ma.masked_array([1.0]), "here is a MaskedArray of dtype float64"),
    (np.zeros(2, "M8[s]"), r"here is a ndarray of dtype datetime64\[s\]"), (np.zeros(2, "i4,i4"), "here is a ndarray of dtype"),
    (np.longdouble(1), "here is a longdouble of dtype"), (np.array([b"x", {1}], dtype=object), r"here\.0 is a bytes"),
    (Codec, "here is a type"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refusals_name_the_place(value, message):
    with pytest.raises(InputError, match=message):
        CODEC.encode(value, "here", {})
