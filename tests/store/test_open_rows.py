"""`open_rows` on Zarr: faults, stores of others, keys, the graph."""

from __future__ import annotations

import json
import shutil

import cloudpickle
import dask
import numpy as np
import pytest
import zarr
from stored_arrays import fill

from distrf.errors import InputError, ParameterError, StoreError
from distrf.execution.open_rows import open_rows
from distrf.store.zarr_foreign import ForeignSource


@pytest.fixture
def path(tmp_path):
    X = np.random.default_rng(0).normal(size=(35, 4)).astype("f4")
    fill(
        tmp_path / "a.zarr",
        {"X": X, "y": np.arange(35, dtype="i4") % 3, "sample_weight": np.arange(35.0)},
        classes=["a", "bb", "ccc"],
        columns=["p", "q", "r", "s"],
        target="label",
    )
    return tmp_path / "a.zarr"


def run(x):
    return x.compute(scheduler="sync")


def test_x_and_decoded_y(path):
    X, y = open_rows(path)
    assert X.chunks == ((10, 10, 10, 5), (4,))
    assert y.chunks == ((10, 10, 10, 5),)
    assert y.dtype == "<U3"
    np.testing.assert_array_equal(run(y), np.array(["a", "bb", "ccc"])[np.arange(35) % 3])
    # The target may be given by its name in the source.
    np.testing.assert_array_equal(run(open_rows(path, target="label")[1]), run(y))
    np.testing.assert_array_equal(run(open_rows(path, weight="sample_weight")[2]), np.arange(35.0))
    with pytest.raises(StoreError, match=r"the target 'other' is no dense array of .*; it has \['X'"):
        open_rows(path, target="other")


def test_columns_by_name_and_number(path):
    X = run(open_rows(path)[0])
    np.testing.assert_array_equal(run(open_rows(path, columns=["s", "p"])[0]), X[:, [3, 0]])
    np.testing.assert_array_equal(run(open_rows(path, columns=[2])[0]), X[:, [2]])
    with pytest.raises(InputError, match=r"column 'z' is not in .*columns \['p'"):
        open_rows(path, columns=["z"])


def test_blocks_are_whole_chunks(path):
    assert open_rows(path, rows_per_block=20)[0].chunks[0] == (20, 15)
    assert open_rows(path, rows_per_block=100)[0].chunks[0] == (35,)
    assert open_rows(path, rows_per_block=15)[0].chunks[0] == (10, 10, 10, 5)
    with pytest.raises(ParameterError, match="rows_per_block must be"):
        open_rows(path, rows_per_block=0)


def test_one_small_task_for_each_block(tmp_path):
    n, d = 2000, 3
    fill(tmp_path / "big.zarr", {"X": np.zeros((n, d), "f4"), "y": np.zeros(n)}, block_rows=10)
    X, y = open_rows(tmp_path / "big.zarr")
    for array in (X, y, (X * 2).map_blocks(np.negative)):
        (optimised,) = dask.optimize(array)
        assert len(dict(optimised.__dask_graph__())) == 200
    (optimised,) = dask.optimize(X)
    tasks = dict(optimised.__dask_graph__())
    assert max(len(cloudpickle.dumps(task)) for task in tasks.values()) < 1500
    assert len(cloudpickle.dumps(X)) < 200 * 90 + 2000
    assert all(not task.dependencies for task in tasks.values())


def test_keys_change_when_the_store_is_rewritten(path, tmp_path):
    X, _ = open_rows(path)
    assert X.name == open_rows(path)[0].name
    assert X.name != open_rows(path, rows_per_block=20)[0].name
    assert X.name != open_rows(path, columns=[0, 1, 2, 3])[0].name
    shutil.rmtree(path)
    fill(path, {"X": np.zeros((35, 4), "f4")})
    new, _ = open_rows(path)
    assert X.name != new.name
    assert (run(new) == 0).all()


def test_codes_outside_the_classes(tmp_path):
    fill(tmp_path / "a.zarr", {"X": np.ones((3, 2)), "y": np.array([0, 1, 7], "i4")}, classes=["a", "b"])
    with pytest.raises(StoreError, match=r"class codes lie in 0..1; .*has 0..7"):
        run(open_rows(tmp_path / "a.zarr")[1])


