"""Peers: a Python of their own, limits of memory and time, records in place of failures."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from benchmarks.peers import job, peers
from benchmarks.peers.job import JOBS
from benchmarks.tables.tables import isolated


def test_what_a_peer_runs_needs_numpy_alone():
    tree = ast.parse(Path(job.__file__).read_text())
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    named = {node.module for node in top if isinstance(node, ast.ImportFrom)}
    named |= {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    assert {name.split(".")[0] for name in named} <= {"numpy"} | set(sys.stdlib_module_names)


@pytest.mark.slow
def test_a_script_without_distrf():
    """scikit-learn's features in a process whose path has no checkout."""
    with peers.folder_of(peers.smooth(1500, 4, 10)) as folder:
        options = {"D": 256, "gamma": 0.1, "seed": 0}
        found = peers.measure("features", "RBFSampler", folder, options, 60)
    assert found["peer"] == "scikit-learn"
    assert 0 < found["error"] < 0.3
    assert 50 * 2**20 < found["peak"] < 2**30
    assert "PYTHONPATH" not in peers.surroundings("scikit-learn")
    assert peers.surroundings("distrf")["OMP_NUM_THREADS"] == "1"


def python(text):
    return [sys.executable, "-c", text]


HOG = "import time; x = bytearray(400 * 2**20); time.sleep(60)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HOG, {"failed": "out of memory at 0 GiB"}),
        (
            f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOG!r}])",
            {"failed": "out of memory at 0 GiB"},
        ),
        ("while True: pass", {"failed": "not done after 1 processor seconds"}),
        ("raise ValueError('no rows')", {"failed": "ValueError: no rows"}),
        ("import os; os._exit(3)", {"failed": "exit code 3"}),
        ("pass", {"failed": "it ended and printed nothing"}),
        ("print('noise'); print('{\"fit\": 1}')", {"fit": 1}),
    ],
)
def test_limits_and_failures(text, found):
    assert peers.watched(python(text), "x", 1, 200 * 2**20) == found


def test_an_environment_that_cannot_be_made_is_a_record(monkeypatch, tmp_path):
    monkeypatch.setenv("DISTRF_BENCHMARKS_CACHE", str(tmp_path))
    monkeypatch.setitem(peers.PEERS, "thundersvm", ("./no-such-folder",))
    found = peers.measure("ridge", "thundersvm.SVC", "nowhere", {}, 1)
    assert found["peer"] == "thundersvm"
    assert found["failed"].startswith("pip install ./no-such-folder: ERROR: ")
    assert list(tmp_path.iterdir()) == []
    assert {how.peer for job in JOBS.values() for how in job.values()} <= set(peers.PEERS)


def crash():
    raise SystemExit(3)


@pytest.mark.slow
def test_a_crash_is_a_record():
    assert isolated(dict, [("score", 1)]) == {"score": 1}
    assert isolated(crash) == {"error": "the process ended with exit code 3"}
