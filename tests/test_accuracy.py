"""Test accuracy of kernel machines trained by the command line on real data."""

from __future__ import annotations

import json

import numpy as np
import pytest

import distrf
from distrf.datasets import load_digits_split


def test_digits(cli, tmp_path):
    """scikit-learn's digits as they are: the kernel machine is well ahead of the linear model."""
    X, y, X_test, y_test = load_digits_split(0)
    for name, rows, labels in (("train", X, y), ("test", X_test, y_test)):
        np.savez(tmp_path / f"{name}.npz", X=rows, y=labels)
        cli("ingest", tmp_path / f"{name}.npz", tmp_path / f"{name}.zarr", "--quiet")
    scores = {}
    kernel = ["--map", "fourier", "-D", 2048, "--set", "map__length_scale=knn"]
    for name, options in (("linear", ["--map", "none"]), ("kernel", kernel)):
        cli(
            "train",
            tmp_path / "train.zarr",
            tmp_path / name,
            *options,
            "--alpha",
            "1e-6",
            "--quiet",
            cluster=True,
        )
        scored = cli("evaluate", tmp_path / name, tmp_path / "test.zarr", "--json", cluster=True).out
        scores[name] = json.loads(scored)["accuracy"]
    print(scores)
    assert scores["kernel"] >= 0.97
    assert scores["kernel"] >= scores["linear"] + 0.02
    assert distrf.load_model(tmp_path / "kernel").score(X_test, y_test) == scores["kernel"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_mnist(cli, tmp_path, shared_data):
    """MNIST, Gaussian kernel, gamma = 0.01, D = 8,192, exact ridge: at least 97.6 %."""
    for split in ("train", "test"):
        cli("ingest", shared_data / "mnist.npz", tmp_path / f"{split}.zarr", "--split", split, "--quiet")
    cli(
        "train", tmp_path / "train.zarr", tmp_path / "m", "--map", "fourier", "--set", "map__gamma=0.01",
        "-D", 8192, "--model", "ridge-classifier", "--alpha", "1e-7", "--seed", 7, "--quiet",
        "--scale", "divide", "--set", "scale__divisor=255",
    )  # fmt: skip
    scored = json.loads(cli("evaluate", tmp_path / "m", tmp_path / "test.zarr", "--json").out)
    print(scored)
    assert scored["accuracy"] >= 0.976
