"""Parquet in and out: row groups, columns, nulls, imputation, text targets, part files."""

from __future__ import annotations

import datetime as dt

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored_arrays import create_parts

from distrf import open_rows, open_table
from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.execution.writing import write_parts
from distrf.store import Selection, finish, open_source, table_source, write_block
from distrf.store.table_codes import coded
from distrf.store.table_schema import schema_of


def run(x):
    return x.compute(scheduler="sync")


def save(path, columns, row_group_size=7):
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


@pytest.mark.parametrize(
    ("group", "bytes_of_block", "said", "blocks"),
    [
        (10, None, {"rows_per_block": 30}, (30, 30, 30, 10)),
        (10, None, {"rows_per_block": 9}, (10,) * 10),
        (10, None, {"rows_per_block": 4}, (4, 4, 2) * 10),
        (10, None, {}, (100,)),
        (25, 8 * 10, {}, (25,) * 4),  # only large row groups are cut
        (50, 8 * 10, {}, (10,) * 10),
    ],
)
def test_which_rows_become_blocks(tmp_path, monkeypatch, group, bytes_of_block, said, blocks):
    monkeypatch.setattr(table_source, "BLOCK_BYTES", bytes_of_block or table_source.BLOCK_BYTES)
    save(tmp_path / "a.parquet", {"x": np.arange(100.0)}, group)
    assert open_rows(tmp_path / "a.parquet", **said)[0].chunks[0] == blocks


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [("f4 f4", "f4"), ("u1 u1", "f4"), ("i2 ?", "f4"), ("f2 f2", "f4"), ("i4 f4", "f8"), ("i8 i8", "f8"), ("f4 f8", "f8")],
)  # fmt: skip
def test_common_dtype(tmp_path, kinds, expected):
    columns = {f"c{j}": np.array([0, 1, 1], kind) for j, kind in enumerate(kinds.split())}
    block = run(open_rows(save(tmp_path / "a.parquet", columns))[0])
    assert block.dtype == expected
    assert block.flags.c_contiguous
    np.testing.assert_array_equal(block, [[0, 0], [1, 1], [1, 1]])


def test_columns_and_targets(tmp_path):
    table = {"a": [1.0, 2.0], "b": [3.0, 4.0], "name": ["x", "y"], "t": ["yes", "no"], "z": [True, False]}
    path = save(tmp_path / "a.parquet", table)
    with pytest.raises(InputError, match=r"columns \['name \(string\)', 't \(string\)'\].*columns="):
        open_rows(path)
    X, y = open_rows(path, columns=["z", "a"], target="t")
    np.testing.assert_array_equal(run(X), [[1, 1], [0, 2]])
    assert y.dtype == "<U3"
    np.testing.assert_array_equal(run(y), ["yes", "no"])
    with pytest.raises(InputError, match="names or numbers of columns"):
        open_rows(path, columns="a")
    with pytest.raises(InputError, match=r"no feature column is left in .*columns are \['t'\]"):
        open_rows(save(tmp_path / "t.parquet", {"t": [1.0, 2.0]}), target="t")


