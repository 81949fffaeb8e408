"""Certificates: made by one script, let in who has one of the same authority, and nobody else."""

from __future__ import annotations

import subprocess

import dask
import pytest
from distributed import LocalCluster
from servers import CLUSTER, certificates

from distrf.cluster import connect, tls_settings
from distrf.errors import ClusterError

TLS = CLUSTER / "tls"


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("ours") / "tls")


@pytest.fixture(scope="module")
def encrypted(ours):
    """A scheduler and a worker that somebody else has started, with certificates."""
    options = {"threads_per_worker": 1, "processes": False, "protocol": "tls", "host": "127.0.0.1"}
    with dask.config.set(tls_settings(ours)):
        cluster = LocalCluster(1, **options, dashboard_address="127.0.0.1:0")
    with cluster:
        yield cluster.scheduler_address


def test_what_the_script_makes(ours):
    assert {path.name for path in ours.iterdir()} == {"ca.pem", "cert.pem", "key.pem"}
    assert ours.stat().st_mode & 0o077 == 0
    again = subprocess.run([TLS / "make-certs.sh", ours], capture_output=True, text=True, timeout=60)
    assert again.returncode == 1
    assert "has certificates already" in again.stderr


def test_the_right_certificate_is_let_in(encrypted, ours):
    assert encrypted.startswith("tls://")
    with connect(encrypted, tls=ours) as client:
        assert client.submit(sum, [1, 2]).result() == 3
    assert dask.config.get("distributed.comm.tls.ca-file") is None


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_others_are_refused(encrypted, tmp_path):
    theirs = certificates(tmp_path / "theirs")
    for address, tls, message in (
        (encrypted, theirs, "certificates of the same authority"),
        (encrypted.replace("tls://", "tcp://"), None, "no Dask scheduler answered"),
    ):
        with pytest.raises(ClusterError, match=message), connect(address, tls=tls, timeout=1):
            pass
