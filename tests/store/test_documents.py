"""Documents: models and checkpoints are whole or not at all; round trips, refusals, damage, kills."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from contextvars import Context

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from strategies import specs, stored_arrays
from zarr.storage import LocalStore

from distrf.checkpoint import Checkpoint
from distrf.errors import InputError, InUseError, SpecMismatchError, StoreError
from distrf.store import (
    array_shapes,
    documents,
    files,
    is_model_folder,
    read_model_folder,
    read_spec,
    write_model_folder,
)
from distrf.store.documents import Document, with_checksum


@given(spec=specs, array=stored_arrays)
def test_round_trip(tmp_path_factory, spec, array):
    path = tmp_path_factory.mktemp("m") / "model"
    write_model_folder(path, spec, {"a": array})
    got, arrays = read_model_folder(path)
    assert got == spec
    assert arrays["a"].shape == array.shape
    assert arrays["a"].dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(arrays["a"], array)


def test_json_that_anyone_reads(tmp_path):
    """Scalars of NumPy, tuples, NaN and infinities; shapes without reading."""
    spec = {
        "a": np.float32(0.1),
        "b": np.int64(2**60),
        "c": math.nan,
        "d": -math.inf,
        "t": (1, (2,)),
        "e": True,
    }
    path = tmp_path / "m"
    write_model_folder(path, spec, {"a": np.zeros((2, 3), "f4"), "b": np.array(["x", "yy"])})
    got = read_spec(path)
    assert math.isnan(got.pop("c"))
    assert got == {"a": float(np.float32(0.1)), "b": 2**60, "d": -math.inf, "t": [1, [2]], "e": True}
    json.loads((path / "model.json").read_text(), parse_constant=lambda c: pytest.fail(c))
    assert array_shapes(path) == {"a": "(2, 3) <f4", "b": "(2,) text"}
    assert is_model_folder(path)
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


@pytest.mark.parametrize("place", ["local", "memory"])
def test_other_spec_needs_overwrite(tmp_path, place):
    path = f"{tmp_path}/m" if place == "local" else f"memory:/{tmp_path}/m"
    write_model_folder(path, {"seed": 1}, {"w": np.ones(2)})
    write_model_folder(path, {"seed": 1}, {"w": np.zeros(2)})
    assert (read_model_folder(path)[1]["w"] == 0).all()
    with pytest.raises(SpecMismatchError, match=r"seed: 1 -> 2.*overwrite"):
        write_model_folder(path, {"seed": 2}, {})
    write_model_folder(path, {"seed": 2}, {}, overwrite=True)
    assert read_model_folder(path) == ({"seed": 2}, {})
    assert entries(path) == {"model.json"}
    other = files.filesystem(f"{path}-other")
    files.write_bytes(other[0], f"{other[1]}/file", b"")
    with pytest.raises(StoreError, match="must be free"):
        write_model_folder(f"{path}-other", {}, {}, overwrite=True)


def entries(path):
    return files.names_in(*files.filesystem(str(path)))


# What a killed job leaves -----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The end of a process: what it had written stays, and it does nothing more."""


WRITES = [
    (LocalStore, "set"), (os, "replace"), (os, "link"), (os, "unlink"), (shutil, "rmtree"),
    (MemoryFileSystem, "pipe_file"), (MemoryFileSystem, "rm"),
]  # fmt: skip


def dies_at(patch, number):
    """The process dies at write `number`, and so do all later ones. Returns a list with an entry for each write."""
    calls = []

    def deadly(write):
        def call(*args, **options):
            calls.append(write)
            if len(calls) > number:
                raise Killed
            return write(*args, **options)

        return call

    for owner, name in WRITES:
        patch.setattr(owner, name, deadly(getattr(owner, name)))
    return calls


def save_model_of(path, value):
    write_model_folder(
        path, {"seed": value}, {"w": np.full(3, value), "t": np.array(["a", "b"])}, overwrite=True
    )


def model_of(path):
    spec, arrays = read_model_folder(path)
    assert arrays["w"].tolist() == [spec["seed"]] * 3
    return spec["seed"]


def save_state(path, value):
    kept = Checkpoint(path, {"job": 1})
    kept.run(lambda _: {"start": np.arange(3.0)})
    kept.keep({"weights": np.full(4, value)}, {"t": value})


def state_of(path):
    kept = Checkpoint(path, {"job": 1})
    assert kept.run(lambda _: pytest.fail("the step is there"))["start"].tolist() == [0, 1, 2]
    arrays, numbers = kept.state()
    assert arrays["weights"].tolist() == [numbers["t"]] * 4
    return numbers["t"]


