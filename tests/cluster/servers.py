"""What tests share that start servers: programs, spec files, certificates, jobs, and what these wrote."""

from __future__ import annotations

import contextlib
import os
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
    """Rows of digits, and commands with so many features: {name: function of the folder of outputs}."""
    X, y = expanded_digits(30_000, seed=0)
    rows = folder / "rows.zarr"
    write_rows(rows, {"X": X, "y": y}, kind="rows", spec={"rows": 30_000})
    map_ = "--map fourier --set map__length_scale=4.0 --seed 1 -D"
    return {
        "featurize": lambda out: f"featurize {rows} {out}/features.zarr {map_} {made}",
        "train": lambda out: f"train {rows} {out}/model --model ridge-classifier --alpha 1e-6 {map_} {fitted}",
        "evaluate": lambda out: f"evaluate {out}/model {rows}",
    }


def arrays(folder):
    """Bytes of all chunks, and of the arrays of models, below a folder; metadata say when something was made."""
    files = (p for p in folder.rglob("*") if p.is_file() and ("c" in p.parts or p.suffix == ".npz"))
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}
