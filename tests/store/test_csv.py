"""CSV as a source of rows: any blocks, types and missing values, quotes, and what is refused with its line."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import lzma
import pickle
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distrf
from distrf import open_rows, open_table
from distrf.errors import InputError, ParameterError, StoreError
from distrf.execution.open_rows import lazy_rows
from distrf.maps.table_missing import is_missing
from distrf.store import (
    CsvSource,
    Selection,
    csv_source,
    csv_text,
    describe,
    facts,
    find_format,
    open_source,
    plain_text,
)
from distrf.store.table_codes import as_arrow, coded
from distrf.store.table_schema import ColumnType, TableSchema, schema_of
from distrf.tables.encoder import describe_columns
from distrf.tables.kinds import ColumnWarning


def run(x):
    return x.compute(scheduler="sync")


@pytest.fixture
def small_pieces(monkeypatch):
    """A few rows at a time, so that every seam is crossed; types of the first rows alone."""
    _small(monkeypatch)


def _small(patch, scanned=100, step=30):
    patch.setattr(csv_source, "_SCAN_BYTES", scanned)
    patch.setattr(csv_source, "_STEP_BYTES", step)


def types(path):
    return dict(facts(path)["columns"])


@pytest.mark.slow
@settings(max_examples=20)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    rows_per_block=st.integers(1, 50),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    last=st.booleans(),
    uniform=st.booleans(),
    scanned=st.integers(15, 200),
    step=st.integers(1, 200),
)
def test_any_files_and_blocks(tmp_path_factory, sizes, rows_per_block, end, last, uniform, scanned, step):
    folder, first = tmp_path_factory.mktemp("c"), 0
    for number, size in enumerate(sizes):
        rows = [f'{i},"text, {i}{end}{end}""",{i / 3!r}' for i in range(first, first + size)]
        text = end.join(["n,t,x", *rows]) + end * last
        (folder / f"part-{number}.csv").write_bytes(text.encode())
        first += size
    with pytest.MonkeyPatch.context() as patch:
        _small(patch, scanned, step)
        X, y = open_rows(folder, target="t", rows_per_block=rows_per_block, uniform=uniform)
        assert set(X.chunks[0][:-1]) <= {rows_per_block}
        assert X.chunks[0] == y.chunks[0]
        np.testing.assert_array_equal(run(X), np.c_[np.arange(first), np.arange(first) / 3])
        np.testing.assert_array_equal(run(y), [f'text, {i}{end}{end}"' for i in range(first)])
        source = open_source(folder, Selection(target="n", coded=True, rows_per_block=rows_per_block))
        table = pa.table({"t": run(y), "x": np.arange(first) / 3})
        np.testing.assert_array_equal(run(lazy_rows(source)), coded(table, source.coded))
        assert run(lazy_rows(source.target_source())).dtype == np.int64


def test_types(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "i,x,b,d,s,z,c,t,e,h,q\n"
        "1,1,true,2020-01-01,2020-01-01 10:00,2020-01-01T10:00Z,10:00:00,a,,0x1F,\"1\"\n"
        ",2.5,,NA,nan,null,,None,<NA>,0x2A,\"2\"\n"
    )  # fmt: skip
    assert types(path) == {
        "i": "int64", "x": "double", "b": "bool", "d": "date32[day]", "s": "timestamp[s]", "z": "timestamp[s, tz=UTC]",
        "c": "time32[s]", "t": "string", "e": "null", "h": "string", "q": "int64",
    }  # fmt: skip
    source = open_source(path, Selection(coded=True))
    at = dt.datetime(2020, 1, 1, 10)
    table = pa.table({
        "i": [1, None], "x": [1.0, 2.5], "b": [True, None], "d": [at.date(), None], "s": [at, None],
        "z": pa.array([at, None], pa.timestamp("s", "UTC")), "c": [at.time(), None], "t": ["a", None], "e": pa.nulls(2),
        "h": ["0x1F", "0x2A"], "q": [1, 2],
    })  # fmt: skip
    np.testing.assert_array_equal(run(lazy_rows(source)), coded(table, source.coded))


