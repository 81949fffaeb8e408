"""Slices by the values of a column."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from distrf.errors import InputError
from distrf.scores.slices import Slices


def named(slices, column):
    return [slices.names[code] for code in slices.codes(column)]


NAN = np.nan


@pytest.mark.parametrize(
    ("sample", "column", "names"),
    [
        ([3.0, 1.0, NAN, 1.5], [1, 1.5, 2, 3, NAN], [1, 1.5, "other values", 3, "missing"]),
        ([True, False], [False, True], [False, True]),
        ([True, False], sp.csr_array(np.array([[0.0], [1.0]])), [False, True]),
        ([NAN, NAN], [1.0, NAN], ["other values", "missing"]),
        ([None, None], np.array(["a", None], dtype=object), ["other values", "missing"]),
        (["north", None, "south"], np.array(["south", "north-west", None], dtype=object), ["south", "other values", "missing"]),
        (["north", "south"], ["south", "north-west"], ["south", "other values"]),
    ],
)  # fmt: skip
def test_values_that_are_few(sample, column, names):
    slices = Slices.of_sample(np.array(sample))
    assert named(slices, column if hasattr(column, "dtype") else np.array(column)) == names


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([2**60, None, 2**60 + 1], [2**60, 2**60 + 1]),
        ([Decimal("2.50"), pd.NA, Decimal(-1)], ["-1", "2.50"]),
        ([True, None, False], [False, True]),
        ([1.5, None, 2], [1.5, 2]),
    ],
)
def test_exact_values_with_missing_ones(values, names):
    column = np.array(values, dtype=object)
    slices = Slices.of_sample(column)
    assert slices.names == [*names, "other values", "missing"]
    assert named(slices, column)[1] == "missing"
    assert {*named(slices, column[[0, 2]])} == {*names}


def test_the_most_frequent_texts_are_slices():
    many = np.repeat([f"t{i:02}" for i in range(30)], np.arange(30) + 1)
    assert Slices.of_sample(many).names == [*(f"t{i:02}" for i in range(10, 30)), "other values", "missing"]


def test_quarters_of_numbers(rng):
    column = rng.permutation(np.arange(1.0, 101.0))
    slices = Slices.of_sample(column)
    assert slices.names == [
        "<= 25", "(25, 50]", "(50, 75]", "> 75", "other values", "missing",
    ]  # fmt: skip
    np.testing.assert_array_equal(np.bincount(slices.codes(column)), [25, 25, 25, 25])
    assert slices.codes(np.array([-np.inf, 25.0, 25.1, np.inf, np.nan])).tolist() == [0, 0, 1, 3, 5]
    mostly = Slices.of_sample(np.concatenate([np.zeros(900), column]))
    assert mostly.names[:2] == ["<= 0", "> 0"]


def test_what_is_no_column_is_refused():
    with pytest.raises(InputError, match="one column of numbers, booleans or text"):
        Slices.of_sample(np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"got shape .* datetime64"):
        Slices.of_sample(np.zeros(3, dtype="datetime64[s]"))
