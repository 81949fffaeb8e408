"""From Parquet files to predictions with keys, while workers are killed, retired and join: the bits of an undisturbed run.

The servers are Dask's own commands without anything of ours. The jobs are job files. Nothing here knows how distrf runs a job: it
rests on the command line and on Dask's client.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from distributed import Client, LocalCluster, SchedulerPlugin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

#: A stock scheduler cannot import this file: what it runs travels as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N, FILES, ANSWERS = 102_000, 12, 253
NUMBERS = ["weight", "height", "visits", *(f"answer{j}" for j in range(ANSWERS))]
KEYS = ["id", "town", "day"]
#: The jobs in their order, each with its options; paths are relative to the job file.
JOBS: dict[str, dict] = {
    "ingest": {
        "source": "rows.parquet", "out": "rows.zarr", "target": "label", "columns": NUMBERS, "impute": "median",
        "block-rows": 8192,
    },
    "train": {
        "X": "rows.zarr", "out": "model", "map": "tefm", "n-components": 48, "base-n-components": 256, "length-scale": 20.0,
        "map-solver": "finder", "scale": "standard", "raw-columns": "no", "model": "logistic", "alpha": 1e-5, "n-epochs": 2,
        "batch-size": 4000, "seed": 0,
    },
    "evaluate": {"model": "model", "X": "rows.parquet", "target": "label", "by": "town"},
    "predict": {"model": "model", "X": "rows.parquet", "out": "predictions.parquet", "keys": KEYS},
}  # fmt: skip
#: Jobs in whose tasks workers come and go.
DISTURBED = ("train", "predict")
#: Seconds that servers may take to start, and a job to get somewhere, on a busy machine.
PATIENCE = 300


def write_table(folder):
    """Rows with an integer key, text, a date, gaps and many answers; each file is more than half a block, so a block each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    answers = X @ rng.normal(size=(3, ANSWERS)).astype(np.float32) + rng.normal(size=(N, ANSWERS))
    answers = answers.clip(-3, 3).round().astype(np.int8)
    gaps = rng.random((N, 2)) < 0.02
    columns = {
        "id": pa.array(10**12 + 7 * np.arange(N)),
        "town": pa.array(np.array(["Aalen", "Bonn", "Celle", "Düren"])[rng.integers(4, size=N)]),
        "day": pa.array(np.datetime64("2024-01-01") + rng.integers(700, size=N)),
        "weight": pa.array(X[:, 0], mask=gaps[:, 0]),
        "height": pa.array(X[:, 1]),
        "visits": pa.array(rng.poisson(3, size=N).astype(np.int32), mask=gaps[:, 1]),
        **{f"answer{j}": pa.array(answers[:, j]) for j in range(ANSWERS)},
        "label": np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0, "yes", "no"),
    }
    table = pa.table(columns)
    folder.mkdir()
    for i in range(FILES):
        pq.write_table(table.slice(i * N // FILES, N // FILES), folder / f"part-{i:02}.parquet")


class Finished(SchedulerPlugin):
    """Counts the tasks that each worker has finished."""

    name = "finished"

    def __init__(self):
        self.tasks, self.came, self.left = Counter(), 0, 0

    def transition(self, key, start, finish, *args, worker=None, **more):
        if (start, finish) == ("processing", "memory"):
            self.tasks[worker] += 1

    def add_worker(self, scheduler, worker):
        self.came += 1

    def remove_worker(self, scheduler, worker, **more):
        self.left += 1


def read_finished(dask_scheduler):
    plugin = dask_scheduler.plugins["finished"]
    return dict(plugin.tasks), plugin.came, plugin.left


def forget_finished(dask_scheduler):
    dask_scheduler.plugins["finished"].__init__()


def until(condition, message, going=lambda: True):
    """The first value of `condition` that is true; AssertionError where it takes too long, or what it waits for has ended."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert going(), f"the job ended before {message}"
        assert time.monotonic() < end, f"{PATIENCE} s passed before {message}"
        time.sleep(0.01)
    return found


class Servers:
    """`dask scheduler` and `dask worker` as Dask ships them, and a client that watches them."""

    def __init__(self, folder):
        self.folder, self.workers, self.made = folder, {}, 0
        self.file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", self.file
        )

    def __enter__(self):
        self.address = until(self._address, "the scheduler has written its file", self._lives)
        self.client = Client(self.address, timeout=PATIENCE, set_as_default=False)
        self.client.register_plugin(Finished())
        return self

    def __exit__(self, *error):
        self.client.close()
        for process in (*self.workers.values(), self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, what, *options):
        command = [sys.executable, "-m", "dask", what, "--host", "127.0.0.1", *map(str, options)]
        with open(self.folder / f"{what}-{self.made}.log", "wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _lives(self):
        return self.scheduler.poll() is None

    def _address(self):
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self.file.read_text())["address"]

    def _worker(self, *where):
        self.made += 1
        name = f"worker-{self.made}"
        local = ["--local-directory", self.folder / name, "--dashboard-address", "127.0.0.1:0"]
        self.workers[name] = self._start("worker", *where, "--name", name, "--nthreads", 1, *local)
        return name

    def have(self, count):
        """Start workers until there are so many; return when all are there."""
        for _ in range(count - len(self.addresses())):
            self._worker(self.address)
        self.client.wait_for_workers(count, timeout=PATIENCE)

    def ready(self):
        """Start a worker that joins when it is told where the scheduler is."""
        late = self.folder / f"scheduler-{self.made}.json"
        name = self._worker("--no-nanny", "--scheduler-file", late)
        return name, late

    def addresses(self):
        """{name: address} of the workers that the scheduler knows."""
        return {w["name"]: a for a, w in self.client.scheduler_info(n_workers=-1)["workers"].items()}

    def join(self, name, late):
        """The worker is told; returns when tasks can begin there at once. Returns its address."""
        shutil.copy(self.file, late.with_suffix(".new"))
        late.with_suffix(".new").rename(late)
        address = until(lambda: self.addresses().get(name), f"{name} has joined")
        self.client.run(importlib.import_module, "distrf", workers=[address])
        return address

    def signal(self, number, *names):
        """Send a signal to workers and their nannies, to all without a name."""
        for name in names or self.addresses():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.workers[name].pid, number)

    def busy(self):
        """The name of a worker that has a task."""
        with_tasks = {address for address, keys in self.client.processing().items() if keys}
        return next((name for name, address in self.addresses().items() if address in with_tasks), None)

    def forget(self):
        self.client.run_on_scheduler(forget_finished)

    def finished(self):
        """{address: tasks that it has finished}"""
        return self.client.run_on_scheduler(read_finished)[0]

    def stop_a_busy_one(self):
        """Stop all workers at a moment at which one of them has a task; its name, else None."""
        self.signal(signal.SIGSTOP)
        if (name := self.busy()) is None:
            self.signal(signal.SIGCONT)
        return name

    def disturb(self, tasks, going):
        """Amid a job of so many tasks one worker is killed while it works and one joins; later one is retired while it works.

        Returns the address of the worker that joined.
        """
        name, late = self.ready()
        self._past(tasks // 3, going)
        lost = until(self.stop_a_busy_one, "a worker had a task", going)
        try:
            self.signal(signal.SIGKILL, lost)
            self.workers.pop(lost).wait()
            joined = self.join(name, late)
        finally:
            self.signal(signal.SIGCONT)
        self._past(2 * tasks // 3, going)
        retired = self.addresses()[until(self.busy, "another worker had a task", going)]
        assert list(self.client.retire_workers([retired])) == [retired]
        return joined

    def _past(self, tasks, going):
        until(lambda: sum(self.finished().values()) > tasks, f"{tasks} tasks had finished", going)


def write_jobs(folder, cluster):
    """A job file for each job, and the table that they begin with."""
    folder.mkdir()
    (folder / "rows.parquet").symlink_to(folder.parent / "rows.parquet")
    for name, options in JOBS.items():
        lines = {"command": name, **options, "cluster": cluster, "json": True}
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())  # which is TOML too
        (folder / f"{name}.toml").write_text(text)


@contextlib.contextmanager
def running(folder, name):
    """A job file under way; yields a function that says whether it still is. What it prints is in a file at the end."""
    printed, errors = folder / f"{name}.json", folder / f"{name}.log"
    command = [sys.executable, "-m", "distrf", "run", str(folder / f"{name}.toml")]
    with open(printed, "wb") as out, open(errors, "wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)

    def going():
        assert not process.poll(), errors.read_text()
        return process.returncode is None

    try:
        yield going
        process.wait(timeout=PATIENCE)
        assert not going()
    finally:
        process.kill()
        process.wait()


def made(folder):
    """All that the jobs made: numbers of the store and of the model, scores, predictions."""
    arrays = {}
    for place in ("rows.zarr", "model"):
        for node in sorted((folder / place).rglob("zarr.json")):
            if json.loads(node.read_text())["node_type"] == "array":
                array = zarr.open_array(node.parent, mode="r")
                arrays[str(node.parent.relative_to(folder))] = np.asarray(array[...])
    scores = json.loads((folder / "evaluate.json").read_text())
    scores = {k: v for k, v in scores.items() if k not in ("model", "seconds", "peak_bytes_per_worker")}
    return arrays, scores, pq.read_table(folder / "predictions.parquet")


def check_same(folder, undisturbed):
    arrays, scores, predictions = made(folder)
    known = undisturbed[0]
    assert arrays.keys() == known.keys()
    assert [name for name in arrays if arrays[name].tobytes() != known[name].tobytes()] == []
    assert scores == undisturbed[1]
    assert predictions.equals(undisturbed[2])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenario")
    write_table(folder / "rows.parquet")
    return folder


@pytest.fixture(scope="module")
def servers(folder):
    with Servers(folder) as servers:
        yield servers


@dataclasses.dataclass
class Undisturbed:
    """What the jobs make with one worker, and how many tasks each has."""

    made: tuple
    tasks: dict


@pytest.fixture(scope="module")
def undisturbed(folder, servers):
    place, tasks = folder / "undisturbed", {}
    write_jobs(place, servers.address)
    servers.have(1)
    for name in JOBS:
        servers.forget()
        with running(place, name):
            pass
        tasks[name] = sum(servers.finished().values())
        print(name, tasks[name], "tasks")
    return Undisturbed(made(place), tasks)


def test_the_undisturbed_run(folder, undisturbed):
    """Predictions are worth something, and each has the key of its row."""
    _, scores, predictions = undisturbed.made
    table = pq.read_table(folder / "rows.parquet")
    assert scores["rows"] == N
    assert scores["accuracy"] > 0.7
    assert predictions.select(KEYS).equals(table.select(KEYS))
    right = np.mean(predictions["prediction"].to_numpy() == table["label"].to_numpy())
    assert right == pytest.approx(scores["accuracy"], abs=1e-12)
    assert all(undisturbed.tasks[name] >= 10 for name in DISTURBED)


def test_workers_come_and_go(folder, servers, undisturbed):
    place = folder / "disturbed"
    write_jobs(place, servers.address)
    for name in JOBS:
        servers.have(3)
        servers.forget()
        with running(place, name) as going:
            if name in DISTURBED:
                joined = servers.disturb(undisturbed.tasks[name], going)
        if name == "train":
            assert servers.finished().get(joined, 0) > 0
    check_same(place, undisturbed.made)


def test_an_adaptive_cluster(folder, undisturbed):
    place = folder / "adaptive"
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        LocalCluster(n_workers=1, **options, local_directory=str(folder)) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(Finished())
        cluster.adapt(minimum=1, maximum=3, interval="200ms", target_duration="200ms", wait_count=2)
        write_jobs(place, cluster.scheduler_address)
        for name in JOBS:
            with running(place, name):
                pass
        _, came, left = client.run_on_scheduler(read_finished)
    print(came, "workers came,", left, "left")
    check_same(place, undisturbed.made)
    assert came >= 2
    assert left >= 1
