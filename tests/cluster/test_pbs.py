"""cluster/pbs/batch.pbs with a stand-in for pbsdsh, which starts the command of a chunk twice on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PBSDSH = """#!/bin/bash
shift  # --
env -i HOME="$HOME" "$@" &
env -i HOME="$HOME" "$@" &
wait
"""


def run(tmp_path, jobs):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/pbsdsh").write_text(PBSDSH)
    (tmp_path / "bin/pbsdsh").chmod(0o755)
    path = [tmp_path / "bin", Path(sys.executable).parent, os.environ["PATH"]]
    python_path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PATH": os.pathsep.join(map(str, path)),
        "PYTHONPATH": os.pathsep.join(python_path),
        "PBS_O_WORKDIR": str(tmp_path),
        "PBS_JOBID": "1.here",
        "DISTRF_TLS": str(tmp_path / "tls"),
        "DISTRF_INTERFACE": "lo" if sys.platform == "linux" else "lo0",
        "jobs": jobs,
    }
    script = ROOT / "cluster/pbs/batch.pbs"
    return subprocess.run(
        ["bash", script], env=environment, capture_output=True, text=True, timeout=150, start_new_session=True
    )


def test_without_certificates_nothing_starts(tmp_path):
    done = run(tmp_path, "a.toml")
    assert done.returncode == 1
    assert done.stderr.startswith("no certificates in")


@pytest.mark.slow
def test_a_job_file_in_an_allocation(tmp_path):
    subprocess.run([ROOT / "cluster/tls/make-certs.sh", tmp_path / "tls"], check=True, timeout=60)
    (tmp_path / "demo.toml").write_text('command = "demo"\nrows = 2000\nn-components = 64\nout = "demo"\n')
    done = run(tmp_path, "demo.toml")
    assert done.returncode == 0, done.stderr
    assert "tls://127.0.0.1" in done.stderr
    assert (tmp_path / "demo/model/model.json").exists()
    assert not (tmp_path / "distrf-1.here.json").exists()
