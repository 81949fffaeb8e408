"""Rounds on a cluster: the same bits whatever the workers, bounded windows, errors with their rows, resuming."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import dask.array as da
import numpy as np
import pytest

from distrf import RandomFourierFeatures, StreamingSGDClassifier
from distrf.blocks.rows import mapped_from
from distrf.errors import InputError, SpecMismatchError
from distrf.linear_model import rounds as rounds_module
from distrf.linear_model.schedules import Holdout, Schedule, row_order


def problem(n=3000, chunk=250):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0).astype(int) + (X[:, 2] > 0)
    features = RandomFourierFeatures(gamma=0.1, n_components=64, random_state=7)
    dX = da.from_array(X, chunks=(chunk, 6))
    return features.fit(dX).transform(dX), da.from_array(y, chunks=chunk)


def model(**parameters):
    given = {"alpha": 1e-4, "n_epochs": 3, "tol": None, "round_rows": 500} | parameters
    return StreamingSGDClassifier("logistic", **given)


def test_same_bits_for_one_worker_and_two(client, one_worker_client):
    Z, y = problem()
    two = model(early_stopping=True).fit(Z, y)
    with one_worker_client.as_current():
        one = model(early_stopping=True).fit(Z, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert [h["validation_score"] for h in one.history_] == [h["validation_score"] for h in two.history_]


def test_cluster_and_memory_agree(client):
    Z, y = problem()
    lazy = model().fit(Z, y)
    held = model().fit(Z.compute(), y.compute())
    assert held.score(Z.compute(), y.compute()) == pytest.approx(lazy.score(Z, y), abs=0.02)


def test_same_bits_after_a_worker_was_killed(client, monkeypatch):
    Z, y = problem()
    expected = model().fit(Z, y)
    make, calls = rounds_module.DaskRounds.gradient, []

    def gradient(self, W):
        calls.append(None)
        if len(calls) == 7:
            pids = client.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)
        return make(self, W)

    monkeypatch.setattr(rounds_module.DaskRounds, "gradient", gradient)
    np.testing.assert_array_equal(model().fit(Z, y).coef_, expected.coef_)
    client.wait_for_workers(2, timeout=60)


def test_a_window_of_blocks_is_held(client, monkeypatch):
    Z, y = problem(6000, 30)
    seen = []
    close = rounds_module.DaskRounds.close
    monkeypatch.setattr(
        rounds_module.DaskRounds, "close", lambda self: (seen.append(self.most_held), close(self))
    )
    model(n_epochs=1, round_rows=240).fit(Z, y)
    assert len(Z.chunks[0]) == 200
    assert seen[0] <= 32
    time.sleep(0.5)
    left = client.run_on_scheduler(
        lambda dask_scheduler: [k for k in dask_scheduler.tasks if "distrf-sgd" in str(k)]
    )
    assert left == []


def test_nan_names_block_and_row(client):
    Z, y = problem()
    bad = da.map_blocks(_spoil, Z, dtype=Z.dtype)
    with pytest.raises(InputError, match=r"row 13 of the block.*rows 1250 to 1499"):
        model().fit(bad, y)


def _spoil(block, block_id=None):
    block = block.copy()
    if block_id and block_id[0] == 5:
        block[13, 2] = np.nan
    return block


def test_late_labels_one_class_blocks_and_empty_blocks(client):
    Z, y = problem()
    order = np.argsort(y.compute(), kind="stable")
    chunks = (0, 700, 0, 300, 2000)
    X = da.from_array(Z.compute()[order], chunks=(chunks, (64,)))
    labels = da.from_array(y.compute()[order], chunks=(chunks,))
    fitted = model(n_epochs=5).fit(X, labels)
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.score(X, labels) > model(n_epochs=5).fit(Z, y).score(Z, y) - 0.03


def test_features_are_traced_to_their_source():
    Z, _ = problem()
    source, maps = mapped_from(Z)
    assert source.shape == (3000, 6)
    assert len(maps) == 1
    assert mapped_from(Z[:100])[1] == []


def test_schedule_covers_every_row_once_and_mixes():
    schedule = Schedule((500, 0, 300, 700) * 10, 400, 1, 5)
    for epoch in (0, 1):
        seen = [(s.block, i) for r in schedule.rounds(epoch) for s in r.slices for i in range(s.first, s.last)]
        assert len(seen) == len(set(seen)) == 15_000
    assert list(schedule.rounds(0)) == list(schedule.rounds(0)) != list(schedule.rounds(1))
    assert min(len({s.block for s in r.slices}) for r in schedule.rounds(0)) >= 6
    assert all(200 <= r.rows <= 800 for r in schedule.rounds(0))


def test_holdout_is_the_same_in_every_epoch():
    few, many = Holdout.of_blocks([100] * 3, 0.2, 0), Holdout.of_blocks([100] * 50, 0.2, 0)
    assert len(many.whole_blocks) == 10
    train, held = few.split(1, 100)
    assert len(held) == 20
    assert sorted([*train, *held]) == list(range(100))
    for epoch in (0, 1):
        assert sorted(row_order(0, epoch, 1, 100, True, few)) == train.tolist()


SCRIPT = """
import os, signal, sys
import numpy as np
sys.path.insert(0, {tests!r})
from test_rounds import model, problem
from distrf.linear_model import checkpoints
if {kill}:
    write, calls = checkpoints.Checkpoint.write, []
    def dying(self, *arguments):
        calls.append(None)
        if len(calls) == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, *arguments)
    checkpoints.Checkpoint.write = dying
Z, y = problem()
np.save({out!r}, model(checkpoint={path!r}, checkpoint_every=2, resume={resume}).fit(Z, y).coef_)
"""


def test_resuming_after_sigkill_gives_the_same_bits(tmp_path):
    def run(path, **options):
        out = str(tmp_path / "coef.npy")
        text = textwrap.dedent(SCRIPT).format(
            tests=os.path.dirname(__file__), out=out, path=str(tmp_path / path), **options
        )
        done = subprocess.run([sys.executable, "-c", text], check=False)
        return done.returncode, np.load(out) if os.path.exists(out) else None

    code, _ = run("job", kill=True, resume=False)
    assert code == -signal.SIGKILL
    code, resumed = run("job", kill=False, resume=True)
    assert code == 0
    code, whole = run("other", kill=False, resume=False)
    assert code == 0
    np.testing.assert_array_equal(resumed, whole)
    Z, y = problem()
    with pytest.raises(SpecMismatchError, match="of another job: alpha differ"):
        model(alpha=1.0, checkpoint=str(tmp_path / "job"), resume=True).fit(Z, y)
