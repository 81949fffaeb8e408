"""Tables from files, from memory and from Dask DataFrames: the same coded rows, the same target, the same refusals."""

from __future__ import annotations

import datetime as dt
import itertools
import pickle
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

from distrf import Table, open_table
from distrf.errors import InputError, StoreError
from distrf.execution.open_table import is_table
from distrf.maps.table_missing import MISSING
from distrf.store import files
from distrf.store.table_codes import as_arrow, coded
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
        "took": pd.to_timedelta([None if i % 8 == 0 else i * 1.5 for i in range(N)], unit="s"),
        "money": pd.array([Decimal(i) / 4 for i in range(N)], pd.ArrowDtype(pa.decimal128(8, 2))),
        "Ü 数": ["a\nb", "c"] * (N // 2),
        "y": ["yes" if i % 3 else "no" for i in range(N)],
    },
    index=pd.Index(range(100, 100 + N), name="customer"),
)
FEATURES = [name for name in FRAME.columns if name != "y"]
ARROW = as_arrow(FRAME)
SCHEMA = schema_of(ARROW.schema, FEATURES)
EXPECTED = coded(ARROW, SCHEMA)
Y = np.asarray(FRAME["y"].tolist())


def run(x):
    return x.compute(scheduler="sync") if isinstance(x, da.Array) else x


