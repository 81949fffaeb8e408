"""Jobs that are killed at random moments and started again end with the bytes of one that nobody disturbed.

A case is its number, from which command, victim and moment are drawn. `DISTRF_KILLS=100` runs as many.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
from peaks import cluster_file, distrf, make_store

#: Arguments after input and output. What keeps a state goes on from it; the others begin anew, or keep blocks.
COMMANDS = {
    "ingest": ["--target", "label", "--block-rows", 2_000],
    "featurize": ["-D", 512, "--set", "map__length_scale=4", "--seed", 1],
    "predict": [],
    "ridge": ["-D", 512, "--alpha", "1e-6,1e-3", "--set", "model__cv=3", "--seed", 1],
    "passes": ["-D", 512, "--model", "logistic", "--set", "model__tol=1e-7", "--alpha", 1e-4, "--seed", 1],
    "sgd": ["-D", 512, "--model", "sgd-classifier", "--set", "model__n_epochs=4", "--seed", 1, "--set", "model__checkpoint_every=8"],
    "tefm": ["-D", 64, "--map", "tefm", "--set", "map__base__n_components=512", "--alpha", 1e-4, "--seed", 1],
    "cnm": ["-D", 16, "--map", "cnm", "--set", "map__n_epochs=3", "--seed", 1],
    "learned": ["-D", 256, "--map", "learned", "--set", "map__n_rounds=2", "--set", "map__base__n_components=256", "--seed", 1],
}  # fmt: skip
VICTIMS = ("client", "worker", "workers", "group")
ROWS = 20_000
#: Differ from run to run: when and how a model was made.
VOLATILE = ("provenance", "seconds", "checkpoint")


@dataclass(frozen=True)
class Setting:
    """Inputs, and for each command its undisturbed output, seconds until workers were there, and in all."""

    folder: Path
    known: dict

    def words(self, command, out):
        """The command line that writes `out`; running it again goes on with what it left."""
        source = "rows.csv" if command == "ingest" else "rows.zarr"
        inputs = [self.folder / "model"] if command == "predict" else []
        verb = command if command in ("ingest", "featurize", "predict") else "train"
        kept = ["--resume"] if verb == "train" else []  # one that is done already is a success
        cluster = ["--cluster", self.folder / "cluster.json"]
        words = [verb, *inputs, self.folder / source, out, *COMMANDS[command], *kept, *cluster, "--quiet"]
        return [sys.executable, "-m", "distrf", *map(str, words)]

    def undisturbed(self, command):
        if command not in self.known:
            out = self.folder / command
            started = time.monotonic()
            with subprocess.Popen(self.words(command, out)) as process:
                while len(workers_of(process)) < 2 and process.poll() is None:
                    time.sleep(0.01)
                up = time.monotonic() - started
                assert process.wait() == 0
            seconds = time.monotonic() - started
            # Ingesting has no workers: half of its time is that of the imports.
            self.known[command] = contents(out), up if command != "ingest" else seconds / 2, seconds
        return self.known[command]


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    make_store(folder / "rows.zarr", ROWS, 16, 1_000)
    cluster_file(folder / "cluster.json", workers=2)
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=(ROWS, 8)), rng.integers(3, size=ROWS)])
    header = ",".join([*(f"c{j}" for j in range(8)), "label"])
    np.savetxt(folder / "rows.csv", table, delimiter=",", fmt="%.6g", header=header, comments="")
    distrf("train", folder / "rows.zarr", folder / "model", "-D", 512, "--alpha", 1e-4, "--seed", 2)
    return Setting(folder, {})


def workers_of(process):
    """Worker processes of a running command."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [c for c in children if "spawn_main" in " ".join(c.cmdline())]
    except psutil.Error:
        return []


def contents(path):
    """{relative file name: bytes} of a folder; of a model's description what is volatile is left out."""
    found = {}
    for file in sorted(Path(path).rglob("*")):
        if file.is_file():
            data = file.read_bytes()
            if file.suffix == ".json":
                data = lasting(json.loads(data))
                data.pop("checksum", None)  # of a document with all that is volatile
            found[str(file.relative_to(path))] = data
    return found


def lasting(value):
    if isinstance(value, dict):
        return {k: lasting(v) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list):  # dictionaries are saved as pairs
        return [lasting(v) for v in value if not (isinstance(v, list) and v[:1] and v[0] in VOLATILE)]
    return value


def kill(process, victim, rng):
    if victim == "group":
        os.killpg(process.pid, signal.SIGKILL)
    elif victim == "client":
        process.kill()
    else:
        workers = workers_of(process)
        for worker in [workers[rng.integers(len(workers))]] if victim == "worker" and workers else workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()


def run_killed(setting, number, out):
    """Kill and start again until it is done, at most three times; returns what was drawn."""
    rng = np.random.default_rng([20261122, number])
    # All pairs of command and victim in turn, in an order of their own.
    pairs = [(c, v) for c in COMMANDS for v in VICTIMS if c != "ingest" or v in ("client", "group")]
    command, victim = pairs[np.random.default_rng(0).permutation(len(pairs))[number % len(pairs)]]
    expected, up, seconds = setting.undisturbed(command)
    words = setting.words(command, out)
    moment = rng.uniform(up, seconds)
    process = subprocess.Popen(words, start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(moment)
        kill(process, victim, rng)
        said = process.communicate(timeout=240)[1]
        done = process.returncode == 0
        if not done and victim in ("worker", "workers"):
            assert process.returncode == 1, said
            assert "Traceback" not in said
        for _ in range(2):
            if done:
                break
            again = subprocess.run(words, capture_output=True, text=True, timeout=240)
            done, said = again.returncode == 0, again.stderr
        assert done, (command, victim, said)
        found = contents(out)
        assert found.keys() == expected.keys(), (command, victim)
        assert [name for name in found if found[name] != expected[name]] == [], (command, victim)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return command, victim, round(moment - up, 2), round(seconds - up, 2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(int(os.environ.get("DISTRF_KILLS", "10"))))
def test_killed_and_started_again(setting, tmp_path, number):
    print(number, *run_killed(setting, number, tmp_path / "out"))
