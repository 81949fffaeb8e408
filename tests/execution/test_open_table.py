"""Tables from files, from memory and from Dask DataFrames: the same coded rows, the same target, the same refusals."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
from contextlib import nullcontext
from decimal import Decimal

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_arrays import fill

from distrf import Table, open_table, store
from distrf.errors import InputError, StoreError
from distrf.execution.passes import RowCount, run_pass
from distrf.store.frames import as_arrow
from distrf.store.table_codes import coded
from distrf.store.table_schema import ColumnType, TableSchema, schema_of

# Dask and pyarrow with the newest pandas.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")
N = 50
FRAME = pd.DataFrame(
    {
        "x": [np.nan if i % 7 == 0 else i / 3 for i in range(N)],
        "small": np.array([i / 10 for i in range(N)], np.float32),
        "n": pd.array([None if i % 6 == 0 else i - 20 for i in range(N)], "Int64"),
        "b": pd.array([None if i % 9 == 0 else i % 2 == 0 for i in range(N)], "boolean"),
        "t": [None if i % 11 == 0 else "" if i % 5 == 0 else f"Ü, {i % 4}" for i in range(N)],
        "c": pd.Categorical([f"level {i % 3}" for i in range(N)]),
        "when": [
            pd.NaT if i % 13 == 0 else pd.Timestamp("2020-01-01 10:00") + pd.Timedelta(hours=i)
            for i in range(N)
        ],
        "zoned": pd.date_range("1969-12-30", periods=N, tz="Asia/Tokyo"),
        "money": pd.array([Decimal(i) / 4 for i in range(N)], pd.ArrowDtype(pa.decimal128(8, 2))),
        "Ü 数": ["a\nb", "c"] * (N // 2),
        "y": ["yes" if i % 3 else "no" for i in range(N)],
    },
    index=range(100, 100 + N),
)
FEATURES = [name for name in FRAME.columns if name != "y"]
ARROW = as_arrow(FRAME)
SCHEMA = schema_of(ARROW.schema, FEATURES)
EXPECTED = coded(ARROW, SCHEMA)
Y = np.asarray(FRAME["y"].tolist())
same = np.testing.assert_array_equal


@pytest.fixture(autouse=True)
def _plain():
    """No threads, but for tests of workers. Dask makes texts of all objects, unless it is told not to."""
    with dask.config.set({"scheduler": "sync", "dataframe.convert-string": False}):
        yield


def refused(message, error=InputError):
    return pytest.raises(error, match=message)


class Stream:
    """A data frame of another library."""

    def __init__(self, table):
        self.__arrow_c_stream__ = table.__arrow_c_stream__


def parquet(folder, table=ARROW, cuts=(0, 13, 30, N), rows=6):
    for first, last in itertools.pairwise(cuts):
        pq.write_table(table[first:last], folder / f"part-{first:02}.parquet", row_group_size=rows)
    return folder


def csv(folder):
    FRAME[:17].to_csv(folder / "a.csv", index=False)
    FRAME[17:].to_csv(folder / "b.csv", index=False)
    return folder


DASK = dd.from_pandas(FRAME, npartitions=4)
SOURCES = {
    "pandas": lambda folder: FRAME,
    "pyarrow dtypes": lambda folder: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "arrow": lambda folder: ARROW,
    "stream": lambda folder: Stream(ARROW),
    "columns": lambda folder: FRAME.to_dict("series"),
    "parquet": parquet,
    "csv": csv,
    "dask": lambda folder: DASK,
    "dask of parquet": lambda folder: dd.read_parquet(parquet(folder)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_rows(tmp_path, name):
    table = open_table(SOURCES[name](tmp_path), target="y", schema=SCHEMA)
    assert isinstance(table, Table)
    assert (table.n, table.d, table.target) == (N, len(FEATURES), "y")
    rows = table.rows()
    assert rows.dtype == np.float64
    assert isinstance(rows, da.Array) == name.startswith(("dask", "parquet", "csv"))
    same(rows, EXPECTED)
    same(table.y, Y)
    assert np.asarray(table.y).dtype == table.y.dtype
    if isinstance(rows, da.Array):
        assert rows.chunks[0] == table.y.chunks[0]
    some = TableSchema((SCHEMA.columns[4], SCHEMA.columns[0]))
    same(table.rows(some), EXPECTED[:, [4, 0]])
    sample = table.sample(10)
    assert sample.equals(table.sample(10))
    assert table.sample().num_rows == N
    assert 8 <= sample.num_rows <= 14
    assert sample.column_names == FEATURES
    at = [np.flatnonzero((row == EXPECTED).all(axis=1))[0] for row in coded(sample, SCHEMA)]
    assert (np.diff(at) > 0).all()


WRONG_COLUMNS = r"columns \['q'\] are not in .*its columns are \['x', 'small'"
OTHER = TableSchema((ColumnType("X", "double", "number"), ColumnType("t", "double", "number")))
REFUSED = [
    ({"columns": ["q"]}, WRONG_COLUMNS),
    ({"exclude": ["q"]}, WRONG_COLUMNS),
    ({"target": "q"}, WRONG_COLUMNS),
    ({"target": "q", "schema": SCHEMA}, WRONG_COLUMNS),
    ({"target": "y", "columns": ["y", "x"]}, "'y' is among columns="),
    ({"target": "y", "exclude": FEATURES}, "no feature column is left"),
    ({"schema": SCHEMA, "columns": ["x"]}, "leave out columns= and exclude="),
    ({"target": "when"}, "a target is numbers, booleans or text; 'when' has type timestamp"),
    ({"target": "x"}, r"nulls in .*first in row .*drop the rows that have no target"),
    ({"schema": OTHER}, r"'X' is missing, 't' holds text"),
]


@pytest.mark.parametrize("name", ["pandas", "parquet", "csv", "dask"])
def test_what_is_chosen_and_what_is_refused(tmp_path, name):
    data = SOURCES[name](tmp_path)
    chosen = open_table(data, columns=["t", "x"])
    assert (chosen.schema.names, chosen.y) == (["t", "x"], None)
    assert open_table(data, exclude=FEATURES[1:], target="y").schema.names == ["x"]
    for options, message in REFUSED:
        with refused(message):
            np.asarray(open_table(data, **options).y)
    with refused("'t' holds text"):
        chosen.rows(TableSchema(OTHER.columns[1:]))


NO_ROWS = r"a table has rows; received a .* without any"
FILES_ONLY = "says how files are read; received a DataFrame; leave it out"


@pytest.mark.parametrize(
    ("wrong", "options", "message"),
    [
        (FRAME[:0], {"target": "y"}, NO_ROWS),
        (ARROW[:0], {"target": "y"}, NO_ROWS),
        (DASK.query("x > 1000"), {"target": "y"}, NO_ROWS),
        (da.ones((3, 2)), {}, "a lazy table is a Dask DataFrame; received a dask.array.core.Array"),
        (DASK["x"], {}, "a lazy table is a Dask DataFrame; received a dask.dataframe"),
        (DASK.assign(gap=DASK["when"] - DASK["when"]), {"columns": ["gap", "x"]}, r"not so 'gap' \(duration"),
        (3, {}, "a table is a data frame"),
        (FRAME["x"], {}, "a table is a data frame"),
        (FRAME, {"rows_per_block": 3}, FILES_ONLY),
        (FRAME, {"columns": "x"}, "columns must be a list of names or numbers of columns"),
        ("none.parquet", {}, "no Parquet file at"),
        ("a.zarr", {}, r"a table is Parquet or CSV, .*; '.*a.zarr' is rows of numbers, which open_rows opens"),
    ],
)
def test_what_is_no_table(tmp_path, wrong, options, message):
    fill(tmp_path / "a.zarr", {"X": np.ones((4, 2))})
    data = tmp_path / wrong if isinstance(wrong, str) else wrong
    with refused(message, (InputError, StoreError)):
        open_table(data, **options)


class Count(RowCount):
    def update(self, state, first_row, X, y):
        return state + len(X)


def test_partitions_are_read_once_a_pass_and_must_not_change():
    reads = []

    def partition(i):
        reads.append(i)
        return FRAME[i * 10 : i * 10 + 10 - (reads.count(1) > 2)]

    table = open_table(dd.from_map(partition, range(5), meta=FRAME[:0]), target="y")
    assert sorted(reads) == list(range(5))
    assert run_pass(Count(), [table.rows(), table.y], label="count") == N
    assert sorted(reads) == sorted([*range(5)] * 2)
    with refused("received 9 in place of 10; open the table again"):
        table.rows().compute()


def test_a_sample_is_spread_over_a_dozen_blocks(tmp_path):
    parquet(tmp_path, pa.table({"i": np.arange(3000)}), cuts=(0, 3000), rows=50)
    table = open_table(tmp_path, rows_per_block=50)
    rows = np.array(table.sample(200)["i"])
    assert (np.diff(rows) > 0).all()
    assert np.bincount(rows // 250).tolist() == [len(rows) // 12] * 12  # one block of each five
    assert len(rows) == pytest.approx(200, abs=12)
    assert len(table.sample(2000)) == pytest.approx(2000, abs=40)  # more, where a dozen holds too few
    some = np.array(open_table(tmp_path, rows_per_block=100).sample(24)["i"]).reshape(12, 2)
    assert (np.diff(some) < 16 * 2).all()
    with refused("at least one row; received n_rows=0"):
        table.sample(0)


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([100 + i for i in range(N)], name="customer"),
        pd.Index([100 + i for i in range(N)]),
        pd.MultiIndex.from_product([range(5), range(N // 5)], names=["a", "b"]),
        pd.RangeIndex(N),
        pd.date_range("2020", periods=N, freq="7h"),
    ],
    ids=["named", "without a name", "two", "range", "times"],
)
def test_an_index_of_pandas_is_a_column_where_it_has_a_name_or_times(tmp_path, index):
    frame = FRAME[["x", "t"]].set_axis(index)
    frame.to_parquet(tmp_path / "a.parquet")
    names = ["x", "t", *(name for name in index.names if name)] + ["__index_level_0__"] * (
        index.dtype.kind == "M"
    )
    unnamed = "__index_level_0__" in pa.Table.from_pandas(frame).column_names and names == ["x", "t"]
    for data in (frame, tmp_path / "a.parquet", pa.Table.from_pandas(frame)):
        told = unnamed and data is not frame  # what a source shows and no model uses is named
        with pytest.warns(UserWarning, match="left out: row labels of pandas") if told else nullcontext():
            table = open_table(data)
        assert table.schema.names == names
        same(table.rows(), coded(as_arrow(frame), table.schema))
    if index.nlevels == 1:
        assert open_table(dd.from_pandas(frame, npartitions=2)).schema.names == names
    frame.reset_index(drop=True).to_csv(tmp_path / "a.csv")
    assert open_table(tmp_path / "a.csv").schema.names == ["Unnamed: 0", "x", "t"]  # as in pandas


HIVE = pd.DataFrame(
    {
        "x": np.arange(12.0),
        "year": [2020, 2021, 2022] * 4,
        "city": ["a b", "c/d", None, "1"] * 3,
        "n": [7, 8, 9, 7] * 3,
    }
)


def test_folders_stand_for_columns(tmp_path):
    """Their values are numbers where all are; a glob and one block of rows read the same, and one may be the target."""
    HIVE.to_parquet(tmp_path / "a", partition_cols=["year", "city"])
    for path in (tmp_path / "a", tmp_path / "a/year=*/*/*.parquet"):
        table = open_table(path, target="year")
        assert [(c.name, c.arrow) for c in table.schema.columns] == [
            ("x", "double"),
            ("n", "int64"),
            ("city", "string"),
        ]
        order = np.argsort(table.rows()[:, 0].compute())
        same(table.rows()[order], coded(as_arrow(HIVE), table.schema))
        same(table.y[order], HIVE["year"])
        assert set(table.sample().column("city").to_pylist()) == {"a b", "c/d", "1", None}
    before = store.find_format(tmp_path / "a").fingerprint(f"{tmp_path}/a")
    (tmp_path / "a/year=2020").rename(tmp_path / "a/year=2030")
    assert store.find_format(tmp_path / "a").fingerprint(f"{tmp_path}/a") != before
    with refused(r"'city' has nulls in row group 0 of .*, the first in row \d+; drop"):
        open_table(tmp_path / "a", target="city")


LAYOUTS = [
    "one file",
    "unlike files",
    "folders",
    "index",
    "csv",
    "csv.gz",
    "csv.zst",
    "bars in latin-1",
    "polars",
]
ODD_NAMES = st.sampled_from(["size, mm", " id", "2019", "0", "é", 'a "b"', "x=1", "[x]", "a;b|c", "NA", "year"])
VALUES = {
    "float": st.floats(-1e6, 1e6, width=32),
    "whole": st.integers(0, 3),
    "big": st.integers(2**60, 2**60 + 9),
    "text": st.sampled_from(["a", "b c", "é,1;|x", 'q"q', "d/e=f"]),
    "boolean": st.booleans(),
}


@st.composite
def laid_out(draw):
    names = draw(st.lists(ODD_NAMES, min_size=2, max_size=5, unique=True))
    n = draw(st.integers(2, 12))
    table = {"row": pa.array(range(n))}
    for name in names:
        values = VALUES[draw(st.sampled_from(sorted(VALUES)))]
        holes = draw(st.booleans())
        table[name] = pa.array(draw(st.lists(st.none() | values if holes else values, min_size=n, max_size=n)))
    return pa.table(table), draw(st.sampled_from(LAYOUTS))


def unlike_files(made, folder):
    name = made.column_names[-1]
    first, rest = made.slice(0, 1), made.slice(1)
    if pa.types.is_string(made.schema.field(name).type):
        first = first.set_column(len(made.column_names) - 1, name, first[name].dictionary_encode())
    if first[name].null_count:  # a column that only later files have
        first = first.drop_columns([name])
    pq.write_table(first, folder / "a.parquet")
    pq.write_table(rest.select(made.column_names[::-1]), folder / "b.parquet", row_group_size=3)


def lay_down(made, layout, folder):
    """The table in files; and what is said of them."""
    if layout == "polars":
        return pytest.importorskip("polars").from_arrow(made), {}
    frame, comma = made.to_pandas(types_mapper=pd.ArrowDtype), {"header": True, "sep": ","}
    if layout.startswith("csv"):
        text = frame.to_csv(index=False).encode()
        pack = {"csv.gz": gzip.compress, "csv.zst": lambda text: pa.Codec("zstd").compress(text, asbytes=True)}
        (folder / f"a.{layout}").write_bytes(pack.get(layout, bytes)(text))
        return folder, comma
    if layout == "bars in latin-1":
        said = {"sep": "|", "encoding": "latin-1"}
        frame.to_csv(folder / "a.csv", index=False, **said)
        return folder, comma | said | {"keep_default_na": False}
    if layout == "unlike files":
        unlike_files(made, folder)
    elif layout == "folders":
        kinds = [(name, made[name].type) for name in made.column_names[1:]]
        whole = [name for name, kind in kinds if pa.types.is_int64(kind) or pa.types.is_string(kind)]
        pq.write_to_dataset(made, folder, partition_cols=whole[:1] or None)
    elif layout == "index":
        frame.set_index(made.column_names[-1]).to_parquet(folder / "a.parquet")
    else:
        pq.write_table(made, folder / "a.parquet")
    return folder, {}


@settings(max_examples=60, deadline=None)
@given(laid_out())
def test_any_layout_is_the_table(tmp_path_factory, drawn):
    """Of every layout all columns are there, with the values that the table has."""
    made, layout = drawn
    if layout == "polars" and importlib.util.find_spec("polars") is None:
        layout = "one file"
    data, said = lay_down(made, layout, tmp_path_factory.mktemp("any"))
    assert set(open_table(data, **said).schema.names) == set(made.column_names)
    schema = schema_of(made.schema)
    rows = np.asarray(open_table(data, schema=schema, **said).rows())
    same(rows[np.argsort(rows[:, 0])], coded(made, schema))
