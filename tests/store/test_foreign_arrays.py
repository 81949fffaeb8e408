"""Zarr stores of others: encoded values, chunks that are not there; labels that a model cannot meet."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import zarr

from distrf import StreamingRidgeClassifier, ingest, open_rows, save_model
from distrf.errors import InputError, StoreError
from distrf.metrics import accuracy_score

X = np.random.default_rng(0).normal(size=(40, 3))
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


DIMENSIONS = {"_ARRAY_DIMENSIONS": ["a", "b"]}


@pytest.mark.parametrize(
    ("attributes", "options", "encoded"),
    [
        ({"add_offset": 20.0, "scale_factor": 1.0}, {"dtype": "i2"}, True),
        ({"_FillValue": -999.0}, {}, True),
        ({"_Unsigned": "true"}, {"dtype": "i1"}, True),
        ({"missing_value": 255}, {"of": "y", "dtype": "u1"}, True),
        (DIMENSIONS, {"dtype": "i2", "zarr_format": 2, "fill_value": -9999}, True),
        ({"_FillValue": "AAAAAAAA+H8=", "units": "m"}, {}, False),
        (DIMENSIONS, {"zarr_format": 2, "fill_value": float("nan")}, False),
        ({}, {"zarr_format": 2, "fill_value": -1.0}, False),
    ],
    ids=str,
)
def test_encoded_arrays_are_refused(tmp_path, attributes, options, encoded):
    path = foreign(tmp_path / "a.zarr", attributes, **options)
    if encoded:
        with pytest.raises(StoreError, match=r"encoded by the CF conventions \(.* = .*decode it first: xarray"):
            open_rows(path)
    else:
        np.testing.assert_array_equal(open_rows(path)[0].compute(scheduler="sync"), X)


@pytest.mark.parametrize("options", [{}, {"zarr_format": 2}, {"shards": (20, 3)}], ids=str)
def test_missing_chunks_are_counted(tmp_path, options):
    path = foreign(tmp_path / "a.zarr", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_rows(path, strict=True)
    (path / {2: "X/1.0"}.get(options.get("zarr_format"), "X/c/1/0")).unlink()
    lost = 2 if "shards" in options else 1
    with pytest.warns(
        UserWarning, match=rf"{lost} of 4 chunks of the array 'X' of .* fill value 0\.0.*--strict"
    ):
        got, _ = open_rows(path)
    assert (got.compute(scheduler="sync") == 0).all(axis=1).sum() == 10 * lost
    with pytest.raises(StoreError, match=rf"{lost} of 4 chunks .* not there"):
        open_rows(path, strict=True)


def test_strict_commands(tmp_path, cli):
    path = foreign(tmp_path / "a.zarr")
    (path / "y/c/1").unlink()
    printed = cli("train", path, tmp_path / "new", "--strict", code=1)
    assert "1 of 4 chunks of the array 'y'" in printed.err


@pytest.mark.parametrize("trained", [TEXT, NUMBERS], ids=["text", "numbers"])
def test_labels_of_another_kind(tmp_path, cli, trained):
    save_model(StreamingRidgeClassifier(1.0).fit(X, trained), tmp_path / "model")
    other = TEXT if trained is NUMBERS else NUMBERS
    np.savez(tmp_path / "rows.npz", X=X, y=other)
    ingest(tmp_path / "rows.npz", tmp_path / "rows.zarr")
    printed = cli("evaluate", tmp_path / "model", tmp_path / "rows.zarr", code=1)
    says = "predicts numbers.*holds text" if trained is NUMBERS else "predicts text.*holds numbers"
    assert re.search(says, printed.err)
    with pytest.raises(InputError, match="holds"):
        accuracy_score(trained, other)