def test_missing_and_strange_paths(tmp_path):
    with pytest.raises(StoreError, match="no such store or folder"):
        open_rows(tmp_path / "none.zarr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="not a Zarr store written by distrf"):
        open_rows(tmp_path / "folder")
    (tmp_path / "broken.zarr").mkdir()
    (tmp_path / "broken.zarr/zarr.json").write_text("{ not json")
    with pytest.raises(StoreError, match="cannot be read as a Zarr store"):
        open_rows(tmp_path / "broken.zarr")
    with pytest.raises(StoreError, match=r"no such (data|file|store)"):
        open_rows(tmp_path / "none.parquet")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_foreign_groups(tmp_path, zarr_format):
    X, y = np.arange(60, dtype="f8").reshape(20, 3), np.arange(20)
    group = zarr.open_group(tmp_path / "f.zarr", mode="w", zarr_format=zarr_format)
    for name in "AB":
        group.create_array(name, data=X)
    with pytest.raises(StoreError, match=r"rows are the 2-D array X .*open an array by its own path"):
        open_rows(tmp_path / "f.zarr")
    np.testing.assert_array_equal(run(open_rows(tmp_path / "f.zarr/B", columns=[2, 0])[0]), X[:, [2, 0]])
    group.create_array("X", data=X, chunks=(6, 2))
    assert open_rows(tmp_path / "f.zarr")[1] is None
    group.create_array("y", data=y, chunks=(5,))
    group.create_array("weights", data=y * 2.0, chunks=(5,))
    got, labels = open_rows(tmp_path / "f.zarr", rows_per_block=12)
    assert got.chunks == ((12, 8), (3,))
    np.testing.assert_array_equal(run(got), X)
    np.testing.assert_array_equal(run(labels), y)
    _, labels, weights = open_rows(tmp_path / "f.zarr", target="weights", weight="y")
    np.testing.assert_array_equal(run(labels), y * 2.0)
    np.testing.assert_array_equal(run(weights), y)
    group.create_array("short", data=y[:5], chunks=(5,))
    for name in ("short", "none"):
        with pytest.raises(StoreError, match=rf"'{name}' is no array of the 20 rows"):
            open_rows(tmp_path / "f.zarr", target=name)


def test_foreign_targets_and_weights(tmp_path):
    """Those of other shapes are refused, and what was written anew is read anew."""
    group = zarr.open_group(tmp_path / "f.zarr", mode="w")
    group.create_array("X", data=np.ones((20, 3)))
    group.create_array("y", data=np.arange(20.0), chunks=(10,))
    group.create_array("two", data=np.ones((20, 2)))
    group.create_array("none", data=np.array(1.0))
    with pytest.raises(InputError, match=r"one value a row; 'two' of .* has shape \(20, 2\)"):
        open_rows(tmp_path / "f.zarr", weight="two")
    with pytest.raises(StoreError, match="'none' is no array of the 20 rows"):
        open_rows(tmp_path / "f.zarr", target="none")
    old, known = open_rows(tmp_path / "f.zarr")[1], ForeignSource.fingerprint(f"{tmp_path}/f.zarr")
    np.testing.assert_array_equal(run(old), np.arange(20.0))
    group.create_array("y", data=-np.arange(20.0), chunks=(5,), overwrite=True)
    new = open_rows(tmp_path / "f.zarr")[1]
    assert new.name != old.name
    other = ForeignSource.fingerprint(f"{tmp_path}/f.zarr")
    group.create_array("more", data=np.ones(20))
    assert known != other == ForeignSource.fingerprint(f"{tmp_path}/f.zarr")
    np.testing.assert_array_equal(run(new), -np.arange(20.0))


def test_foreign_array_of_shards(tmp_path):
    X = np.arange(80.0).reshape(40, 2)
    zarr.create_array(tmp_path / "a.zarr", data=X, chunks=(4, 2), shards=(8, 2))
    got, y = open_rows(tmp_path / "a.zarr", rows_per_block=16)
    assert y is None
    np.testing.assert_array_equal(run(got), X)
    assert open_rows(tmp_path / "a.zarr", rows_per_block=12)[0].chunks[0] == (8,) * 5


def test_arrays_of_a_store_whose_document_is_gone(path):
    """Their codes would be targets."""
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"] = {}
    (path / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(StoreError, match=r"array 'X' .* is one of a store of distrf; open that"):
        open_rows(path)


def test_a_store_without_rows(tmp_path):
    fill(tmp_path / "p.zarr", {"prediction": np.arange(3.0)}, kind="predictions")
    with pytest.raises(StoreError, match=r"the array X of a store; .* holds predictions: \['prediction'\]"):
        open_rows(tmp_path / "p.zarr")
