"""Documents: models and checkpoints are whole or not at all; round trips, refusals, damage, kills."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from strategies import specs, stored_arrays

from distrf.checkpoint import Checkpoint
from distrf.errors import SpecMismatchError, StoreError
from distrf.store import array_shapes, files, is_model_folder, read_model_folder, read_spec, write_model_folder
from distrf.store.spec import sealed


@given(spec=specs, array=stored_arrays)
def test_round_trip(tmp_path_factory, spec, array):
    path = tmp_path_factory.mktemp("m") / "model"
    write_model_folder(path, spec, {"a": array})
    got, arrays = read_model_folder(path)
    assert got == spec
    assert arrays["a"].shape == array.shape
    assert arrays["a"].dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(arrays["a"], array)


def test_arrays_alone_are_in_a_file_of_arrays(tmp_path):
    """An option of `np.savez` is one more array to NumPy before 2.2: the model cannot be read again."""
    write_model_folder(tmp_path / "m", {}, {"allow_pickle": np.ones(2), "file": np.zeros(3)})
    assert sorted(read_model_folder(tmp_path / "m")[1]) == ["allow_pickle", "file"]


def test_json_that_anyone_reads(tmp_path):
    """Scalars of NumPy, tuples, NaN and infinities; shapes without reading; the same bytes for the same model."""
    spec = {
        "a": np.float32(0.1),
        "b": np.int64(2**60),
        "c": math.nan,
        "d": -math.inf,
        "t": (1, (2,)),
        "e": True,
    }
    arrays = {"a": np.zeros((2, 3), "f4"), "b": np.array(["x", "yy"])}
    path, same = tmp_path / "m", tmp_path / "n"
    write_model_folder(path, spec, arrays)
    write_model_folder(same, spec, arrays)
    assert all(p.read_bytes() == (same / p.name).read_bytes() for p in path.iterdir())
    got = read_spec(path)
    assert math.isnan(got.pop("c"))
    assert got == {"a": float(np.float32(0.1)), "b": 2**60, "d": -math.inf, "t": [1, [2]], "e": True}
    json.loads((path / "model.json").read_text(), parse_constant=lambda c: pytest.fail(c))
    assert array_shapes(path) == {"a": "(2, 3) <f4", "b": "(2,) <U2"}
    with np.load(next(path.glob("*.npz"))) as members:
        assert members["a"].shape == (2, 3)
    assert is_model_folder(path)
    assert not is_model_folder(tmp_path)


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
    files.write_bytes(f"{path}-other/file", b"")
    with pytest.raises(StoreError, match="must be free"):
        write_model_folder(f"{path}-other", {}, {}, overwrite=True)


def entries(path):
    return files.names_in(str(path))


class Killed(BaseException):
    """The end of a process: what it had written stays, and it does nothing more."""


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

    for owner, name in (
        (os, "replace"),
        (os, "link"),
        (os, "unlink"),
        (MemoryFileSystem, "put_file"),
        (MemoryFileSystem, "rm"),
    ):
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


@pytest.mark.parametrize(("save", "read", "most"), [(save_model_of, model_of, 2), (save_state, state_of, 3)])
@pytest.mark.parametrize("place", ["local", "memory"])
def test_a_kill_at_each_write_leaves_the_old_or_the_new_one(tmp_path, monkeypatch, save, read, most, place):
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


def test_every_flipped_byte_is_seen(tmp_path):
    write_model_folder(
        tmp_path / "m", {"scale": [0.5, 1.25], "seed": 12}, {"w": np.arange(2.0), "t": np.array(["ab"])}
    )
    wanted = repr(read_model_folder(tmp_path / "m"))
    for place in (tmp_path / "m").iterdir():
        whole = place.read_bytes()
        for k in range(len(whole)):
            place.write_bytes(whole[:k] + bytes([whole[k] ^ (1 << k % 8)]) + whole[k + 1 :])
            try:
                found = read_model_folder(tmp_path / "m")
            except StoreError:
                continue
            assert repr(found) == wanted  # blanks between entries, dates of files
        place.write_bytes(whole)


#: Changes of model.json whose checksum is right: by another release, or on purpose.
EDITED = {
    "another version": (lambda d: {"format": "distrf-model 9"}, "has 'distrf-model 9'; update distrf"),
    "a file elsewhere": (lambda d: {"arrays": {"model": {"file": f"../n/arrays-{0:032}.npz"}}}, "no such file"),
}  # fmt: skip


@pytest.mark.parametrize("change", EDITED)
def test_an_edited_document(tmp_path, change):
    edit, message = EDITED[change]
    write_model_folder(tmp_path / "m", {"seed": 1}, {"w": np.ones(2)})
    place = tmp_path / "m/model.json"
    document = json.loads(place.read_text())
    place.write_text(json.dumps(sealed(document | edit(document))))
    with pytest.raises(StoreError, match=message):
        read_model_folder(tmp_path / "m")


def test_an_edited_array(tmp_path):
    """Another .npz of another model, whole in itself."""
    for name, w in (("m", 1.0), ("n", 2.0)):
        write_model_folder(tmp_path / name, {"seed": 1}, {"w": np.full(2, w)})
    ours, other = (next((tmp_path / name).glob("*.npz")) for name in "mn")
    ours.write_bytes(other.read_bytes())
    with pytest.raises(StoreError, match="its checksum differs"):
        read_model_folder(tmp_path / "m")


def test_no_document(tmp_path):
    with pytest.raises(StoreError, match="no such store or folder"):
        read_model_folder(tmp_path / "m")
    with pytest.raises(StoreError, match=r"it has no model\.json"):
        read_model_folder(tmp_path)
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        read_model_folder(tmp_path)


def of_objects():
    file = io.BytesIO()
    np.savez(file, w=np.array([print]), allow_pickle=True)
    return file.getvalue()


def of_compressed_zeros():
    file = io.BytesIO()
    np.savez_compressed(file, w=np.zeros(10_000_000))
    return file.getvalue()


def of_a_lie():
    """The header of an array that would not fit memory, and no data."""
    file, header = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"shape": (10**15,), "fortran_order": False, "descr": "<f8"})
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("w.npy", header.getvalue())
    return file.getvalue()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (of_objects, "pickle.*it is damaged"),
        (of_compressed_zeros, "it is compressed"),
        (of_a_lie, "is damaged|allocate"),
    ],
)
def test_an_untrusted_file_runs_no_code_and_does_not_fill_memory(tmp_path, made, message):
    write_model_folder(tmp_path / "m", {}, {"w": np.ones(2)})
    place = next((tmp_path / "m").glob("*.npz"))
    place.write_bytes(made())
    with pytest.raises((StoreError, MemoryError), match=message):
        read_model_folder(tmp_path / "m")
