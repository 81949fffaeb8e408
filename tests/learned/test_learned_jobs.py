"""Jobs that learn a map: taken up on the command line, and plans that bound what workers hold."""

from __future__ import annotations

import pytest
from peaks import MIB, cluster_file, make_store

import distrf
from distrf.cluster import connect
from distrf.execution.memory import Workers
from distrf.execution.workers import peak_memory
from distrf.learned.start import learning_memory, learning_schedule


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
