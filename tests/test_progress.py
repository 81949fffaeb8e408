"""Bars of passes and epochs: in a terminal, a notebook, the log of a batch job, and Python's log."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numpy as np
import pytest
from reductions import RefusingFold, SlowSumFold
from rich.console import Console

from distrf import StreamingRidge, StreamingSGDRegressor, show_progress
from distrf.errors import InputError
from distrf.execution import progress
from distrf.execution.passes import run_pass
from distrf.execution.progress import (
    TOPIC,
    Lines,
    Work,
    Works,
    current_listener,
    listening,
    saw_workers,
    split_label,
)
from distrf.progress import _BATCH, _Bars, is_log


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only where a test says so."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_labels():
    assert split_label("epoch 1/3|loss 0.3") == ("epoch 1/3", "loss 0.3")
    assert split_label("gram") == ("gram", "")


def test_rate_and_time_left(clock):
    work = Work("gram", 1000)
    assert work.rate is work.left is None
    clock[0] += 2.0
    work.done = 500
    assert (work.rate, work.left) == (250.0, 2.0)
    assert work.text == "gram: 500 of 1,000 rows, 250 rows/s, 2 s left"
    work.done, work.remark = 1000, "loss 0.1"
    assert work.text == "gram: 1,000 of 1,000 rows, 500 rows/s, loss 0.1"


def test_epochs_are_one_kind_of_work():
    works = Works()
    first = works.update("epoch 1/2|loss 2", 5, 10)
    assert works.update("epoch 1/2|loss 1", 10, 10)[1] is first[1]
    second = works.update("epoch 2/2|loss 1", 5, 10)
    assert first[0] == second[0] == "epoch"
    assert second[1] is not first[1]
    assert [work.name for work in works.kinds.values()] == ["epoch 2/2"]
    # The next pass of the same name begins anew.
    ended = works.update("conjugate gradients|residual 0.1", 10, 10)[1]
    assert works.update("conjugate gradients|residual 0.01", 0, 10)[1] is not ended


def test_what_is_done_keeps_its_rate(clock):
    works = Works()
    works.update("gram", 0, 100)
    clock[0] += 2.0
    _, work = works.update("gram", 100, 100)
    clock[0] += 50.0
    assert work.rate == 50.0


def test_a_log_ends_with_what_was_said_of_workers():
    file = io.StringIO()
    log = Lines(lambda text: file.write(text + "\n"))
    log.remark("workers: 1 lost; 1 now")
    log.remark("workers: 1 came; 2 now")
    log.close()
    log.close()
    assert file.getvalue() == "workers: 1 lost; 1 now; workers: 1 came; 2 now\n"


def test_a_log_has_a_line_a_minute_at_most(clock):
    lines = []
    listen = Lines(lines.append)
    for second in range(600):
        clock[0] += 1.0
        listen(f"epoch {second // 100 + 1}/6|loss 0.5", second % 100 + 1, 100)
    assert 9 <= len(lines) <= 10
    assert all("loss 0.5" in line and "rows/s" in line for line in lines)


def test_terminal_has_one_bar_for_all_epochs():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    display = _Bars(console)
    display("targets", 0, 10)
    display("targets", 10, 10)
    for epoch in (1, 2):
        for done in (5, 10):
            display(f"epoch {epoch}/2|loss {done / epoch:.1f}", done, 10)
    display.remark("workers: 1 came; 2 now")
    shown = [(task.description, task.fields["remark"], task.completed) for task in display.bars.tasks]
    display.close()
    assert shown == [("targets", "", 10), ("epoch 2/2", "loss 5.0", 10)]
    assert "workers: 1 came; 2 now" in console.file.getvalue()


def test_a_notebook_without_widgets_has_a_line_for_each_pass(monkeypatch):
    """rich would only warn there."""
    monkeypatch.setattr("distrf.progress.find_spec", lambda name: None)
    console, lines = Console(force_jupyter=True), []
    monkeypatch.setattr(console, "print", lambda text, **_: lines.append(text))
    with show_progress(console):
        StreamingSGDRegressor(alpha=1e-3, n_epochs=2, tol=None, random_state=0).fit(np.eye(6), np.arange(6.0))
    assert [line.split(":")[0] for line in lines] == ["targets", "epoch 1/2", "epoch 2/2"]


def test_where_lines_are_read(tmp_path):
    """In a file and in what a batch job prints, not in a pipe."""
    read, write = os.pipe()
    with (
        open(tmp_path / "log", "w") as file,
        os.fdopen(write, "w") as pipe,
        os.fdopen(read),
        open(os.devnull, "w") as nothing,
    ):
        assert is_log(file, {})
        assert is_log(io.StringIO(), {})
        assert not is_log(pipe, {})
        assert not is_log(nothing, {})
        assert is_log(pipe, {"SLURM_JOB_ID": "7"})


@pytest.mark.slow
def test_nothing_is_written_to_a_pipe():
    code = (
        "import numpy as np, distrf\nfrom distrf.execution import progress\nprogress.EVERY = 0.0\n"
        "with distrf.show_progress():\n    distrf.StreamingRidge(alpha=1.0).fit(np.eye(4), np.ones(4))\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in _BATCH}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_log_file_gets_lines(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    console = Console(file=io.StringIO(), width=100)
    X = np.random.default_rng(0).normal(size=(600, 3))
    with show_progress(console):
        StreamingSGDRegressor(alpha=1e-3, n_epochs=3, tol=None, random_state=0).fit(X, X[:, 0])
    lines = [line for line in console.file.getvalue().splitlines() if line.startswith("epoch")]
    assert {line.split()[1] for line in lines} == {"1/3:", "2/3:", "3/3:"}
    assert all("loss" in line for line in lines)


def test_python_has_the_lines_in_its_log(caplog):
    X = np.random.default_rng(0).normal(size=(600, 3))
    assert current_listener() is None
    with caplog.at_level(logging.INFO, "distrf"):
        StreamingSGDRegressor(alpha=1e-3, n_epochs=3, tol=None, random_state=0).fit(X, X[:, 0])
        assert current_listener() is not None
    said = [r.getMessage() for r in caplog.records if r.name == "distrf.progress"]
    assert [line.split()[1] for line in said if line.startswith("epoch")] == ["1/3:", "2/3:", "3/3:"]
    assert any(line.startswith("targets: 600 of 600 rows") for line in said)


def test_conjugate_gradients_tell_the_residual():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 80)) * np.logspace(0, -4, 80)
    heard = []
    with listening(lambda label, done, total: heard.append(label)):
        StreamingRidge(alpha=1e-6, solver="cg", n_directions=4, tol=1e-2).fit(X, X @ rng.normal(size=80))
    residuals = [float(label.split("residual ")[1]) for label in heard if "residual" in label]
    assert residuals[-1] < residuals[0]


class Client:
    pass


def test_workers_that_are_lost_and_come(caplog):
    client, said = Client(), []
    with caplog.at_level(logging.INFO, "distrf"), listening(lambda *_: None, said.append):
        saw_workers(client, ["a", "b"])
        saw_workers(client, ["b", "a"])
        assert said == []
        saw_workers(client, ["b"])
        saw_workers(client, ["b", "c", "d"])
    assert said == ["workers: lost a; 1 now", "workers: 2 came; 3 now"]
    assert [r.getMessage() for r in caplog.records] == said


@pytest.mark.slow
def test_a_lost_worker_is_told(client, caplog):
    """A worker that ends in a pass, and the one that its nanny starts in its place."""
    X = da.from_array(np.random.default_rng(0).normal(size=(3000, 2)), chunks=(50, 2))
    slow = X.map_blocks(_slowly, dtype=float)
    said, killed = [], []
    victim, pid = next(iter(client.run(os.getpid).items()))

    def kill(label, done, total):
        if done and label == "gram" and not killed:
            killed.append(victim)
            os.kill(pid, signal.SIGKILL)

    with listening(kill, said.append):
        model = StreamingRidge(alpha=1e-3).fit(slow, X[:, 0])
    assert any(killed[0] in text for text in said)
    client.wait_for_workers(2)
    np.testing.assert_array_equal(model.coef_, StreamingRidge(alpha=1e-3).fit(X, X[:, 0]).coef_)


def _slowly(block):
    time.sleep(0.1)
    return block


def test_workers_tell_of_their_rows_once_a_second(client):
    """On one topic, whatever the number of blocks and of passes at a time; the bars still end full."""
    X = da.ones((4000, 1), chunks=(4, 1), dtype=np.float32)
    before = len(client.get_events(TOPIC))
    heard = {label: [] for label in "abc"}

    def run(label):
        with listening(lambda label, done, total: heard[label].append((done, total))):
            return run_pass(SlowSumFold(1, seconds=0.001), [X], label=label)[0]

    begun = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, heard)) == [4000] * 3
    events = len(client.get_events(TOPIC)) - before
    assert 2 <= events <= 2 * (time.monotonic() - begun + 1)
    for told in heard.values():
        assert told[0] == (0, 4000)
        assert told[-1] == (4000, 4000)
        assert len(told) <= events + 2
        assert told == sorted(told)
    assert any(len(told) > 2 for told in heard.values())


def test_a_pass_that_failed_leaves_nothing_but_the_topic(client):
    X = da.ones((40, 1), chunks=(10, 1), dtype=np.float32)
    with listening(lambda *_: None):
        for _ in range(3):
            with pytest.raises(InputError):
                run_pass(RefusingFold(1, row=25), [X])
    assert {topic for topic in client.get_events() if topic.startswith("distrf")} == {TOPIC}
    assert not any(progress._remote[client].values())
