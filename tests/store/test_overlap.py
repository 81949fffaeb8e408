"""An output at, inside or around an input is refused before anything is created or removed."""

from __future__ import annotations

import os

import dask
import dask.array as da
import numpy as np
import pytest
from stored_arrays import contents

from distrf import StreamingRidge, ingest, open_rows, save_model
from distrf.cli.app import app
from distrf.errors import InputError
from distrf.execution.graph import graph_inputs
from distrf.execution.writing import write_rows

X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A store, a model, and a link to the store; the folder is the current one."""
    monkeypatch.chdir(tmp_path)
    np.savez("table.npz", X=X, y=X[:, 0])
    ingest("table.npz", "good.zarr", block_rows=20)
    os.symlink("good.zarr", "link.zarr")
    save_model(StreamingRidge(1.0).fit(X, X[:, 0]), "model")
    return tmp_path


@pytest.mark.parametrize("arguments", [
    *(f"predict model good.zarr {out} --overwrite" for out in ("./good.zarr/", "link.zarr", "good.zarr/inside", ".", "file://{0}/good.zarr")),
    "predict model link.zarr good.zarr", "predict model good.zarr model/arrays.zarr",
    "featurize good.zarr good.zarr --overwrite", "featurize good.zarr out.zarr --save-map good.zarr/map",
    "featurize good.zarr out.zarr --save-map out.zarr", "train good.zarr good.zarr/model --overwrite",
    "train good.zarr out --report good.zarr/out.html", "evaluate model link.zarr --report good.zarr/X/scores.html",
    "tune good.zarr good.zarr --grid n_components=16,32", "ingest table.npz . --overwrite",
])  # fmt: skip
def test_commands(folder, arguments):
    before = contents(folder)
    with pytest.raises(InputError, match=r"must lie apart from .*choose another path for"):
        app(arguments.format(folder).split(), standalone_mode=False)
    assert contents(folder) == before


def test_what_lazy_arrays_read(folder):
    rows, y = open_rows("good.zarr")
    place = os.path.abspath("good.zarr")
    for arrays in (
        [rows, y],
        [(rows * 2).map_blocks(np.sqrt).blocks[1:]],
        dask.optimize(rows + 1),
        [da.concatenate([rows, rows[:5]])],
    ):
        assert graph_inputs(arrays) == [place]
    assert graph_inputs([da.from_zarr("good.zarr/X")])[0].endswith("good.zarr/X")
    assert graph_inputs([da.zeros(3)]) == []
    with pytest.raises(InputError, match="must lie apart"):
        write_rows("link.zarr", {"X": rows * 2}, kind="rows", spec={"a": 1}, overwrite=True)
