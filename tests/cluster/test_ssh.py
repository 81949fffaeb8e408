"""cluster/ssh with a real sshd on the loopback of this machine."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from servers import CLUSTER, PATH, ROOT, certificates, free_ports, spec_file

from distrf.cluster import connect

SSHD = shutil.which("sshd", path=PATH)
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
    (port,) = free_ports(1)
    for name in ("host", "id"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name]
        subprocess.run(words, check=True, timeout=20)
    (tmp_path / "sshd_config").write_text(CONFIGURATION.format(port=port, folder=tmp_path))
    Path("/run/sshd").mkdir(exist_ok=True)  # into which it locks itself up
    with subprocess.Popen([SSHD, "-D", "-f", tmp_path / "sshd_config", "-E", tmp_path / "sshd.log"]) as server:
        time.sleep(0.5)
        yield port
        server.terminate()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_hosts_with_certificates(port, tmp_path):
    pytest.importorskip("asyncssh", reason="asyncssh is not installed")
    spec = yaml.safe_load((CLUSTER / "ssh/cluster.yaml").read_text())
    login = {"port": port, "username": getpass.getuser(), "client_keys": [str(tmp_path / "id")]}
    spec["arguments"] |= {
        "hosts": ["127.0.0.1"] * 3,
        "remote_python": f"env PYTHONPATH={ROOT} {sys.executable}",
        "connect_options": login | {"known_hosts": None, "config": None},
    }
    for options in ("worker_options", "scheduler_options"):
        spec["arguments"][options] |= {"interface": "lo", "dashboard_address": "127.0.0.1:0"}
    spec["tls"] = str(certificates(tmp_path / "tls"))
    with connect(spec_file(tmp_path / "cluster.yaml", **spec)) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        assert len(workers) == 2
        assert all(address.startswith("tls://127.0.0.1:") for address in [client.scheduler.address, *workers])
        assert client.submit(eval, "'distrf.execution.workers' in __import__('sys').modules").result()