def test_missing_words_are_those_of_pandas(tmp_path):
    words = pd._libs.parsers.STR_NA_VALUES
    assert set(csv_text.NULLS) == words
    path = tmp_path / "a.csv"
    path.write_text("t,x\nkept,1\n" + "".join(f"{word},{word}\n" for word in sorted(words)))
    got = run(lazy_rows(open_source(path, Selection(coded=True))))
    np.testing.assert_array_equal(
        got, coded(as_arrow(pd.read_csv(path)), open_source(path, Selection(coded=True)).coded)
    )
    assert (got[1:] == got[1, 0]).all()


@pytest.mark.usefixtures("small_pieces")
def test_rows_that_were_not_looked_at_may_hold_more(tmp_path, monkeypatch):
    """Fractions, dates with times of day; but text stays text and a target keeps its type."""
    monkeypatch.setattr(csv_source, "_PLACES", 1)
    monkeypatch.setattr(csv_source, "_PLACE_BYTES", 60)
    path = tmp_path / "a.csv"
    head = "i,d,s,c,t,y\n" + "1,2020-01-01,2020-01-01 10:00,10:00:00,5 pm,7\n" * 9
    path.write_text(head + "1.5,2020-01-01 12:00,2020-01-01T00:00:00.5,10:00:00.25,9,8\n")
    source = open_source(path, Selection(coded=True, target="y"))
    got = run(lazy_rows(source))[-1]
    day = 1_577_836_800.0
    assert got[:4].tolist() == [1.5, day + 43_200, day + 0.5, 36_000.25]
    assert source.coded.columns[4].base == "text"
    assert run(lazy_rows(source.target_source())).tolist() == [7] * 9 + [8]
    for column, value, wanted in (
        ("i", "many", "'many' in column 'i', which holds numbers"),
        ("d", "soon", "'soon' in column 'd', which holds dates"),
        ("s", "2020-01-01T00:00Z", "which holds dates"),
        ("c", "25:00:00", "'25:00:00' in column 'c', which holds times of day"),
    ):
        values = dict(zip("idscty", ["1", "2020-01-01", "2020-01-01", "10:00:00", "", "1"], strict=True)) | {
            column: value
        }
        path.write_text(head + ",".join(values.values()) + "\n")
        with pytest.raises(
            InputError, match=rf"row 10 of '.*a.csv' has .*{wanted}.*; correct the file, leave .* na_values="
        ):
            run(lazy_rows(open_source(path, Selection(coded=True, target="y"))))
    path.write_text(head + "1,2020-01-01,2020-01-01 10:00,10:00:00,x,7.5\n")
    with pytest.raises(
        InputError, match=r"row 10 of .* has '7.5' in column 'y', which holds numbers \(int64\)"
    ):
        run(lazy_rows(open_source(path, Selection(coded=True, target="y")).target_source()))


def test_a_column_may_have_its_values_late(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_source, "_PLACES", 1)
    monkeypatch.setattr(csv_source, "_PLACE_BYTES", 60)
    path = tmp_path / "a.csv"
    path.write_text("x,e\n" + "1,\n" * 90 + "1,7\n")
    source = open_source(path, Selection(coded=True))
    assert [column.base for column in source.coded.columns] == ["number", "text"]
    assert len(np.unique(run(lazy_rows(source))[:, 1])) == 2
    number = TableSchema((ColumnType("e", "double", "number"),))
    assert run(lazy_rows(open_source(path, Selection(coded=number))))[-1, 0] == 7
    path.write_text("x,e\n1,\n")
    assert [column.base for column in open_source(path, Selection(coded=True)).coded.columns] == [
        "number",
        "empty",
    ]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("rows_per_block", [3, 1000])
def test_a_fault_is_named_with_its_row(tmp_path, monkeypatch, rows_per_block):
    monkeypatch.setattr(csv_source, "_PLACES", 1)
    monkeypatch.setattr(csv_source, "_PLACE_BYTES", 60)
    path = tmp_path / "a.csv"
    head = "a,b\n\n" + '1,"x\ny"\n' * 20
    for bad, message in (
        (b"1,x,y\n", "every row has as many values as the first; row 21 of .* has not .*got 3"),
        (b"1\n", "row 21 of .* has not .*got 1"),
        (b"{a},b\n", "row 21 of .* has '{a}' in column 'a', which holds numbers"),
        (
            b"1,\xff\n",
            "UTF-8 unless encoding= says .*; row 21 of .* has other bytes in column 'b'; give encoding=",
        ),
    ):
        path.write_bytes(head.encode() + bad + b"1,z\n" * 5)
        X = lazy_rows(open_source(path, Selection(coded=True, rows_per_block=rows_per_block)))
        with pytest.raises(InputError, match=message):
            run(X)
    path.write_bytes(head.encode() + b'1,"open\n' + b"1,z\n" * 5)
    with pytest.raises(
        StoreError, match=r"in row 2\d of .* or before it one is never closed .*; correct the file"
    ):
        open_source(path, Selection(coded=True))
    path.write_bytes(b"a,b\n1,2\n1,2,3\n")
    with pytest.raises(InputError, match=r"row 2 of .* has not .*got 3"):
        open_source(path, Selection(coded=True))


