"""Jobs that learn a map: taken up on the command line, and plans that bound what workers hold."""

from __future__ import annotations

import numpy as np
import pytest
from peaks import MIB, cluster_file, make_store

import distrf
from distrf.cluster import connect
from distrf.execution.memory import Workers
from distrf.execution.workers import peak_memory
from distrf.learned.plan import learning_memory, learning_schedule
from distrf.persistence import load_model
from distrf.sgd.trainer import Trainer


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["kernel", "multinomial"])
def test_resume_on_the_command_line(cli, tmp_path, monkeypatch, objective):
    """A map that was learned is not learned again, one that was interrupted ends with the same bits."""
    store = make_store(tmp_path / "rows.zarr", 600, 3, 200)
    words = [
        "train",
        store,
        "--map",
        "cnm",
        "-D",
        4,
        "--set",
        f"map__objective={objective}",
        "--set",
        "map__n_epochs=5",
    ]
    words += ["--model", "ridge-classifier", "--set", "map__length_scale=1", "--quiet"]
    cli(*words, tmp_path / "whole", cluster=True)
    kept = [*words, tmp_path / "m"]
    advance, batches = Trainer._advance, []

    def counts(self, *given):
        batches.append(None)
        if len(batches) == 11:
            raise distrf.errors.InputError("stopped")
        return advance(self, *given)

    monkeypatch.setattr(Trainer, "_advance", counts)
    cli(*kept, code=1, cluster=True)
    cli(*kept, "--resume", cluster=True)
    whole, resumed = (load_model(tmp_path / name)["map"].map_ for name in ("whole", "m"))
    np.testing.assert_array_equal(resumed.frequencies, whole.frequencies)
    np.testing.assert_array_equal(resumed.offsets, whole.offsets)
    assert 20 < len(batches) <= 23  # four batches an epoch: two epochs were kept
    assert not (tmp_path / "m-state").exists()
    batches.clear()
    cli(*kept, "--overwrite", cluster=True, code=1)  # anew
    assert len(batches) == 11


@pytest.mark.clock
@pytest.mark.parametrize("workers", [1, 2])
def test_the_plan_bounds_the_memory_of_learning(tmp_path, workers):
    """Batches of one microbatch: a worker holds whole shuffle windows, whatever the number of workers."""
    d, D = 512, 16
    store = make_store(tmp_path / "rows.zarr", 200_000, d, 8192)
    with connect(str(cluster_file(tmp_path / "c.json", workers=workers))) as client:
        X, y = distrf.open_rows(store)
        estimator = distrf.CompactNonlinearMap(D, "multinomial", length_scale=10.0, n_epochs=3).fit(X, y)
        peak = max(peak_memory(client).values())
    schedule = learning_schedule(estimator, X.chunks[0], d, 4)
    planned = learning_memory(estimator, schedule, d, 4, 10, Workers(workers, 1, 0)).peak
    print(f"{workers} workers: peak {peak / MIB:.0f} MiB, plan {planned / MIB:.0f} MiB")
    assert 0.6 * planned <= peak <= planned