KINDS = {"model": (save_model_of, model_of, 2), "checkpoint": (save_state, state_of, 4)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["local", "memory"])
def test_a_kill_at_each_write_leaves_the_old_or_the_new_one(tmp_path, monkeypatch, kind, place):
    save, read, most = KINDS[kind]
    seen = set()
    for number in itertools.count():
        path = f"{tmp_path}/{number}" if place == "local" else f"memory:/{tmp_path}/{number}"
        save(path, 1)
        with monkeypatch.context() as patch:
            calls = dies_at(patch, number)
            with suppress(Killed):
                save(path, 2)
        seen.add(read(path))
        save(path, 3)
        assert read(path) == 3
        assert len(entries(path)) <= most  # nothing is left of what was killed
        if len(calls) <= number:
            break
    assert seen == {1, 2}
    assert number > 5


def test_a_kill_at_each_write_of_a_first_model(tmp_path, monkeypatch):
    for number in itertools.count():
        path = tmp_path / str(number)
        with monkeypatch.context() as patch:
            calls = dies_at(patch, number)
            with suppress(Killed):
                save_model_of(path, 1)
        assert not is_model_folder(path) or model_of(path) == 1
        save_model_of(path, 2)
        assert model_of(path) == 2
        if len(calls) <= number:
            break


def test_a_full_disk_leaves_the_old_model_alone(tmp_path, monkeypatch):
    save_model_of(tmp_path / "m", 1)
    before = entries(tmp_path / "m")

    def fail(*args):
        raise OSError("disk full")

    for owner, name in ((files, "write_json"), (documents, "_write_arrays")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(OSError, match="disk full"):
                save_model_of(tmp_path / "m", 2)
        assert model_of(tmp_path / "m") == 1
        assert entries(tmp_path / "m") == before


SAVES = """
import sys
import numpy as np
from distrf.store import write_model_folder
print("begins", flush=True)
for value in range(1, 10_000):
    write_model_folder(sys.argv[1], {"seed": value}, {"w": np.full(3, value), "t": np.array(["a"])}, overwrite=True)
"""


def test_a_process_that_is_killed(tmp_path):
    path = str(tmp_path / "m")
    save_model_of(path, 0)
    job = subprocess.Popen([sys.executable, "-c", SAVES, path], stdout=subprocess.PIPE)
    try:
        assert job.stdout.readline() == b"begins\n"
        while model_of(path) < 2:
            time.sleep(0.01)
    finally:
        job.send_signal(signal.SIGKILL)
        job.wait()
        job.stdout.close()
    assert model_of(path) >= 2
    save_model_of(path, 5)
    assert model_of(path) == 5
    assert len(entries(path)) == 2


# Other jobs at the same time --------------------------------------------------------------------------------------


def test_one_job_at_a_time_writes_a_model(tmp_path, monkeypatch):
    write = documents._write_arrays

    def meanwhile(*args):
        with pytest.raises(InUseError):
            Context().run(save_model_of, tmp_path / "m", 2)
        write(*args)

    monkeypatch.setattr(documents, "_write_arrays", meanwhile)
    save_model_of(tmp_path / "m", 1)
    assert model_of(tmp_path / "m") == 1


@pytest.mark.parametrize("place", ["local", "memory"])
@pytest.mark.parametrize(("old", "overwrite"), [(False, False), (False, True), (True, True)])
def test_a_second_job_where_no_lock_excludes_it(tmp_path, monkeypatch, place, old, overwrite):
    """It ends while the first writes its arrays: the first refuses to replace its model, or does so as a whole."""
    path = f"{tmp_path}/m" if place == "local" else f"memory:/{tmp_path}/m"
    if old:
        save_model_of(path, 1)
    write, others = documents._write_arrays, [2]

    def meanwhile(*args):
        write(*args)
        if others:
            value = others.pop()
            Document(path, "model").write({"seed": value}, {"w": np.full(3, value)}, new=not old)

    monkeypatch.setattr(documents, "_write_arrays", meanwhile)
    with pytest.raises(InUseError, match="another job writes the model"):
        write_model_folder(path, {"seed": 3}, {"w": np.full(3, 3)}, overwrite)
    assert model_of(path) == 2
    assert len(entries(path)) == 2
    write_model_folder(path, {"seed": 3}, {"w": np.full(3, 3)}, True)
    assert model_of(path) == 3


def test_a_model_that_is_replaced_while_it_is_read(tmp_path, monkeypatch):
    save_model_of(tmp_path / "m", 1)
    checksum, calls = documents._checksum, []

    def meanwhile(array):
        calls.append(array.shape)
        if len(calls) == 1:
            save_model_of(tmp_path / "m", 2)
        return checksum(array)

    monkeypatch.setattr(documents, "_checksum", meanwhile)
    assert model_of(tmp_path / "m") == 2


# Damage -----------------------------------------------------------------------------------------------------------


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
            assert "model.json" in str(error)  # noqa: PT017
        else:  # blanks between entries
            assert spec == {"scale": [0.5, 1.25], "seed": 12}


def test_flipped_bytes_of_the_arrays(tmp_path):
    write_model_folder(tmp_path / "m", {}, {"w": np.arange(2.0), "t": np.array(["ab"])})
    found = read_model_folder(tmp_path / "m")[1]
    for place in (p for p in (tmp_path / "m").rglob("arrays-*/*/**/*") if p.is_file()):
        whole = place.read_bytes()
        for k in range(0, len(whole), 3):
            place.write_bytes(whole[:k] + bytes([whole[k] ^ 64]) + whole[k + 1 :])
            try:
                arrays = read_model_folder(tmp_path / "m")[1]
            except StoreError as error:
                assert "is damaged" in str(error)  # noqa: PT017
            else:  # of zarr.json, what reading does not need
                assert place.name == "zarr.json"
                assert all((arrays[name] == found[name]).all() for name in found)
        place.write_bytes(whole)


def w_of(document, **changes):
    return {"arrays": {**document["arrays"], "w": document["arrays"]["w"] | changes}}


#: Changes of model.json whose checksum is right: by another release, or on purpose.
EDITED = {
    "another version": (lambda d: {"version": 4}, "has version 4; update distrf"),
    "another format": (lambda d: {"format": "other"}, "is not of distrf"),
    "no spec": (lambda d: {"spec": None}, "model.json .* is damaged"),
    "another array": (lambda d: w_of(d, sha256="0"), "'w' .*SHA-256"),
    "an array that is not there": (lambda d: {"arrays": d["arrays"] | {"gone": d["arrays"]["w"]}}, "'gone' .*is missing"),
    "arrays elsewhere": (lambda d: w_of(d, **{"in": "../other/arrays-0123456789abcdef.zarr"}), "where its arrays are"),
    "a name of another kind": (lambda d: w_of(d, **{"in": 3}), "where its arrays are"),
    "another shape": (lambda d: w_of(d, shape=[3]), "where the document says"),
    "another type": (lambda d: w_of(d, dtype="<f4"), "where the document says"),
}  # fmt: skip


@pytest.mark.parametrize("change", EDITED)
def test_an_edited_document(tmp_path, change):
    edit, message = EDITED[change]
    write_model_folder(tmp_path / "m", {"seed": 1}, {"w": np.ones(2)})
    place = tmp_path / "m/model.json"
    document = json.loads(place.read_text())
    place.write_text(json.dumps(with_checksum(document | edit(document))))
    with pytest.raises(StoreError, match=message):
        read_model_folder(tmp_path / "m")


def test_no_document(tmp_path):
    with pytest.raises(StoreError, match="no such store"):
        read_model_folder(tmp_path / "m")
    with pytest.raises(StoreError, match=r"it has no model\.json"):
        read_model_folder(tmp_path)
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        read_model_folder(tmp_path)


ZSTD = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {}}]


