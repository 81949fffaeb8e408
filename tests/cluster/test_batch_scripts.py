"""The batch script of SLURM with stand-ins for all programs that it starts."""

from __future__ import annotations

import os
import subprocess

import pytest
from servers import CLUSTER, PATH

SCRIPT = CLUSTER / "slurm/batch.sbatch"
# A scheduler that is slow to write its file, and says whether it found one.
DASK = """#!/bin/bash
while [ "$1" != --scheduler-file ]; do shift; done
[ -e "$2" ] && echo stale
sleep 0.7
echo '{"address": "tls://new:1"}' > "$2"
exec sleep 30
"""
DISTRF = '#!/bin/bash\necho "$* after $DASK_DISTRF__WORKERS_TIMEOUT"\n'
START = '#!/bin/bash\necho "start $*" > started\n'


@pytest.fixture
def run(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls/key.pem").touch()
    for name, text in {"dask": DASK, "distrf": DISTRF, "srun": START}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "distrf-7.json").write_text('{"address": "tls://dead:1"}')
    base = {key: value for key, value in os.environ.items() if not key.startswith(("DASK_", "DISTRF_"))}
    base |= {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "2", "DISTRF_TLS": str(tmp_path / "tls")}
    base["PATH"] = os.pathsep.join([str(tmp_path / "bin"), PATH])
    options = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 60, "start_new_session": True}

    def call(**variables):
        return subprocess.run(["bash", SCRIPT, "train rows.zarr model"], env=base | variables, **options)

    return call


def test_a_job_that_runs_again_waits_for_its_new_scheduler(run, tmp_path):
    """It keeps its number, so the file of the scheduler that was killed lies there."""
    done = run(SLURM_MEM_PER_CPU="1000")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "train rows.zarr model --cluster tls://new:1 after 600s\n"
    assert not (tmp_path / "distrf-7.json").exists()


def test_memory_by_node_is_refused(run):
    done = run()
    assert done.returncode != 0
    assert "ask for memory with --mem-per-cpu" in done.stderr
