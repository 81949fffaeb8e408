"""What the columns of a table are taken for."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pyarrow as pa
import pytest

from distrf.errors import InputError
from distrf.store.table_facts import column_facts
from distrf.store.table_schema import schema_of
from distrf.tables.kinds import POSSIBLE, as_said, cautions, infer_kinds

N = 200
RNG = np.random.default_rng(0)
SENTENCE = "the {} quick brown fox jumps over {} lazy dogs"


def kinds_of(columns, said=None):
    table = pa.table(columns)
    schema = schema_of(table.schema)
    return {kind.name: kind for kind in infer_kinds(schema, column_facts(table, schema), said)}


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("price", RNG.normal(size=N), "number"),
        ("rooms", RNG.integers(0, 9, size=N), "number"),
        ("population", RNG.permutation(10 * N)[:N], "number"),  # distinct, but in no order
        ("sorted price", np.sort(RNG.normal(size=N)), "number"),  # not whole
        ("row", np.arange(N), "id"),
        ("customer_id", RNG.permutation(10 * N)[:N], "id"),
        ("customerId", RNG.permutation(10 * N)[:N], "id"),
        ("paid", RNG.permutation(10 * N)[:N], "number"),  # ends in "id", and is none
        ("city", RNG.choice(["Ulm", "Bonn", "Köln"], size=N), "category"),
        ("key", [f"{k:032x}" for k in range(N)], "id"),
        ("zip", [f"{k:05d}" for k in RNG.integers(0, 99, size=N)], "category"),
        ("flag", RNG.random(N) < 0.5, "category"),
        ("written", [f"2020-01-{1 + k % 28:02d}" for k in range(N)], "date"),
        ("seen", [datetime.date(2020, 1, 1 + k % 28) for k in range(N)], "date"),
        ("opens", [datetime.time(k % 24) for k in range(N)], "clock"),
        ("took", [datetime.timedelta(seconds=k) for k in range(N)], "number"),
        ("nothing", pa.nulls(N), "drop"),
        ("nulls", pa.nulls(N, pa.string()), "drop"),
        ("sentences", [SENTENCE.format(k % 40, k % 30) for k in range(N)], "refused"),
        ("a few sentences", [SENTENCE.format(k % 5, 1) for k in range(N)], "category"),
    ],
)
def test_guess(name, values, kind):
    columns = {name: values, "x": RNG.normal(size=N)}
    if kind == "refused":
        with pytest.raises(InputError, match=f"'{name}'.*words an entry.*no features.*exclude=.*categorical="):
            kinds_of(columns)
    else:
        found = kinds_of(columns)[name]
        assert found.kind == kind
        assert found.why


def test_few_rows_make_no_id():
    assert kinds_of({"row": np.arange(49), "k": [str(k) for k in range(49)]})["row"].kind == "number"
    assert kinds_of({"k": [str(k) for k in range(49)]})["k"].kind == "category"


def test_nulls_do_not_hide_an_id():
    values = [k if k % 3 else None for k in range(N)]
    assert kinds_of({"id": values, "x": RNG.normal(size=N)})["id"].kind == "id"


def test_what_is_said_counts():
    columns = {"row": np.arange(N), "code": RNG.integers(0, 9, size=N), "x": RNG.normal(size=N)}
    found = kinds_of(columns, {"row": "number", "code": "category", "x": "drop"})
    assert [found[name].kind for name in columns] == ["number", "category", "drop"]
    assert {kind.why for kind in found.values()} == {"as said"}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"y": "number"}, "said by name"),
        ({"x": "text"}, "can be number, category, id, drop; received 'text'"),
        ({"city": "number"}, "can be category, date, id, drop"),
        ({"city": "date"}, "dates are written as"),
        ({"x": "drop", "city": "id"}, "no column is left"),
    ],
)
def test_what_cannot_be_said(said, words):
    with pytest.raises(InputError, match=words):
        kinds_of({"x": RNG.normal(size=N), "city": ["Ulm"] * N}, said)


@pytest.mark.parametrize(
    ("values", "stray"),
    [
        ([*map(str, np.arange(199) / 8), "n/a?"], "'n/a?'"),  # an id
        ([*map(str, np.arange(199) % 20), "12kg"], "'12kg'"),  # a category
        ([f"{k % 40},5" for k in range(N)], "'0,5'"),
        ([f"{k:05d}" for k in range(199)] + ["K1A"], "'K1A'"),
        ([f"{k:05d}" for k in range(N)], ""),  # codes
        ([*map(str, np.arange(197) % 8), "a", "b", "c"], ""),  # too few, and too many others
        (["-1.5e3", "+.5", " 7 ", *map(str, range(10)), "nan?"], "'nan?'"),
    ],
)
def test_cells_that_make_text_of_numbers(values, stray):
    columns = {"x": values, "y": np.arange(len(values)) / 7}
    kind = kinds_of(columns)["x"]
    assert kind.stray == stray
    assert stray in kind.why
    assert kind.kind in ("id", "category")
    assert len(cautions([kind])) == bool(stray)
    assert not kinds_of(columns, {"x": "category"})["x"].stray
    with pytest.raises(
        InputError, match=re.escape(f"holds numbers alone; column 'x' has {stray}" if stray else "can be")
    ):
        kinds_of(columns, {"x": "number"})


def test_all_free_texts_are_named():
    texts = [SENTENCE.format(k, k) for k in range(N)]
    with pytest.raises(InputError, match=r"columns 'a' .*, 'b' .* are free text.*exclude=\['a', 'b'\]"):
        kinds_of({"a": texts, "b": texts})


def test_as_said():
    assert as_said(["a", "b"], categorical=["a"], date=["b"]) == {"a": "category", "b": "date"}
    with pytest.raises(InputError, match="category and id"):
        as_said(["a"], categorical=["a"], id=["a"])
    with pytest.raises(InputError, match="not in the table"):
        as_said(["a"], numeric=["c"])


def test_every_base_has_kinds():
    from distrf.store.table_schema import BASES

    assert set(POSSIBLE) == set(BASES)
