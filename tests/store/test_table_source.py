"""Tables in files as coded rows: every block, the same from every cut, and what is refused."""

from __future__ import annotations

import uuid

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from distrf import ingest, open_rows, open_table
from distrf.errors import InputError, StoreError
from distrf.execution.open_rows import lazy_rows
from distrf.maps.table_missing import is_missing
from distrf.store import Selection, open_source
from distrf.store.table_codes import coded
from distrf.store.table_schema import ColumnType, TableSchema, schema_of

N = 60
TABLE = pa.table(
    {
        "x": pa.array([None if i % 7 == 0 else i / 3 for i in range(N)], pa.float32()),
        "n": pa.array(range(N), pa.int16()),
        "t": [None if i % 11 == 0 else "" if i % 5 == 0 else f"Ü{i % 4}" for i in range(N)],
        "d": pa.array([None if i % 13 == 0 else i for i in range(N)], pa.date32()),
        "c": pa.array([f"level {i % 3}" for i in range(N)]).dictionary_encode(),
        "b": [None if i % 9 == 0 else i % 2 == 0 for i in range(N)],
        "y": ["yes" if i % 2 else "no" for i in range(N)],
    }
)
FEATURES = ["x", "n", "t", "d", "c", "b"]
SCHEMA = schema_of(TABLE.schema, FEATURES)
EXPECTED = coded(TABLE, SCHEMA)


def run(x):
    return x.compute(scheduler="sync")


@pytest.fixture
def folder(tmp_path):
    pq.write_table(TABLE[:25], tmp_path / "part-1.parquet", row_group_size=10)
    pq.write_table(TABLE[25:], tmp_path / "part-2.parquet", row_group_size=30)
    return tmp_path


def opened(path, **selection):
    return open_source(path, Selection(**{"coded": True, "target": "y"} | selection))


def test_what_holds_no_values_is_left_out_by_name(folder):
    """Of files, and of frames with intervals and periods."""
    more = {"l": [[1] * (i % 3) for i in range(N)], "s": [{"a": 1}] * N, "b'": [b"x"] * N}
    odd = TABLE
    for name, values in more.items():
        odd = odd.append_column(name, [values])
    pq.write_table(odd, folder / "part-0.parquet")
    with pytest.warns(UserWarning, match=r"left out: .*'l' \(list<.*'s' \(struct<.*\"b'\" \(binary\)"):
        assert opened(folder / "part-0.parquet").columns == FEATURES
    with pytest.raises(InputError, match=r"not so 'l' \(list<.*'drop'"):
        opened(folder / "part-0.parquet", columns=["l"])
    frame = pd.DataFrame({"cut": pd.cut([1.0, 2, 3], 2), "month": pd.period_range("2020", periods=3), "x": 1})
    with pytest.warns(UserWarning, match=r"left out: .*'cut' \(dictionary.*'month' \(extension"):
        assert open_table(frame).schema.names == ["x"]


