"""CSV as a source of rows: types and missing values, quotes, what is refused with its row, and where it becomes Parquet."""

from __future__ import annotations

import datetime as dt
import io
import re
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import distrf
from distrf import open_rows, open_table
from distrf.errors import InputError, ParameterError, StoreError
from distrf.execution.open_rows import lazy_rows
from distrf.maps.table_missing import is_missing
from distrf.store import Selection, csv_source, open_source
from distrf.store.table_codes import coded
from distrf.store.table_schema import ColumnType, TableSchema, schema_of
from distrf.tables.encoder import describe_columns
from distrf.tables.kinds import ColumnWarning


def run(x):
    return x.compute(scheduler="sync")


def types(path):
    return [str(kind) for kind in open_source(path, Selection(coded=True)).schema.types]


def read(path, **selection):
    return run(lazy_rows(open_source(path, Selection(coded=True, **selection))))


def test_types_and_missing_words_are_those_of_pandas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "i,x,b,d,s,z,c,t,e,h,q,n\n"
        "1,1,true,2020-01-01,2020-01-01 10:00,2020-01-01T10:00Z,10:00:00,a,,0x1F,\"1\",007\n"
        ",2.5,,NA,nan,null,,None,<NA>,0x2A,\"2\",10\n"
    )  # fmt: skip
    assert types(path) == [
        "int64", "double", "bool", "date32[day]", "timestamp[ms]", "timestamp[ms, tz=UTC]", "time64[us]", "string",
        "null", "string", "int64", "string",
    ]  # fmt: skip
    at = dt.datetime(2020, 1, 1, 10)
    table = pa.table({
        "i": [1, None], "x": [1.0, 2.5], "b": [True, None], "d": [at.date(), None], "s": [at, None],
        "z": pa.array([at, None], pa.timestamp("s", "UTC")), "c": [at.time(), None], "t": ["a", None], "e": pa.nulls(2),
        "h": ["0x1F", "0x2A"], "q": [1, 2], "n": ["007", "10"],
    })  # fmt: skip
    np.testing.assert_array_equal(read(path), coded(table, open_source(path, Selection(coded=True)).rows.coded))
    assert set(csv_source.NULLS) == pd._libs.parsers.STR_NA_VALUES


#: A value far down, and the type of a column of a first value and this one.
LATE = {
    ("1", "1.5"): "double",
    ("1", "9" * 20): "decimal128(38, 0)",
    ("1", "9" * 39): "string",
    ("-1", str(2**64 - 1)): "decimal128(38, 0)",
    ("1", "many"): "string",
    ("1.5", "many"): "string",
    ("", "7"): "int64",
    ("", "soon"): "string",
    ("2020-01-01", "2020-01-01 12:00"): "timestamp[ms]",
    ("2020-01-01 10:00", "2020-01-01 12:00:00.123456789"): "timestamp[ns]",
    ("2020-01-01", "soon"): "string",
    ("2020-01-01 10:00", "2020-01-01T00:00Z"): "string",
    ("10:00:00", "10:00:00.25"): "time64[us]",
    ("true", "2"): "string",
}


def test_codes_of_digits_are_numbers_where_numbers_are_asked_for(tmp_path):
    numbers = np.arange(120) * 37 % 90
    pd.DataFrame({"n": numbers, "y": numbers * 1.0}).to_csv(tmp_path / "plain.csv", index=False)
    (tmp_path / "padded.csv").write_text("n,y\n" + "".join(f"{n:03},{n}.0\n" for n in numbers))
    for name, said in (("plain", {}), ("padded", {"n": "number"})):
        model = distrf.train(tmp_path / f"{name}.csv", target="y", map=None, kinds=said)
        for rows in ("plain", "padded") if said else ("plain",):
            np.testing.assert_allclose(distrf.predict(model, tmp_path / f"{rows}.csv"), numbers, atol=0.1)
        if not said:
            with pytest.raises(InputError, match=r"'n' holds text \(string\) and held numbers"):
                distrf.predict(model, tmp_path / "padded.csv")


