"""The benchmark of the defaults: records that resume, and verdicts that say what failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def report():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from defaults_table import report
    finally:
        sys.path.remove(str(BENCHMARKS))
    return report


def record(name, method, seed=0, task="classification", **given):
    found = {
        "set": name,
        "method": method,
        "seed": seed,
        "task": task,
        "n": 9,
        "d": 2,
        "fit": 1.0,
        "predict": 0.5,
    }
    return found | {"warned": 0} | given


def test_verdicts(report):
    """Below another method, a crash, worse than a constant without a word: each is named with its numbers."""
    records = [
        *(record("a", "peer dummy", s, score=0.5) for s in (0, 1)),
        *(record("a", "peer svm", s, score=v) for s, v in ((0, 0.9), (1, 1.0))),
        record("a", "peer linear", score=0.88),
        *(record("a", "bare ridge", s, score=v) for s, v in ((0, 0.9), (1, 0.97))),
        record("a", "bare squared", 0, score=0.885),
        record("b", "peer dummy", task="regression", score=0.0),
        record("b", "bare ridge", task="regression", score=0.4),
        record("b", "bare squared", task="regression", score=-3.0),
        {"set": "b", "method": "bare huber", "seed": 0, "task": "regression", "error": "ValueError: no\nmore"},
    ]
    methods = ["bare ridge", "bare squared", "bare huber", "peer dummy", "peer linear", "peer svm"]
    told = report(records, ["a", "b"], methods)
    print(told)
    for line in (
        "| a | 9 x 2 | 2 | 93.5 (1.5) | 88.5 (1.5) | 50.0 (1.5) | 88.0 (1.5) | 95.0 (1.5) |",
        "| b | 9 x 2 | 1 | 0.400 (1.5) | -3.000 (1.5) | crash | 0.000 (1.5) |",
        "* `bare squared` within 1 point (0.02) of `bare ridge`: 0 of 2 (a 88.5 < 90.0, b -3.000 < 0.400)",
        "* `bare huber` within 1 point (0.02) of `bare ridge`: 0 of 1 (b crash)",
        "* `bare ridge` within 1 point (0.02) of `peer svm`: 0 of 1 (a 93.5 < 95.0)",
        "* `bare ridge` at most 0.5 points (0.01) below `peer linear`: 1 of 1",
        "* `bare squared`: crashed on 0; worse than a constant on 1 (b -3.000); of these without a warning on 1 (b); "
        "warned on 0",
        "* `bare huber`: crashed on 1 (b (ValueError: no)); worse than a constant on 0; "
        "of these without a warning on 0; warned on 0",
    ):
        assert line in told.splitlines()


def test_the_page_is_made_of_the_records(tmp_path):
    """docs/guide/defaults.md says below its mark what the records say, and its head stays."""
    page, records = (
        (BENCHMARKS.parent / "docs" / "guide" / "defaults.md").read_text(),
        BENCHMARKS / "defaults.jsonl",
    )
    made = tmp_path / "page.md"
    made.write_text(page.split("### Verdicts")[0])
    words = [sys.executable, str(BENCHMARKS / "defaults.py"), "--json", str(records), "--page", str(made)]
    subprocess.run(words, check=True)
    assert made.read_text() == page


@pytest.mark.slow
def test_the_command_resumes(tmp_path, report):
    """One record a line, of fits on data; a second call runs what is new, and nothing again."""
    file = tmp_path / "records.json"

    def command(*arguments):
        words = [sys.executable, str(BENCHMARKS / "defaults.py"), "--json", str(file), *arguments]
        environment = os.environ | {"PYTHONPATH": str(BENCHMARKS.parent)}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr

    run = (str(tmp_path), "--sets", "wine", "--seeds", "2", "--only", "peer dummy", "peer linear")
    command(*run[:-1])
    first = file.read_text()
    command(*run)
    assert file.read_text().startswith(first)
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(r["method"], r["seed"]) for r in kept] == [(m, s) for m in run[-2:] for s in (0, 1)]
    assert all(r["score"] > 0 and r["n"] == 134 and "numpy" in r["machine"] for r in kept)
    assert "| wine | 134 x 13 |" in report(kept, ["wine"], ["peer dummy", "peer linear"])


def test_the_scores_of_tables_are_made_of_the_records(tmp_path):
    page = BENCHMARKS.parent / "docs" / "guide" / "tables_results.md"
    made = tmp_path / "page.md"
    made.write_text(page.read_text().split("## Real tables")[0])
    words = [sys.executable, str(BENCHMARKS / "tables.py"), "--json", str(BENCHMARKS / "tables.jsonl")]
    subprocess.run([*words, "--page", str(made)], check=True)
    assert made.read_text() == page.read_text()
