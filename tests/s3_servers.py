"""Object stores for tests: moto or Ceph on this machine, and a proxy that counts requests and injects faults."""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

CEPH = """
[global]
fsid = {fsid}
mon host = v1:127.0.0.1:{port}
ms bind msgr2 = false
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = false
public network = 127.0.0.0/8
public addr = 127.0.0.1
run dir = {folder}
admin socket = {folder}/$name.asok
pid file = {folder}/$name.pid
log file = {folder}/$name.log
log to stderr = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon max pg per osd = 1000
mon data avail crit = 1
mon data avail warn = 2
[mon.a]
mon data = {folder}/mon
[osd.0]
osd data = {folder}/osd
osd objectstore = bluestore
bluestore block size = 8589934592
osd memory target = 1073741824
osd class load list = *
[client.rgw]
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{gateway}
"""


@contextmanager
def endpoint(folder: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name and URL of an object store, and the environment with its credentials.

    moto here, in this process; with ``DISTRF_TEST_S3=ceph`` Ceph's gateway; with ``DISTRF_TEST_S3_URL`` that one.
    """
    if "DISTRF_TEST_S3_URL" in os.environ:
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        yield "given", os.environ["DISTRF_TEST_S3_URL"], {name: os.environ[name] for name in names}
    elif os.environ.get("DISTRF_TEST_S3") == "ceph":
        with _ceph(folder) as url:
            yield "ceph", url, {"AWS_ACCESS_KEY_ID": "distrf-test", "AWS_SECRET_ACCESS_KEY": "sekret-of-test"}
    else:
        server = pytest.importorskip("moto.server", reason="needs moto[server] to imitate S3")
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        running.start()
        url = "http://{}:{}".format(*running.get_host_and_port())
        yield "moto", url, {"AWS_ACCESS_KEY_ID": "distrf-test", "AWS_SECRET_ACCESS_KEY": "sekret-of-test"}
        running.stop()


@contextmanager
def _ceph(folder: Path) -> Iterator[str]:
    """One monitor, one store in memory and one gateway of Ceph, as Debian packages them."""
    if shutil.which("radosgw") is None:
        pytest.skip("needs Ceph: apt-get install ceph-mon ceph-mgr ceph-osd radosgw")
    port, gateway = _free_port(), _free_port()
    for name in ("mon", "osd", "rgw"):
        (folder / name).mkdir()
    conf = folder / "ceph.conf"
    fsid, osd = str(uuid.uuid4()), str(uuid.uuid4())
    conf.write_text(CEPH.format(fsid=fsid, port=port, gateway=gateway, folder=folder))
    url = f"http://127.0.0.1:{gateway}"

    def run(*words: str) -> str:
        environment = {**os.environ, "CEPH_CONF": str(conf)}
        done = subprocess.run(words, env=environment, timeout=90, capture_output=True, text=True, check=True)
        return done.stdout

    def told(*words: str, wanted: str = "") -> bool:
        with contextlib.suppress(
            subprocess.SubprocessError
        ):  # clients that race with the monitor get a wrong fsid
            return wanted in run(*words)
        return False

    def answers() -> bool:
        with contextlib.suppress(urllib.error.URLError, OSError):
            return urllib.request.urlopen(url, timeout=5).status == 200
        return False

    try:
        run(
            "monmaptool",
            "--create",
            "--fsid",
            fsid,
            "--addv",
            "a",
            f"[v1:127.0.0.1:{port}]",
            f"{folder}/monmap",
        )
        run("ceph-mon", "-i", "a", "--mkfs", "--monmap", f"{folder}/monmap")
        run("ceph-mon", "-i", "a")
        _wait(lambda: told("ceph", "osd", "new", osd, "0"), 60)
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        _wait(lambda: told("ceph-osd", "-i", "0"), 60)
        _wait(lambda: told("ceph", "osd", "stat", wanted="1 up"), 60)
        _wait(lambda: told("radosgw", "-n", "client.rgw"), 60)
        _wait(answers, 60)
        keys = ("--access-key=distrf-test", "--secret-key=sekret-of-test")
        user = ("radosgw-admin", "user", "create", "--uid=test", "--display-name=test", *keys)
        _wait(lambda: told(*user), 60)
        yield url
    finally:
        for name in ("client.rgw", "osd.0", "mon.a"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((folder / f"{name}.pid").read_text()), signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(ready: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.2)


class Request(NamedTuple):
    """A request that came to the proxy: its method, the path with the query, and all of its headers as text."""

    method: str
    path: str
    headers: str


class Proxy:
    """Between a job and its object store: keeps what was asked for, and answers some of it with an error.

    Attributes
    ----------
    url : str
        The endpoint of the jobs.
    requests : list of Request
    fault : callable
        Called with a request; an HTTP status is the answer in place of the store's, None lets it through.
    """

    def __init__(self, upstream: str):
        self.requests: list[Request] = []
        self.fault: Callable[[Request], int | None] = lambda request: None
        self._lock = threading.Lock()
        self._upstream = urlsplit(upstream)
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _answer(self) -> None:
                proxy._forward(self)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _forward(self, handler: BaseHTTPRequestHandler) -> None:
        request = Request(handler.command, handler.path, str(handler.headers))
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with self._lock:
            self.requests.append(request)
            status = self.fault(request)
        if status is not None:
            code = {503: "SlowDown", 403: "AccessDenied"}[status]
            text = f"<Error><Code>{code}</Code><Message>{code} of the proxy</Message></Error>".encode()
            headers = [("Content-Type", "application/xml")]
            payload = b"" if request.method == "HEAD" else text
        else:
            # The name of the host is part of the signature, so it goes on as it came.
            link = http.client.HTTPConnection(self._upstream.hostname or "", self._upstream.port, timeout=60)
            link.request(request.method, request.path, body, dict(handler.headers))
            answer = link.getresponse()
            status, payload = answer.status, answer.read()
            dropped = ("connection", "transfer-encoding", "date", "server", "content-length")
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in dropped]
            if request.method == "HEAD":
                headers.append(("Content-Length", answer.getheader("Content-Length") or "0"))
            link.close()
        handler.send_response(status)
        for name, value in headers:
            handler.send_header(name, value)
        if request.method != "HEAD":
            handler.send_header("Content-Length", str(len(payload)))
        handler.end_headers()
        handler.wfile.write(payload)


@contextmanager
def proxied(upstream: str) -> Iterator[Proxy]:
    """A proxy in front of an endpoint."""
    proxy = Proxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
