"""Certificates: made by one script, let in who has one of the same authority, and nobody else."""

from __future__ import annotations

import json
import subprocess

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster, default_client
from servers import CLUSTER, certificates

from distrf.cluster import connect, read_cluster_spec, tls_settings
from distrf.errors import ClusterError, InputError

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
    with pytest.raises(ClusterError, match="certificates of the same authority"):
        connect(encrypted, tls=theirs, timeout=1)
    with pytest.raises(ClusterError, match="no Dask scheduler answered"):
        connect(encrypted.replace("tls://", "tcp://"), timeout=1)


def test_the_command_line_takes_them(encrypted, ours, cli, tmp_path):
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": np.arange(9.0), "b": np.arange(9.0)}), rows)
    words = ["plan", rows, "--for", "featurize", "--map", "fourier", "-D", 64, "--cluster", encrypted, "--json"]
    assert json.loads(cli(*words, "--tls", ours).out)["workers"] == 1


@pytest.mark.slow
def test_the_spec_that_is_shipped(ours, tmp_path):
    """Its folder of certificates is relative to it."""
    spec = tmp_path / "cluster.yaml"
    spec.write_text((TLS / "cluster.yaml").read_text().replace("n_workers: 2", "n_workers: 1"))
    assert read_cluster_spec(spec)["tls"] == str(tmp_path / "certificates")
    spec.write_text(spec.read_text().replace("workers: 2", "workers: 1"))
    (tmp_path / "certificates").symlink_to(ours)
    with connect(spec) as client:
        assert client is default_client()
        addresses = [client.scheduler.address, *client.scheduler_info(n_workers=-1)["workers"]]
        assert all(address.startswith("tls://") for address in addresses)
        assert client.submit(sum, [1, 2]).result() == 3


def test_folders_that_do_not_do(tmp_path, ours):
    with pytest.raises(InputError, match=r"got '.*nothing'.*make-certs.sh"):
        connect(tls=tmp_path / "nothing")
    other = certificates(tmp_path / "other")
    (other / "key.pem").write_bytes((ours / "key.pem").read_bytes())
    with pytest.raises(InputError, match="that go together"):
        connect(tls=other)
    with pytest.raises(ClusterError, match="encryption required"):
        connect("tcp://127.0.0.1:9", tls=ours)
