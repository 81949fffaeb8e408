"""Tables as coded rows: the number of every type, the same from every source, and what is refused."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import warnings
from decimal import Decimal

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from distrf.errors import InputError
from distrf.maps.table_missing import MISSING, UNREAD, is_missing
from distrf.store.frames import as_arrow
from distrf.store.table_codes import coded
from distrf.store.table_schema import ColumnType, TableSchema, merged, schema_of

UTC = dt.UTC
DAY = 1_577_836_800.0  # 2020-01-01


def codes(values, kind=None, base=None, trained=None, form=""):
    """The codes of one column."""
    if not isinstance(values, pa.ChunkedArray):
        values = pa.chunked_array([values if isinstance(values, pa.Array) else pa.array(values, kind)])
    table = pa.table({"c": values})
    schema = schema_of(table.schema) if trained is None else one(trained)
    if base is not None:
        schema = TableSchema((ColumnType("c", schema.columns[0].arrow, base, form),))
    rows = coded(table, schema)
    assert rows.dtype == np.float64
    assert rows.flags.c_contiguous
    assert rows.shape == (len(values), 1)
    return rows[:, 0].tolist()


def one(kind):
    return schema_of(pa.schema([("c", kind)]))


def in_dictionary(array):
    """Each value by its number in a dictionary; a null is in it too."""
    return pa.DictionaryArray.from_arrays(pa.array(range(len(array)), pa.int32()), array)


def hashed(text):
    return float(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 12)


# (Arrow type, values, codes); nulls are added by the test
NUMBERS = [
    *[(kind, [0, 1, 100], [0.0, 1.0, 100.0]) for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16())],
    *[(kind, [0, 1, 100_000], [0.0, 1.0, 1e5]) for kind in (pa.int32(), pa.uint32(), pa.int64(), pa.uint64())],
    (pa.int64(), [2**53, 2**53 + 1, 2**53 + 3, -(2**63)], [2.0**53, 2.0**53, 2.0**53 + 4, -(2.0**63)]),
    (pa.uint64(), [2**64 - 1], [2.0**64]),
    (pa.float16(), [np.float16(0.1)], [float(np.float16(0.1))]),
    (pa.float32(), [0.1], [float(np.float32(0.1))]),
    (pa.float64(), [0.1, 1e300], [0.1, 1e300]),
    (pa.float64(), [np.inf, -np.inf, np.nan], [UNREAD, UNREAD, MISSING]),
    (pa.float64(), [1e300, -1e300, 1.1e300, np.finfo("f8").max], [1e300, -1e300, UNREAD, UNREAD]),
    (pa.decimal128(10, 2), [Decimal("1.25")], [1.25]),
    (pa.decimal256(60, 2), [Decimal("1.25")], [1.25]),
    (pa.bool_(), [False, True], [0.0, 1.0]),
]
TIMES = [
    (pa.date32(), [dt.date(2020, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1)], [DAY, -86400.0, -62135596800.0]),
    (pa.date64(), [dt.date(2020, 1, 1)], [DAY]),
    *[(pa.timestamp(u), [dt.datetime(2020, 1, 1, 0, 0, 1)], [DAY + 1]) for u in ("s", "ms", "us", "ns")],
    *[(pa.timestamp(u), [dt.datetime(1969, 12, 31, 23, 59, 59)], [-1.0]) for u in ("s", "ms", "us", "ns")],
    (pa.timestamp("us", "Europe/Berlin"), [dt.datetime(2020, 1, 1, tzinfo=UTC)], [DAY]),
    (pa.time32("s"), [dt.time(1, 0, 5)], [3605.0]),
    (pa.time64("ns"), [dt.time(0, 0, 0, 500_000)], [0.5]),
]  # fmt: skip
TEXTS = [
    *[(kind, ["a", "", "Zürich"], [hashed("a"), MISSING, hashed("Zürich")])
      for kind in (pa.string(), pa.large_string(), pa.string_view())],
    (pa.null(), [None], [MISSING]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "expected"), NUMBERS + TIMES + TEXTS, ids=lambda x: str(x)[:20])
def test_every_type_is_a_number(kind, values, expected):
    array = pa.array([*values, None], kind)
    expected = [*expected, MISSING]
    assert codes(array) == expected
    assert codes(pa.chunked_array([array[:1], array[:0], array[1:]])) == expected
    assert codes(pa.chunked_array([], kind)) == []
    assert codes(in_dictionary(array)) == expected


def test_missing_is_finite_in_sums_of_squares_and_loud_in_float32():
    assert np.isfinite(1e9 * np.float64(MISSING) ** 2)
    assert is_missing(np.array([MISSING, UNREAD, 0.0, -1e300])).tolist() == [True, True, False, False]
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(MISSING))


def test_texts_are_their_bytes():
    """Nothing is stripped, folded or normalised."""
    texts = ["a", "A", " a", "a ", "é", "e\u0301", "\0", "nan", "NULL", " "]
    assert len(set(codes(texts))) == len(texts)
    assert MISSING not in codes(texts)


def test_nulls_and_copies_in_a_dictionary():
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 3]), pa.array(["a", None, "a", ""]))
    second = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["b", "c"]))
    expected = [hashed("a"), MISSING, MISSING, hashed("a"), MISSING, hashed("c"), hashed("b")]
    assert codes(pa.chunked_array([first, second])) == expected


def test_negative_zero_is_zero():
    assert not np.signbit(codes([-0.0, 0.0])).any()


def test_units_of_time_agree_to_the_bit():
    """Also before 1970, far away, and where float64 seconds are rounded."""
    micro = np.array([-1, 1, 1_234_567, -1_234_567, 1_583_020_799_123_457, 2**62 + 1, -(2**62) - 1])
    expected = [float(n) for n in (micro // 10**6 + micro % 10**6 / 1e6)]
    assert codes(pa.array(micro, pa.timestamp("us"))) == expected
    near = micro[:5]
    assert (
        codes(pa.array(near * 1000 + 999 * (near > 0), pa.timestamp("ns"))) == expected[:5]
    )  # cut, not rounded
    milli = near // 1000
    assert codes(pa.array(milli, pa.timestamp("ms"))) == codes(pa.array(milli * 1000, pa.timestamp("us")))
    assert len(set(codes(pa.array(near[4] + np.arange(50), pa.timestamp("us"))))) == 50


def test_text_that_writes_dates():
    texts = [
        "2020-01-01", "2020-01-01 00", "2020-01-01T00:00", "2020-01-01 00:00:00.000000999", "2020-01-01T00:00:00Z",
        "2020-01-01 01:00:00.5+01:00", "2019-12-31T23:30-0030", "", None, "2020-01-01",
    ]  # fmt: skip
    expected = [DAY, DAY, DAY, DAY, DAY, DAY + 0.5, DAY, MISSING, MISSING, DAY]
    assert codes(texts, base="time") == expected
    assert codes(pa.array(texts).dictionary_encode(), base="time") == expected
    assert codes([f" {text} " if text else text for text in texts], base="time") == expected
    with pytest.raises(InputError, match=r"column 'c' has '31.1.2020'; write it so, or leave the column out"):
        codes(["2020-01-01", "", "2020-01-02", "31.1.2020", "1.2.2020", "2020-01-03"], base="time")
    assert codes(["1.1.2020", "31.2.2020", "", "n/a"], base="time", form="date:dmy") == [
        DAY,
        UNREAD,
        MISSING,
        UNREAD,
    ]
    with pytest.raises(InputError, match="column 'c' has '\ufffd'; "):
        codes(pa.array([b"\xff"]).view(pa.string()), base="time")


def test_text_has_a_time_zone_where_the_trained_column_had_one():
    plain, zoned, day = "2020-01-01 01:00", "2020-01-01T01:00+01:00", "2020-01-01"
    for kind in (pa.timestamp("ns"), pa.date32()):
        assert codes([plain, day], trained=kind) == [DAY + 3600, DAY]
        with pytest.raises(InputError, match=r"column 'c' has '2020-01-01T01:00.01:00'"):
            codes([plain, zoned], trained=kind)
    assert codes([zoned], trained=pa.timestamp("s", "UTC")) == [DAY]
    for wrong in (plain, day):
        with pytest.raises(InputError, match=f"with a time zone such as .*; column 'c' has '{wrong}'"):
            codes([zoned, wrong], trained=pa.timestamp("s", "UTC"))


def test_integers_beyond_2_53_stay_apart_as_text():
    ids = [2**60 + i for i in range(100)] + [None]
    assert len(set(codes(ids))) < 5
    expected = [*(hashed(str(i)) for i in ids[:-1]), MISSING]
    assert codes(ids, base="text") == expected
    assert codes(pa.array(ids).dictionary_encode(), base="text") == expected
    texts = pa.table({"c": [None if i is None else str(i) for i in ids]})
    schema = TableSchema((ColumnType("c", "int64", "text"),))
    assert coded(texts, schema)[:, 0].tolist() == expected
    assert coded(pa.table({"c": [5.0, None, np.nan]}), schema)[:, 0].tolist() == [hashed("5"), MISSING, MISSING]
    with pytest.raises(InputError, match="column 'c' had integers that are read as text"):
        coded(pa.table({"c": [5.5]}), schema)
    # the type of the codes of a dictionary does not count
    assert not ColumnType("c", str(pa.dictionary(pa.int32(), pa.string())), "text").digits


@pytest.mark.parametrize(
    ("trained", "found", "words"),
    [
        (pa.int64(), pa.string(), r"'c' holds text \(string\) and held numbers"),
        (pa.string(), pa.int64(), r"'c' holds numbers \(int64\) and held text"),
        (pa.time64("us"), pa.string(), r"'c' holds text \(string\) and held times of day"),
        (pa.timestamp("s"), pa.time32("s"), r"'c' holds times of day \(time32\[s\]\) and held dates"),
        (pa.int64(), pa.list_(pa.int64()), r"'c' holds what cannot be read \(list<.*>\) and held numbers"),
        (pa.timestamp("s"), pa.timestamp("s", "UTC"), "'c' has a time zone now and had none"),
        (pa.timestamp("s", "UTC"), pa.date32(), "'c' has no time zone now and had one"),
        (pa.dictionary(pa.int8(), pa.timestamp("s")), pa.timestamp("s", "UTC"), "'c' has a time zone now"),
    ],
)
def test_a_column_of_another_type_is_refused(trained, found, words):
    table = pa.table({"c": pa.nulls(2, found)})
    with pytest.raises(InputError, match=words + ".*; rename, add or convert columns, or train without them$"):
        coded(table, one(trained))


def test_one_schema_for_several_tables():
    def one_of_all(*kinds):
        tables = [(f"t{j}", pa.schema([("other", "int8"), ("c", kind)])) for j, kind in enumerate(kinds)]
        schema, faults = merged(tables)
        return faults.get("c") or schema.field("c").type

    assert one_of_all("int32", "int64") == one_of_all("int64", "int32") == pa.int64()
    assert one_of_all("float", "double") == one_of_all("int32", "float") == pa.float64()
    assert one_of_all("int8", "float") == pa.float32()
    assert one_of_all("uint64", "int8") == one_of_all(pa.decimal128(5, 0), "int8") == pa.decimal128(38, 0)
    assert one_of_all("uint64", "float") == one_of_all(pa.decimal128(5, 1), "int8") == pa.float64()
    assert one_of_all(pa.null(), "string", "large_string") == pa.string()
    assert one_of_all(pa.null(), pa.null()) == pa.null()
    assert one_of_all("large_string", pa.dictionary(pa.int8(), pa.string())) == pa.large_string()
    assert (
        one_of_all("date32", pa.timestamp("s")) == one_of_all(pa.timestamp("s"), "date64") == pa.timestamp("s")
    )
    assert one_of_all("time32[s]", "time64[ns]") == pa.time64("ns")
    for kinds in (
        ("int8", "string"), ("string", "date32"), ("bool", "int8"), (pa.timestamp("s"), pa.timestamp("s", "UTC")),
        (pa.list_(pa.int8()), "int8"),
    ):  # fmt: skip
        assert re.search(r"'c' is .* in 't0' and .* in 't1'; write them with one schema", one_of_all(*kinds))
    assert merged([(name, pa.schema([(name, "int8")])) for name in "ab"])[0].names == ["a", "b"]


def test_a_schema_goes_through_json():
    schema = schema_of(
        pa.schema([("a", pa.timestamp("us", "UTC")), ("ü", pa.dictionary(pa.int8(), pa.string()))])
    )
    assert TableSchema.from_spec(json.loads(json.dumps(schema.spec()))) == schema
    assert hash(schema) == hash(TableSchema.from_spec(schema.spec()))


def test_one_row_without_a_value_says_no_type():
    """As pandas makes it of a line of a CSV."""
    trained = schema_of(pa.schema([("t", "string"), ("d", pa.timestamp("s")), ("x", "double")]))
    frame = pd.DataFrame({"t": [np.nan], "d": [np.nan], "x": [1.0]})
    np.testing.assert_array_equal(coded(as_arrow(frame), trained), [[MISSING, MISSING, 1.0]])
    assert (
        schema_of(as_arrow(frame.iloc[:0]).schema).columns[0].base == "number"
    )  # no row: the type is all there is


@pytest.mark.parametrize(
    "values",
    [
        ["a", 1, None, pd.NA],
        [True, 2],
        [2**70],
        [1j],
        ["\ud800"],
        [pd.Interval(0, 1), np.nan],
        [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)],
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=UTC)],
        [dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(2020, 1, 1)],
        [dt.time(5), dt.time(5, tzinfo=UTC)],
        [dt.time(5, tzinfo=UTC)],
        [Decimal("Infinity"), Decimal(1)],
    ],
    ids=str,
)
def test_a_mixed_column_is_named(values):
    frame = pd.DataFrame({"good": range(len(values)), "bad": pd.Series(values, dtype=object)})
    for rows in (frame, {"good": list(range(len(values))), "bad": values}):
        with pytest.raises(
            InputError, match=r"of one type; column 'bad' does not \(.*; convert it, or leave it out$"
        ):
            as_arrow(rows)


def test_names_that_are_no_text():
    frame = pd.DataFrame([[1, "a"]], columns=[0, ("a", 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_arrow(frame).column_names == ["0", "('a', 1)"]
    for twice in (pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.DataFrame([[1, 2]], columns=[1, "1"])):
        with pytest.raises(InputError, match="distinct names"):
            as_arrow(twice)


def test_what_is_no_table():
    for wrong in (np.ones((2, 2)), [[1, 2]], "text", None, pd.Series([1])):
        with pytest.raises(InputError, match=r"a table is a data frame.*; make one of it"):
            as_arrow(wrong)
    for values, said in ((1, "'a' does not"), ("abc", "'a' does not"), ([1], "columns have the same rows")):
        with pytest.raises(InputError, match=said):
            as_arrow({"a": values, "b": [1, 2, 3]})
    lazy = da.ones((3, 2), chunks=1)
    with pytest.raises(InputError, match=r"received a lazy Array; open it with distrf.open_table"):
        as_arrow(lazy)
