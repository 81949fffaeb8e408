"""Model files: round trips, refusals, damage."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.store import array_shapes, is_bundle, read_bundle, read_spec, write_bundle

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=30, deadline=None)
@given(
    spec=st.dictionaries(st.text(), plain, max_size=4),
    array=hnp.arrays(
        st.sampled_from(["f4", "f8", ">f8", "i8", "u1", "?", "c16", "<U3"]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
)
def test_round_trip(tmp_path_factory, spec, array):
    path = tmp_path_factory.mktemp("m") / "model"
    write_bundle(path, spec, {"a": array})
    got, arrays = read_bundle(path)
    assert got == spec
    assert arrays["a"].shape == array.shape
    assert arrays["a"].dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(arrays["a"], array)


def test_shapes(tmp_path):
    write_bundle(tmp_path / "m", {}, {"a": np.zeros((2, 3), "f4"), "b": np.array(["x", "yy"])})
    assert array_shapes(tmp_path / "m") == {"a": "(2, 3) <f4", "b": "(2,) text"}


def test_numpy_scalars_and_non_finite_numbers(tmp_path):
    spec = {
        "a": np.float32(0.1),
        "b": np.int64(2**60),
        "c": float("nan"),
        "d": -math.inf,
        "t": (1, (2,)),
        "e": True,
    }
    write_bundle(tmp_path / "m", spec, {})
    got = read_spec(tmp_path / "m")
    assert math.isnan(got.pop("c"))
    assert got == {"a": float(np.float32(0.1)), "b": 2**60, "d": -math.inf, "t": [1, [2]], "e": True}
    # Strict JSON, readable by anyone.
    json.loads((tmp_path / "m/model.json").read_text(), parse_constant=lambda c: pytest.fail(c))
    assert is_bundle(tmp_path / "m")
    assert not is_bundle(tmp_path)


@pytest.mark.parametrize(
    ("spec", "arrays", "message"),
    [
        ({"kernel": {"f": math.cos}}, {}, "spec.kernel.f is a builtin_function_or_method"),
        ({"x": [1, {2, 3}]}, {}, r"spec.x\[1\] is a set"),
        ({"w": np.ones(3)}, {}, "store it among the arrays"),
        ({1: "a"}, {}, "has the key 1"),
        ({"__float__": "nan"}, {}, "__float__"),
        ({}, {"a": np.array([object()])}, "'a' has dtype object"),
        ({}, {"a": np.array(["2020"], "M8[Y]")}, "datetime64"),
        ({}, {"../a": np.ones(2)}, "received '../a'"),
    ],
)
def test_what_is_not_plain_data_is_refused(tmp_path, spec, arrays, message):
    with pytest.raises(InputError, match=message):
        write_bundle(tmp_path / "m", spec, arrays)
    assert list(tmp_path.iterdir()) == []


def test_other_spec_needs_overwrite(tmp_path):
    write_bundle(tmp_path / "m", {"seed": 1}, {"w": np.ones(2)})
    write_bundle(tmp_path / "m", {"seed": 1}, {"w": np.zeros(2)})
    assert (read_bundle(tmp_path / "m")[1]["w"] == 0).all()
    with pytest.raises(SpecMismatchError, match=r"seed: 1 -> 2.*overwrite"):
        write_bundle(tmp_path / "m", {"seed": 2}, {})
    write_bundle(tmp_path / "m", {"seed": 2}, {}, overwrite=True)
    assert read_bundle(tmp_path / "m") == ({"seed": 2}, {})
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(StoreError, match="must be free"):
        write_bundle(tmp_path / "other", {}, {}, overwrite=True)


def test_a_failed_write_leaves_the_old_model(tmp_path, monkeypatch):
    from distrf.store import bundle

    write_bundle(tmp_path / "m", {"seed": 1}, {"w": np.ones(2)})

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(bundle.files, "write_json", fail)
    with pytest.raises(OSError, match="disk full"):
        write_bundle(tmp_path / "m", {"seed": 2}, {"w": np.zeros(2)}, overwrite=True)
    assert read_bundle(tmp_path / "m")[0] == {"seed": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_damage(tmp_path):
    path = tmp_path / "m"
    with pytest.raises(StoreError, match="no such store"):
        read_bundle(path)
    write_bundle(path, {"seed": 1}, {"w": np.ones(2), "v": np.ones((3, 2))})
    document = json.loads((path / "model.json").read_text())

    def rewrite(**changes):
        (path / "model.json").write_text(json.dumps({**document, **changes}))

    rewrite(version=2)
    with pytest.raises(StoreError, match="has version 2; update distrf"):
        read_bundle(path)
    rewrite(format="other")
    with pytest.raises(StoreError, match="not a distrf model"):
        read_bundle(path)
    rewrite(spec=None)
    with pytest.raises(StoreError, match="damaged"):
        read_bundle(path)
    records = {**document["arrays"], "w": {**document["arrays"]["w"], "sha256": "0"}}
    rewrite(arrays=records)
    with pytest.raises(StoreError, match=r"'w' .*SHA-256"):
        read_bundle(path)
    rewrite(arrays={**document["arrays"], "gone": document["arrays"]["w"]})
    with pytest.raises(StoreError, match=r"'gone' .*is missing"):
        read_bundle(path)
    rewrite()
    chunk = path / "arrays.zarr/v/c/0/0"
    data = bytearray(chunk.read_bytes())
    data[3] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(StoreError, match=r"'v' .*damaged"):
        read_bundle(path)
    (path / "model.json").write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        read_bundle(path)


def test_remote(tmp_path):
    url = "memory://bundle/model"
    write_bundle(url, {"seed": 1}, {"w": np.arange(3)})
    np.testing.assert_array_equal(read_bundle(url)[1]["w"], np.arange(3))
    write_bundle(url, {"seed": 2}, {}, overwrite=True)
    assert read_bundle(url) == ({"seed": 2}, {})
