"""2 GB of rows where the kernel gives 400 MiB to all processes of a command together."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import psutil
import pytest

from distrf.execution.write_zarr import write_rows

ROOT = Path(__file__).parents[2]
ROWS, COLUMNS, BLOCK = 4_000_000, 128, 10_000
LIMIT = 400 * 2**20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def memory_groups():
    """(folder of the groups that limit memory, name of the limit), of cgroup 2 or 1."""
    for kind, controller, limit in (
        ("cgroup2", "", "memory.max"),
        ("cgroup", "memory", "memory.limit_in_bytes"),
    ):
        for mount in Path("/proc/mounts").read_text().splitlines():
            _, folder, found, options, *_ = mount.split()
            if found == kind and (not controller or controller in options.split(",")):
                controllers = Path(folder, "cgroup.controllers")
                if controller or (controllers.exists() and "memory" in controllers.read_text().split()):
                    return Path(folder), limit
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
    for pid in (made / "cgroup.procs").read_text().split():
        with contextlib.suppress(psutil.Error):
            psutil.Process(int(pid)).kill()
    for _ in range(50):
        with contextlib.suppress(OSError):  # processes that have just ended
            made.rmdir()
            return
        time.sleep(0.1)


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
    line = [
        sys.executable,
        "-m",
        "distrf",
        "featurize",
        rows,
        out,
        "--length-scale",
        "4",
        "--seed",
        "1",
        *words,
    ]

    def enter():
        (group / "cgroup.procs").write_text(str(os.getpid()))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run([str(word) for word in line], env=os.environ | {"PYTHONPATH": paths}, preexec_fn=enter, timeout=300,
                          capture_output=True, text=True)  # fmt: skip


def kills(group):
    """How often the kernel has killed a process of the group."""
    for name in ("memory.events", "memory.oom_control"):
        if (group / name).exists():
            found = dict(line.split() for line in (group / name).read_text().splitlines())
            return int(found["oom_kill"])
    raise AssertionError("the group does not count")


def test_rows_of_five_times_the_memory(group, rows, tmp_path):
    spec = ROOT / "cluster/local/small.yaml"
    assert sum(path.stat().st_size for path in rows.rglob("*") if path.is_file()) > 4 * LIMIT
    done = command(group, rows, tmp_path / "features.zarr", "-D", "16", "--cluster", spec)
    assert done.returncode == 0, done.stderr
    assert kills(group) == 0


def test_a_job_that_cannot_fit_is_refused_before_it_starts(group, rows, tmp_path):
    """By the limit of the group, which nobody has told: with one process for all, and with a worker of its own."""
    spec = ROOT / "cluster/local/small.yaml"
    for words, limit in ((["-D", "16384", "--cluster", spec], "400.00 MiB"), (["-D", "16"], "200.00 MiB")):
        done = command(group, rows, tmp_path / "features.zarr", *words)
        assert done.returncode == 1, done.stderr
        text = " ".join(done.stderr.split())
        assert f"on each worker, which has {limit} (process 350.00 MiB" in text
        assert "Remedy: " in text
    assert "cluster/local/small.yaml" in text
    assert not (tmp_path / "features.zarr").exists()
    assert kills(group) == 0
