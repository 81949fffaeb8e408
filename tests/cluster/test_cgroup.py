"""2 GB of rows where the kernel gives 400 MiB to all processes of a command together."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import psutil
import pytest
import servers

from distrf.execution.writing import write_rows

SPEC = servers.CLUSTER / "local/small.yaml"
ROWS, COLUMNS, BLOCK = 4_000_000, 128, 10_000
LIMIT = 400 * 2**20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def memory_groups():
    """(folder of the groups that limit memory, name of the limit), of cgroup 2 or 1."""
    for mount in Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = mount.split()
        two = Path(folder, "cgroup.controllers")
        if kind == "cgroup2" and two.exists() and "memory" in two.read_text().split():
            return Path(folder), "memory.max"
        if kind == "cgroup" and "memory" in options.split(","):
            return Path(folder), "memory.limit_in_bytes"
    pytest.skip("no control groups that limit memory are mounted")


@pytest.fixture
def group():
    """A control group of 400 MiB."""
    folder, limit = memory_groups()
    made = folder / f"distrf-{os.getpid()}"
    try:
        made.mkdir()
        (made / limit).write_text(str(LIMIT))
    except OSError as error:
        pytest.skip(f"control groups cannot be made here: {error}")
    yield made
    left = (made / "cgroup.procs").read_text().split()
    servers.kill_all(psutil.Process(int(pid)) for pid in left if psutil.pid_exists(int(pid)))
    servers.wait_until(lambda: gone(made))


def gone(group):
    try:
        group.rmdir()
    except OSError:  # processes that have just ended
        return False
    return True


@pytest.fixture(scope="module")
def rows():
    """A store of 2 GB, on the disk where temporary files lie; gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="distrf-cgroup-"))

    def make(block_info=None):
        start = block_info[None]["chunk-location"][0]
        return np.random.default_rng(start).random((BLOCK, COLUMNS), dtype=np.float32)

    X = da.map_blocks(make, chunks=((BLOCK,) * (ROWS // BLOCK), (COLUMNS,)), dtype=np.float32)
    try:
        with dask.config.set(scheduler="threads", num_workers=2):
            write_rows(folder / "rows.zarr", {"X": X}, kind="rows", spec={"rows": ROWS})
        yield folder / "rows.zarr"
    finally:
        shutil.rmtree(folder)


def command(group, rows, out, *words):
    """`distrf featurize` in the group, on one core."""
    options = [*words, "--set", "map__length_scale=4", "--seed", "1"]
    line = [sys.executable, "-m", "distrf", "featurize", rows, out, *options]

    def enter():
        (group / "cgroup.procs").write_text(str(os.getpid()))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    how = {"env": servers.ENVIRONMENT, "timeout": 300, "capture_output": True, "text": True}
    return subprocess.run([str(word) for word in line], preexec_fn=enter, **how)


def kills(group):
    """How often the kernel has killed a process of the group."""
    for name in ("memory.events", "memory.oom_control"):
        if (group / name).exists():
            found = dict(line.split() for line in (group / name).read_text().splitlines())
            return int(found["oom_kill"])
    raise AssertionError("the group does not count")


def test_rows_of_five_times_the_memory(group, rows, tmp_path):
    assert sum(path.stat().st_size for path in rows.rglob("*") if path.is_file()) > 4 * LIMIT
    done = command(group, rows, tmp_path / "features.zarr", "-D", "16", "--cluster", SPEC)
    assert done.returncode == 0, done.stderr
    assert kills(group) == 0


def test_a_job_that_cannot_fit_is_refused_before_it_starts(group, rows, tmp_path):
    """By the limit of the group, which nobody has told: with one process for all, and with a worker of its own."""
    for words, limit in ((["-D", "16384", "--cluster", SPEC], "400.00 MiB"), (["-D", "16"], "200.00 MiB")):
        done = command(group, rows, tmp_path / "features.zarr", *words)
        assert done.returncode == 1, done.stderr
        text = " ".join(done.stderr.split())
        assert f"on each worker, which has {limit} (process 350.00 MiB" in text
        assert "Remedy: " in text
    assert "cluster/local/small.yaml" in text
    assert not (tmp_path / "features.zarr").exists()
    assert kills(group) == 0