def test_first_lines(tmp_path):
    def names(text, name="a.csv"):
        (tmp_path / name).write_bytes(text)
        return describe(tmp_path / name).columns

    assert names(b'\xef\xbb\xbfa,"b""c"\n1,2\n') == ["a", 'b"c']
    assert names(b"\n\na,b\n1,2\n") == ["a", "b"]
    assert names("Ü,数\n1,2".encode()) == ["Ü", "数"]
    assert names(b'"a,1";"b"\n1;2\n') == ["a,1", "b"]
    assert names(b"a\tb\n1\t2\n") == names(b"a\tb\n1\t2\n", "a.tsv") == ["a", "b"]
    assert names(b"a,b\n1,2\n", "A.CSV") == ["a", "b"]
    assert names(b"a;b\n1\n", "a.tsv") == ["a;b"]
    with pytest.warns(
        UserWarning, match="the first column of .* has no name, as row labels of pandas: it is left out"
    ):
        assert names(b",a\n0,1\n1,2\n") == ["a"]
    assert open_table(tmp_path / "a.csv").schema.names == ["Unnamed: 0", "a"]
    assert names(b"x,,y\n0,1,2\n") == ["x", "Unnamed: 1", "y"]
    assert names(b"a;b, c\n1,5;2,5\n1;2\n") == ["a", "b, c"]
    with pytest.raises(InputError, match=r"may be any of \[',', ';'\]: say sep=','"):
        names(b"a;b, c\n1,5;2\n")
    assert names(b'"first\nname",b\n1,2\n') == ["first\nname", "b"]
    assert names(b"0,1,2\n3,4,5\n") == ["0", "1", "2"]
    assert names(b"2019,2020\n3,4\n") == ["2019", "2020"]
    assert names(b"0,1\n3,4\n") == ["f0", "f1"]
    assert names(b"a|b,c\n1,2\n", "a.psv") == ["a|b", "c"]
    assert names(b"a|b\n1|2\n", "a.txt") == ["a", "b"]
    assert names(b"1.5,2\n3,4\n") == ["f0", "f1"]
    np.testing.assert_array_equal(run(open_rows(tmp_path / "a.csv")[0]), [[1.5, 2], [3, 4]])
    with pytest.raises(InputError, match=r"distinct names; '.*a.csv' has \['a', 'a'\]"):
        names(b"a,a\n1,2\n")
    for either in (b"id,2019,2020\n1,2,3\n", b"0.5,b,1\n0.7,a,2\n", b"1,2,3\n4,5,6\n"):
        with pytest.raises(
            InputError, match=r"may be either: .*; say header=True where .*, and header=False where"
        ):
            names(either)
    with pytest.raises(InputError, match="UTF-8 unless encoding= says otherwise; the names of the columns"):
        names("Ü,b\n1,2\n".encode("latin-1"))
    for empty in (b"", b"\n\n", b"\xef\xbb\xbf"):
        with pytest.raises(StoreError, match="is empty; give a file that has rows"):
            names(empty)
    for empty in (b"a,b", b"a,b\n\n"):
        with pytest.raises(StoreError, match="has no rows"):
            names(empty)


def test_one_row_and_one_column(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"x\n1.5")
    np.testing.assert_array_equal(run(open_rows(tmp_path / "a.csv")[0]), [[1.5]])
    (tmp_path / "a.csv").write_bytes(b'x\n1.5\n\n""\n2\n')  # an empty line is no row, an empty value is one
    assert open_source(tmp_path / "a.csv", Selection(coded=True)).shape == (3, 1)


