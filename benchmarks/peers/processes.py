"""Runs a job by the Python of a peer, in a process of its own with one thread, and ends it where it takes too much memory or time.

A virtual environment for each peer is made the first time that it is needed, in the folder that the environment variable
DISTRF_BENCHMARKS_CACHE names, or in ~/.cache/distrf-benchmarks.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

import psutil

from benchmarks.benchmark import Record
from benchmarks.peers.job import JOBS

ROOT = Path(__file__).parents[2]
LIMIT = 4 * 2**30
#: Seconds between two looks at a process.
LOOK = 0.05
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA")
#: peer: what pip installs. Empty: the packages of this Python.
PEERS: dict[str, tuple[str, ...]] = {
    "distrf": (),
    "scikit-learn": (),
    # Its wheels were built for NumPy 1.
    "scikit-learn-extra": ("scikit-learn-extra==0.3.0", "numpy<2", "scikit-learn<1.6"),
    "dask-ml": ("dask-ml==2025.1.0", "dask[array,dataframe]", "distributed"),
    "thundersvm": ("thundersvm-cpu==0.3.3", "scikit-learn"),
    "snapml": ("snapml==1.17.2", "scikit-learn"),
}


def python_of(peer: str) -> Path:
    """The Python of a peer.

    Raises RuntimeError with the last error of pip.
    """
    wanted = PEERS[peer]
    if not wanted:
        return Path(sys.executable)
    cache = Path(os.environ.get("DISTRF_BENCHMARKS_CACHE", "~/.cache/distrf-benchmarks")).expanduser()
    place = cache / f"{peer}-{hashlib.sha256(repr((wanted, sys.version_info[:2])).encode()).hexdigest()[:8]}"
    python, ready = place / "bin" / "python", place / "ready"
    if not ready.exists():
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
        done = subprocess.run(
            [python, "-m", "pip", "install", "-q", *wanted], capture_output=True, text=True, check=False
        )
        if done.returncode:
            shutil.rmtree(place, ignore_errors=True)
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no message"]
            raise RuntimeError(f"pip install {' '.join(wanted)}: {lines[-1][:300]}")
        ready.touch()
    return python


def measure(job: str, method: str, folder: str, options: dict[str, Any], seconds: float) -> Record:
    """The record of one method: what `job.py` found, or why it found nothing, "failed".

    seconds : of processor time at most
    """
    peer = JOBS[job][method].peer
    record: Record = {"peer": peer, "method": method}
    try:
        python = python_of(peer)
    except RuntimeError as error:
        return record | {"failed": str(error)}
    words = [job, method, folder, json.dumps(options)]
    return record | watched([str(python), str(Path(__file__).parent / "job.py"), *words], peer, seconds)


def surroundings(peer: str) -> dict[str, str]:
    """One thread for all; this checkout for distrf alone."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept |= {f"{name}_NUM_THREADS": "1" for name in THREADS} | {"DASK_NUM_WORKERS": "1"}
    return kept | ({"PYTHONPATH": str(ROOT)} if peer == "distrf" else {})


def watched(command: list[str], peer: str, seconds: float, limit: int = LIMIT) -> Record:
    """Run a command; returns the JSON of its last line, or {"failed": why}."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, env=surroundings(peer), start_new_session=True
        )
        try:
            stopped = wait(process, seconds, limit)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0), err.seek(0)
        lines, said = out.read().strip().splitlines(), err.read().strip().splitlines()
    if stopped:
        return {"failed": stopped}
    if process.returncode:
        return {"failed": (said or [f"exit code {process.returncode}"])[-1][:300]}
    if not lines:
        return {"failed": "it ended and printed nothing"}
    return json.loads(lines[-1])


def wait(process: subprocess.Popen[Any], seconds: float, limit: int) -> str | None:
    """Wait for the end; returns why the process must not go on, where it must not."""
    looked_at = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            family = [looked_at, *looked_at.children(recursive=True)]
            resident = sum(p.memory_info().rss for p in family)
            spent = sum(p.cpu_times().user + p.cpu_times().system for p in family)
        except psutil.Error:  # it ended meanwhile
            time.sleep(LOOK)
            continue
        if resident > limit:
            return f"out of memory at {limit / 2**30:.0f} GiB"
        if spent > seconds:
            return f"not done after {seconds:.0f} processor seconds"
        time.sleep(LOOK)
    return None
