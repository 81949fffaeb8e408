"""cluster/ssh with a real sshd on the loopback of this machine."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from distrf.cluster import connect

ROOT = Path(__file__).parents[2]
SSHD = shutil.which("sshd", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
CONFIGURATION = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/id.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SSHD is None, reason="sshd is not installed"),
    pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="sshd runs as root"),
]


@pytest.fixture
def port(tmp_path):
    """Of an sshd that lets in the key `id` beside its configuration."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    for name in ("host", "id"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True, timeout=20
        )
    (tmp_path / "sshd_config").write_text(CONFIGURATION.format(port=port, folder=tmp_path))
    Path("/run/sshd").mkdir(exist_ok=True)  # into which it locks itself up
    with subprocess.Popen([SSHD, "-D", "-f", tmp_path / "sshd_config", "-E", tmp_path / "sshd.log"]) as server:
        time.sleep(0.5)
        yield port
        server.terminate()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_hosts_with_certificates(port, tmp_path):
    pytest.importorskip("asyncssh", reason="asyncssh is not installed")
    subprocess.run([ROOT / "cluster/tls/make-certs.sh", tmp_path / "tls"], check=True, timeout=60)
    spec = yaml.safe_load((ROOT / "cluster/ssh/cluster.yaml").read_text())
    spec["arguments"]["hosts"] = ["127.0.0.1"] * 3
    spec["arguments"]["remote_python"] = f"env PYTHONPATH={ROOT} {sys.executable}"
    spec["arguments"]["connect_options"] = {
        "port": port,
        "username": getpass.getuser(),
        "client_keys": [str(tmp_path / "id")],
        "known_hosts": None,
        "config": None,
    }
    for options in ("worker_options", "scheduler_options"):
        spec["arguments"][options] |= {"interface": "lo", "dashboard_address": "127.0.0.1:0"}
    spec["tls"] = str(tmp_path / "tls")
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(spec))
    with connect(tmp_path / "cluster.yaml") as client:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        assert len(workers) == 2
        assert all(address.startswith("tls://127.0.0.1:") for address in [client.scheduler.address, *workers])
        assert client.submit(eval, "'distrf.execution.workers' in __import__('sys').modules").result()