def test_what_recognises_which_paths(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.csv").write_text("a,b\n1,2\n")
    for path in ("b", "b/a.csv", "b/*.csv"):
        assert find_format(f"{tmp_path}/{path}") is CsvSource
        assert open_rows(f"{tmp_path}/{path}")[0].shape == (1, 2)
    assert find_format(f"{tmp_path}/b/*") is not CsvSource
    (tmp_path / "b" / "c.csv").write_text("a,c\n1,2\n")
    with pytest.raises(StoreError, match=r"same columns; '.*c.csv' has \['a', 'c'\], '.*a.csv' has"):
        open_rows(tmp_path / "b")
    with pytest.raises(StoreError, match=r"no CSV file at .*none.csv"):
        open_rows(tmp_path / "none.csv")


def test_missing_values_of_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,1\n,2\n4,3\n10,4\nNA,5\n")
    np.testing.assert_array_equal(
        run(open_rows(path, impute="mean", rows_per_block=2)[0])[:, 0], [1, 5, 4, 10, 5]
    )
    with pytest.raises(InputError, match=r"column 'a' has nulls in .*a.csv', the first in row 1; pass impute="):
        run(open_rows(path)[0])


def test_decimal_commas(tmp_path, small_pieces):
    """Numbers are those of the same file with points, in all blocks."""
    values = np.random.default_rng(0).integers(-9999, 9999, size=(60, 3)) / 100
    values[3, 1] = np.nan
    rows = [[*row, k] for k, row in enumerate(values)]
    text = [";".join("NA" if v != v else str(v) for v in row) for row in rows]
    (tmp_path / "point.csv").write_text("\n".join(["a;b;c;k", *text]))
    (tmp_path / "comma.csv").write_text("\n".join(["a;b;c;k", *text]).replace(".", ","))
    assert types(tmp_path / "comma.csv") == types(tmp_path / "point.csv")
    assert facts(tmp_path / "comma.csv")["decimal"] == "comma"
    assert "decimal" not in facts(tmp_path / "point.csv")
    X, y = open_rows(tmp_path / "comma.csv", target="c", columns=["a", "k"], rows_per_block=7)
    np.testing.assert_array_equal(run(X), np.c_[values[:, 0], np.arange(60)])
    np.testing.assert_array_equal(run(y), values[:, 2])
    point, comma = (
        open_source(tmp_path / f"{name}.csv", Selection(target="c", coded=True, rows_per_block=7))
        for name in ("point", "comma")
    )
    np.testing.assert_array_equal(run(lazy_rows(comma)), run(lazy_rows(point)))
    assert pickle.loads(pickle.dumps(comma.rows)).dialect.decimal == ","


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        (["50,0;x", "7;y,z"], ["double", "string"]),
        (["1,234;1", "999;2"], ["string", "int64"]),  # may be thousands
        (["1,234;1,5", "999;2"], ["double", "double"]),
        (["1,5;1.5", "2,5;2"], ["string", "double"]),
        (["1,5;1", "12kg;2"], ["string", "int64"]),
        (["0,125;1", "2,125;2"], ["double", "int64"]),
    ],
)
def test_which_commas_are_decimal(tmp_path, rows, kinds):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["a;b", *rows]))
    assert list(types(path).values()) == kinds


def test_cells_that_make_text_of_numbers_have_a_row(tmp_path):
    for name, cell in (("part-0.csv", "1"), ("part-1.csv", "12kg")):
        rows = [f'{k}.5,"line\n{k}",{k}' for k in range(50)]
        rows[20] = f'{cell},"a\nb",7'
        (tmp_path / name).write_text("\n".join(["x,t,k", *rows]))
    source = open_source(tmp_path, Selection(coded=True))
    ((name, stray),) = source.strays
    assert name == "x"
    assert stray.startswith("'12kg' (row 21 of '")
    assert stray.endswith("part-1.csv')")