@pytest.mark.parametrize("where", ["file", "folder"])
def test_a_type_holds_all_values(tmp_path, monkeypatch, where):
    """Of a long file, and of a folder with one file that has the first values and one that has the other."""
    monkeypatch.setattr(csv_source, "_PARSED", 2**20)
    many = 30_000 if where == "file" else 20
    parts = [[",".join(value[k] for value in LATE)] * (many if k == 0 else 1) for k in (0, 1)]
    head = ",".join(f"c{j}" for j in range(len(LATE)))
    texts = [[head, *parts[0], *parts[1]]] if where == "file" else [[head, *part] for part in parts]
    for number, rows in enumerate(texts):
        (tmp_path / f"{number}.csv").write_text("\n".join(rows))
    assert types(tmp_path)[:12] == [*LATE.values()][:12]
    # Of a file that has nothing else Arrow does not take the other for a time.
    assert types(tmp_path)[12:] == ["time64[us]" if where == "file" else "string", "string"]
    assert open_source(tmp_path, Selection(coded=True)).shape[0] == many + 1
    number = TableSchema((ColumnType("c4", "double", "number"),))
    such = r"'c4' holds text \(string\) and held numbers \(double\); .* \(in '.*[01].csv'\)"
    with pytest.raises(InputError, match=such):
        open_source(tmp_path, Selection(coded=number))


@pytest.mark.parametrize("rows", [20, 200_000])
def test_a_fault_is_named_with_its_row(tmp_path, rows):
    path = tmp_path / "a.csv"
    head = b"a,b\n\n" + b'1,"x\ny"\n' * rows
    for bad, message in (
        (
            b"1,x,y\n",
            f"have as many values as the first; .* is not so .*Row #{rows + 1}: Expected 2 columns, got 3",
        ),
        (b"1,\xff\n", "encoding= is that of the text; .*a.csv' is no utf-8 .*byte 0xff.*; give another"),
        (b'1,"open\n', r"a quote ends with its value; .*; correct the file"),
        (b'1,"', r"a quote ends with its value; in row .* one is never closed"),
        (b'1,"z', r"a quote ends with its value; in row .* one is never closed"),
    ):
        path.write_bytes(head + bad + b"1,z\n" * 5 * bad.endswith(b"\n"))
        with pytest.raises((InputError, StoreError), match=message):
            open_source(path, Selection(coded=True))
    for good in (b'1,"z"', b'1,"z\n"\n', b'1,""\n', b'1,6" pipe\n', b'1,"z""\n"""'):
        path.write_bytes(head + good)
        assert open_source(path, Selection(coded=True)).shape[0] == rows + 1


#: Text, and the names of its columns.
NAMES = [
    (b'\xef\xbb\xbfa,"b""c"\n1,2\n', ["a", 'b"c']),
    (b"\n\na,b\r\n1,2\r\n", ["a", "b"]),
    (b'"a,1";"b"\r1;2\r', ["a,1", "b"]),
    (b"a;b, c\n1,5;2,5\n1;2\n", ["a", "b, c"]),
    (b"a\tb\n1\t2\n", ["a", "b"]),
    (b"x,,y\n0,1,2\n", ["x", "Unnamed: 1", "y"]),
    (b'"first\nname",b\n1,2\n', ["first\nname", "b"]),
    (b"2,1,0\n3,4,5\n", ["f0", "f1", "f2"]),
    (b"1.5,2\n3,4\n", ["f0", "f1"]),
    (b",a\n0,1\n1,2\n", ["Unnamed: 0", "a"]),
    (b'x\n1.5\n\n""\n2\n', ["x"]),  # an empty line is no row, an empty value is one
]
EITHER = r"may be either: .*; say header=True where .*, and header=False where"
NO_NAMES = [
    (b"a;b, c\n1,5;2\n", r"may be any of \[',', ';'\]: say sep=','"),
    (b"a,a\n1,2\n", r"distinct names; '.*a.csv' has \['a', 'a'\]"),
    (b"id,2019,2020\n1,2,3\n", EITHER),
    (b"0,1,2\n4,5,6\n", EITHER),
    (b"2019,2020\n4,5\n", EITHER),
    ("Ü,b\n1,2\n".encode("latin-1"), "encoding= is that of the text; .* is no utf-8 .*decode byte 0xdc"),
    (b"\xef\xbb\xbf\n", "is empty; give a file that has rows"),
    (b"a,b", "has no rows"),
    (b"a,b\n\n", "has no rows"),
]


