"""Object stores for tests: moto, or one that is there, and a proxy that counts requests and injects faults."""

from __future__ import annotations

import http.client
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest


@contextmanager
def endpoint() -> Iterator[tuple[str, dict[str, str]]]:
    """URL of an object store, and the environment with its credentials.

    moto here, in this process; with ``DISTRF_TEST_S3_URL`` that one.
    """
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    if "DISTRF_TEST_S3_URL" in os.environ:
        yield os.environ["DISTRF_TEST_S3_URL"], {name: os.environ[name] for name in names}
        return
    server = pytest.importorskip("moto.server", reason="needs moto[server] to imitate S3")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    url = "http://{}:{}".format(*running.get_host_and_port())
    yield url, dict(zip(names, ("distrf-test", "sekret-of-test"), strict=True))
    running.stop()


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

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *error: object) -> None:
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