def test_a_schema_says_how_columns_are_read(tmp_path):
    """Text that looks like numbers or dates is text where the trained column was."""
    path = tmp_path / "a.csv"
    path.write_text(
        "zip,day,flag,when,took,id\n01234,2020-01-01,1,2020-01-01 10:00,10:00:00,1152921504606846977\n"
    )
    at = dt.datetime(2020, 1, 1, 10)
    table = pa.table({
        "zip": ["01234"], "day": ["2020-01-01"], "flag": ["1"], "when": pa.array([at], pa.timestamp("ns")),
        "took": pa.array([36_000], pa.time32("s")), "id": [2**60 + 1],
    })  # fmt: skip
    schema = schema_of(table.schema)
    schema = TableSchema((*schema.columns[:-1], ColumnType("id", "int64", "text")))
    source = open_source(path, Selection(coded=schema))
    np.testing.assert_array_equal(run(lazy_rows(source)), coded(table, schema))
    for name, arrow, base, message in (
        ("zip", "time32[s]", "clock", "a time of day is written as .*column 'zip' has '01234'"),
        ("when", "timestamp[s, tz=UTC]", "time", "'when' has no time zone now and had one"),
        ("took", "double", "number", r"'took' holds times of day \(time64\[us\]\) and held numbers"),
        ("zip", "null", "empty", "row 1 of .* has '01234' in column 'zip', which holds no values"),
        ("ZIP", "string", "text", "'ZIP' is missing"),
    ):
        with pytest.raises(InputError, match=message):
            run(lazy_rows(open_source(path, Selection(coded=TableSchema((ColumnType(name, arrow, base),))))))


