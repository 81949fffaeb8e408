"""From Parquet files to predictions with keys, while workers are killed, retired and join: the bits of an undisturbed run.

The servers are Dask's own commands without anything of ours. Nothing here knows how distrf runs a job: it
rests on the command line and on Dask's client.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from functools import partial

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster, SchedulerPlugin
from servers import arrays, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

#: A stock scheduler cannot import this file: what it runs travels as code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N, FILES, ANSWERS = 102_000, 12, 253
NUMBERS = ["weight", "height", "visits", *(f"answer{j}" for j in range(ANSWERS))]
KEYS = ["id", "town", "day"]
#: The jobs in their order, each with its options; paths are relative to the folder.
JOBS: dict[str, dict] = {
    "ingest": {
        "": ["rows.parquet", "rows.zarr"], "target": "label", "columns": ",".join(NUMBERS),
        "block-rows": 8192,
    },
    "train": {
        "": ["rows.zarr", "model"], "map": "tefm", "n-components": 48, "scale": "standard",
        "model": "sgd-classifier", "alpha": 1e-5, "seed": 0,
        "set": {
            "map__base__length_scale": 20.0, "map__base__n_components": 256, "map__solver": "finder", "model__loss": "multinomial", "model__n_epochs": 2,
            "model__batch_size": 4000,
        },
    },
    "evaluate": {"": ["model", "rows.parquet"], "target": "label"},
    "predict": {"": ["model", "rows.parquet", "predictions.parquet"], "keys": ",".join(KEYS)},
}  # fmt: skip
#: Jobs in whose tasks workers come and go.
DISTURBED = ("train", "predict")
#: Seconds that servers may take to start, and a job to get somewhere, on a busy machine.
PATIENCE = 300
until = partial(wait_until, seconds=PATIENCE)


def write_table(folder):
    """Rows with an integer key, text, a date and many answers; each file is more than half a block, so a block each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    answers = X @ rng.normal(size=(3, ANSWERS)).astype(np.float32) + rng.normal(size=(N, ANSWERS))
    answers = answers.clip(-3, 3).round().astype(np.int8)
    columns = {
        "id": 10**12 + 7 * np.arange(N),
        "town": np.array(["Aalen", "Bonn", "Celle", "Düren"])[rng.integers(4, size=N)],
        "day": np.datetime64("2024-01-01") + rng.integers(700, size=N),
        "weight": X[:, 0],
        "height": X[:, 1],
        "visits": rng.poisson(3, size=N).astype(np.int32),
        **{f"answer{j}": answers[:, j] for j in range(ANSWERS)},
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


def read_finished(forget, dask_scheduler):
    """Tasks of each worker; how many workers came, and left."""
    plugin = dask_scheduler.plugins["finished"]
    found = dict(plugin.tasks), plugin.came, plugin.left
    if forget:
        plugin.__init__()
    return found


class Servers:
    """`dask scheduler` and `dask worker` as Dask ships them, and a client that watches them."""

    def __init__(self, folder):
        self.folder, self.workers, self.made = folder, {}, 0
        self.file = folder / "scheduler.json"
        options = ["--port", "0", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", self.file]
        self.scheduler = self._start("scheduler", *options)

    def __enter__(self):
        self.address = until(self._address, job=self.scheduler)
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
        return self._worker("--no-nanny", "--scheduler-file", late), late

    def addresses(self):
        """{name: address} of the workers that the scheduler knows."""
        return {w["name"]: a for a, w in self.client.scheduler_info(n_workers=-1)["workers"].items()}

    def join(self, name, late):
        """The worker is told; returns when tasks can begin there at once. Returns its address."""
        shutil.copy(self.file, late.with_suffix(".new"))
        late.with_suffix(".new").rename(late)
        address = until(lambda: self.addresses().get(name))
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

    def finished(self, forget=False):
        """{address: tasks that it has finished}"""
        return self.client.run_on_scheduler(read_finished, forget)[0]

    def stop_a_busy_one(self):
        """Stop all workers at a moment at which one of them has a task; its name, else None."""
        self.signal(signal.SIGSTOP)
        if (name := self.busy()) is None:
            self.signal(signal.SIGCONT)
        return name

    def disturb(self, tasks, job):
        """Amid a job of so many tasks one worker is killed while it works and one joins; later one is retired while it works.

        Returns the address of the worker that joined.
        """
        name, late = self.ready()
        until(lambda: sum(self.finished().values()) > tasks // 3, job=job)
        lost = until(self.stop_a_busy_one, job=job)
        try:
            self.signal(signal.SIGKILL, lost)
            self.workers.pop(lost).wait()
            joined = self.join(name, late)
        finally:
            self.signal(signal.SIGCONT)
        until(lambda: sum(self.finished().values()) > 2 * tasks // 3, job=job)
        retired = self.addresses()[until(self.busy, job=job)]
        assert list(self.client.retire_workers([retired])) == [retired]
        return joined


def make_folder(folder):
    """The folder of some jobs, with the table that they begin with."""
    folder.mkdir()
    (folder / "rows.parquet").symlink_to(folder.parent / "rows.parquet")


def words_of(name, cluster):
    """The words of a job on the command line."""
    words = [name, "--json", "--cluster", cluster]
    for option, value in JOBS[name].items():
        if not option:
            words += value
        elif isinstance(value, dict):
            words += [word for pair in value.items() for word in ("--set", "{}={}".format(*pair))]
        else:
            words += [f"--{option}", str(value)]
    return words


@contextlib.contextmanager
def running(folder, name, cluster):
    """A job under way. What it prints is in a file at the end."""
    printed, errors = folder / f"{name}.json", folder / f"{name}.log"
    command = [sys.executable, "-m", "distrf", *words_of(name, cluster)]
    with open(printed, "wb") as out, open(errors, "wb") as err:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err)
    try:
        yield process
        assert process.wait(timeout=PATIENCE) == 0, errors.read_text()
    finally:
        process.kill()
        process.wait()


def made(folder):
    """All that the jobs made: bytes of the store and of the model, scores, predictions."""
    scores = json.loads((folder / "evaluate.json").read_text())
    scores = {k: v for k, v in scores.items() if k not in ("model", "seconds", "peak_bytes_per_worker")}
    chunks = {(name, k): v for name in ("rows.zarr", "model") for k, v in arrays(folder / name).items()}
    return chunks, scores, pq.read_table(folder / "predictions.parquet")


def check_same(folder, undisturbed):
    chunks, scores, predictions = made(folder)
    known = undisturbed[0]
    assert {name for name, _ in chunks} == {"rows.zarr", "model"}
    assert chunks.keys() == known.keys()
    assert [name for name in chunks if chunks[name] != known[name]] == []
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


@pytest.fixture(scope="module")
def undisturbed(folder, servers):
    """What the jobs make with one worker, and how many tasks each has."""
    place, tasks = folder / "undisturbed", {}
    make_folder(place)
    servers.have(1)
    for name in JOBS:
        servers.finished(forget=True)
        with running(place, name, servers.address):
            pass
        tasks[name] = sum(servers.finished().values())
        print(name, tasks[name], "tasks")
    return made(place), tasks


def test_the_undisturbed_run(folder, undisturbed):
    """Predictions are worth something, and each has the key of its row."""
    (_, scores, predictions), tasks = undisturbed
    table = pq.read_table(folder / "rows.parquet")
    assert scores["rows"] == N
    assert scores["accuracy"] > 0.7
    assert predictions.select(KEYS).equals(table.select(KEYS))
    right = np.mean(predictions["prediction"].to_numpy() == table["label"].to_numpy())
    assert right == pytest.approx(scores["accuracy"], abs=1e-12)
    assert all(tasks[name] >= 10 for name in DISTURBED)


def test_workers_come_and_go(folder, servers, undisturbed):
    place = folder / "disturbed"
    make_folder(place)
    for name in JOBS:
        servers.have(3)
        servers.finished(forget=True)
        with running(place, name, servers.address) as job:
            if name in DISTURBED:
                joined = servers.disturb(undisturbed[1][name], job)
        if name == "train":
            assert servers.finished().get(joined, 0) > 0
    check_same(place, undisturbed[0])


def test_an_adaptive_cluster(folder, undisturbed):
    place = folder / "adaptive"
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        LocalCluster(n_workers=1, **options, local_directory=str(folder)) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(Finished())
        cluster.adapt(minimum=1, maximum=3, interval="200ms", target_duration="200ms", wait_count=2)
        make_folder(place)
        for name in JOBS:
            with running(place, name, cluster.scheduler_address):
                pass
        _, came, left = client.run_on_scheduler(read_finished, False)
    print(came, "workers came,", left, "left")
    check_same(place, undisturbed[0])
    assert came >= 2
    assert left >= 1
