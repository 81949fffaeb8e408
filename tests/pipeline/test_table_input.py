"""Tables as the input of a job: what is said of them, and their rows in any blocks."""

from __future__ import annotations

import json

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distrf.errors import InputError
from distrf.execution.open_table import open_table
from distrf.pipeline.table_input import TableInput, open_table_input
from distrf.store import table_source
from distrf.store.table_codes import coded
from distrf.store.table_schema import TableSchema

TABLE = pa.table({"t": list("abc") * 10, "x": np.arange(30.0), "y": ["no", "yes"] * 15, "more": [[1]] * 30})


def run(x):
    return x.compute(scheduler="sync")


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE.drop_columns("more"), tmp_path / "a.parquet", row_group_size=7)
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("kind", ["path", "memory"])
def test_what_a_table_says_and_gives(path, kind, monkeypatch):
    monkeypatch.setattr(table_source, "BLOCK_BYTES", 16 * 10)
    data = open_table_input(
        path if kind == "path" else TABLE, "y", exclude=None if kind == "path" else ["more"]
    )
    assert (data.n, data.d, data.target, data.columns, data.dtype) == (30, 2, "y", ["t", "x"], np.float64)
    assert data.path == (str(path) if kind == "path" else None)
    assert (data.info.nbytes, data.info.block_rows) == (480, 9 if kind == "path" else 30)
    assert data.identity == data.description == json.loads(json.dumps(data.description))
    for uniform in (False, True):
        X, y = data.rows(uniform=uniform)
        assert isinstance(X, da.Array)
        assert (
            X.chunks[0]
            == y.chunks[0]
            == ((30,) if kind == "memory" else (8, 8, 8, 6) if uniform else (7, 7, 7, 9))
        )
        np.testing.assert_array_equal(run(X), coded(TABLE, data.schema))
        np.testing.assert_array_equal(run(y), TABLE["y"].to_pylist())
    assert data.classes(y) == ["no", "yes"]
    again = open_table_input(TABLE, reading=data.description)
    assert again.schema == data.schema
    assert again.rows()[1] is None
    assert again.classes(None) is None


def test_rows_are_told_apart(path):
    data = open_table_input(path)
    assert open_table_input(path).description["data"] == data.description["data"]
    assert open_table_input(open_table(path)).description == data.description
    other = TABLE.drop_columns("more")
    assert open_table_input(other).description == open_table_input(other).description
    assert open_table_input(other).description["data"] != open_table_input(other[1:]).description["data"]
    before = data.description["data"]
    pq.write_table(other[1:], path)
    assert open_table_input(path).description["data"] != before
    part = TableInput(open_table(path), TableSchema(data.schema.columns[:1]))
    assert part.rows()[0].shape == (29, 1)
    with pytest.raises(InputError, match="'t' is missing"):
        open_table_input(TABLE.drop_columns("t"), reading=data.description)
