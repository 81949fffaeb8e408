"""Bars of passes and epochs: in a terminal, a notebook, the log of a batch job, and Python's log."""

from __future__ import annotations

import io
import logging

import dask.array as da
import numpy as np
import pytest
from reductions import RefusingFold
from rich.console import Console

from distrf import StreamingRidge, StreamingSGDRegressor, progress, show_progress
from distrf.errors import InputError
from distrf.execution.passes import run_pass
from distrf.progress import TOPIC, Lines, _Bars, current_listener, listening


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only where a test says so."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def fitted_in_epochs(n_epochs):
    X = np.random.default_rng(0).normal(size=(600, 3))
    StreamingSGDRegressor(alpha=1e-3, n_epochs=n_epochs, tol=None, random_state=0).fit(X, X[:, 0])


def test_a_line_every_ten_seconds_has_a_remark(clock):
    lines = []
    listen = Lines(lines.append)
    for label, done, seconds in [
        ("gram|loss 0.1", 0, 20.0), ("gram|loss 0.1", 1000, 0.0), ("gram", 0, 20.0), ("gram", 500, 9.0), ("gram", 900, 0.0),
    ]:  # fmt: skip
        listen(label, done, 1000)
        clock[0] += seconds
    assert lines == [
        "gram: 1,000 of 1,000 rows, loss 0.1",
        "gram: 500 of 1,000 rows",
    ]


def test_terminal_has_one_bar_for_all_epochs():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    display = _Bars(console)
    for label, rows in (
        ("targets", (0, 10)),
        ("epoch 1/2|loss 10.0", (5, 10)),
        ("epoch 2/2|loss 5.0", (5, 10)),
    ):
        for done in rows:
            display(label, done, 10)
    shown = [(task.description, task.fields["remark"], task.completed) for task in display.bars.tasks]
    display.close()
    assert shown == [("targets", "", 10), ("epoch 2/2", "loss 5.0", 10)]
    assert "epoch 2/2" in console.file.getvalue()


def test_files_and_python_have_lines_in_their_logs(monkeypatch, caplog):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    console = Console(file=io.StringIO(), width=100)
    assert current_listener() is None
    with caplog.at_level(logging.INFO, "distrf"), show_progress(console):
        fitted_in_epochs(3)
        assert current_listener() is not None
    logged = [r.getMessage() for r in caplog.records if r.name == "distrf.progress"]
    for lines in (console.file.getvalue().splitlines(), logged):
        epochs = [line for line in lines if line.startswith("epoch")]
        assert {line.split()[1] for line in epochs} == {"1/3:", "2/3:", "3/3:"}
        assert all("loss" in line for line in epochs)
    assert any(line.startswith("targets: 600 of 600 rows") for line in logged)


def test_passes_tell_the_loss():
    X = np.random.default_rng(0).normal(size=(400, 80)) * np.logspace(0, -4, 80)
    heard = []
    with listening(lambda label, done, total: heard.append(label)):
        StreamingRidge(alpha=1e-6, solver="passes", tol=1e-12).fit(X, X.sum(axis=1))
    assert any("gradient|loss" in label for label in heard)


def test_a_pass_that_failed_leaves_nothing_but_the_topic(client):
    X = da.ones((40, 1), chunks=(10, 1), dtype=np.float32)
    with listening(lambda *_: None):
        for _ in range(3):
            with pytest.raises(InputError):
                run_pass(RefusingFold(1, row=25), [X])
    assert {topic for topic in client.get_events() if topic.startswith("distrf")} == {TOPIC}
    assert not progress._counters