def test_first_lines(tmp_path):
    path = tmp_path / "a.csv"
    for text, names in NAMES:
        path.write_bytes(text)
        assert open_table(path).schema.names == names
    assert open_table(path).n == 3
    for text, message in NO_NAMES:
        path.write_bytes(text)
        with pytest.raises((InputError, StoreError), match=message):
            open_table(path)
    (tmp_path / "a.tsv").write_bytes(b"a;b\n1\n")
    assert open_source(tmp_path / "a.tsv", Selection()).columns == ["a;b"]
    path.write_bytes(b",a\n0,1\n")
    with pytest.warns(UserWarning, match="left out: row labels of pandas without a name: 'Unnamed: 0'"):
        assert open_source(path, Selection()).columns == ["a"]
    (tmp_path / "c.csv").write_text("a,c\n1,2\n")
    with pytest.raises(StoreError, match=r"same columns; '.*c.csv' has \['a', 'c'\], '.*a.csv' has"):
        open_rows(tmp_path / "*.csv")


def test_a_schema_says_how_columns_are_read(tmp_path):
    """Text that looks like numbers or dates is text where the trained column was."""
    path = tmp_path / "a.csv"
    path.write_text("zip,day,flag,when,id\n01234,2020-01-01,1,2020-01-01 10:00,1152921504606846977\n")
    when = pa.array([dt.datetime(2020, 1, 1, 10)], pa.timestamp("ns"))
    table = pa.table({"zip": ["01234"], "day": ["2020-01-01"], "flag": ["1"], "when": when, "id": [2**60 + 1]})
    columns = schema_of(table.schema).columns
    schema = TableSchema((*columns[:-1], ColumnType("id", "int64", "text")))
    source = open_source(path, Selection(coded=schema))
    np.testing.assert_array_equal(run(lazy_rows(source)), coded(table, schema))
    ((reader, first, last),) = source.key_blocks(["id", "day"])
    assert reader.read_table(first, last).to_pylist() == [{"id": 2**60 + 1, "day": "2020-01-01"}]


def zipped(*texts):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number, text in enumerate(texts):
            archive.writestr(f"{number}.csv", text)
    return packed.getvalue()


def test_an_archive_of_one_file(tmp_path):
    path = tmp_path / "a.csv.zip"
    path.write_bytes(zipped("x\n1\n2\n"))
    np.testing.assert_array_equal(run(open_rows(path)[0]), [[1], [2]])
    path.write_bytes(zipped("x\n1\n2\n")[:50])
    with pytest.raises(StoreError, match=r"a.csv.zip' cannot be read as"):
        open_rows(path)
    path.write_bytes(zipped("x\n1\n", "x\n2\n"))
    with pytest.raises(StoreError, match=r"holds one file; .* holds \['0.csv', '1.csv'\]"):
        open_rows(path)


FORMATS = {
    "sep": ("a|b\n1|2\n", {"sep": "|"}, [[1, 2]]),
    "blanks": (' a   "b c" d\n 1\t 2    3 \n\n  4 5  6', {"sep": r"\s+"}, [[1, 2, 3], [4, 5, 6]]),
    "comments": ("# made\n\na,b\n1,2\n  # more, of it\n3,4\n", {"comment": "#"}, [[1, 2], [3, 4]]),
    "header": ("0.5,7\n1,2\n", {"header": True}, [[1, 2]]),
    "no header": ("1,2,3\n4,5,6\n", {"header": False}, [[1, 2, 3], [4, 5, 6]]),
    "decimal": ("a|b\n1,5|2\n", {"decimal": ","}, [[1.5, 2]]),
    "na_values": ("a,b\n1,-999\n?,2\n", {"na_values": ["?", -999]}, [[1, np.nan], [np.nan, 2]]),
    "encoding": ("Ü,b\r\n1,2\r\n".encode("utf-16"), {"encoding": "utf-16", "columns": ["Ü"]}, [[1]]),
}


