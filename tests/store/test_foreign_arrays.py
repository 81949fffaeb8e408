"""Zarr stores of others: encoded values, chunks that are not there."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import zarr

from distrf import open_rows
from distrf.errors import StoreError

X = np.random.default_rng(0).normal(size=(40, 3))


def foreign(path, attributes=None, zarr_format=3, dtype="f8", of="X", **options):
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name, values in (("X", X), ("y", np.arange(40) % 2)):
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
        with pytest.raises(StoreError, match=r"encoded by the CF conventions .*: .*decode it first: xarray"):
            open_rows(path)
    else:
        np.testing.assert_array_equal(open_rows(path)[0].compute(scheduler="sync"), X)


@pytest.mark.parametrize("options", [{}, {"zarr_format": 2}, {"shards": (20, 3)}], ids=str)
def test_missing_chunks_are_counted(tmp_path, options):
    path = foreign(tmp_path / "a.zarr", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_rows(path)
    (path / {2: "X/1.0"}.get(options.get("zarr_format"), "X/c/1/0")).unlink()
    lost = 2 if "shards" in options else 1
    with pytest.warns(
        UserWarning, match=rf"{lost} of 4 chunks of the array 'X' of .* fill value 0\.0; restore"
    ):
        got, _ = open_rows(path)
    assert (got.compute(scheduler="sync") == 0).all(axis=1).sum() == 10 * lost
