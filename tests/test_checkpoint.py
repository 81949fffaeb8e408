"""The checkpoint alone: steps, states, and what damage leaves of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distrf.checkpoint import Checkpoint
from distrf.errors import SpecMismatchError, StoreError

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


def test_no_json_is_made_of_states_that_are_not_written():
    """Of a history of 750 epochs it took most of the time of a small fit."""
    Checkpoint(None, JOB).keep({"weights": np.ones(2)}, {"history": [object()]})


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


def test_damage_is_an_error(tmp_path):
    for file in ("checkpoint.json", "arrays-*.npz"):
        path = filled(tmp_path / file.replace("*", "x"))
        for found in path.glob(file):
            flip(found)
        with pytest.raises(StoreError, match="restore it"):
            Checkpoint(path, JOB)


def test_another_job_and_other_rows_are_refused(tmp_path):
    path = filled(tmp_path / "c")
    with pytest.raises(SpecMismatchError, match="another job"):
        Checkpoint(path, {"job": "another"})


@pytest.mark.parametrize("first", [0.0, 3e6], ids=["features", "with a wide id"])
def test_rows_are_compared_column_by_column(tmp_path, first):
    """By their rounding; the last row is missing, a column is rounding alone."""
    rows, others = np.random.default_rng(0).normal(size=(2, 16, 3))
    rows[:, 0], others[:, 0] = first * np.arange(16), first * np.arange(16)
    rows[3], others[3] = np.nan, np.nan
    rounded = rows * (1 + 4e-16)
    rounded[:, 2] = rows[:, 2] = 1e-16 * others[:, 2]
    Checkpoint(tmp_path / "c", JOB).check_rows(rows)
    Checkpoint(tmp_path / "c", JOB).check_rows(rounded)
    with pytest.raises(SpecMismatchError, match="a fit to other rows"):
        Checkpoint(tmp_path / "c", JOB).check_rows(others)
