"""What the columns of a table are taken for."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from distrf.errors import InputError
from distrf.store.frames import as_arrow
from distrf.store.table_codes import coded
from distrf.store.table_facts import column_facts
from distrf.store.table_schema import BASES, TableSchema, schema_of
from distrf.store.text_forms import PER_SECOND
from distrf.tables.kinds import POSSIBLE, cautions, infer_kinds

N = 200
RNG = np.random.default_rng(0)
SENTENCE = "the {} quick brown fox jumps over {} lazy dogs"
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(int(k)) for k in RNG.integers(0, 900, N)]


def kinds_of(columns, said=None):
    table = as_arrow(pd.DataFrame(columns))
    schema = schema_of(table.schema)
    return {kind.name: kind for kind in infer_kinds(schema, column_facts(table, schema, said=said), said)}


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("price", RNG.normal(size=N), "number"),
        ("rooms", RNG.integers(0, 9, size=N), "code"),
        ("rooms, some missing", [None, *map(float, RNG.integers(0, 9, size=N))], "code"),
        ("population", RNG.permutation(10 * N)[:N], "number"),  # distinct, but in no order
        ("sorted price", np.sort(RNG.normal(size=N)), "number"),  # not whole
        ("row", np.arange(N), "id"),
        ("count", 1 + np.arange(N), "id"),
        ("counted text", [str(k) for k in range(N)], "id"),
        ("year", 1800 + np.arange(N), "id"),
        ("account text", [str(10**6 + 7 * k) for k in range(N)], "id"),
        ("account decimal", [decimal.Decimal(7 * k) for k in range(N)], "id"),
        ("digit labels", pd.Categorical([str(k) for k in RNG.integers(0, 90, N)]), "category"),
        ("account", 10**18 + 7 * np.arange(N), "id"),  # equal as float64
        ("few", np.arange(49), "number"),
        ("id", pd.array([k if k % 3 else None for k in range(N)], "Int64"), "id"),
        ("customer_id", RNG.permutation(10 * N)[:N], "id"),
        ("customerId", RNG.permutation(10 * N)[:N], "id"),
        ("paid", RNG.permutation(10 * N)[:N], "number"),  # ends in "id", and is none
        ("hash", 2**60 + RNG.permutation(N), "id"),
        ("code", 2**60 + RNG.integers(0, 5, N), "category"),
        ("decimals", [decimal.Decimal(10**20 + int(k)) for k in RNG.integers(0, 5, N)], "category"),
        ("digits", pd.Categorical(RNG.integers(0, 9, N)), "category"),
        ("city", RNG.choice(["Ulm", "Bonn", "Köln"], size=N), "category"),
        ("key", [f"{k:032x}" for k in range(N)], "id"),
        ("zip", [f"{k:05d}" for k in RNG.integers(0, 99, size=N)], "category"),
        ("flag", RNG.random(N) < 0.5, "category"),
        ("seen", DAYS, "date"),
        ("opens", [datetime.time(k % 24) for k in range(N)], "clock"),
        ("nothing", [None] * N, "drop"),
        ("sentences", [SENTENCE.format(k % 40, k % 30) for k in range(N)], "text"),
        ("a few sentences", [SENTENCE.format(k % 5, 1) for k in range(N)], "category"),
    ],
)
def test_guess(name, values, kind):
    """What is left out, though it has values, is warned of, but for numbers of rows."""
    found = kinds_of({name: values, "x": RNG.normal(size=len(values))})[name]
    assert found.kind == kind
    assert found.why
    warned = cautions([found])
    silent = name in ("row", "id")
    assert len(warned) == (kind in ("id", "text") and not silent)
    for text in warned:
        assert f"left out: {name!r} ({found.why}); take one by its kind (category for levels" in text
        assert text.endswith(f"kinds={ {name: 'drop'} }")


# name, texts, form, words of the reason, a text that counts as missing
WRITTEN = [
    *[(form, [day.strftime(form) for day in DAYS], f"date:{order}", words, "") for form, order, words in [
        ("%Y-%m-%d", "ymd", "dates"), ("%Y/%m/%d", "ymd", "dates"), ("%d/%m/%Y", "dmy", "day before month"),
        ("%d.%m.%Y", "dmy", "day before month"), ("%m/%d/%y", "mdy", "month before day"),
        ("%d-%b-%Y", "dmy", "day before month"), ("%B %d, %Y", "mdy", "month before day"),
        ("%a, %d %b %Y %H:%M", "dmy", "day before month"), ("%d.%m.%y", "dmy", "day before month"),
        ("%Y-%m-%dT%H:%M:%S+02:00", "ymd", "dates"), ("%m/%d/%Y %I:%M %p", "mdy", "month before day"),
    ]],
    ("a few bad days", [*(str(day) for day in DAYS), "0000-00-00"], "date:ymd", "dates", "'0000-00-00'"),
    ("thousands", [f"{9 * k**2:,.2f}" for k in range(N)], "quantity:,.", "',' between thousands", ""),
    ("decimal comma", [f"{k},5" for k in range(N)], "quantity:.,", "with a decimal comma", ""),
    ("apostrophes", [f"{9 * k**2:,}".replace(",", "'") for k in range(N)], "quantity:'.", "between thousands", ""),
    ("money", [f"${k:.2f} " for k in range(N)], "quantity:,.$", "with '$'", ""),
    ("losses", [f"(€{k},50)" for k in range(N)], "quantity:.,€", "with '€'", ""),
    ("whole euros", [f"{9 * k + 200:,} €".replace(",", ".") for k in range(N)], "quantity:.,€", "'.' between", "may be a decimal mark"),
    ("one comma", [*(f"${9 * k + 200:,}" for k in range(N)), "$12,5"], "quantity:,.$", "with '$'", "'$12,5'"),
    ("grams", [f"{k / 125:.3f} kg" for k in range(N)], "quantity:,.kg", "with 'kg'", ""),
    ("percent", [f"{k}%" for k in range(N)], "quantity:,.%", "with '%'", ""),
    ("unit", [f"{k} kg" for k in range(N)], "quantity:,.kg", "with 'kg'", ""),
    ("fractions", [f"{k / 8}" for k in range(N)], "quantity:,.", "numbers", ""),
    ("two units", [*(f"{k} kg" for k in range(N)), "500 g"], "quantity:,.kg", "with 'kg'", "'500 g'"),
    ("units of two cases", [*(f"{k} m" for k in range(N)), "2 M"], "quantity:,.m", "with 'm'", "'2 M'"),
    ("a stray text", [*map(str, RNG.permutation(N)), "n/a?"], "quantity:,.", "numbers", "'n/a?'"),
    ("whole numbers", list(map(str, RNG.permutation(10 * N)[:N])), "quantity:,.", "numbers", "may be codes"),
    ("a stray in few", [*(str(k % 20) for k in range(N)), "none"], "quantity:,.", "numbers", "'none'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "texts", "form", "words", "stray"), WRITTEN, ids=lambda x: str(x)[:20])
def test_text_that_writes_numbers(name, texts, form, words, stray):
    columns = {name: texts, "x": RNG.normal(size=len(texts))}
    kind = kinds_of(columns)[name]
    number = "code" if name == "a stray in few" else "number"
    assert (kind.kind, kind.column.form) == ("date" if form.startswith("date") else number, form)
    assert words in kind.why
    warned = cautions([kind])
    assert [stray in text and f"kinds={ {name: 'category'} }" in text for text in warned] == [True] * bool(
        stray
    )
    as_text = kinds_of(columns, {name: "category"})[name]
    assert (as_text.kind, as_text.column.form, cautions([as_text])) == ("category", "", [])


@pytest.mark.parametrize(
    "texts",
    [
        [f"{k:05d}" for k in range(N)],  # codes
        [*(f"{k:05d}" for k in range(N)), "K1A"],
        [str(k) for k in range(N)],  # text on purpose
        [str(2**60 + k) for k in range(N)] + ["?"],  # beyond float64
        [*map(str, np.arange(190) % 8), "a", "b", "c"],  # too few numbers, and too many others
        [f"{k} {'mM'[k % 2]}" for k in range(N)],  # two units
        [f"{k % 4} doors" for k in range(N)],  # few levels
        [f"1.{k}.{k % 20}" for k in range(N)],  # versions
        [f"{k}:{k}" for k in range(25, N)],
        [f"P{k}" for k in range(N)],
    ],
    ids=lambda texts: texts[-1],
)
def test_text_that_stays_text(texts):
    kind = kinds_of({"c": texts, "x": RNG.normal(size=len(texts))})["c"]
    assert (kind.kind in ("id", "category"), kind.column.form) == (True, "")


MONTHS = [3, 1, 9, 12, 2, 5, 4, 11, 7, 6, 10, 8]
YEAR = [datetime.date(2012, 1, 1) + datetime.timedelta(k) for k in range(120)]


@pytest.mark.parametrize(
    ("texts", "form", "others"),
    [
        ([f"{m:02}/01/2020" for m in MONTHS], "mdy", "day before month"),
        ([f"{m:02}.0{1 + m % 4}.2020" for m in MONTHS], "dmy", "month before day"),
        ([f"{m:02}/0{1 + m % 4}/2020" for m in MONTHS], "mdy", "day before month"),
        (["20-03-15"], "dmy", "year first"),
        (["04-02-03"], "mdy", "day before month or year first"),
        (["75-03-15"], "yymd", ""),
        (["12-Mar-15"], "dmy", ""),
        ([f"{m:02}/0{1 + m % 4}/{y}" for y in (2019, 2020) for m in range(1, 13)], "mdy", ""),  # they rise
        ([f"{m % 4:02}/0{1 + m // 4}/2020" for m in range(4, 30) if m % 4], "dmy", ""),
        ([f"{k:02}-03-15" for k in range(1, 25)], "dmy", "year first"),  # rise as text does
        *[([day.strftime(form) for day in some], order, "")
          for form, order in [("%y-%m-%d", "yymd"), ("%d-%m-%y", "dmy"), ("%y/%m/%d", "yymd"), ("%m-%d-%y", "mdy")]
          for some in (DAYS, YEAR)],
    ],
    ids=lambda x: str(x)[:30],
)  # fmt: skip
def test_the_order_of_days_months_and_years(texts, form, others):
    """By a date that is none in another order, by dates that rise, or by days all over the month; else it is said."""
    kind = kinds_of({"when": texts})["when"]
    assert kind.column.form == f"date:{form}"
    doubt = f"may be {others}: no date tells (2020-01-31 would); write it otherwise"
    assert [doubt in text for text in cautions([kind])] == [True] * bool(others)


@pytest.mark.parametrize(
    ("form", "made"),
    [
        *[(f"stamp:{unit}", lambda t, per=per: t * per) for unit, per in PER_SECOND.items()],
        ("stamp:s", lambda t: t.astype(float)),
        ("stamp:ms", lambda t: np.array([decimal.Decimal(int(v) * 1000) for v in t])),
        ("stamp:s", lambda t: t.astype(str)),
        ("stamp:ymd", lambda t: t.astype("M8[s]").astype("M8[D]").astype(str)),
        (
            "stamp:ymd",
            lambda t: np.array([int(str(d).replace("-", "")) for d in t.astype("M8[s]").astype("M8[D]")]),
        ),
    ],
)
def test_numbers_are_times_where_it_is_said(form, made):
    """And in later rows, also where they are timestamps or text there."""
    seconds = 1577836800 + 86_400 * RNG.integers(0, 4000, N)
    columns = {"t": made(seconds), "x": RNG.normal(size=N)}
    kind = kinds_of(columns, {"t": "date"})["t"]
    form = "date:ymd" if columns["t"].dtype.kind == "U" and "-" in columns["t"][0] else form
    assert (kind.kind, kind.column.base, kind.column.form) == ("date", "time", form)
    schema = TableSchema((kind.column,))
    for rows in (columns["t"], columns["t"].astype(str), seconds.astype("M8[s]")):
        np.testing.assert_allclose(coded(as_arrow({"t": rows}), schema)[:, 0], seconds, rtol=1e-12)
    assert kinds_of(columns)["t"].kind != "date" or form == "date:ymd"


def test_ascending_numbers_are_no_id_where_there_is_nothing_else():
    table = as_arrow({"year": 1800 + np.arange(N)})
    schema = schema_of(table.schema)
    (kind,) = infer_kinds(schema, column_facts(table, schema))
    assert kind.kind == "number"
    assert "say kinds={'year': 'date'} where it is a time" in cautions([kind])[0]


def test_what_is_said_counts():
    columns = {
        "row": np.arange(N),
        "code": RNG.integers(0, 9, size=N),
        "x": RNG.normal(size=N),
        "t": ["1"] * 150 + ["a"] * 50,
    }
    found = kinds_of(columns, {"row": "number", "code": "category", "x": "drop", "t": "number"})
    assert [found[name].kind for name in columns] == ["number", "category", "drop", "number"]
    assert {found[name].why for name in ("row", "code", "x")} == {"as said"}
    assert found["code"].column.digits
    assert "text that reads as numbers, but not 'a'" in cautions(list(found.values()))[0]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"y": "number"}, "said by name"),
        ({"x": "text"}, "can be number, category, code, date, id, drop; received 'text'"),
        ({"city": "number"}, "a number is written such as .*'city' are not.*leave its kind out"),
        ({"city": "date"}, "a date is written such as .*'city' are not.*leave its kind out"),
        ({"x": "drop", "city": "id"}, "no column is left.*what they are, kinds="),
    ],
)
def test_what_cannot_be_said(said, words):
    with pytest.raises(InputError, match=words):
        kinds_of({"x": RNG.normal(size=N), "city": ["Ulm"] * N}, said)


def test_all_that_is_left_out_is_named_in_one_warning():
    columns = {f"c{j}": [SENTENCE.format(k, k + j) for k in range(N)] for j in range(12)}
    (text,) = cautions(list(kinds_of({"x": RNG.normal(size=N), **columns}).values()))
    assert all(repr(name) in text for name in columns)
    assert "and 2 more; take one by its kind" in text


def test_a_column_without_values_in_the_rows_looked_at_is_said():
    """But one that is empty by its type has none in other rows either."""
    table = as_arrow(
        pa.table({"x": [1.5, 2.0], "late": pa.array([None, None], pa.float64()), "none": pa.nulls(2)})
    )
    schema = schema_of(table.schema)
    warned = [cautions(infer_kinds(schema, column_facts(table, schema), None, rows)) for rows in (2, 3)]
    assert warned[0] == []
    assert "left out: 'late' (no value in 2 rows looked at); take one by its kind" in warned[1][0]
    assert "(category for levels, number or date)" in warned[1][0]


def test_levels_that_may_have_been_rounded_are_said():
    """Of files of int64 and of double both are double; as numbers they do."""
    for base in (2.0**60, 5.0):
        kinds = kinds_of({"x": base + np.arange(9.0), "y": base + np.arange(9.0)}, {"x": "category"}).values()
        assert ["'x' has floating-point numbers beyond 2^53" in text for text in cautions(list(kinds))] == [
            True
        ] * (base > 9)


def test_infinite_numbers_are_said():
    (text,) = cautions(list(kinds_of({"x": [np.inf, -np.inf, np.nan, 1.0, None, 2.0]}).values()))
    assert text == "column 'x' has infinite numbers in 2 of 6 rows looked at: they count as missing"


def test_every_base_has_kinds():
    assert set(POSSIBLE) == set(BASES)
