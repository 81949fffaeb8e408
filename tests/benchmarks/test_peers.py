"""Peers: a Python of their own, limits of memory and time, records in place of failures, verdicts of any records."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import results
from benchmarks.peers import environments, job, peers, processes, rows, shown
from benchmarks.peers.claims import claims
from benchmarks.peers.methods import JOBS

FOLDER = Path(peers.__file__).parent


@pytest.mark.parametrize("file", ["job", "methods", "rows"])
def test_what_a_peer_runs_needs_numpy_alone(file):
    tree = ast.parse((FOLDER / f"{file}.py").read_text())
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    named = {node.module for node in top if isinstance(node, ast.ImportFrom)}
    named |= {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    assert {name.split(".")[0] for name in named} <= {"numpy"} | set(sys.stdlib_module_names)


@pytest.mark.slow
def test_a_script_without_distrf():
    """scikit-learn's features in a process whose path has no checkout."""
    with peers.folder_of(peers.smooth(1500, 4, 10)) as folder:
        options = {"D": 256, "gamma": 0.1, "seed": 0}
        found = processes.measure("features", "RBFSampler", folder, options, 60)
    assert found["peer"] == "scikit-learn"
    assert 0 < found["error"] < 0.3
    assert found["fit"] < found["start"]
    assert 50 * 2**20 < found["peak"] < 2**30
    assert found["versions"]["numpy"] == np.__version__
    assert "PYTHONPATH" not in processes.surroundings("scikit-learn")
    assert processes.surroundings("distrf")["OMP_NUM_THREADS"] == "1"


def python(text):
    return [sys.executable, "-c", text]


def test_limits_and_failures():
    hog = "import time; x = bytearray(400 * 2**20); time.sleep(60)"
    assert processes.watched(python(hog), "x", 60, 200 * 2**20) == {"failed": "out of memory at 0 GiB"}
    assert processes.watched(python("while True: pass"), "x", 0.2) == {
        "failed": "not done after 0 processor seconds"
    }
    assert processes.watched(python("raise ValueError('no rows')"), "x", 60) == {
        "failed": "ValueError: no rows"
    }
    assert processes.watched(python("import os; os._exit(3)"), "x", 60) == {"failed": "exit code 3"}
    assert processes.watched(python("pass"), "x", 60) == {"failed": "it ended and printed nothing"}
    assert processes.watched(python("print('noise'); print('{\"fit\": 1}')"), "x", 60) == {"fit": 1}


def test_a_child_counts():
    text = (
        "import subprocess, sys; "
        "subprocess.run([sys.executable, '-c', 'import time; x = bytearray(400 * 2**20); time.sleep(60)'])"
    )
    assert "out of memory" in processes.watched(python(text), "x", 60, 200 * 2**20)["failed"]


def test_a_peer_that_does_not_install_is_a_record(monkeypatch, tmp_path):
    monkeypatch.setenv("DISTRF_BENCHMARKS_CACHE", str(tmp_path))
    monkeypatch.setattr(environments.venv, "create", lambda place, with_pip: Path(place).mkdir(parents=True))
    failing = subprocess.CompletedProcess(
        [], 1, "", "WARNING: a\nERROR: no such distribution\n\n[notice] new pip\n"
    )
    monkeypatch.setattr(environments.subprocess, "run", lambda *words, **more: failing)
    found = processes.measure("ridge", "thundersvm.SVC", "nowhere", {}, 1)
    assert found["peer"] == "thundersvm"
    assert found["failed"].startswith("pip install thundersvm-cpu")
    assert found["failed"].endswith("ERROR: no such distribution")
    assert list(tmp_path.iterdir()) == []
    assert environments.python_of("scikit-learn") == Path(sys.executable)


def test_an_environment_is_made_once(monkeypatch, tmp_path):
    made = []
    monkeypatch.setenv("DISTRF_BENCHMARKS_CACHE", str(tmp_path))
    monkeypatch.setattr(
        environments.venv,
        "create",
        lambda place, with_pip: (made.append(place), Path(place).mkdir(parents=True)),
    )
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(environments.subprocess, "run", lambda *words, **more: done)
    assert environments.python_of("snapml") == environments.python_of("snapml")
    assert len(made) == 1
    assert made[0].parent == tmp_path


def test_every_method_has_an_environment():
    assert {how.peer for job_ in JOBS.values() for how in job_.values()} <= set(environments.PEERS)
    partners = set(shown.PARTNERS) - set(shown.FORMER)
    assert partners | set(shown.PARTNERS.values()) <= set(JOBS["features"])
    assert not {name for job_ in JOBS.values() for name in job_} & set(shown.FORMER)


