"""The model of time: what bounds a phase, and how it changes with the number of workers."""

from __future__ import annotations

import pytest

from distrf.execution.memory import Workers
from distrf.execution.timing import STEPS, TASKS, WORK, Phase, Speeds

SPEEDS = Speeds(flops=1e9, network=1e9, task=1e-3, step=0.01)


def seconds(phase, workers, sweep=0.0):
    return phase.seconds(sweep, Workers(workers, 1, 0), SPEEDS)


def test_a_pass_takes_its_arithmetic_and_reading_over_the_threads():
    phase = Phase.of_passes(1, 64, 64e9, 0)
    assert seconds(phase, 1, 10.0) == pytest.approx(0.01 + 64 + 10)
    assert seconds(phase, 8, 10.0) == pytest.approx(0.01 + 74 / 8)


def test_segments_are_not_cut_again():
    """64 segments: 48 threads need as long as 32, and those above 64 have nothing to do."""
    phase = Phase.of_passes(1, 64, 64e9, 0)
    assert seconds(phase, 32) == seconds(phase, 48) == pytest.approx(2.01)
    assert seconds(phase, 64) == seconds(phase, 1000) == pytest.approx(1.01)


def test_a_state_is_sent_at_each_level_of_the_tree_and_to_the_client():
    phase = Phase.of_passes(3, 64, 0.0, 10**8)
    assert seconds(phase, 64) == pytest.approx(3 * (0.01 + (6 + 1) * 0.1))


def test_one_scheduler_handles_all_tasks():
    phase = Phase(1, 10**6, flops=1e10, parts=10**6)
    assert seconds(phase, 1000) == pytest.approx(1000)
    assert max(phase.bounds(0.0, Workers(1000, 1, 0), SPEEDS).items(), key=lambda item: item[1])[0] == TASKS


def test_work_done_ahead_fills_all_threads_and_steps_follow_each_other():
    phase = Phase(1, 0, 1, 100e9, parts=4, steps=1000, ahead=90e9)
    few, many = (phase.bounds(10.0, Workers(count, 1, 0), SPEEDS) for count in (4, 100))
    assert few[WORK] == pytest.approx((100 + 10) / 4)
    assert max(few, key=few.get) == WORK
    assert many[STEPS] == few[STEPS] == pytest.approx(1000 * 0.01 + 10 / 4)
    assert max(many, key=many.get) == STEPS


def test_a_batch_waits_for_its_tasks():
    few, more = (Phase(1, 9000, flops=1e9, parts=4, steps=1000, waited=waited) for waited in (0, 5000))
    assert seconds(more, 4) - seconds(few, 4) == pytest.approx(5000 * 1e-3)


def test_two_workers_are_quicker_where_features_are_made_ahead():
    phase = Phase(5, 4000, 1, 60e9, parts=2, steps=1000, ahead=50e9, waited=1000)
    assert seconds(phase, 2) < 0.75 * seconds(phase, 1)


def test_a_solve_in_the_client_does_not_wait_for_a_pass():
    assert seconds(Phase(0, flops=2e9), 100) == pytest.approx(2)
