"""The checkpoint alone: steps, states, and what damage leaves of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distrf.checkpoint import Checkpoint
from distrf.errors import SpecMismatchError, StoreError
from distrf.store import write_model_folder

JOB = {"job": "a test"}


def filled(path, states=3):
    """A chain of one step and some states."""
    kept = Checkpoint(path, JOB)
    kept.run(lambda _: {"start": np.arange(3.0)})
    numbers = {}  # one object, which the job changes
    for t in range(states):
        numbers["t"] = t
        kept.keep({"weights": np.full(4, t)}, numbers)
    return path


def flip(path):
    data = bytearray(Path(path).read_bytes())
    data[len(data) // 2] ^= 1
    Path(path).write_bytes(data)


def test_a_state_replaces_the_one_before(tmp_path):
    path = filled(tmp_path / "c")
    assert len(list(path.iterdir())) == 3  # the document, the step and the state
    again = Checkpoint(path, JOB)
    arrays, numbers = again.state()
    np.testing.assert_array_equal(arrays["weights"], np.full(4, 2))
    assert numbers == {"t": 2}
    assert again.state() is None
    again.run(lambda _: pytest.fail("the step is there"))


def test_steps_replace_arrays(tmp_path):
    kept = Checkpoint(tmp_path / "c", JOB)
    for t in range(3):
        kept.run(lambda arrays, t=t: {"w": np.full(2, t)} | ({} if t else {"start": np.arange(3)}))
    kept.once(lambda: np.ones(2))
    assert (
        len(list((tmp_path / "c").iterdir())) == 4
    )  # the document; start, the last w and the array that is made once
    again = Checkpoint(tmp_path / "c", JOB)
    for _ in range(3):
        arrays = again.run(lambda _: pytest.fail("the step is there"))
    assert arrays["w"].tolist() == [2, 2]
    assert again.once(lambda: pytest.fail("it is there")).tolist() == [1, 1]
    assert again.arrays.keys() == {"w", "start"}
    Checkpoint(tmp_path / "c", JOB, resume=False).run(lambda _: {"v": np.zeros(1)})
    assert Checkpoint(tmp_path / "c", JOB).arrays.keys() == {"v"}


def test_damage_is_an_error(tmp_path):
    for file in ("checkpoint.json", "arrays-*.npz"):
        path = filled(tmp_path / file.replace("*", "x"))
        for found in path.glob(file):
            flip(found)
        with pytest.raises(StoreError, match="restore it"):
            Checkpoint(path, JOB)


def test_a_model_is_no_checkpoint(tmp_path):
    write_model_folder(tmp_path / "m", {}, {})
    with pytest.raises(StoreError, match="holds a model"):
        Checkpoint(tmp_path / "m", JOB)


def test_another_job_is_refused(tmp_path):
    path = filled(tmp_path / "c")
    with pytest.raises(SpecMismatchError, match="another job"):
        Checkpoint(path, {"job": "another"})


def compared(kind):
    """Rows of which a checkpoint is made, and whether others are the same: [(others, same)]."""
    rng = np.random.default_rng(0)
    rows, others = rng.normal(size=(2, 16, 3))
    if kind == "float32":
        rows, others = rows.astype("f4"), others.astype("f4")
    rounded = rows * (1 + 4 * np.finfo(rows.dtype).eps * rng.uniform(-1, 1, rows.shape)).astype(rows.dtype)
    if kind == "id":  # numbers near 10^6, in which rows differ by 1
        for numbers, table in ((range(16), rows), (range(16), rounded), (range(16, 32), others)):
            table[:, 0] = 1e6 + np.array(numbers)
        same = rows.copy()
        same[:, 1:] = others[:, 1:]
        return rows, [(rounded, True), (others, False), (same, False)]
    if kind == "wide id":  # of float32 rows, whose rounding is more than the other columns hold
        for table in (rows, others):
            table[:, 0] = 3e6 * np.arange(16)
        rows, others = rows.astype("f4"), others.astype("f4")
        return rows, [(rows.copy(), True), (others, False)]
    if kind == "noise":  # a column that is rounding alone, as of a subspace wider than the rank
        for table in (rows, rounded, others):
            table[:, 2] = 1e-16 * rng.normal(size=16)
    if kind == "missing":
        for table in (rows, rounded, others):
            table[3] = np.nan
        return rows, [(rounded, True), (others, False), (np.nan_to_num(rows), False)]
    if kind == "codes":
        codes = np.arange(1_000_000, 1_000_016)
        return codes, [(codes.copy(), True), (codes + 1, False)]
    if kind == "constant":
        rows[:, 0] = rounded[:, 0] = others[:, 0] = 1e6
    return rows, [(rounded, True), (others, False)]


@pytest.mark.parametrize(
    "kind", ["float32", "float64", "id", "wide id", "noise", "missing", "codes", "constant"]
)
def test_rows_are_compared_column_by_column(tmp_path, kind):
    rows, cases = compared(kind)
    Checkpoint(tmp_path / "c", JOB).check_rows(rows)
    for others, same in cases:
        again = Checkpoint(tmp_path / "c", JOB)
        if same:
            again.check_rows(others)
        else:
            with pytest.raises(SpecMismatchError, match="a fit to other rows"):
                again.check_rows(others)
