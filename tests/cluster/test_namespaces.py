"""Three hosts on one machine, as network namespaces: the cluster that README starts by hand, with certificates."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys

import psutil
import pytest
import servers
from servers import CLUSTER, PATH, arrays, certificates, wait_until

IP = shutil.which("ip", path=PATH)
HOSTS = {"head": "10.77.0.1", "w1": "10.77.0.2", "w2": "10.77.0.3"}
LOOPBACK = "0100007F"  # 127.0.0.1, as the tables of the kernel write it
ADDRESS = f"tls://{HOSTS['head']}:8786"


def ip(*words, check=True):
    return subprocess.run([IP, *words], check=check, capture_output=True, text=True, timeout=10)


pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Hosts:
    """Namespaces joined by a bridge that lies in the first; nothing is made outside of them."""

    def __init__(self, folder):
        self.folder = folder
        self.started = []
        self.environment = servers.ENVIRONMENT | {
            # As short as Dask lets them be, so that a host that is cut off is given up soon.
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "20s",
        }

    @staticmethod
    def namespace(host):
        return f"distrf-{os.getpid()}-{host}"

    def make(self):
        head = self.namespace("head")
        for host in HOSTS:
            ip("netns", "add", self.namespace(host))
            ip("-n", self.namespace(host), "link", "set", "lo", "up")
        ip("-n", head, "link", "add", "name", "eth0", "type", "bridge")
        for host in ("w1", "w2"):
            ends = ("netns", head, "type", "veth", "peer", "name", "eth0", "netns", self.namespace(host))
            ip("link", "add", "name", host, *ends)
            ip("-n", head, "link", "set", host, "master", "eth0", "up")
        for host, address in HOSTS.items():
            ip("-n", self.namespace(host), "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", self.namespace(host), "link", "set", "eth0", "up")

    def cut(self, host, link="down"):
        ip("-n", self.namespace("head"), "link", "set", host, link)

    def _options(self, host, line, **more):
        words = [IP, "netns", "exec", self.namespace(host), "bash", "-c", f"exec {line}"]
        return {"args": words, "env": self.environment, "cwd": self.folder} | more

    def run(self, host, line):
        """A command line on a host, to its end."""
        return subprocess.run(**self._options(host, line), timeout=120, capture_output=True, text=True)

    def start(self, host, line):
        """A command line on a host, which goes on; its output is in a file."""
        log = self.folder / f"{host}-{len(self.started)}.log"
        with log.open("w") as out:
            process = subprocess.Popen(**self._options(host, line, stdout=out, stderr=out))
        process.log = log
        self.started.append(process)
        return process

    def close(self):
        alive = [psutil.Process(process.pid) for process in self.started if process.poll() is None]
        servers.kill_all([child for process in alive for child in process.children(recursive=True)] + alive)
        for process in self.started:
            process.wait()
        for host in HOSTS:
            ip("netns", "del", self.namespace(host), check=False)


@pytest.fixture(scope="module")
def commands():
    """The two commands of README that start a scheduler and workers by hand, with one worker a host."""
    text = (CLUSTER / "README.md").read_text()
    (block,) = (b for b in re.findall(r"```bash\n(.*?)```", text, flags=re.S) if b.startswith('T="'))
    options, scheduler, worker = (line.partition("#")[0].strip() for line in block.splitlines()[:3])
    options = options.removeprefix('T="').removesuffix('"')
    lines = [line.replace("$T", options) for line in (scheduler, worker)]
    assert lines[0].startswith("dask scheduler ")
    assert lines[1].startswith("dask worker tls://host:8786 ")
    assert "--nworkers -1" in lines[1]
    return lines[0], lines[1].replace("tls://host:8786", ADDRESS).replace("--nworkers -1", "--nworkers 1")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory, commands):
    """A scheduler on the first host, a worker on each other; certificates in tls/ and those of a stranger in theirs/."""
    if IP is None or shutil.which("openssl") is None or os.getuid() != 0:
        pytest.skip("namespaces are made by root, with ip (of iproute2) and openssl")
    folder = tmp_path_factory.mktemp("hosts")
    for name in ("tls", "theirs"):
        certificates(folder / name)
    hosts = Hosts(folder)
    try:
        try:
            hosts.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"namespaces cannot be made here: {error.stderr.strip()}")
        scheduler = hosts.start("head", commands[0])
        wait_until(lambda: "Scheduler at" in scheduler.log.read_text(), job=scheduler)
        hosts.workers = {host: hosts.start(host, commands[1]) for host in ("w1", "w2")}
        for worker in hosts.workers.values():
            wait_until(lambda worker=worker: "Registered to" in worker.log.read_text(), job=worker)
        yield hosts
    finally:
        hosts.close()


def count_workers(hosts):
    """As the client of a command sees them."""
    line = "from distrf import connect\n"
    line += f"with connect('{ADDRESS}', tls='tls') as c: print(len(c.scheduler_info(n_workers=-1)['workers']))"
    done = hosts.run("head", f'python -c "{line}"')
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_strangers_are_refused(hosts, commands):
    """A worker with certificates of another authority."""
    done = hosts.run("w1", commands[1].replace("tls/", "theirs/").replace("timeout 60", "timeout 5"))
    assert done.returncode != 0
    assert "CERTIFICATE_VERIFY_FAILED" in done.stderr + done.stdout
    assert count_workers(hosts) == 2


def listeners(host):
    """(address, port) of every TCP socket of a host that waits for connections, from its own tables."""
    tables = ip("netns", "exec", Hosts.namespace(host), "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout
    lines = [line.split() for line in tables.splitlines()]
    return {tuple(line[1].split(":")) for line in lines if line[3] == "0A"}


def test_nothing_else_listens_beyond_its_host(hosts):
    """One port of the scheduler, and of a worker its own and its nanny's, where certificates are asked for. No pages of either."""
    for host, count in {"head": 1, "w1": 2, "w2": 2}.items():
        ports = {port for address, port in listeners(host) if address != LOOPBACK}
        assert len(ports) == count, f"{host} listens at {ports}"