def test_keys_keep_their_types(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,x,day\n" + "".join(f"{2**60 + i},{i},2020-01-0{i + 1}\n" for i in range(5)))
    source = open_source(path, Selection(columns=["x"], rows_per_block=2))
    keys = [reader.read_table(first, last) for reader, first, last in source.key_blocks(["id", "day"])]
    table = pa.concat_tables(keys)
    assert table["id"].to_pylist() == [2**60 + i for i in range(5)]
    assert table.schema.field("day").type == pa.date32()
    with pytest.raises(InputError, match=r"columns \['q'\] are not in"):
        source.key_blocks(["q"])


@pytest.mark.parametrize("name", ["gz", "bz2", "xz", "zst"])
def test_packed_text(tmp_path, monkeypatch, name):
    """Blocks of it are read like those of plain text, and what is unpacked has no name."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    text = b"x,y\n" + b"".join(b"%d,%d\n" % (k, k % 3) for k in range(50))
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}.get(
        name, lambda text: pa.Codec("zstd").compress(text, asbytes=True)
    )
    path, data = tmp_path / f"a.csv.{name}", pack(text[:70]) + pack(text[70:])
    path.write_bytes(data)
    X, y = open_rows(path, target="y", rows_per_block=7)
    for _ in range(2):
        np.testing.assert_array_equal(run(X)[:, 0], np.arange(50))
        assert run(y).tolist() == [k % 3 for k in range(50)]
        assert not list((tmp_path / "temporary").iterdir())
        plain_text._unpacked.cache_clear()
    path.write_bytes(data[: len(data) // 2 - 9])
    with pytest.raises(StoreError, match=rf"a.csv.{name}' cannot be read as text"):
        open_rows(path)


FORMATS = {
    "sep": ("a|b\n1|2\n", {"sep": "|"}, [[1, 2]]),
    "sep of one column": ("a b\n1 2\n", {"sep": " "}, [[1, 2]]),
    "header": ("0.5,7\n1,2\n", {"header": True}, [[1, 2]]),
    "no header": ("1,2,3\n4,5,6\n", {"header": False}, [[1, 2, 3], [4, 5, 6]]),
    "decimal": ("a|b\n1,5|2\n", {"decimal": ","}, [[1.5, 2]]),
    "decimal point": ("a;b\n1.5;2\n", {"decimal": "."}, [[1.5, 2]]),
    "thousands": ('a,b\n"1,234,567",2\n3,"4,000.5"\n', {"thousands": ","}, [[1234567, 2], [3, 4000.5]]),
    "thousands and decimal": ("a;b\n1.234,5;2\n", {"thousands": ".", "decimal": ","}, [[1234.5, 2]]),
    "na_values": ("a,b\n1,-999\n?,2\n", {"na_values": ["?", -999], "impute": 0.0}, [[1, 0], [0, 2]]),
    "encoding": ("Ü,b\n1,2\n".encode("latin-1"), {"encoding": "latin-1", "columns": ["Ü"]}, [[1]]),
    "wide encoding": ("Ü,b\r\n1,2\r\n".encode("utf-16"), {"encoding": "utf-16", "columns": ["Ü"]}, [[1]]),
}


@pytest.mark.parametrize(("text", "said", "rows"), FORMATS.values(), ids=FORMATS)
def test_what_is_said_of_text(tmp_path, text, said, rows):
    path = tmp_path / "a.anything"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    np.testing.assert_array_equal(run(open_rows(path, **said)[0]), rows)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"sep": "ab"}, r"sep must be a character such as"),
        ({"encoding": "klingon"}, r"encoding must be the name of an encoding"),
        ({"header": 3}, "header must be True, False or None"),
        ({"thousands": ",", "decimal": ","}, "decimal= and thousands= are two marks"),
    ],
)
def test_what_cannot_be_said_of_text(tmp_path, said, message):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises((ParameterError, InputError), match=message):
        open_rows(tmp_path / "a.csv", **said)
    with pytest.raises(InputError, match="say how CSV at a path is read; received a DataFrame"):
        open_table(pd.DataFrame({"a": [1]}), header=False)


@pytest.mark.parametrize("code", ["?", "-", "n/a ", "unknown"])
def test_one_code_among_numbers_is_missing(tmp_path, code):
    path = tmp_path / "a.csv"
    values = [str(k / 2) for k in range(40)]
    path.write_text(
        "x,t\n" + "\n".join(f"{code if k % 7 == 3 else value},{'ab'[k % 2]}" for k, value in enumerate(values))
    )
    with pytest.warns(
        ColumnWarning,
        match=rf"'x' is text that reads as numbers, but not '{re.escape(code)}' .row 4 of",
    ):
        schema, _ = describe_columns(open_table(path))
    assert [column.base for column in schema.columns] == ["number", "text"]
    got = run(open_table(path).rows(schema))[:, 0]
    np.testing.assert_array_equal(is_missing(got), np.arange(40) % 7 == 3)
    assert got[39] == 19.5
    path.write_text(f"x,t\n1.5,a\n{code},b\n")  # too few to tell, but a model knows
    assert is_missing(run(open_table(path, schema=schema).rows())[:, 0]).tolist() == [False, True]


def test_na_may_be_a_class(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,NA\n2,EU\n,NA\n")
    table = open_table(path, target="y", keep_default_na=False)
    assert run(table.y).tolist() == ["NA", "EU", "NA"]
    with pytest.raises(
        InputError, match="say keep_default_na=False where a word such as NA is a class, or else drop"
    ):
        open_table(path, target="y")
    path.write_text("x,y\n1,\n2,EU\n")
    with pytest.raises(InputError, match=r"the first in row 0; .* drop the rows that have no target"):
        open_table(path, target="y")


@pytest.mark.parametrize("first", [2**53, 2**60, 10**20, 10**39])
def test_integers_that_float64_rounds(tmp_path, first):
    """As categories, as what rows are told apart by, and as ids."""
    values = [first + k for k in (1, 2, 3)]
    (tmp_path / "a.csv").write_text("c,y\n" + "".join(f"{value},{value - first}.5\n" for value in values * 20))
    model = distrf.train(tmp_path / "a.csv", target="y", kinds={"c": "category"}, map=None)
    assert model[0].columns_[0]["encoding"] == "one-hot, 3 levels"
    slices = distrf.evaluate(model, tmp_path / "a.csv", by="c")["slices"]
    assert [int(one["value"]) for one in slices] == values
    table = open_table(tmp_path / "a.csv")
    assert [int(value) for value in table.sample()["c"].unique().to_pylist()] == values
    if first < 2**62:
        assert distrf.predict(model, pd.DataFrame({"c": values})).shape == (3,)
        with pytest.raises(InputError, match=r"beyond 2\^53 they are rounded"):
            model.predict(pd.DataFrame({"c": np.array(values, np.float64)}))


def test_names_that_are_no_words(tmp_path):
    """Numbers name the columns of data frames and files alike; commas and blanks are part of a name."""
    frame = pd.DataFrame({2019: [1.0, 2.0], "size, mm": [3.0, 4.0], " id": [5, 6], 2021: [7.0, 8.0]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for data, said in ((frame, {}), (tmp_path / "a.csv", {"header": True})):
        table = open_table(data, target=2021, exclude=[2019], **said)
        assert (table.schema.names, np.asarray(table.y).tolist()) == (["size, mm", " id"], [7.0, 8.0])
        assert open_table(data, columns=[2019, " id"], **said).schema.names == ["2019", " id"]