@pytest.mark.parametrize(("text", "said", "rows"), FORMATS.values(), ids=FORMATS)
def test_what_is_said_of_text(tmp_path, text, said, rows):
    path = tmp_path / "a.anything"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    np.testing.assert_array_equal(run(open_rows(path, **said)[0]), rows)


def test_what_cannot_be_said_of_text(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ParameterError, match="encoding must be the name of an encoding"):
        open_rows(tmp_path / "a.csv", encoding="klingon")
    with pytest.raises(InputError, match="say how CSV at a path is read; received a DataFrame"):
        open_table(pd.DataFrame({"a": [1]}), header=False)


def test_one_code_among_numbers_is_missing(tmp_path):
    path = tmp_path / "a.csv"
    values = ["n/a " if k % 7 == 3 else str(k / 2) for k in range(40)]
    path.write_text("x,t\n" + "\n".join(f"{value},{'ab'[k % 2]}" for k, value in enumerate(values)))
    said = re.escape("'x' is text that reads as numbers, but not 'n/a'")
    with pytest.warns(ColumnWarning, match=said):
        schema, _ = describe_columns(open_table(path))
    assert [column.base for column in schema.columns] == ["number", "text"]
    np.testing.assert_array_equal(is_missing(run(open_table(path).rows(schema))[:, 0]), np.arange(40) % 7 == 3)
    path.write_text("x,t\n1.5,a\nn/a ,b\n")  # too few to tell, but a model knows
    assert is_missing(run(open_table(path, schema=schema).rows())[:, 0]).tolist() == [False, True]


def test_na_may_be_a_class(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,NA\n2,EU\n,NA\n")
    assert run(open_table(path, target="y", keep_default_na=False).y).tolist() == ["NA", "EU", "NA"]
    with pytest.raises(InputError, match="say keep_default_na=False where a word of CSV such as NA is a class"):
        open_table(path, target="y")


@pytest.mark.parametrize("first", [2**53, 2**63, 10**20])
def test_integers_that_float64_rounds(tmp_path, first):
    """As categories, and as ids."""
    values = [first + k for k in (1, 2, 3)]
    (tmp_path / "a.csv").write_text("c,y\n" + "".join(f"{value},{value - first}.5\n" for value in values * 20))
    model = distrf.train(tmp_path / "a.csv", target="y", kinds={"c": "category"}, map=None)
    assert model[0].columns_[0]["encoding"] == "one-hot, 3 levels"
    sample = open_table(tmp_path / "a.csv").sample()
    assert [int(value) for value in sample["c"].unique().to_pylist()] == values
    if first < 2**62:
        with pytest.raises(InputError, match=r"beyond 2\^53 they are rounded"):
            model.predict(pd.DataFrame({"c": np.array(values, np.float64)}))


def test_scratch_is_kept_and_found_again(tmp_path, monkeypatch):
    """Where workers are on other machines, it must be said."""
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    monkeypatch.setattr(csv_source, "workers_see", lambda folder: False)
    with pytest.raises(InputError, match=r"give one as scratch= \(on the command line --csv scratch=DIR\)"):
        open_rows(tmp_path / "a.csv")
    for scratch in (tmp_path / "s", f"memory://{tmp_path.name}"):
        for _ in range(2):
            np.testing.assert_array_equal(run(open_rows(tmp_path / "a.csv", scratch=scratch)[0]), [[1, 2]])
    (made,) = (tmp_path / "s").iterdir()
    before = made.stat().st_mtime_ns
    (tmp_path / "b.csv").write_text("a,b\n1,x\n")
    open_table(tmp_path / "*.csv", scratch=tmp_path / "s")
    assert made.stat().st_mtime_ns == before
    assert len(list((tmp_path / "s").iterdir())) == 3  # b of the first file became text