@pytest.mark.parametrize(
    ("shape", "chunks", "codecs", "message"),
    [
        ([20_000_000], [1000], None, "declares 160,000,000 bytes of which"),
        ([10**15], [1000], None, r"declares 8,000,000,000,000,000 bytes of which"),
        ([2], [10**9], None, "declares 16 bytes of which not all"),
        ([-1], [1], None, "damaged"),
        ([2], [2], ZSTD, "not compressed"),
    ],
)
def test_a_few_bytes_do_not_make_large_arrays(tmp_path, shape, chunks, codecs, message):
    """What the metadata and the document declare, and nothing of the data."""
    write_model_folder(tmp_path / "m", {}, {"w": np.ones(2)})
    node = next((tmp_path / "m").glob("arrays-*/w/zarr.json"))
    metadata = json.loads(node.read_text()) | {"shape": shape} | ({"codecs": codecs} if codecs else {})
    metadata["chunk_grid"]["configuration"]["chunk_shape"] = chunks
    node.write_text(json.dumps(metadata))
    document = json.loads((tmp_path / "m/model.json").read_text())
    (tmp_path / "m/model.json").write_text(json.dumps(with_checksum(document | w_of(document, shape=shape))))
    tracemalloc.start()
    with pytest.raises(StoreError, match=message):
        read_model_folder(tmp_path / "m")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
