"""Flat memory of a fit in rounds: ten times the rows, the same peak of a worker process."""

from __future__ import annotations

import pytest
from peaks import MIB, cluster_file, distrf, make_store, peak


@pytest.mark.slow
@pytest.mark.xfail(
    reason="workers and scheduler remember tasks: 365 MiB grow to 418, plan 412, over 3,300 rounds",
    strict=False,
)
def test_rounds_over_ten_times_the_rows(tmp_path):
    """At most a tenth more, and below the plan of both; blocks are small, so that what readers keep is too."""
    cluster = cluster_file(tmp_path / "c.json", workers=2)
    options = ["-D", 512, "--gamma", 0.1, "--model", "sgd-classifier", "--epochs", 1, "--tol", "none"]
    peaks = []
    for n in (150_000, 1_500_000):
        store = make_store(tmp_path / f"{n}.zarr", n, 8, 4096)
        done = distrf("train", store, tmp_path / f"m-{n}", *options, "--cluster", cluster)
        planned = distrf("plan", store, *options, "--cluster", cluster)["peak_bytes_per_worker"]
        peaks.append(peak(done))
        print(f"{n} rows: peak {peaks[-1] / MIB:.0f} MiB, plan {planned / MIB:.0f} MiB")
        assert peaks[-1] <= planned
    print(f"ratio {peaks[1] / peaks[0]:.3f}")
    assert peaks[1] <= 1.1 * peaks[0]