@pytest.fixture(scope="module")
def jobs(hosts):
    """Commands with enough features that a worker is busy for seconds, and what they make on this machine alone."""
    jobs = servers.make_jobs(hosts.folder, 1024, 4096)
    for name in ("featurize", "train"):
        words = [sys.executable, "-m", "distrf", *jobs[name]("local").split()]
        subprocess.run(words, cwd=hosts.folder, env=hosts.environment, check=True, timeout=200)
    return jobs


def busy_seconds(process):
    """Processor time of a worker and its nanny so far."""
    spent = 0.0
    for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            spent += sum(one.cpu_times()[:2])
    return spent


@pytest.mark.parametrize("case", [("featurize", "features.zarr", "w1"), ("train", "model", "w2")])
def test_a_host_that_is_cut_off_changes_nothing(hosts, commands, jobs, case):
    """Amid the work its link goes down, without a word. Afterwards the host is back, and its worker started again."""
    name, out, victim = case
    before = busy_seconds(hosts.workers[victim])
    job = hosts.start("head", f"distrf {jobs[name]('cut')} --cluster {ADDRESS} --tls tls")
    wait_until(lambda: busy_seconds(hosts.workers[victim]) > before + 1.0, 60, job)
    hosts.cut(victim)
    assert job.wait(timeout=200) == 0, job.log.read_text()
    assert "2 workers" in job.log.read_text()
    assert arrays(hosts.folder / "local" / out)
    assert arrays(hosts.folder / "cut" / out) == arrays(hosts.folder / "local" / out)
    assert count_workers(hosts) == 1
    wait_until(lambda: hosts.workers[victim].poll() is not None, 90)
    hosts.cut(victim, link="up")
    hosts.workers[victim] = hosts.start(victim, commands[1])
    wait_until(lambda: count_workers(hosts) == 2)
