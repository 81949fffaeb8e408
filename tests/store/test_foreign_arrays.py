"""Zarr stores of others: encoded values, chunks that are not there; labels that a model cannot meet."""

from __future__ import annotations

import base64
import re
import struct
import warnings

import dask.array as da
import numpy as np
import pytest
import zarr

from distrf import StreamingRidge, StreamingRidgeClassifier, ingest, open_rows, save_model
from distrf.errors import InputError, StoreError
from distrf.metrics import accuracy_score
from distrf.store import describe

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
TEXT, NUMBERS = np.where(X[:, 0] > 0, "up", "down"), (X[:, 0] > 0).astype(int)


def foreign(path, attributes=None, zarr_format=3, dtype="f8", of="X", **options):
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name, values in (("X", X), ("y", NUMBERS)):
        kind = dtype if name == of else values.dtype
        node = group.create_array(
            name, shape=values.shape, chunks=(10, *values.shape[1:]), dtype=kind,
            attributes=attributes if name == of else {}, **(options if name == of else {}),
        )  # fmt: skip
        node[...] = values.astype(kind)
    return path


NAN = base64.b64encode(struct.pack("<d", float("nan"))).decode()


@pytest.mark.parametrize(
    ("attributes", "options"),
    [
        ({"scale_factor": 0.01}, {"dtype": "i2"}),
        ({"add_offset": 20.0, "scale_factor": 1.0}, {"dtype": "i2"}),
        ({"_FillValue": -999.0}, {}),
        ({"missing_value": -999}, {"dtype": "i4"}),
        ({"_FillValue": base64.b64encode(struct.pack("<d", 9.9e36)).decode()}, {"dtype": "f4"}),
        ({"_Unsigned": "true"}, {"dtype": "i1"}),
        ({"_FillValue": 255}, {"of": "y", "dtype": "u1"}),
        ({"_ARRAY_DIMENSIONS": ["a", "b"]}, {"dtype": "i2", "zarr_format": 2, "fill_value": -9999}),
    ],
    ids=str,
)  # fmt: skip
def test_encoded_arrays_are_refused(tmp_path, attributes, options):
    path = foreign(tmp_path / "a.zarr", attributes, **options)
    with pytest.raises(StoreError, match=r"encoded by the CF conventions \(.* = .*decode it first: xarray"):
        open_rows(path)
    if "of" not in options:
        with pytest.raises(StoreError, match="CF conventions"):
            describe(path)


@pytest.mark.parametrize(
    ("attributes", "options"),
    [
        ({"_FillValue": NAN, "units": "m"}, {}),
        ({"_FillValue": "NaN"}, {}),
        ({"scale_factor": 1, "add_offset": 0.0}, {}),
        ({"_ARRAY_DIMENSIONS": ["a", "b"]}, {"zarr_format": 2, "fill_value": float("nan")}),
        ({}, {"zarr_format": 2, "fill_value": -1.0}),
    ],
    ids=str,
)
def test_attributes_that_change_nothing(tmp_path, attributes, options):
    got, _ = open_rows(foreign(tmp_path / "a.zarr", attributes, **options))
    np.testing.assert_array_equal(got.compute(scheduler="sync"), X)


@pytest.mark.parametrize("options", [{}, {"zarr_format": 2}, {"shards": (20, 3)}], ids=str)
def test_missing_chunks_are_counted(tmp_path, options):
    path = foreign(tmp_path / "a.zarr", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_rows(path, strict=True)
    (path / {2: "X/1.0"}.get(options.get("zarr_format"), "X/c/1/0")).unlink()
    total = 2 if "shards" in options else 4
    with pytest.warns(
        UserWarning, match=rf"1 of {total} chunks of the array 'X' of .* fill value 0\.0.*--strict"
    ):
        got, _ = open_rows(path)
    assert (got.compute(scheduler="sync") == 0).all(axis=1).sum() == 40 // total
    with pytest.raises(StoreError, match=rf"1 of {total} chunks .* not there"):
        open_rows(path, strict=True)


def test_missing_chunks_of_a_single_array_name_it_once(tmp_path):
    path = foreign(tmp_path / "a.zarr") / "X"
    (path / "c/1/0").unlink()
    with pytest.warns(UserWarning, match="1 of 4 chunks of the array") as warned:
        open_rows(path)
    assert str(warned[0].message).count(str(path)) == 1


def test_strict_commands(tmp_path, cli):
    path = foreign(tmp_path / "a.zarr")
    (path / "y/c/1").unlink()
    save_model(StreamingRidgeClassifier(1.0).fit(X, NUMBERS), tmp_path / "model")
    for command in (
        ["train", path, tmp_path / "new"],
        ["featurize", path, tmp_path / "out"],
        ["predict", tmp_path / "model", path, tmp_path / "out"],
        ["evaluate", tmp_path / "model", path],
    ):
        printed = cli(*command, "--strict", code=1)
        assert "1 of 4 chunks of the array 'y'" in printed.err
    assert {p.name for p in tmp_path.iterdir()} == {"a.zarr", "model"}


@pytest.mark.parametrize("trained", [TEXT, NUMBERS, TEXT.astype(object)], ids=["text", "numbers", "objects"])
def test_labels_of_another_kind(tmp_path, cli, trained):
    save_model(StreamingRidgeClassifier(1.0).fit(X, trained), tmp_path / "model")
    other = TEXT if trained is NUMBERS else NUMBERS
    np.savez(tmp_path / "rows.npz", X=X, y=other)
    ingest(tmp_path / "rows.npz", tmp_path / "rows.zarr")
    printed = cli("evaluate", tmp_path / "model", tmp_path / "rows.zarr", code=1, cluster=True)
    says = "predicts numbers.*holds text" if trained is NUMBERS else "predicts text.*holds numbers"
    assert re.search(says, printed.err)


def test_scores_of_labels_of_another_kind():
    model = StreamingRidgeClassifier(1.0).fit(X, TEXT)
    lazy = da.from_array(X, chunks=(10, 3))
    with pytest.raises(InputError, match=r"predicts text.*holds numbers"):
        model.score(lazy, da.from_array(NUMBERS, chunks=10))
    with pytest.raises(InputError, match=r"predicts numbers.*holds text"):
        accuracy_score(TEXT, NUMBERS)
    assert accuracy_score(TEXT.astype(object), TEXT) == 1.0
    assert accuracy_score(NUMBERS.astype(float), NUMBERS == 1) == 1.0
    with pytest.raises(InputError, match="holds text"):
        StreamingRidge(1.0).fit(X, X[:, 0]).score(lazy, da.from_array(TEXT, chunks=10))
