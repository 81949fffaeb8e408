"""An output at, inside or around an input is refused before anything is created or removed."""

from __future__ import annotations

import os
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distrf import RandomFourierFeatures, StreamingRidge, ingest, open_rows, save_model
from distrf.cli.app import app
from distrf.errors import InputError
from distrf.execution.graph_inputs import graph_inputs
from distrf.execution.writing import write_parts, write_rows
from distrf.store import check_apart

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0]


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A store, Parquet, a model, a table, and a link to the store; the folder is the current one."""
    monkeypatch.chdir(tmp_path)
    np.savez("table.npz", X=X, y=Y)
    ingest("table.npz", "good.zarr", block_rows=20)
    os.mkdir("rows")
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y}), "rows/a.parquet")
    os.symlink("good.zarr", "link.zarr")
    save_model(StreamingRidge(1.0).fit(X, Y), "model")
    save_model(RandomFourierFeatures(n_components=4, length_scale=1.0, random_state=0).fit(X), "map")
    return tmp_path


def refused(folder, *arguments):
    before = contents(folder)
    with pytest.raises(InputError, match=r"must lie apart from .*choose another path for"):
        app([str(a) for a in arguments], standalone_mode=False)
    assert contents(folder) == before


OUTPUTS = [
    "good.zarr",
    "good.zarr/",
    "./good.zarr",
    "link.zarr",
    "good.zarr/inside",
    "link.zarr/X",
    ".",
    "file",
]


@pytest.mark.parametrize("out", OUTPUTS)
def test_predictions_over_their_rows(folder, out):
    out = f"file://{folder}/good.zarr" if out == "file" else out
    refused(folder, "predict", "model", "good.zarr", out, "--overwrite")


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "model", "link.zarr", "good.zarr", "--overwrite"],
        ["predict", "model", "good.zarr", "model/arrays.zarr", "--overwrite"],
        ["predict", "model", "rows", "rows/predicted.parquet"],
        ["predict", "model", "rows/*.parquet", "rows/a.parquet", "--overwrite"],
        ["featurize", "good.zarr", "good.zarr", "--overwrite"],
        ["featurize", "good.zarr", "out.zarr", "--save-map", "good.zarr/map"],
        ["featurize", "good.zarr", "out.zarr", "--save-map", "out.zarr"],
        ["featurize", "good.zarr", "map/features", "--like", "map", "--overwrite"],
        ["train", "good.zarr", "good.zarr/model", "--overwrite"],
        ["train", "good.zarr", "out", "--report", "good.zarr/out.html"],
        ["evaluate", "model", "link.zarr", "--report", "good.zarr/X/scores.html"],
        ["tune", "rows/a.parquet", "rows/a.parquet", "--target", "y", "--overwrite"],
        ["tune", "good.zarr", "good.zarr"],
        ["ingest", "table.npz", ".", "--overwrite"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands(folder, arguments):
    refused(folder, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "good.zarr", "out", "--report", "out/r.html"], "must lie apart"),
        (["predict", "model", "good.zarr", "model/out"], "an output must lie apart from the model: 'model/out' lies in"),
        (["featurize", "good.zarr", "out", "--save-map", "out/map"], "an output must lie apart from save_map=: 'out'"),
        (["featurize", "good.zarr", "map/out", "--like", "map"], "an output must lie apart from the map that is taken"),
    ],
    ids=str,
)  # fmt: skip
def test_messages_name_both(folder, arguments, message):
    with pytest.raises(InputError, match=message):
        app(arguments, standalone_mode=False)


def test_functions(folder):
    rows, _ = open_rows("good.zarr")
    table, _ = open_rows("rows", target="y")
    before = contents(folder)
    for call in (
        lambda: write_rows("link.zarr", {"X": rows * 2}, kind="rows", spec={"a": 1}, overwrite=True),
        lambda: write_parts("rows/a.parquet", {"p": table[:, 0]}, None, None, {}, True),
        lambda: ingest("good.zarr/table.npz", "good.zarr", overwrite=True),
    ):
        with pytest.raises(InputError, match="must lie apart"):
            call()
    assert contents(folder) == before


def test_what_lazy_arrays_read(folder):
    rows, y = open_rows("good.zarr")
    place = os.path.abspath("good.zarr")
    assert graph_inputs([rows, y]) == [place]
    assert graph_inputs([(rows * 2).map_blocks(np.sqrt).blocks[1:]]) == [place]
    assert graph_inputs(dask.optimize(rows + 1)) == [place]
    assert graph_inputs([da.concatenate([rows, rows[:5]])]) == [place]
    assert graph_inputs([da.from_zarr("good.zarr/X")])[0].endswith("good.zarr/X")
    assert graph_inputs([open_rows("rows", target="y")[1]]) == [os.path.abspath("rows/a.parquet")]
    assert graph_inputs([da.zeros(3)]) == []


@pytest.mark.parametrize(
    "out", ["memory://bucket/a", "memory://bucket/a/", "memory://bucket/a/b", "memory://bucket"]
)
def test_urls(out):
    with pytest.raises(InputError, match="memory://"):
        check_apart(out, ["memory://bucket/a"])
