"""The benchmark of the defaults: records that resume, and verdicts that say what failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.benchmark import Run
from benchmarks.tables import defaults
from benchmarks.tables.defaults_table import claims, report

ROOT = Path(__file__).parents[2]


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


def test_verdicts():
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


def test_claims():
    """What is short of a bar is named; where two standard errors cover the bar, so is that. A crash is short."""
    records = [
        *(record("a", "peer svm", s, score=v) for s, v in ((0, 0.9), (1, 1.0))),
        *(record("a", "train", s, score=v) for s, v in ((0, 0.8), (1, 1.0))),
        *(record("b", "peer svm", s, score=0.9) for s in (0, 1)),
        *(record("b", "train", s, score=v) for s, v in ((0, 0.8), (1, 0.81))),
        record("c", "peer svm", score=0.9),
        record("c", "train", score=0.9),
    ]
    svm, sound = claims(records, ["a", "b", "c"], ["train", "peer svm"])
    assert svm.verdict == "does not hold"
    assert svm.ours == "1 of 3 sets"
    assert svm.why == "a 90.0 < 95.0; b 80.5 < 90.0 (within two standard errors on a). a, b: not looked into"
    assert sound.verdict == "holds"
    crash = {"set": "c", "method": "train", "seed": 1, "task": "classification", "error": "ValueError: no"}
    _, sound = claims([*records, crash], ["a", "b", "c"], ["train", "peer svm"])
    assert sound.verdict == "does not hold"
    assert sound.why == "crashed on 1 (c (ValueError: no))"
    silly = [record("d", "peer dummy", score=0.5), record("d", "train", score=0.1, warned=1)]
    (sound,) = claims(silly, ["d"], ["train", "peer dummy"])
    assert (sound.verdict, sound.why) == ("does not hold", "worse than a constant on 1 (d 10.0)")
    assert "warned on 1 (d)" in sound.ours


def test_reasons_are_those_of_the_sets_that_are_short():
    found = [
        record(name, method, score=score, n_test=rows)
        for name, rows in (("wine", 44), ("newsgroups", 4000))
        for method, score in (("train", 0.8), ("peer svm", 0.9))
    ]
    svm, _ = claims(found, ["wine", "newsgroups"], ["train", "peer svm"])
    assert "wine: of 44 test rows one is 2.3 points" in svm.why
    assert "newsgroups: the peer is a linear SVM" in svm.why
    assert "splice" not in svm.why


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_rows_are_points_of_accuracy_alone(task):
    found = [
        record("wine", method, task=task, score=score, n_test=44)
        for method, score in (("train", 0.8), ("peer svm", 0.9))
    ]
    svm, _ = claims(found, ["wine"], ["train", "peer svm"])
    assert ("test rows one is" in svm.why) == (task == "classification")
    assert ("wine: not looked into" in svm.why) == (task == "regression")


def test_nothing_is_loaded_where_nothing_is_missing(monkeypatch):
    """Methods that are not for the targets of a set have no record, and need none."""
    have = [
        {"set": name, "method": method, "seed": seed}
        for name, source in defaults.SETS.items()
        for method in defaults.suitable(source.task, defaults.METHODS)
        for seed in range(max(source.seeds))
    ]
    monkeypatch.setattr(defaults, "load", None)
    assert list(defaults.fits(Run(have=tuple(have)))) == []


@pytest.mark.slow
def test_the_command_resumes(tmp_path):
    """Each fit is a record of a file; what the file has is not run again."""
    file = tmp_path / "defaults.json"

    def command():
        words = [sys.executable, "-m", "benchmarks", "defaults", "--small", "--json", str(file)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(file.read_text())

    whole = command()
    found = whole["parts"]["fits"]["records"]
    assert [(r["method"], r["seed"]) for r in found] == [("train", 0), ("peer dummy", 0), ("peer linear", 0)]
    assert all(r["score"] > 0 and r["n"] == 134 for r in found)
    assert "| wine | 134 x 13 |" in report(found, ["wine"], ["train", "peer dummy", "peer linear"])
    whole["parts"]["fits"]["records"] = found[:2]
    file.write_text(json.dumps(whole))
    again = command()["parts"]["fits"]["records"]
    assert again[:2] == found[:2]
    assert [r["method"] for r in again] == [r["method"] for r in found]


@pytest.mark.parametrize(
    ("task", "behind", "verdict"),
    [
        ("classification", 0.019, "holds"),
        ("classification", 0.021, "does not hold"),
        ("regression", 0.021, "does not hold"),
    ],
)
def test_two_points_of_boosting(task, behind, verdict):
    found = [
        record("airline", method, task=task, score=score)
        for method, score in (("train", 0.5), ("peer boosting", 0.5 + behind))
    ]
    boosting, _ = claims(found, ["airline"], ["train", "peer boosting"])
    assert "two points of gradient boosting" in boosting.said
    assert boosting.verdict == verdict
    assert ("airline: not looked into" in boosting.why) == (verdict != "holds")
