"""Outputs are checked before anything is computed, and a job that is done already is success when it is started again."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from distrf import StreamingRidge, ingest, save_model
from distrf.errors import StoreError
from distrf.store import check_writable

SMALL = ["-D", "16", "--set", "map__gamma=1", "--scale", "none", "--alpha", "1e-3"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    X = np.random.default_rng(0).normal(size=(60, 3))
    np.savez(folder / "rows.npz", X=X, y=(X[:, 0] > 0).astype(int))
    ingest(folder / "rows.npz", folder / "rows.zarr", block_rows=20)
    return folder / "rows.zarr"


def no_cluster(*args, **kwargs):
    raise AssertionError("a cluster was started")


def test_a_job_that_is_done_is_success(cli, rows, tmp_path, monkeypatch):
    words = ["train", rows, tmp_path / "m", *SMALL]
    assert "{" not in cli(*words, "--resume", cluster=True).out  # plain text, no JSON
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "m").rglob("*")}
    monkeypatch.setattr("distrf.cli.console.Session.connected", no_cluster)
    assert "is done already" in " ".join(cli(*words, "--resume").out.split())
    assert json.loads(cli(*words, "--resume", "--json").out)["done"] is True
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "m").rglob("*")} == before
    assert "holds a model already" in cli(*words, code=1).err
    for other in (["--seed", "3"], ["--columns", "0,1"], ["--set", "model__fit_intercept=false"]):
        assert "model of another job" in cli(*words, *other, "--resume", code=1).err


def test_a_model_without_a_job_is_another_one(cli, rows, tmp_path):
    save_model(StreamingRidge(1.0).fit(np.eye(3), np.arange(3.0)), tmp_path / "m")
    assert "holds a model of another job" in cli("train", rows, tmp_path / "m", "--resume", code=1).err


@pytest.mark.parametrize("command", ["train", "featurize", "ingest", "tune"])
def test_outputs_that_cannot_be_written_are_found_first(cli, rows, tmp_path, monkeypatch, command):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr("distrf.cli.console.Session.connected", no_cluster)
    source = rows.parent / "rows.npz" if command == "ingest" else rows
    for out in (tmp_path / "file" / "m", tmp_path / ("n" * 300)):
        more = ["--grid", "alpha=1"] if command == "tune" else []
        assert "cannot be written" in cli(command, source, out, *more, code=1).err
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("command", ["train", "featurize", "predict", "parts", "save-map", "ingest"])
@pytest.mark.parametrize("place", ["full", "/dev/null", "/proc/x"])
def test_places_of_others_are_found_first(cli, rows, tmp_path, monkeypatch, command, place):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    save_model(StreamingRidge(1.0).fit(np.eye(3), np.arange(3.0)), tmp_path / "m")
    monkeypatch.setattr("distrf.cli.console.Session.connected", no_cluster)
    monkeypatch.setattr("distrf.ingestion.open_source", no_cluster)
    if command == "parts" and place == "full":
        (tmp_path / "full").rename(tmp_path / "full.parquet")
        place = "full.parquet"
    out = tmp_path / place if place.startswith("full") else place
    words = {
        "train": ["train", rows, out],
        "featurize": ["featurize", rows, out],
        "predict": ["predict", tmp_path / "m", rows, out],
        "parts": ["predict", tmp_path / "m", rows, f"{out}.parquet" if place == "/proc/x" else out],
        "save-map": ["featurize", rows, tmp_path / "out", "--save-map", out],
        "ingest": ["ingest", rows.parent / "rows.npz", out],
    }[command]
    before = sorted(tmp_path.rglob("*"))
    more = [] if command == "save-map" else ["--overwrite"]
    assert re.search("cannot be written|must be free or hold", cli(*words, *more, code=1).err)
    assert sorted(tmp_path.rglob("*")) == before


def test_no_folder_can_be_made(tmp_path):
    (tmp_path / "file").touch()
    for name in ("file/m", "file/new/m", "m" * 300, "m\0"):
        with pytest.raises(StoreError, match="cannot be written: "):
            check_writable(str(tmp_path / name))
    check_writable(None, "s3://bucket/m", str(tmp_path / "m"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
