"""`distrf demo`, as a new user runs it, on fewer rows."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from distrf import load_model, open_rows
from distrf.datasets import load_digits_split


@pytest.mark.slow
def test_demo(tmp_path):
    command = [sys.executable, "-m", "distrf", "demo", "--rows", "6000", "-D", "256", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    keys = {
        "rows", "n_components", "train_seconds", "rows_per_second", "accuracy_linear", "accuracy_kernel", "test_rows",
        "alpha", "files", "seconds", "peak_bytes_per_worker",
    }  # fmt: skip
    assert report.keys() == keys
    assert (report["rows"], report["n_components"], report["test_rows"]) == (6000, 256, 360)
    assert report["accuracy_kernel"] > report["accuracy_linear"] + 0.01
    assert report["accuracy_linear"] > 0.88
    assert all(40 * 2**20 < size < 2**30 for size in report["peak_bytes_per_worker"].values())
    for path, size in report["files"].items():
        found = sum(p.stat().st_size for p in (tmp_path / path).rglob("*") if p.is_file())
        assert found == size > 0
    # The files are what the report says.
    X, _ = open_rows(tmp_path / "distrf-demo/digits.zarr")
    assert X.shape == (6000, 64)
    _, _, X_test, y_test = load_digits_split(0)
    assert (
        np.mean(load_model(tmp_path / "distrf-demo/model").predict(X_test) == y_test)
        == report["accuracy_kernel"]
    )
    assert {p.name for p in tmp_path.iterdir()} == {"distrf-demo"}


def test_demo_shows_what_it_does(tmp_path, cli, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO", "distrf")
    printed = cli("demo", "--rows", 2000, "-D", 64, "--out", "here", cluster=True)
    for word in ("dashboard http", "Expanding the digits to 2,000 rows"):
        assert word in printed.err
        assert word in caplog.text
    assert "gram: 2,000 of 2,000 rows" in caplog.text
    for word in ("accuracy linear", "accuracy kernel", "test rows", "peak memory per worker"):
        assert word in printed.out
    cli("demo", "--rows", 2000, "-D", 64, "--out", "here", "--quiet", cluster=True)  # again, over the old files