@pytest.mark.parametrize("statistics", [True, False])
def test_nulls_are_nan_but_for_targets(tmp_path, statistics):
    table = pa.table({"a": np.arange(30.0), "b": [None if i == 17 else i for i in range(30)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10, write_statistics=statistics)
    X = run(open_rows(tmp_path / "a.parquet")[0])
    assert np.argwhere(np.isnan(X)).tolist() == [[17, 1]]
    with pytest.raises(InputError, match=r"column 'b' has nulls in row group 1 .* drop the rows"):
        run(open_rows(tmp_path / "a.parquet", columns=["a"], target="b")[1])
    save(tmp_path / "a.parquet", {"a": pa.array([1, None], pa.uint8())})
    np.testing.assert_array_equal(run(open_rows(tmp_path / "a.parquet")[0]), [[1], [np.nan]])


def test_other_schemas_and_broken_files(tmp_path):
    save(tmp_path / "a.parquet", {"x": np.arange(20.0)}, 5)
    save(tmp_path / "b.parquet", {"x": ["a"] * 20}, 5)
    with pytest.raises(StoreError, match=r"'x' is double in .*a.parquet' and string in .*b.parquet'"):
        open_rows(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(StoreError, match="cannot be read as Parquet"):
        open_rows(tmp_path / "a.parquet")
    save(tmp_path / "b.parquet", {"x": np.empty(0)})
    with pytest.raises(StoreError, match="has no rows"):
        open_rows(tmp_path / "b.parquet")


#: The columns of two files, and the type of all their rows.
MIXED = {
    "integers, floats": ([1, 2], [0.5, None], pa.float64()),
    "nulls, texts": (pa.nulls(2), ["a", "b"], pa.string()),
    "texts, categories": (["a", "b"], pa.array(["b", "c"]).dictionary_encode(), pa.string()),
    "categories of other codes": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1], "int8"), ["a", "b"]),
        pa.DictionaryArray.from_arrays(pa.array([0, 0], "int16"), ["c"]),
        pa.string(),
    ),
    "dates, times": (
        [dt.date(2020, 1, 1), None],
        [dt.datetime(2020, 1, 2, 3), dt.datetime(2020, 1, 2)],
        pa.timestamp("us"),
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_files_with_other_types_in_one_block(tmp_path, name):
    *parts, kind = MIXED[name]
    for number, values in enumerate(parts):
        save(tmp_path / f"{number}.parquet", {"x": np.arange(2.0), "c": values})
    both = [pa.array(v) for v in parts]
    both = [v.dictionary_decode() if pa.types.is_dictionary(v.type) else v for v in both]
    values = [v for part in both for v in part.cast(kind).to_pylist()]
    table = open_table(tmp_path)
    assert [column.arrow for column in table.schema.columns] == ["double", str(kind)]
    with dask.config.set(scheduler="sync"):
        assert table.sample().column("c").to_pylist() == values
        one = schema_of(pa.schema([("c", kind)]))
        np.testing.assert_array_equal(
            run(table.rows())[:, [1]], coded(pa.table({"c": pa.array(values, kind)}), one)
        )
        X, _ = open_rows(tmp_path, columns=["x"], rows_per_block=3)
        write_parts(
            str(tmp_path / "made/out.parquet"), {"x": X}, str(tmp_path / "*.parquet"), ["c"], {}, columns=["x"]
        )
    written = [pq.read_table(path) for path in sorted((tmp_path / "made/out.parquet").glob("*.parquet"))]
    assert [part.schema.field("c").type for part in written] == [kind] * len(X.chunks[0])
    assert pa.concat_tables(written).column("c").to_pylist() == values


def test_keys_that_no_common_type_holds(tmp_path):
    for number, ids in enumerate(([2**60 + 1, 2], [0.5, 1.5])):
        save(tmp_path / f"{number}.parquet", {"x": np.arange(2.0), "id": ids, f"only{number}": ids})
    ((reader, first, last),) = open_source(tmp_path, Selection(columns=["x"], others=["id"])).key_blocks(["id"])
    with pytest.raises(
        InputError, match=r"one type in all parts .*; row group 0 of .* has values that cannot be id: double"
    ):
        reader.read_table(first, last)
    assert open_table(tmp_path, columns=["id"]).sample().column("id").to_pylist() == [2.0**60, 2, 0.5, 1.5]


@pytest.mark.parametrize("rows_per_block", [20_000, 5_000], ids=["a row group", "some of its rows"])
def test_memory_while_many_columns_are_read(tmp_path, rows_per_block):
    """Of each column that is read with others Arrow holds a page and a dictionary: 14 blocks in all, where 120 columns are."""
    rng = np.random.default_rng(0)
    pq.write_table(
        pa.table({f"x{j}": rng.normal(size=20_000).astype("f4") for j in range(120)}), tmp_path / "x.parquet"
    )
    source = open_source(tmp_path / "x.parquet", Selection(rows_per_block=rows_per_block))
    usual, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        for reader, first, last in source.blocks():
            block = reader.read(first, last)
    finally:
        pa.set_memory_pool(usual)
    assert block.nbytes < pool.max_memory() < 2 * block.nbytes


def test_part_files_with_keys(tmp_path):
    n = 25
    source = save(
        tmp_path / "in.parquet",
        {"id": [f"k{i}" for i in range(n)], "day": np.arange(n).astype("M8[D]"), "x": np.arange(1.0 * n)},
        10,
    )
    keys = open_source(source, Selection(columns=["x"], rows_per_block=10)).key_blocks(["id", "day"])
    X, _ = open_rows(source, columns=["x"], rows_per_block=10)
    out = tmp_path / "out.parquet"
    folder_id, pending = create_parts(out, {"model": 1}, len(keys))
    assert pending == [0, 1, 2]
    for index in (2, 0):
        (reader, first, last), block = keys[index], run(X.blocks[index])
        table = reader.read_table(first, last)
        columns = {name: table.column(name) for name in table.column_names}
        prediction = np.where(block[:, 0] > 12, "yes", "no")
        written = {**columns, "prediction": prediction, "decision": np.c_[block, -block]}
        assert write_block(out, index, written, store_id=folder_id) == len(block)
        if index == 2:
            assert create_parts(out, {"model": 1}, 3)[1] == [0, 1]
    with pytest.raises(StoreError, match="1 of 3 blocks"):
        finish(out, store_id=folder_id)
    assert create_parts(out, {"model": 1}, 3) == (folder_id, [1])
    with pytest.raises(SpecMismatchError, match=r"spec.model: 1 -> 2"):
        create_parts(out, {"model": 2}, 3)
    write_block(out, 1, {"id": ["k"] * 10, "day": np.arange(10).astype("M8[D]"),
                                 "prediction": np.array(["no"] * 10), "decision": np.zeros((10, 2))},
                        store_id=folder_id)  # fmt: skip
    finish(out, store_id=folder_id)
    assert (out / "_SUCCESS").exists()
    got = pq.read_table(out)
    assert got.column_names == ["id", "day", "prediction", "decision_0", "decision_1"]
    assert got.column("id").to_pylist()[:10] == [f"k{i}" for i in range(10)]
    assert got.column("day").type == pa.date32() or pa.types.is_date(got.column("day").type)
    assert create_parts(out, {"model": 1}, 3) == (None, [])
    (out / "part-000001.parquet").rename(out / "other")
    (out / "part-000002.parquet").rename(out / "part-000001.parquet")
    (out / "other").rename(out / "part-000002.parquet")
    with pytest.raises(StoreError, match=r"part-000001.parquet' was written as 'part-000002.parquet'"):
        open_source(out, Selection())
    (out / "part-000001.parquet").unlink()
    with pytest.raises(StoreError, match=r"lacks parts \(1\); run the command"):
        open_source(out, Selection())
    assert create_parts(out, {"model": 1}, 3) == (None, [1])
    assert create_parts(out, {"model": 2}, 2, overwrite=True)[1] == [0, 1]
    assert not (out / "_SUCCESS").exists()


def test_part_folder_refusals(tmp_path):
    (tmp_path / "other.parquet").mkdir()
    (tmp_path / "other.parquet/file").touch()
    with pytest.raises(StoreError, match="must be free"):
        create_parts(tmp_path / "other.parquet", {}, 1, overwrite=True)
    with pytest.raises(StoreError, match="no such store or folder"):
        write_block(tmp_path / "none.parquet", 0, {"a": [1]}, store_id=None)
    folder_id, _ = create_parts(tmp_path / "p.parquet", {}, 1)
    with pytest.raises(InputError, match="occur twice"):
        write_block(tmp_path / "p.parquet", 0, {"a_0": [1], "a": np.ones((1, 1))}, store_id=folder_id)
