"""`distrf compare`: every projection that fits the kernel, as a table, as JSON and as a plot."""

from __future__ import annotations

import json

import numpy as np
import pytest

from distrf import ingest
from distrf.datasets import load_digits_split
from distrf.features import RandomFourierFeatures
from distrf.metrics import NORMS, kernel_error
from distrf.projections import PROJECTIONS

X = load_digits_split(0)[0]
FEW = ["--n-rows", 60, "--n-draws", 3]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    np.save(folder / "digits.npy", X)
    ingest(folder / "digits.npy", folder / "digits.zarr", block_rows=400)
    return folder / "digits.zarr"


def test_all_that_fit_the_kernel(cli, store, tmp_path):
    plot = tmp_path / "plots" / "error.png"
    printed = cli("compare", store, "-D", "32,128", *FEW, "--plot", plot, "--json", cluster=True)
    result = json.loads(printed.out)
    names = [name for name in PROJECTIONS if not name.endswith("-paper")]
    found = result["projections"]
    assert [(m["projection"], m["n_components"]) for m in found] == [(n, D) for n in names for D in (32, 128)]
    assert (result["n_rows"], result["n_draws"], result["skipped"]) == (60, 3, {})
    for norm in NORMS:
        assert all(m["errors"][norm]["mean"] > 0 and m["errors"][norm]["standard_error"] > 0 for m in found)
    assert all(m["seconds"] > 0 for m in found)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "threads of this process" in cli("compare", store, "-D", "32", *FEW).err  # few rows need no workers


@pytest.mark.slow
def test_errors_are_means_over_seeds(cli, store):
    words = ["-D", "64", "--projections", "dense", "--length-scale", 2, "--seed", 5, "--n-draws", 3, "--json"]
    (entry,) = json.loads(cli("compare", store, *words, "--n-rows", 2000, cluster=True).out)["projections"]
    for norm in NORMS:
        draws = [
            getattr(
                kernel_error(
                    RandomFourierFeatures(length_scale=2.0, n_components=64, random_state=seed).fit(X),
                    X,
                    n_rows=len(X),
                ),
                norm,
            )
            for seed in (5, 6, 7)
        ]
        np.testing.assert_allclose(entry["errors"][norm]["mean"], np.mean(draws), rtol=1e-3)
        np.testing.assert_allclose(
            entry["errors"][norm]["standard_error"], np.std(draws, ddof=1) / 3**0.5, rtol=1e-2
        )


def test_table(cli, store):
    words = ["--kernel", "laplacian", "-D", "16,33", "--projections", "dense,fastfood", *FEW]
    printed = cli("compare", store, *words, cluster=True)
    assert "Frobenius" in printed.out
    assert "skipped fastfood, D = 16: projection='fastfood' needs an isotropic kernel" in printed.out
    assert "skipped dense, D = 33" in printed.out
    assert cli("compare", store, *words, "--quiet", cluster=True).out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-D", "x"], "--n-components must be one or more, each an integer >= 1, got 'x'"),
        (["--n-draws", "0"], "--n-draws must be an integer >= 1, got 0"),
        (["-D", ""], "--n-components must not be empty"),
        (
            ["--projections", "dense,fast"],
            "--projections must be one or more, each 'dense', .*, got 'dense,fast'",
        ),
        (["--kernel", "cubic"], "--kernel must be .*got 'cubic'"),
        (["--kernel", "cauchy", "--gamma", "1"], "give --length-scale"),
        (["--length-scale", "knm"], "--length-scale must be"),
        (["-D", "33"], "must be even, got 33"),
        (["--plot", "error.txt"], "--plot writes .*png"),
    ],
)
def test_wrong_usage(cli, store, words, message, monkeypatch):
    import re

    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    printed = cli("compare", store, *FEW, *words, code=2)
    assert printed.out == ""
    assert re.search(message, " ".join(printed.err.split())), printed.err