def test_lists_of_numbers_of_one_length_are_columns(tmp_path):
    """From files of several row groups and from rows in memory; one of another length is refused, a missing one is missing."""
    values = np.arange(60.0).reshape(20, 3)
    lists = pa.array([None if i == 7 else list(row) for i, row in enumerate(values)])
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 3)
    table = pa.table({"x": np.arange(20), "e": lists, "f": fixed})
    names = ["x", "e_0", "e_1", "e_2", "f_0", "f_1", "f_2"]
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=6)
    pq.write_table(table.drop_columns("e"), tmp_path / "b.parquet")
    for source in (tmp_path / "a.parquet", table, tmp_path):
        opened_table = open_table(source)
        assert opened_table.schema.names == names
        rows = opened_table.rows() if source is table else run(opened_table.rows())
        np.testing.assert_array_equal(rows[:20, 4:], values)
        assert is_missing(rows[7, 1:4]).all()
        np.testing.assert_array_equal(np.delete(rows[:20, 1:4], 7, 0), np.delete(values, 7, 0))
    assert is_missing(rows[20:, 1:4]).all()
    assert open_table(tmp_path / "a.parquet", exclude=["e"]).schema.names == ["x", *names[4:]]
    np.testing.assert_array_equal(run(open_rows(tmp_path / "a.parquet", columns=["f"])[0]), values)
    cut = [list(row)[: 2 if i == 15 else 3] for i, row in enumerate(np.tile(values, (60, 1)))]
    cut[-1] = cut[-1][:2]
    cut[15] = cut[16]
    pq.write_table(pa.table({"e": cut}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 'e' has not 3 numbers in some rows"):
        run(open_rows(tmp_path / "a.parquet")[0])


def test_errors_say_where(folder):
    table = TABLE.set_column(2, "t", [["2020-01-01"] * 47 + ["soon"] + ["2020-01-02"] * (N - 48)])
    pq.write_table(table, folder / "part-2.parquet", row_group_size=20)
    source = opened(folder / "part-2.parquet", coded=TableSchema((ColumnType("t", "string", "time"),)))
    with pytest.raises(InputError, match=r"column 't' has 'soon'.*\(in row group 2 of '.*part-2.parquet'\)"):
        run(lazy_rows(source))
    holes = TABLE.set_column(6, "y", [pa.array([None if i == 33 else i for i in range(N)])])
    pq.write_table(holes, folder / "part-2.parquet", row_group_size=20)
    labels = opened(folder / "part-2.parquet").target_source()
    with pytest.raises(InputError, match=r"'y' has nulls in row group 1 .*first in row 34; drop the rows"):
        run(lazy_rows(labels))


def write(file, table, ending):
    """A table as a file; groups of a few rows."""
    pa.csv.write_csv(table, file) if ending == "csv" else pq.write_table(table, file, row_group_size=5)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_that_changes(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    write(path, pa.table({"x": np.arange(20.0)}), ending)
    X, again = (open_rows(path, rows_per_block=20)[0] for _ in range(2))
    assert X.name == again.name
    write(path, pa.table({"x": np.arange(18.0)}), ending)
    with pytest.raises(StoreError, match="was written anew since it was opened; open it again"):
        run(X)
    new = open_rows(path)[0]
    assert new.name != X.name
    assert new.shape == (18, 1)
    path.unlink()
    with pytest.raises(StoreError, match="no such file"):
        run(X)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_remote_files(ending):
    url = f"memory://{uuid.uuid4().hex}"
    for number in range(2):
        with fsspec.open(f"{url}/part-{number}.{ending}", "wb") as file:
            write(file, pa.table({"x": np.arange(5.0) + 5 * number, "t": ["a"] * 5}), ending)
    for path in (url, f"{url}/part-*.{ending}"):
        X, y = open_rows(path, target="t", rows_per_block=3)
        np.testing.assert_array_equal(run(X).ravel(), np.arange(10.0))
        assert set(run(y)) == {"a"}
    with fsspec.open(f"{url}/part-0.{ending}", "wb") as file:  # of the same size
        write(file, pa.table({"x": np.arange(5.0) + 1, "t": ["a"] * 5}), ending)
    with pytest.raises(StoreError, match="was written anew since it was opened; open it again"):
        run(X)
    fsspec.filesystem("memory").rm(url.removeprefix("memory:/"), recursive=True)


WRITERS = {"parquet": pq.write_table, "csv": pyarrow.csv.write_csv}


def put(path, rows):
    """Rows as the format that the name ends with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    WRITERS[path.suffix[1:].lower()](rows, path)


@pytest.mark.parametrize("ending", WRITERS)
def test_hidden_files_are_no_data_at_any_depth(tmp_path, ending):
    """And folders like k=1 are columns, also _k=1."""
    for k in (1, 2):
        put(tmp_path / f"_k={k}" / f"a.{ending}", pa.table({"x": [10.0 * k, 1.0]}))
    for name in (".part", "_draft", ".ipynb_checkpoints/a", "_temporary/0/a"):
        put(tmp_path / "_k=1" / f"{name}.{ending}", pa.table({"x": [-1.0]}))
    expected = [[10, 1], [1, 1], [20, 2], [1, 2]]
    for path in ("", f"**/*.{ending}", f"*/*.{ending}"):
        np.testing.assert_array_equal(run(open_rows(f"{tmp_path}/{path}")[0]), expected)
    assert open_rows(f"{tmp_path}/_k=1/_temp*/**/*.{ending}")[0].shape == (1, 1)  # it is named
    np.testing.assert_array_equal(run(open_rows(tmp_path, target="_k")[1]), [1, 1, 2, 2])
    source = opened(tmp_path, target=None)
    assert [column.values for column in source.rows.coded.columns][1] == "int64"


@pytest.mark.parametrize("ending", WRITERS)
def test_files_of_a_folder_are_read_or_named(tmp_path, ending):
    """Endings of another case, and files without one, which may be data."""
    rows = pa.table({"x": [1.0, 2.0]})
    put(tmp_path / f"a.{ending}", rows)
    put(tmp_path / f"b.{ending.upper()}", rows)
    for path in (tmp_path, tmp_path / f"b.{ending.upper()}"):
        assert open_rows(path)[0].shape == (4 if path == tmp_path else 2, 1)
    for name in ("part-0001", "c.txt"):
        put(tmp_path / f"a.{ending}", rows)
        (tmp_path / f"a.{ending}").rename(tmp_path / name)
        with pytest.raises(
            StoreError, match=rf"holds 'b.{ending.upper()}' and '{name}'; .* glob such as '\*.{ending}'"
        ):
            open_rows(tmp_path)
        (tmp_path / name).unlink()
    (tmp_path / "about.md").touch()
    assert open_rows(tmp_path)[0].shape == (2, 1)


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize(
    "codes", [2**60 + 3 * np.arange(5), 2**63 + 3 * np.arange(5, dtype="u8")], ids=["i8", "u8"]
)
def test_integers_that_become_one_number_are_refused_as_numbers(tmp_path, ending, codes):
    """Not large numbers that stay apart, and not as targets, keys and columns of a table."""
    rows = pa.table({"code": codes, "x": np.arange(5.0)})
    put(tmp_path / f"a.{ending}", rows)
    with pytest.raises(InputError, match=r"column 'code' has integers in .* that are one such number"):
        run(open_rows(tmp_path / f"a.{ending}")[0])
    with pytest.raises(InputError, match="column 'code' has integers"):
        ingest(tmp_path / f"a.{ending}", tmp_path / "a.zarr")
    put(
        tmp_path / f"b.{ending}",
        rows.set_column(0, "code", pa.array(codes // 8 * np.arange(1, 6, dtype=codes.dtype))),
    )
    assert len(np.unique(run(open_rows(tmp_path / f"b.{ending}")[0])[:, 0])) == 5


@pytest.mark.parametrize("text", ['{"attributes": [1]}', '{"attributes": {"distrf": {}}}', "[", "3"])
def test_a_spec_of_something_else_is_refused(tmp_path, text):
    put(tmp_path / "part-000000.parquet", pa.table({"x": [1.0]}))
    (tmp_path / "_spec.json").write_text(text)
    with pytest.raises(StoreError, match=r"_spec.json' cannot be read as what distrf writes"):
        open_rows(tmp_path)


def test_text_that_is_read_in_two_ways_has_two_keys(tmp_path):
    """Else a graph of both had the rows of one of them twice."""
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    X, again, other = (open_rows(tmp_path / "a.csv", na_values=nulls)[0] for nulls in ((), (), ["2"]))
    assert X.name == again.name != other.name