def test_blocks_are_the_rows():
    made = peers.smooth(20_000, 3, 5)
    assert 0.3 < made["y"].mean() < 0.7
    few = peers.smooth(10_000, 3, 5)
    np.testing.assert_array_equal(few["X"], made["X"][:10_000])
    np.testing.assert_array_equal(few["T"], made["T"])
    with peers.folder_of(made) as folder:
        found = rows.Rows(folder)
        assert len(found) == 20_000
        np.testing.assert_array_equal(np.concatenate([X for X, _ in found.blocks()]), made["X"])
        np.testing.assert_array_equal(found.lazy("X").compute(), made["X"])
        np.testing.assert_array_equal(found.lazy("y").compute(), made["y"])
        assert found.lazy("X").chunks[0] == (rows.BLOCK, 20_000 - rows.BLOCK)
        assert len(rows.Rows(folder, 7).array("X")) == 7


def test_singular_values_and_scores():
    made = peers.smooth(500, 3, 5)
    with peers.folder_of(made) as folder:
        found = job.singular_values(lambda X: X, rows.Rows(folder), 2)
    np.testing.assert_allclose(found, np.linalg.svd(made["X"], compute_uv=False)[:2], rtol=1e-5)
    labels, numbers = job.SimpleNamespace(labels=True), job.SimpleNamespace(labels=False)
    assert job.score(np.array([[0], [1], [1]]), np.array([0, 1, 0]), labels) == pytest.approx(2 / 3)
    assert job.score(np.array([1.0, 3.0]), np.array([1.0, 3.0]), numbers) == 1.0
    assert job.score(np.array([2.0, 2.0]), np.array([1.0, 3.0]), numbers) == 0.0


def record(method, peer, mean, fit, **more):
    times = {"fit": fit, "predict": 0.0, "start": 2.0, "peak": 2**28, "what": "score", "standard_error": None}
    return {"n": 100, "d": 4, "D": 8, "method": method, "peer": peer, "mean": mean} | times | more


OURS = record("distrf Fourier + ridge", "distrf", 0.8, 2.0)


def verdict(records, part, words):
    found = [c for c in claims({part: json.loads(json.dumps(records))}) if words in c.said]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(("fit", "judged"), [(1.0, "does not hold"), (2.1, "holds"), (4.0, "holds")])
def test_a_quicker_peer_is_named(fit, judged):
    peer = record("RBFSampler + RidgeClassifier", "scikit-learn", 0.8, fit)
    claim = verdict([OURS, peer], "ridge", "no more time")
    assert claim.verdict == judged
    assert ("RBFSampler + RidgeClassifier 2.0 x" in shown.show_ridge([OURS, peer])) == (fit == 1.0)


@pytest.mark.parametrize(
    ("mean", "error", "judged"), [(0.81, None, "does not hold"), (0.81, 0.01, "holds"), (0.7, None, "holds")]
)
def test_a_better_peer_is_named(mean, error, judged):
    peer = record("RBFSampler + RidgeClassifier", "scikit-learn", mean, 2.0, standard_error=error)
    assert verdict([OURS, peer], "ridge", "as accurate").verdict == judged
    assert ("RidgeClassifier by 1.0" in shown.show_ridge([OURS, peer])) == (judged == "does not hold")


@pytest.mark.parametrize("key", ["failed", "error"])
def test_a_failure_is_shown(key):
    """Records of older runs call it an error."""
    late = {"n": 100, "d": 4, "D": 8, "method": "SVC", "peer": "scikit-learn", key: "out of memory at 4 GiB"}
    assert "out of memory at 4 GiB" in shown.show_ridge([OURS, late])
    assert "SVC (scikit-learn): out of memory" in verdict([OURS, late], "million", "of 4 GiB trains").theirs
    for part in ("features", "ridge", "million", "subspace"):
        assert claims({part: [late | {"n_iter": 2, "k": 3}]}) == []
    assert claims({"tables": [late | {"set": "a", "labels": True}]}) == []
    assert claims({}) == []


def test_no_claim_holds_where_distrf_fails():
    """All claims on the stored records are there, and fail, if every method of distrf does."""
    file = results.FOLDER / "peers.json"
    if not file.exists():
        pytest.skip("benchmarks/results has no peers.json")
    found = results.records(peers.BENCHMARK, results.read(file))

    def failing(r):
        kept = ("n", "d", "D", "k", "n_iter", "set", "labels", "peer", "method")
        return {name: r[name] for name in kept if name in r} | {"failed": "no"} if r["peer"] == "distrf" else r

    without = {part: [failing(r) for r in records] for part, records in found.items() if part != "environments"}
    made = claims(without)
    assert {claim.said for claim in made} == {claim.said for claim in claims(found)}
    assert {claim.verdict for claim in made} == {"does not hold"}
    assert all(claim.why.endswith("failed: no") for claim in made)
    for part, records in without.items():
        assert "| no |" in peers.BENCHMARK.part(part).table(records)


def test_the_memory_is_that_of_the_limit():
    record_ = OURS | {"n": 1000, "peak": processes.LIMIT + 1}
    claim = verdict([record_], "million", "trains ridge")
    assert claim.said.startswith(
        f"A process of {processes.LIMIT / 2**30:.0f} GiB trains ridge on 1,000 rows of 0 MB"
    )
    assert "more than that" not in claim.said
    assert claim.verdict == "does not hold"
    large = verdict([OURS | {"n": 1_000_000, "d": 16, "D": 2048}], "million", "trains ridge")
    assert "rows of 64 MB, whose 2,048 features would have 8.2 GB, more than that" in large.said
    assert large.verdict == "holds"


