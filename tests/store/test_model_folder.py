"""Model files: round trips, refusals, damage."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from strategies import specs, stored_arrays

from distrf.errors import InputError, SpecMismatchError, StoreError
from distrf.store import (
    array_shapes,
    files,
    is_model_folder,
    job_lock,
    read_model_folder,
    read_spec,
    write_model_folder,
)
from distrf.store.model_folder import with_checksum


@given(spec=specs, array=stored_arrays)
def test_round_trip(tmp_path_factory, spec, array):
    path = tmp_path_factory.mktemp("m") / "model"
    write_model_folder(path, spec, {"a": array})
    got, arrays = read_model_folder(path)
    assert got == spec
    assert arrays["a"].shape == array.shape
    assert arrays["a"].dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(arrays["a"], array)


def test_shapes(tmp_path):
    write_model_folder(tmp_path / "m", {}, {"a": np.zeros((2, 3), "f4"), "b": np.array(["x", "yy"])})
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
    write_model_folder(tmp_path / "m", spec, {})
    got = read_spec(tmp_path / "m")
    assert math.isnan(got.pop("c"))
    assert got == {"a": float(np.float32(0.1)), "b": 2**60, "d": -math.inf, "t": [1, [2]], "e": True}
    # Strict JSON, readable by anyone.
    json.loads((tmp_path / "m/model.json").read_text(), parse_constant=lambda c: pytest.fail(c))
    assert is_model_folder(tmp_path / "m")
    assert not is_model_folder(tmp_path)


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
        write_model_folder(tmp_path / "m", spec, arrays)
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_holds_the_path_removes_what_others_have_left(tmp_path):
    (tmp_path / "m/arrays-0123456789abcdef.zarr").mkdir(parents=True)
    for path, seed in ((tmp_path / "m", 1), (tmp_path / "new", 1), (tmp_path / "new", 2)):
        with job_lock.hold(path):
            write_model_folder(path, {"seed": seed}, {"w": np.ones(2)}, overwrite=True)
        assert read_model_folder(path)[0] == {"seed": seed}
        assert len(list(path.iterdir())) == 2


def test_other_spec_needs_overwrite(tmp_path):
    write_model_folder(tmp_path / "m", {"seed": 1}, {"w": np.ones(2)})
    write_model_folder(tmp_path / "m", {"seed": 1}, {"w": np.zeros(2)})
    assert (read_model_folder(tmp_path / "m")[1]["w"] == 0).all()
    with pytest.raises(SpecMismatchError, match=r"seed: 1 -> 2.*overwrite"):
        write_model_folder(tmp_path / "m", {"seed": 2}, {})
    write_model_folder(tmp_path / "m", {"seed": 2}, {}, overwrite=True)
    assert read_model_folder(tmp_path / "m") == ({"seed": 2}, {})
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(StoreError, match="must be free"):
        write_model_folder(tmp_path / "other", {}, {}, overwrite=True)


def test_a_failed_write_leaves_the_old_model(tmp_path, monkeypatch):
    from distrf.store import model_folder

    write_model_folder(tmp_path / "m", {"seed": 1}, {"w": np.ones(2)})

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(model_folder.files, "write_json", fail)
    with pytest.raises(OSError, match="disk full"):
        write_model_folder(tmp_path / "m", {"seed": 2}, {"w": np.zeros(2)}, overwrite=True)
    assert read_model_folder(tmp_path / "m")[0] == {"seed": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["arrays.zarr", "model.json"]


class Killed(BaseException):
    """The end of a process; what it had written stays."""


@pytest.mark.parametrize("place", ["m", "memory://killed/m"])
def test_a_killed_write_leaves_the_old_model_and_the_next_one_cleans_up(tmp_path, monkeypatch, place):
    from distrf.store import model_folder
    from distrf.store.job_lock import hold

    path = str(tmp_path / place) if place == "m" else place
    fs, root = files.filesystem(path)
    write_model_folder(path, {"seed": 1}, {"w": np.ones(2)})
    steps = {"arrays": "_write_arrays", "remove": "remove"}
    for where in steps:
        with monkeypatch.context() as killed:
            write_arrays = model_folder._write_arrays

            def die(*args, write_arrays=write_arrays, where=where):
                if where == "arrays":
                    write_arrays(*args)
                raise Killed

            owner = model_folder if where == "arrays" else model_folder.files
            killed.setattr(owner, steps[where], die)
            if where == "arrays":
                killed.setattr(model_folder.files, "remove", lambda *args: None)  # nobody is left to do it
            with pytest.raises(Killed):
                write_model_folder(path, {"seed": 2}, {"w": np.zeros(2)}, overwrite=True)
        seed = 1 if where == "arrays" else 2  # killed before or after the one step
        spec, arrays = read_model_folder(path)
        assert (spec["seed"], arrays["w"].tolist()) == (seed, [2 - seed] * 2)
        assert len(files.names_in(fs, root)) == (3 if where == "arrays" else 4)
    with hold(path):
        write_model_folder(path, {"seed": 3}, {"w": np.full(2, 3.0)}, overwrite=True)
    assert read_model_folder(path)[1]["w"].tolist() == [3, 3]
    assert len(files.names_in(fs, root)) == 2


@pytest.mark.parametrize("place", ["m", "memory://at-once/m"])
@pytest.mark.parametrize("held", ["nothing", "arrays of a killed writer", "a model"])
@pytest.mark.parametrize("seed", [2, 3])
def test_two_writers_at_once(tmp_path, monkeypatch, place, held, seed):
    """While one writes its arrays, the other finds the path as it was, and ends: neither removes what the other has made."""
    from distrf.store import model_folder

    path = str(tmp_path / place) if place == "m" else f"{place}-{held}-{seed}".replace(" ", "-")
    fs, root = files.filesystem(path)
    if held != "nothing":
        write_model_folder(path, {"seed": 1}, {"w": np.ones(2)})
    if held != "a model":
        files.remove(fs, f"{root}/model.json")
    write_arrays, meanwhile = model_folder._write_arrays, [2]

    def write(*args):
        write_arrays(*args)
        if meanwhile:
            value = meanwhile.pop()
            write_model_folder(path, {"seed": value}, {"w": np.full(2, value)}, overwrite=held == "a model")

    monkeypatch.setattr(model_folder, "_write_arrays", write)
    if seed != 2 and held != "a model":
        with pytest.raises(SpecMismatchError, match="seed: 2 -> 3"):
            write_model_folder(path, {"seed": seed}, {"w": np.full(2, 7)})
        expected = 2, [2, 2]
    else:
        write_model_folder(path, {"seed": seed}, {"w": np.full(2, 7)}, overwrite=held == "a model")
        expected = seed, [7, 7]
    spec, arrays = read_model_folder(path)
    assert (spec["seed"], arrays["w"].tolist()) == expected
    left = files.names_in(fs, root)
    assert len(left) == 2 + (held == "arrays of a killed writer"), left
    assert place != "m" or [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_model_that_is_replaced_while_it_is_read(tmp_path, monkeypatch):
    from distrf.store import model_folder

    write_model_folder(tmp_path / "m", {"seed": 1}, {"w": np.ones(2), "v": np.ones(3)})
    checksum, calls = model_folder._checksum, []

    def meanwhile(array):
        calls.append(array.shape)
        if len(calls) == 1:
            write_model_folder(
                tmp_path / "m", {"seed": 2}, {"w": np.zeros(2), "v": np.zeros(3)}, overwrite=True
            )
        return checksum(array)

    monkeypatch.setattr(model_folder, "_checksum", meanwhile)
    spec, arrays = read_model_folder(tmp_path / "m")
    assert spec == {"seed": 2}
    assert not arrays["w"].any()
    assert not arrays["v"].any()


def test_arrays_elsewhere_are_refused(tmp_path):
    write_model_folder(tmp_path / "m", {}, {"w": np.ones(2)})
    document = json.loads((tmp_path / "m/model.json").read_text())
    for name in ("../other/arrays.zarr", "arrays-1.zarr", 3):
        (tmp_path / "m/model.json").write_text(json.dumps(with_checksum({**document, "arrays_in": name})))
        with pytest.raises(StoreError, match="its arrays are in"):
            read_model_folder(tmp_path / "m")


@pytest.mark.slow
def test_every_flipped_bit_of_the_document(tmp_path):
    write_model_folder(tmp_path / "m", {"scale": [0.5, 1.25], "seed": 12}, {"w": np.ones(2)})
    place = tmp_path / "m/model.json"
    whole = place.read_bytes()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        place.write_bytes(data)
        try:
            spec = read_spec(tmp_path / "m")
        except StoreError as error:
            assert "model.json" in str(error) or "version" in str(error)  # noqa: PT017
        else:  # blanks between entries
            assert spec == {"scale": [0.5, 1.25], "seed": 12}


def test_damage(tmp_path):
    path = tmp_path / "m"
    with pytest.raises(StoreError, match="no such store"):
        read_model_folder(path)
    write_model_folder(path, {"seed": 1}, {"w": np.ones(2), "v": np.ones((3, 2))})
    document = json.loads((path / "model.json").read_text())

    def rewrite(**changes):
        (path / "model.json").write_text(json.dumps(with_checksum({**document, **changes})))

    rewrite(version=3)
    with pytest.raises(StoreError, match="has version 3; update distrf"):
        read_model_folder(path)
    rewrite(format="other")
    with pytest.raises(StoreError, match="not a distrf model"):
        read_model_folder(path)
    rewrite(spec=None)
    with pytest.raises(StoreError, match="damaged"):
        read_model_folder(path)
    records = {**document["arrays"], "w": {**document["arrays"]["w"], "sha256": "0"}}
    rewrite(arrays=records)
    with pytest.raises(StoreError, match=r"'w' .*SHA-256"):
        read_model_folder(path)
    rewrite(arrays={**document["arrays"], "gone": document["arrays"]["w"]})
    with pytest.raises(StoreError, match=r"'gone' .*is missing"):
        read_model_folder(path)
    rewrite()
    chunk = path / "arrays.zarr/v/c/0/0"
    data = bytearray(chunk.read_bytes())
    data[3] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(StoreError, match=r"'v' .*damaged"):
        read_model_folder(path)
    (path / "model.json").write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        read_model_folder(path)


def test_remote(tmp_path):
    url = "memory://folder/model"
    write_model_folder(url, {"seed": 1}, {"w": np.arange(3)})
    np.testing.assert_array_equal(read_model_folder(url)[1]["w"], np.arange(3))
    write_model_folder(url, {"seed": 2}, {}, overwrite=True)
    assert read_model_folder(url) == ({"seed": 2}, {})


def declared(path, shape, chunks, **changes):
    """Rewrite the array w of a model: what its metadata and model.json declare, and nothing of its data."""
    node = path / "arrays.zarr/w/zarr.json"
    metadata = json.loads(node.read_text()) | {"shape": shape} | changes
    metadata["chunk_grid"]["configuration"]["chunk_shape"] = chunks
    node.write_text(json.dumps(metadata))
    document = json.loads((path / "model.json").read_text())
    document["arrays"]["w"]["shape"] = shape
    (path / "model.json").write_text(json.dumps(with_checksum(document)))


@pytest.mark.parametrize(
    ("shape", "chunks", "message"),
    [
        ([20_000_000], [1000], "declares 160,000,000 bytes of which"),
        ([10**15], [1000], r"declares 8,000,000,000,000,000 bytes, this machine has"),
        ([2], [10**9], "declares 16 bytes of which"),
        ([-1], [1], "damaged"),
    ],
)
def test_a_few_bytes_do_not_make_large_arrays(tmp_path, shape, chunks, message):
    write_model_folder(tmp_path / "m", {}, {"w": np.ones(2)})
    declared(tmp_path / "m", shape, chunks)
    tracemalloc.start()
    with pytest.raises(StoreError, match=message):
        read_model_folder(tmp_path / "m")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_compressed_arrays_are_refused(tmp_path):
    write_model_folder(tmp_path / "m", {}, {"w": np.ones(2)})
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {}}]
    declared(tmp_path / "m", [2], [2], codecs=codecs)
    with pytest.raises(StoreError, match="not compressed"):
        read_model_folder(tmp_path / "m")


def test_a_shape_that_differs_from_the_spec(tmp_path):
    write_model_folder(tmp_path / "m", {}, {"w": np.ones(2)})
    node = tmp_path / "m/arrays.zarr/w/zarr.json"
    node.write_text(node.read_text().replace("float64", "float32"))
    with pytest.raises(StoreError, match=r"where model\.json says"):
        read_model_folder(tmp_path / "m")