class Stream:
    """A data frame of another library."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def parquet(folder, table=ARROW, cuts=(0, 13, 30, N)):
    for number, (first, last) in enumerate(itertools.pairwise(cuts)):
        pq.write_table(table[first:last], folder / f"part-{number}.parquet", row_group_size=6)
    return folder


def csv(folder, frame=FRAME, cuts=(0, 17, N)):
    for number, (first, last) in enumerate(itertools.pairwise(cuts)):
        frame.iloc[first:last].to_csv(folder / f"part-{number}.csv", index=False)
    return folder


SOURCES = {
    "pandas": lambda folder: FRAME,
    "pyarrow dtypes": lambda folder: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "arrow": lambda folder: ARROW,
    "arrow of pandas": lambda folder: pa.Table.from_pandas(FRAME),
    "stream": lambda folder: Stream(ARROW),
    "columns": lambda folder: FRAME.to_dict("series"),
    "parquet": parquet,
    "parquet of pandas": lambda folder: FRAME.to_parquet(folder / "a.parquet") or folder / "a.parquet",
    "csv": csv,
    "dask": lambda folder: dd.from_pandas(FRAME, npartitions=4),
    "dask of parquet": lambda folder: dd.read_parquet(parquet(folder)),
    "dask in memory": lambda folder: dd.from_pandas(FRAME, npartitions=3).persist(scheduler="sync"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_rows(tmp_path, name):
    data = SOURCES[name](tmp_path)
    with dask.config.set(scheduler="sync"):
        table = open_table(data, target="y", schema=SCHEMA)
    assert isinstance(table, Table)
    assert (table.n, table.d, table.target) == (N, len(FEATURES), "y")
    rows = table.rows()
    assert rows.dtype == np.float64
    assert isinstance(rows, da.Array) == (name.startswith("dask") or name.startswith(("parquet", "csv")))
    np.testing.assert_array_equal(run(rows), EXPECTED)
    np.testing.assert_array_equal(run(table.y), Y)
    assert run(table.y).dtype == table.y.dtype
    if isinstance(rows, da.Array):
        assert rows.chunks[0] == table.y.chunks[0]
    some = TableSchema((SCHEMA.columns[4], SCHEMA.columns[0]))
    np.testing.assert_array_equal(run(table.rows(some)), EXPECTED[:, [4, 0]])
    with dask.config.set(scheduler="sync"):
        sample = table.sample(10)
        assert sample.equals(table.sample(10))
        assert table.sample().num_rows == N
    assert 8 <= sample.num_rows <= 14
    assert sample.column_names == FEATURES
    found = coded(sample, SCHEMA)
    at = [np.flatnonzero((row == EXPECTED).all(axis=1))[0] for row in found]
    assert (np.diff(at) > 0).all()


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_says_what_its_columns_are(tmp_path, name):
    """But for what CSV cannot hold: durations, and how precise numbers are."""
    with dask.config.set(scheduler="sync"):
        table = open_table(SOURCES[name](tmp_path), target="y", exclude=["took", "money"])
    bases = {column.name: column.base for column in table.schema.columns}
    expected = {column.name: column.base for column in SCHEMA.columns if column.name not in ("took", "money")}
    assert bases == expected
    got, left = run(table.rows()), [j for j, f in enumerate(FEATURES) if f not in ("took", "money")]
    if name == "csv":
        got[:, 1] = got[:, 1].astype(np.float32)
    np.testing.assert_array_equal(got, EXPECTED[:, left])


@pytest.mark.parametrize("name", ["pandas", "parquet", "csv", "dask"])
def test_what_is_chosen_and_what_is_refused(tmp_path, name):
    data = SOURCES[name](tmp_path)
    with dask.config.set(scheduler="sync"):
        assert open_table(data, columns=["t", "x"]).schema.names == ["t", "x"]
        assert open_table(data, columns=["t", "x"]).y is None
        assert open_table(data, exclude=FEATURES[1:], target="y").schema.names == ["x"]
        for wrong in (
            {"columns": ["q"]},
            {"exclude": ["q"]},
            {"target": "q"},
            {"target": "q", "schema": SCHEMA},
        ):
            with pytest.raises(
                InputError, match=r"columns \['q'\] are not in .*its columns are \['x', 'small'"
            ):
                open_table(data, **wrong)
        with pytest.raises(InputError, match="'y' is among columns="):
            open_table(data, target="y", columns=["y", "x"])
        with pytest.raises(InputError, match="no feature column is left"):
            open_table(data, target="y", exclude=FEATURES)
        with pytest.raises(InputError, match="leave out columns= and exclude="):
            open_table(data, schema=SCHEMA, columns=["x"])
        with pytest.raises(
            InputError, match="a target is numbers, booleans or text; 'when' has type timestamp"
        ):
            open_table(data, target="when")
        with pytest.raises(InputError, match=r"nulls in .*first in row .*drop the rows that have no target"):
            run(open_table(data, target="x").y)
        other = TableSchema((ColumnType("X", "double", "number"), ColumnType("t", "double", "number")))
        with pytest.raises(InputError, match=r"'X' is missing \('x' is new: renamed\?\), 't' holds text"):
            open_table(data, schema=other)
        with pytest.raises(InputError, match="'t' holds text"):
            open_table(data).rows(TableSchema((ColumnType("t", "double", "number"),)))


def test_order_and_other_columns_do_not_matter():
    table = ARROW.select(ARROW.column_names[::-1]).append_column("more", [[[1]] * N])
    np.testing.assert_array_equal(open_table(table, schema=SCHEMA).rows(), EXPECTED)
    frame = FRAME[FRAME.columns[::-1]].assign(more=[[1]] * N)
    np.testing.assert_array_equal(open_table(frame, schema=SCHEMA).rows(), EXPECTED)


@pytest.mark.parametrize("name", ["pandas", "arrow", "dask"])
def test_no_rows(name):
    empty = {
        "pandas": FRAME[:0],
        "arrow": ARROW[:0],
        "dask": dd.from_pandas(FRAME, npartitions=2).query("x > 1000"),
    }[name]
    with (
        dask.config.set(scheduler="sync"),
        pytest.raises(InputError, match=r"a table has rows; received a .* without any"),
    ):
        open_table(empty, target="y")


def test_what_is_no_table(tmp_path):
    for wrong, message in (
        (da.ones((3, 2)), "a lazy table is a Dask DataFrame; received a dask.array.core.Array"),
        (
            dd.from_pandas(FRAME["x"], npartitions=1),
            "a lazy table is a Dask DataFrame; received a dask.dataframe",
        ),
        (3, "a table is a data frame"),
        (FRAME["x"], "a table is a data frame"),
    ):
        with pytest.raises(InputError, match=message):
            open_table(wrong)
    assert not is_table(FRAME["x"])
    assert not is_table(np.ones((2, 2)))
    assert not is_table(da.ones((3, 2)))
    assert all(
        map(is_table, (FRAME, ARROW, Stream(ARROW), "a.csv", tmp_path, dd.from_pandas(FRAME, npartitions=1)))
    )
    assert is_table(open_table(FRAME))
    for option in ({"rows_per_block": 3}, {"storage_options": {}}):
        with pytest.raises(InputError, match="say how files are read; received a DataFrame; leave them out"):
            open_table(FRAME, **option)
    with pytest.raises(InputError, match="columns must be names or numbers of columns"):
        open_table(FRAME, columns="x")
    with pytest.raises(StoreError, match="no Parquet file at"):
        open_table(tmp_path / "none.parquet")
    import zarr

    zarr.create_group(tmp_path / "a.zarr").create_array("X", data=np.ones((4, 2)))
    with pytest.raises(
        InputError, match=r"a table is Parquet or CSV; '.*a.zarr' is read by ZarrSource; open it with"
    ):
        open_table(tmp_path / "a.zarr")


@pytest.fixture
def plain_objects():
    """Dask makes texts of all objects, unless it is told not to."""
    with dask.config.set({"dataframe.convert-string": False, "scheduler": "sync"}):
        yield


@pytest.mark.usefixtures("plain_objects")
def test_partitions_that_differ():
    """Objects, categories that are not known, partitions without rows or without values."""
    parts = [
        pd.DataFrame({"o": pd.Series([], dtype=object), "c": pd.Categorical([]), "f": [], "y": []}),
        pd.DataFrame({"o": pd.Series([None, None], dtype=object), "c": pd.Categorical([3, 5]), "f": [np.nan] * 2, "y": [1.0, 2]}),
        pd.DataFrame({"o": [Decimal("1.5"), None, Decimal(2)], "c": pd.Categorical([5, 7, None]), "f": [1.0, 2, 3], "y": [3.0, 4, 5]}),
    ]  # fmt: skip
    meta = parts[0].assign(c=pd.Categorical([]))
    frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=meta, verify_meta=False)
    with dask.config.set(scheduler="sync"):
        table = open_table(frame, target="y")
    assert [column.base for column in table.schema.columns] == ["number"] * 3
    assert table.y.chunks == ((2, 3),)
    np.testing.assert_array_equal(
        run(table.rows()),
        [[MISSING, 3, MISSING], [MISSING, 5, MISSING], [1.5, 5, 1], [MISSING, 7, 2], [2, MISSING, 3]],
    )
    np.testing.assert_array_equal(run(table.y), [1, 2, 3, 4, 5])
    parts[1] = parts[1].assign(o=["a", "b"])
    frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=meta, verify_meta=False)
    with dask.config.set(scheduler="sync"):
        with pytest.raises(StoreError, match=r"'o' is .* in 'partition 1' and decimal.* in 'partition 2'"):
            open_table(frame)
        assert open_table(frame, exclude=["o"]).d == 3
    mixed = parts[2].assign(o=[1, "a", None])
    frame = dd.from_delayed([dask.delayed(mixed)], meta=meta, verify_meta=False)
    with dask.config.set(scheduler="sync"), pytest.raises(InputError, match="column 'o' holds int, str"):
        open_table(frame)


def test_a_partition_that_changes():
    calls = []

    def partition(i):
        calls.append(i)
        return FRAME[:20] if i == 0 else FRAME[20 : N - (calls.count(1) > 1)]

    with dask.config.set(scheduler="sync"):
        table = open_table(dd.from_map(partition, range(2), meta=FRAME.iloc[:0]))
    with pytest.raises(InputError, match="received 29 in place of 30; open the table again"):
        run(table.rows())


def test_keys_are_those_of_the_data(tmp_path):
    parquet(tmp_path)

    def names():
        with dask.config.set(scheduler="sync"):
            for data in (tmp_path, dd.from_pandas(FRAME, npartitions=2)):
                table = open_table(data, target="y")
                some = TableSchema(SCHEMA.columns[1:])
                yield [table.rows().name, table.y.name, table.rows(some).name]

    first = list(names())
    assert first == list(names())
    assert len(set(itertools.chain(*first))) == 6


def test_one_task_a_block(tmp_path):
    table = open_table(parquet(tmp_path), target="y", rows_per_block=10)
    (optimised,) = dask.optimize(table.rows())
    assert len(dict(optimised.__dask_graph__())) == table.rows().npartitions


def test_a_sample_reads_a_dozen_blocks(tmp_path, monkeypatch):
    n = 3000
    pq.write_table(pa.table({"i": np.arange(n)}), tmp_path / "a.parquet", row_group_size=50)
    table = open_table(tmp_path, rows_per_block=50)
    read = []
    from distrf.store import frames

    real = frames.rows_of_block
    monkeypatch.setattr(frames, "rows_of_block", lambda *a: read.append(a) or real(*a))
    rows = np.array(table.sample(200)["i"])
    assert len(read) == 12
    assert len(rows) == pytest.approx(200, abs=12)
    assert (np.diff(rows) > 0).all()
    assert np.bincount(rows // 250).tolist() == [len(rows) // 12] * 12  # one block of each five
    assert len(table.sample(2000)) == pytest.approx(2000, abs=40)  # more, where a dozen holds too few
    some = np.array(open_table(tmp_path, rows_per_block=100).sample(24)["i"]).reshape(12, 2)
    assert (np.diff(some) < 16 * 2).all()
    one = np.array(open_table(pa.table({"i": np.arange(n)})).sample(100)["i"])
    assert len(one) == 100
    assert np.ptp(one) > n / 2
    with pytest.raises(InputError, match="at least one row; received n_rows=0"):
        table.sample(0)


def test_a_sample_of_csv_has_the_types_of_its_columns(tmp_path, monkeypatch):
    from distrf.store import csv_source

    monkeypatch.setattr(csv_source, "_PLACES", 1)
    monkeypatch.setattr(csv_source, "_PLACE_BYTES", 60)
    path = tmp_path / "a.csv"
    path.write_text("i,d\n" + "1,2020-01-01\n" * 20)
    assert open_table(path).sample().schema.types == [pa.int64(), pa.date32()]
    path.write_text("i,d\n" + "1,2020-01-01\n" * 20 + "1.5,2020-01-01 10:00\n")
    assert open_table(path).sample().schema.types == [pa.float64(), pa.timestamp("us")]


def test_labels_of_pandas_are_no_columns(tmp_path):
    frame = FRAME[["x", "t"]]
    for index in (None, "customer", ["a", "b"]):
        if isinstance(index, list):
            frame.index = pd.MultiIndex.from_product([range(5), range(N // 5)], names=index)
        else:
            frame.index.name = index
        frame.to_parquet(tmp_path / "a.parquet")
        for data in (frame, tmp_path / "a.parquet", pa.Table.from_pandas(frame)):
            assert open_table(data).schema.names == ["x", "t"]
    frame.index = pd.RangeIndex(N)
    frame.to_csv(tmp_path / "a.csv")
    assert open_table(tmp_path / "a.csv").schema.names == ["x", "t"]
    with dask.config.set(scheduler="sync"):
        dd.from_pandas(frame, npartitions=2).to_parquet(tmp_path / "dask")
    assert open_table(tmp_path / "dask").schema.names == ["x", "t"]


def test_hive_folders_are_not_read(tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        parquet(tmp_path / f"year={year}", cuts=(0, N))
    assert open_table(tmp_path, target="y").schema.names == FEATURES


@pytest.mark.usefixtures("plain_objects")
def test_numbers_that_are_labels(tmp_path):
    for values, kind in (
        ([0, 1, 1], "i8"),
        ([0.5, 1, 2], "f8"),
        ([True, False, True], "?"),
        ([Decimal("1.5")] * 3, "f8"),
    ):
        frame = pd.DataFrame({"x": [1.0, 2, 3], "y": values})
        frame.to_parquet(tmp_path / "a.parquet")
        frame.to_csv(tmp_path / "a.csv", index=False)
        with dask.config.set(scheduler="sync"):
            for data in (
                frame,
                tmp_path / "a.parquet",
                tmp_path / "a.csv",
                dd.from_pandas(frame, npartitions=2),
            ):
                y = open_table(data, target="y").y
                assert y.dtype == kind
                np.testing.assert_array_equal(run(y), np.array(values, kind))


def test_workers_read_the_same(client, tmp_path):
    for data in (parquet(tmp_path), dd.from_pandas(FRAME, npartitions=4)):
        table = open_table(
            data, target="y", schema=SCHEMA, **({"rows_per_block": 7} if data is tmp_path else {})
        )
        X, y = dask.compute(table.rows(), table.y)
        np.testing.assert_array_equal(X, EXPECTED)
        np.testing.assert_array_equal(y, Y)
        np.testing.assert_array_equal(coded(table.sample(), SCHEMA), EXPECTED)


def test_a_pass_reads_a_partition_once():
    from distrf.execution.passes import run_pass
    from distrf.execution.states import RowCount

    class Count(RowCount):
        def update(self, state, first_row, X, y):
            return state + len(X)

    reads = []

    def partition(i):
        reads.append(i)
        return FRAME.iloc[i * 10 : i * 10 + 10]

    frame = dd.from_map(partition, range(5), meta=FRAME.iloc[:0])
    with dask.config.set(scheduler="sync"):
        table = open_table(frame, target="y")
        reads.clear()
        assert run_pass(Count(), [table.rows(), table.y], label="count") == N
    assert sorted(reads) == list(range(5))


KINDS = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(max_size=4)),
    "category": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["", "a", "b,\n", '"'])),
    "day": (pa.date32(), st.dates()),
    "time": (pa.timestamp("us"), st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))),
    "zoned": (pa.timestamp("ms", "UTC"), st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))),
    "duration": (pa.duration("us"), st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999))),
    "nothing": (pa.null(), st.none()),
}


@st.composite
def tables(draw):
    """Columns of any type, with nulls; unicode names; one row or more."""
    n = draw(st.integers(1, 12))
    # Arrow's writer of CSV writes no carriage return that its reader takes for one.
    text = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), min_size=1, max_size=4)
    names = ["c" + name for name in draw(st.lists(text, min_size=1, max_size=4, unique=True))]
    columns = {}
    for name in names:
        kind, values = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        columns[name] = pa.array(draw(st.lists(st.none() | values, min_size=n, max_size=n)), kind)
    return pa.table(columns)


@settings(max_examples=25, deadline=None)
@given(
    table=tables(),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    rows=st.integers(1, 12),
    group=st.integers(1, 5),
)
def test_any_table_from_any_source(tmp_path_factory, table, cuts, rows, group):
    folder, n = tmp_path_factory.mktemp("t"), len(table)
    edges = sorted({0, n, *(min(cut, n) for cut in cuts)})
    for first, last in itertools.pairwise(edges):
        pq.write_table(table[first:last], folder / f"{first}.parquet", row_group_size=group)
    expected = open_table(table)
    X = expected.rows()
    np.testing.assert_array_equal(X, coded(table, schema_of(table.schema)))
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    for data in (folder, Stream(table), frame):
        options = {"rows_per_block": rows} if data is folder else {}
        np.testing.assert_array_equal(run(open_table(data, **options).rows(expected.schema)), X)
        np.testing.assert_array_equal(run(open_table(data, schema=expected.schema, **options).rows()), X)
    path = folder / "a.csv"
    frame.to_csv(path, index=False)
    words = {"NA", "nan", "null", "None"}  # CSV cannot tell such text from a missing value
    held = [
        c for c in expected.schema.columns
        if not (c.base == "text" and any(str(v) in words or "\r" in str(v) or "\0" in str(v) for v in table[c.name].to_pylist()))
    ]  # fmt: skip
    schema = TableSchema(tuple(held))
    if held:
        got = run(open_table(path, schema=schema, rows_per_block=rows).rows())
        np.testing.assert_array_equal(got, coded(table, schema))


@settings(max_examples=8, deadline=None)
@given(table=tables(), partitions=st.integers(1, 5))
def test_any_table_in_partitions(table, partitions):
    expected = open_table(table)
    frame = dd.from_pandas(table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=partitions)
    with dask.config.set(scheduler="sync"):
        lazy = open_table(frame)
        assert [c.base for c in lazy.schema.columns] == [c.base for c in expected.schema.columns]
        np.testing.assert_array_equal(run(lazy.rows(expected.schema)), expected.rows())


def test_blocks_of_equal_rows(tmp_path, monkeypatch):
    from distrf.pipeline.tables import table_input
    from distrf.store import table_source

    monkeypatch.setattr(table_source, "BLOCK_BYTES", 11 * 8 * 9)
    parquet(tmp_path, cuts=(0, 8, 17, N))
    table = open_table(tmp_path, target="y")
    assert table.y.chunks[0] == table.rows().chunks[0] == (8, 9, 6, 6, 6, 6, 9)
    given = table_input(tmp_path, target="y", exclude=["took"]).rows(uniform=True)
    for X, y in ((table.uniform().rows(), table.uniform().y), given):
        assert y.chunks[0] == X.chunks[0] == (8,) * 6 + (2,)
        np.testing.assert_array_equal(run(y), Y)
    np.testing.assert_array_equal(run(table.uniform().rows()), run(table.rows()))
    assert open_table(FRAME).uniform().n == N


def test_a_table_can_be_pickled(tmp_path):
    table = open_table(parquet(tmp_path), target="y")
    again = pickle.loads(pickle.dumps(table))
    np.testing.assert_array_equal(run(again.rows()), run(table.rows()))
    assert files.normalise(tmp_path) == table.path