def values(method, error, fit, **more):
    """A record of singular values."""
    return record(method, "someone", error, fit, n_iter=5, k=3, **more)


def test_what_is_level_holds_and_a_peer_ahead_is_named():
    """One rule in every part: level is enough; what falls short is said of each half."""
    fourier = record("distrf Fourier, blocks", "distrf", 0.1, 1.0, peak=3 * 2**28)
    loop = record("RBFSampler, loop over blocks", "scikit-learn", 0.1, 1.0, start=1.0)
    nystroem = [record(who, "someone", 0.1, 1.0) for who in ("distrf Nystroem", "Nystroem")]
    level = record("SVC", "scikit-learn", 0.8, 2.0)
    sgd = record("distrf Fourier + SGD", "distrf", 0.8, 1.0)
    rows = record("RBFSampler + SGDClassifier, loop over blocks", "scikit-learn", 0.8, 1.0)
    finder, svd = values("distrf TEFM, finder", 0.02, 1.5), values("sklearn TruncatedSVD", 0.07, 1.0)
    drowned = values("dask-ml TruncatedSVD, randomized", 0.97, 2.0)
    for found, part, words, judged, why in (
        (nystroem, "features", "Nystroem features", "holds", ""),
        ([fourier, loop], "features", "starts no later", "does not hold", "2.0 x the seconds before it starts: distrf imports Dask"),
        ([fourier | {"start": 1.0}, loop], "features", "starts no later", "holds in part", "3.0 x the peak: the peer's process"),
        ([fourier | {"start": 1.0, "peak": 2**28}, loop], "features", "starts no later", "holds", ""),
        ([OURS, level], "ridge", "accuracy of SVC", "holds", ""),
        ([OURS, level | {"mean": 0.9}], "ridge", "accuracy of SVC", "holds in part", "10.0 points less accurate, since 8 random"),
        ([OURS, level | {"fit": 1.0}], "ridge", "accuracy of SVC", "holds in part", "as accurate; 2.0 x the time: on few rows"),
        ([OURS, level | {"mean": 0.9, "fit": 1.0}], "ridge", "accuracy of SVC", "does not hold", "10.0 points less"),
        ([OURS, rows], "million", "than three epochs of RBFSampler + SGD", "holds", "level; the peer is 2.0 x as quick"),
        ([OURS, rows | {"mean": 0.9}], "million", "than three epochs of RBFSampler + SGD", "does not hold", "fewer points"),
        ([OURS, sgd, rows], "million", "until its loss falls no more", "holds", ""),
        ([OURS, sgd | {"fit": 3.0}, rows], "million", "until its loss falls no more", "holds in part", "3.0 x the time: another job"),
        ([OURS, sgd | {"mean": 0.7, "fit": 3.0}, rows], "million", "until its loss", "does not hold", "10.0 points less accurate"),
        ([finder, svd], "subspace", "beside sklearn", "holds in part", "1.5 x the time: it keeps all features"),
        ([finder, svd | {"mean": 0.01}], "subspace", "beside sklearn", "does not hold", "1.5 x the time"),
        ([finder, drowned], "subspace", "beside dask-ml", "holds", "theirs is far off: dask-ml leaves"),
        ([finder, drowned | {"mean": 0.03}], "subspace", "beside dask-ml", "holds", ""),
    ):  # fmt: skip
        claim = verdict(found, part, words)
        assert claim.verdict == judged, (claim.said, claim.why)
        assert claim.why.startswith(why)
        assert bool(claim.why) == bool(why)
    assert "sklearn TruncatedSVD 1.5 x (5 iterations, error 7 against 2 %)" in shown.show_subspace(
        [finder, svd]
    )
    text = shown.show_features([fourier, loop])
    assert "A peak lower by a third or more: RBFSampler, loop over blocks 3.0 x." in text
    assert "A start sooner by a third or more: RBFSampler, loop over blocks 2.0 x." in text


def test_the_average_is_the_loop_where_it_is_better():
    short = record("distrf Fourier + SGD, three epochs", "distrf", 0.8, 1.0)
    loops = [
        record(f"RBFSampler + SGDClassifier{more}, loop over blocks", "scikit-learn", mean, 1.0)
        for more, mean in (("", 0.7), ("(average=True)", 0.9))
    ]
    claim = verdict([OURS, short, *loops], "million", "three epochs of both")
    assert "with averages" in claim.said
    assert claim.verdict == "holds in part"
    assert verdict([OURS, short, loops[0]], "million", "three epochs of both").verdict == "holds"


#: As a run makes them.
FEATURES = [
    {"n": n, "d": 64, "D": 1024, "peer": how.peer, "method": name, "failed": "x"}
    for n in (10_000, 1_000_000)
    for name, how in JOBS["features"].items()
    if n <= how.most
]
