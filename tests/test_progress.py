"""Bars of passes and epochs, in a terminal and in the log of a batch job."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from distrf import StreamingSGDRegressor, show_progress
from distrf.execution.progress import split_label
from distrf.progress import bar_for_each_pass


def test_labels():
    assert split_label("epoch 1/3|loss 0.3") == ("epoch 1/3", "loss 0.3")
    assert split_label("Gram matrix") == ("Gram matrix", "")


@pytest.mark.parametrize("terminal", [True, False])
def test_one_bar_for_all_epochs(terminal):
    """The bar of the epochs shows which one it is and its loss; a log that is no terminal gets a line for each."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100)
    bars = Progress(TextColumn("{task.description}"), TextColumn("{task.fields[remark]}"), console=console)
    listen = bar_for_each_pass(bars)
    listen("targets", 0, 10)
    listen("targets", 10, 10)
    for epoch in (1, 2):
        for done in (5, 10):
            listen(f"epoch {epoch}/2|loss {done / epoch:.1f}", done, 10)
    shown = [(task.description, task.fields["remark"], task.completed) for task in bars.tasks]
    assert shown == [("targets", "", 10), ("epoch 2/2", "loss 5.0", 10)]
    lines = [line.strip() for line in text.getvalue().splitlines()]
    assert lines == ([] if terminal else ["epoch 1/2 loss 10.0", "epoch 2/2 loss 5.0"])


def test_python_has_the_lines_of_the_command_line():
    X = np.random.default_rng(0).normal(size=(600, 3))
    console = Console(file=io.StringIO(), width=100)
    with show_progress(console):
        StreamingSGDRegressor(alpha=1e-3, n_epochs=3, tol=None, random_state=0).fit(X, X[:, 0])
    lines = [line for line in console.file.getvalue().splitlines() if line.startswith("epoch")]
    assert [line.split()[1] for line in lines] == ["1/3", "2/3", "3/3"]
