"""`distrf tune`: the table, the winner, and the job file that trains it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

from distrf import ingest, load_model
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
    job = tmp_path / "new" / "best.yaml"
    words = ["tune", store, "--out", job, *QUICK, "--seed", 3, "--set", "model__fit_intercept=true", "--json"]
    result = json.loads(cli(*words, cluster=True).out)
    assert (result["job"], result["metric"]) == (str(job), "accuracy")
    assert [sum(t["level"] == level for t in result["trials"]) for level in (1, 2)] == [14, 5]
    best = result["best"]
    assert best["parameters"]["n_components"] == 128
    assert best["score"] == max(t["score"] for t in result["trials"] if t["level"] == 2) > 0.9
    wanted = yaml.safe_load(job.read_text())
    assert wanted == {
        "command": "train", "X": str(store), "out": "../model", "n_components": 128, "random_state": 3,
        "length_scale": best["parameters"]["length_scale"], "model": "auto", "alpha": best["alpha"],
        "map": "fourier", "scale": "none", "raw_columns": "no", "set": {"model__fit_intercept": True},
    }  # fmt: skip
    assert "://" not in job.read_text()  # a scheduler is gone when others run the job
    assert f"accuracy {best['score']:.4f} on {result['validation_rows']:,} held-out rows" in job.read_text()
    cli("train", "--job", job, cluster=True)
    model = load_model(tmp_path / "model")
    assert model["map"].length_scale_ == best["parameters"]["length_scale"]
    assert np.mean(model.predict(TEST_X) == TEST_Y) > 0.9
    again = json.loads(cli(*words, "--overwrite", cluster=True).out)
    assert without_seconds(again) == without_seconds(result)
    assert "exists; choose another file, or --overwrite" in cli(*words, code=1).err


def test_the_table_grows(cli, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["tune", store, "--out", "best.yaml", "-D", 64]
    words += ["--length-scale", "0.5,1,2,4", "--alpha", "1e-5,1e-3,1"]
    shown = cli(*words, "--n-rows", 800, cluster=True)
    lines = [line for line in shown.err.splitlines() if line.strip()]
    assert "level 1: 4 candidates on 640 rows" in lines
    assert sum(line.startswith("  D ") for line in lines) == 4  # every candidate saw all rows
    assert "best: D 64, length scale " in shown.out
    assert "train on all rows: distrf train --job best.yaml" in shown.out
    wanted = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert wanted["out"] == "model"
    assert not (tmp_path / "best.yaml.partial").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "entries"),
    [
        (["--map", "none"], {"map": "none"}),
        (["--set", "map__gamma=0.2,20", "-D", 64], {"n_components": 64, "set": {"map__gamma": 0.2}}),
        (
            ["--model", "sgd-classifier", "--set", "model__n_epochs=2", "-D", 64, "--length-scale", "1.5"],
            {"model": "sgd-classifier", "set": {"model__n_epochs": 2}, "length_scale": 1.5},
        ),
        (["--map", "nystroem", "-D", 64, "--set", "map__gamma=0.5"], {"map": "nystroem", "n_components": 64}),
        (
            ["--map", "tefm", "-D", "32,64", "--length-scale", "1.5"],
            {"map": "tefm", "set": {"map__base__n_components": 256, "map__base__length_scale": 1.5}},
        ),
    ],
)
def test_other_maps_and_models(cli, store, tmp_path, words, entries):
    job = tmp_path / "best.yaml"
    cli("tune", store, "--out", job, *words, "--alpha", "1e-5", "--n-rows", 500, "--quiet", cluster=True)
    written = yaml.safe_load(job.read_text())
    assert {name: written[name] for name in entries} == entries


def test_the_end_of_the_grid_is_said(cli, store, tmp_path):
    words = ["tune", store, "--out", tmp_path / "a.yaml", "-D", 64]
    words += ["--length-scale", "30,60,90", "--alpha", "1e-6,1,9"]
    result = json.loads(cli(*words, "--json", cluster=True).out)
    assert result["notes"][0] == "length scale 30 is the smallest that was tried; better ones may lie beyond"


@pytest.mark.parametrize(("limit", "workers"), [(64 * 2**20, False), (1, True)])
def test_a_search_on_few_bytes_starts_no_workers(cli, store, tmp_path, monkeypatch, limit, workers):
    started = []

    def start(*words, **more):
        started.append(words)
        raise ClusterError("no workers in this test")

    monkeypatch.setattr("distrf.cluster._started", start)
    monkeypatch.setattr("distrf.execution.scheduler.SMALL_ROWS", limit)
    words = ["tune", store, "--out", tmp_path / "b.yaml", "-D", 64, "--n-rows", 500]
    printed = cli(*words, code=1 if workers else 0)
    assert bool(started) == workers
    assert ("threads of this process" in printed.err) != workers
