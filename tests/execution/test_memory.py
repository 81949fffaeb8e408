"""Flat memory: ten times the rows, the same peak of a worker process."""

from __future__ import annotations

import pytest
from peaks import MIB, assert_flat, cluster_file, distrf, make_store, peak

#: With so few features that how many partial results meet on a worker, which is bounded but left to chance, moves the
#: peak by less than what is tested.
CASES = {
    "gram": (120_000, 32, "-D 256 --set map__gamma=0.1"),
    "rule-and-folds": (80_000, 32, "-D 256 --set map__length_scale=knn --alpha 1e-6,1e-4 --set model__cv=5"),
    # Blocks are small, so that what readers keep is too.
    "sgd": (150_000, 8, "-D 512 --set map__gamma=0.1 --model sgd-classifier --set model__n_epochs=1 --set model__tol=none"),
}  # fmt: skip


@pytest.mark.clock
@pytest.mark.parametrize("case", CASES)
def test_training_over_ten_times_the_rows(tmp_path, case):
    """At most a tenth more for ten times the rows, and below the plan of both."""
    rows, columns, options = CASES[case]
    assert_flat(tmp_path, rows, columns, options.split())


@pytest.mark.clock
@pytest.mark.parametrize("command", ["featurize", "predict", "evaluate"])
def test_other_commands_over_ten_times_the_rows(tmp_path, command):
    cluster = cluster_file(tmp_path / "c.json")
    peaks = []
    for n in (20_000, 200_000):
        store = make_store(tmp_path / f"{n}.zarr", n, 32, 4096)
        options, model = ["-D", 512, "--set", "map__gamma=0.1", "--cluster", cluster], tmp_path / "m"
        words = [store, tmp_path / f"{n}-out.zarr", *options]
        if command != "featurize":
            if not peaks:
                distrf("train", store, model, *options)
            words = [model, *words[: 2 if command == "predict" else 1], "--cluster", cluster]
        peaks.append(peak(distrf(command, *words)))
        print(f"{command}, {n} rows: peak {peaks[-1] / MIB:.0f} MiB")
    assert peaks[1] <= 1.1 * peaks[0]
