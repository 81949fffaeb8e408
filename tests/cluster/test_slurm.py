"""cluster/slurm in a real SLURM: two nodes on this machine, started here and gone at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
import servers
import yaml
from servers import CLUSTER, PATH, arrays, certificates, free_ports, spec_file, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "sinfo", "squeue", "openssl")
MISSING = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(MISSING), reason=f"SLURM is not installed: no {', '.join(MISSING)}"),
    pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="daemons of SLURM run as root"),
]

CONFIGURATION = """
ClusterName=distrf
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=2
KillWait=5
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=8000 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=debug Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def environment():
    """Environment of a shell in which the commands of SLURM work."""
    folder = Path(tempfile.mkdtemp(prefix="distrf-slurm-"))  # short: sockets lie in it
    for name in ("state", "spool-n1", "spool-n2", "log", "run"):
        (folder / name).mkdir(parents=True)
    for path in (folder, folder / "run"):
        path.chmod(0o755)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    text = CONFIGURATION.format(folder=folder, ports=free_ports(3), host=socket.gethostname())
    (folder / "slurm.conf").write_text(text)
    made = servers.ENVIRONMENT | {
        "SLURM_CONF": str(folder / "slurm.conf"), "DISTRF_TLS": str(folder / "tls"), "DISTRF_INTERFACE": "lo",
    }  # fmt: skip

    def start(*words):
        subprocess.run(words, env=made, check=True, timeout=30)

    files = {"key-file": "munge.key", "socket": "run/munge.sock", "pid-file": "run/munged.pid",
             "log-file": "munged.log", "seed-file": "munged.seed"}  # fmt: skip
    certificates(folder / "tls")
    start("munged", *(f"--{name}={folder / file}" for name, file in files.items()))
    try:
        start("slurmctld", "-c")
        for node in ("n1", "n2"):
            start("slurmd", "-N", node)
        wait_until(lambda: output(made, "sinfo", "-h", "-t", "idle", "-o", "%D") == "2")
        yield made
    finally:
        subprocess.run(["scontrol", "shutdown"], env=made, timeout=10)
        ends = []
        for pid in (folder / "run").glob("*.pid"):
            with contextlib.suppress(psutil.Error, OSError, ValueError):
                ends.append(psutil.Process(int(pid.read_text())))
                ends[-1].terminate()
        psutil.wait_procs(ends, timeout=15)
        shutil.rmtree(folder, ignore_errors=True)


def output(environment, *words):
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=10)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    return servers.make_jobs(tmp_path_factory.mktemp("jobs"), 512, 512)


def submit(environment, jobs, folder):
    """`sbatch cluster/slurm/batch.sbatch` of the three jobs; ends when they have."""
    words = ["sbatch", "--wait", "--ntasks=2", "--ntasks-per-node=1", "--mem-per-cpu=1500M"]
    names = [words(folder) for words in jobs.values()]
    return subprocess.Popen([*words, CLUSTER / "slurm/batch.sbatch", *names], cwd=folder, env=environment)


def log(folder):
    return "\n".join(path.read_text() for path in folder.glob("distrf-*.log"))


@contextlib.contextmanager
def amid(job, folder, printed):
    """Once a block of features is there, with all that the job still does; it must end well."""
    with job:
        try:
            wait_until(lambda: arrays(folder / "features.zarr"), 120, job)
            yield
            assert job.poll() is None
            assert job.wait(timeout=300) == 0, printed()
        finally:
            job.kill()


@pytest.fixture(scope="module")
def undisturbed(environment, jobs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    with submit(environment, jobs, folder) as job:
        assert job.wait(timeout=300) == 0, log(folder)
    return folder


def test_commands_in_one_allocation(undisturbed):
    text = log(undisturbed)
    assert "2 workers" in text
    assert "accuracy" in text
    assert arrays(undisturbed / "features.zarr")
    assert arrays(undisturbed / "model")


def test_workers_as_jobs_of_their_own(environment, jobs, undisturbed, tmp_path):
    """One of them is cancelled amid the work; another takes its place."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    spec = yaml.safe_load((CLUSTER / "slurm/cluster.yaml").read_text()) | {"tls": environment["DISTRF_TLS"]}
    spec["arguments"] |= {
        "interface": "lo", "memory": "1GiB", "job_mem": "1500M", "log_directory": str(tmp_path / "logs"),
        "scheduler_options": {"dashboard_address": "127.0.0.1:0"},
    }  # fmt: skip
    spec_file(tmp_path / "cluster.yaml", **spec)
    command = [
        sys.executable,
        *["-m", "distrf", *jobs["featurize"](tmp_path).split(), "--cluster", "cluster.yaml"],
    ]
    printed = tmp_path / "out.log"
    with printed.open("w") as out:
        job = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=out)
    with amid(job, tmp_path, printed.read_text):
        running = output(environment, "squeue", "-h", "-t", "R", "-n", "distrf", "-o", "%i").split()
        assert len(running) == 2
        subprocess.run(["scancel", running[0]], env=environment, check=True, timeout=10)
    assert "2 workers" in printed.read_text()
    assert arrays(tmp_path / "features.zarr") == arrays(undisturbed / "features.zarr")
    wait_until(lambda: output(environment, "squeue", "-h", "-n", "distrf") == "")
