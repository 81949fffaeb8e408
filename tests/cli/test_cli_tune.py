"""`distrf tune`: the table, the winner, and the job file that trains it."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest

from distrf import ingest, load_model
from distrf.cli.jobs import job_words
from distrf.datasets import load_digits_split
from distrf.errors import ClusterError

X, Y, TEST_X, TEST_Y = load_digits_split(0)
QUICK = ["-D", "32,128", "--alpha", "1e-6,1e-3"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    np.savez(folder / "digits.npz", X_train=X, y_train=Y, X_test=TEST_X, y_test=TEST_Y)
    for split in ("train", "test"):
        ingest(folder / "digits.npz", folder / f"{split}.zarr", split=split, block_rows=300)
    return folder / "train.zarr"


def without_seconds(result):
    trials = [
        {k: v for k, v in trial.items() if k != "seconds"} for trial in [result["best"], *result["trials"]]
    ]
    return trials, result["notes"]


@pytest.mark.slow
def test_from_search_to_model(cli, store, tmp_path, two_worker_cluster, monkeypatch):
    """The job file trains the winner; the same command finds the same again."""
    monkeypatch.chdir(tmp_path)
    job = tmp_path / "new" / "best.toml"
    words = ["tune", store, "--out", job, *QUICK, "--seed", 3, "--fit-intercept", "--json"]
    result = json.loads(cli(*words, cluster=True).out)
    assert (result["job"], result["metric"]) == (str(job), "accuracy")
    assert [sum(t["level"] == level for t in result["trials"]) for level in (1, 2)] == [14, 5]
    best = result["best"]
    assert best["parameters"]["n_components"] == 128
    assert best["score"] == max(t["score"] for t in result["trials"] if t["level"] == 2) > 0.9
    wanted = tomllib.loads(job.read_text())
    assert wanted == {
        "command": "train", "X": str(store), "out": "../model", "n-components": 128, "random-state": 3,
        "length-scale": best["parameters"]["length_scale"], "model": "ridge-classifier", "alpha": best["alpha"],
        "map": "fourier", "scale": "none", "raw-columns": "no", "fit-intercept": True,
    }  # fmt: skip
    assert "://" not in job.read_text()  # a scheduler is gone when others run the job
    assert f"accuracy {best['score']:.4f} on {result['validation_rows']:,} held-out rows" in job.read_text()
    assert job_words(str(job))[0] == "train"
    cli("run", job, cluster=True)
    model = load_model(tmp_path / "model")
    assert model["map"].length_scale_ == best["parameters"]["length_scale"]
    assert np.mean(model.predict(TEST_X) == TEST_Y) > 0.9
    again = json.loads(cli(*words, "--overwrite", cluster=True).out)
    assert without_seconds(again) == without_seconds(result)
    assert "exists; choose another file, or --overwrite" in cli(*words, code=1).err


def test_the_table_grows(cli, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["tune", store, "--out", "best.toml", "-D", 64]
    words += ["--length-scale", "0.5,1,2,4", "--alpha", "1e-5,1e-3,1"]
    shown = cli(*words, "--n-rows", 800, cluster=True).out
    lines = [line for line in shown.splitlines() if line.strip()]
    assert lines[0].startswith("level 1: 4 candidates on 640 rows")
    assert sum(line.startswith("  D ") for line in lines) == 4  # every candidate saw all rows
    assert "best: D = 64, length scale = " in shown
    assert "train on all rows: distrf run best.toml" in shown
    wanted = tomllib.loads((tmp_path / "best.toml").read_text())
    assert wanted["out"] == "model"
    assert not (tmp_path / "best.toml.partial").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "entries"),
    [
        (["--map", "none"], {"map": "none"}),
        (["--gamma", "0.2,20", "-D", 64], {"gamma": 0.2, "n-components": 64}),
        (
            ["--model", "svm", "--n-epochs", 2, "-D", 64, "--length-scale", "1.5"],
            {"model": "svm", "n-epochs": 2},
        ),
        (
            ["--map", "tensor-sketch", "-D", "64,128", "--class-weight", "balanced"],
            {"class-weight": "balanced"},
        ),
        (["--map", "nystroem", "-D", 64, "--gamma", "0.5"], {"map": "nystroem", "n-components": 64}),
        (["--map", "tefm", "-D", "32,64", "--length-scale", "1.5"], {"map": "tefm", "base-n-components": 256}),
    ],
)
def test_other_maps_and_models(cli, store, tmp_path, words, entries):
    job = tmp_path / "best.toml"
    cli("tune", store, "--out", job, *words, "--alpha", "1e-5", "--n-rows", 500, "--quiet", cluster=True)
    assert entries.items() <= tomllib.loads(job.read_text()).items()
    assert job_words(str(job))


def test_the_end_of_the_grid_is_said(cli, store, tmp_path):
    words = ["tune", store, "--out", tmp_path / "a.toml", "-D", 64]
    words += ["--length-scale", "30,60,90", "--alpha", "1e-6,1,9"]
    result = json.loads(cli(*words, "--json", cluster=True).out)
    assert result["notes"][0] == "length scale 30 is the smallest that was tried; better ones may lie beyond"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-D", "many"], "--n-components must be an integer >= 1, got 'many'"),
        (["-D", "33"], "must be even, got 33"),
        (["-D", "64,33"], "must be even, got 33"),
        (["-D", ","], "--n-components is one value or several"),
        (["--gamma", "0.1,x"], "--gamma must be a finite number > 0, got 'x'"),
        (["--length-scale", "1,x"], "--length-scale must be a finite number > 0, "),
        (["--length-scale", "knm"], "or 'scale', got 'knm'"),
        (["--map", "laplace", "--gamma", "1"], "--gamma is for --map fourier, binning,"),
        (["--alpha", "x"], "--alpha must be one or more finite numbers"),
        (["--factor", "1"], "--factor must be an integer >= 2, got 1"),
        (["--model", "svm", "--cv", "3"], "--cv is for --model ridge"),
        (["--out", "{folder}"], "is a folder"),
    ],
)
def test_wrong_usage(cli, store, tmp_path, words, message, monkeypatch):
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    filled = [word.format(folder=tmp_path) for word in words]
    printed = cli("tune", store, "--out", tmp_path / "a.toml", *filled, code=2)
    assert message in " ".join(printed.err.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("limit", "workers"), [(64 * 2**20, False), (1, True)])
def test_a_search_on_few_bytes_starts_no_workers(cli, store, tmp_path, monkeypatch, limit, workers):
    started = []

    def start(*words, **more):
        started.append(words)
        raise ClusterError("no workers in this test")

    monkeypatch.setattr("distrf.cluster._started", start)
    monkeypatch.setattr("distrf.cli.session._SMALL", limit)
    words = ["tune", store, "--out", tmp_path / "b.toml", "-D", 64, "--n-rows", 500]
    printed = cli(*words, code=1 if workers else 0)
    assert bool(started) == workers
    assert ("threads of this process" in printed.err) != workers
