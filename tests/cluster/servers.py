"""What tests share that start servers: programs, spec files, certificates, jobs, and what these wrote."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import yaml

from distrf.datasets import expanded_digits
from distrf.execution.writing import write_rows

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "cluster"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"])
PYTHONPATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
ENVIRONMENT = os.environ | {"PATH": PATH, "PYTHONPATH": PYTHONPATH}


def spec_file(path, **spec):
    path.write_text(yaml.safe_dump(spec))
    return path


def local(path, arguments, **more):
    """The spec file of a local cluster."""
    return spec_file(path, **{"class": "distributed.LocalCluster", "arguments": arguments}, **more)


def workers_of(client):
    return list(client.scheduler_info(n_workers=-1)["workers"].values())


def certificates(folder):
    subprocess.run([CLUSTER / "tls/make-certs.sh", folder, "2"], check=True, timeout=60)
    return folder


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


def wait_until(what, seconds=60, job=None):
    """The first value of `what` that is true; AssertionError where it takes too long, or the job has ended."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert job is None or job.poll() is None, f"the command has ended with {job.returncode}"
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)
    return found


def kill_all(processes):
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def make_jobs(folder, made, fitted):
    """Rows of digits, and files of jobs with so many features, which write beside the place where they are copied to."""
    X, y = expanded_digits(30_000, seed=0)
    write_rows(folder / "rows.zarr", {"X": X, "y": y}, kind="rows", spec={"rows": 30_000})
    map_ = "map: fourier\nset: {map__length_scale: 4.0}\nrandom_state: 1\nn_components: "
    jobs = {
        "featurize": f"out: features.zarr\n{map_}{made}\n",
        "train": f"out: model\nmodel: ridge-classifier\nalpha: 1e-6\n{map_}{fitted}\n",
        "evaluate": "model: model\n",
    }
    for name, text in jobs.items():
        lines = f"command: {name}\nX: {folder / 'rows.zarr'}\n"
        (folder / f"{name}.yaml").write_text(lines + text)
    return folder


def place(jobs, folder):
    folder.mkdir(exist_ok=True)
    for path in jobs.glob("*.yaml"):
        shutil.copy(path, folder)
    return folder


def arrays(folder):
    """Bytes of all chunks, and of the arrays of models, below a folder; metadata say when something was made."""
    files = (p for p in folder.rglob("*") if p.is_file() and ("c" in p.parts or p.suffix == ".npz"))
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}
