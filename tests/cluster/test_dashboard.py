"""The dashboard in a real browser: what it calls the tasks of a training, and the spans it offers.

The browser is driven by its debugging protocol: JSON over a web socket, which tornado speaks.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from tornado.websocket import websocket_connect

from distrf import RandomFourierFeatures, StreamingRidge, StreamingSGDClassifier, featurize

pytest.importorskip("bokeh")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium"),
]

#: Every text in the data of the plots of a page, and every option of its menus.
TEXTS = """
(() => {
  const texts = new Set(), add = v => { if (typeof v === "string") texts.add(v) }
  for (const document of (window.Bokeh ? Bokeh.documents : []))
    for (const model of document._all_models.values()) {
      const data = model.data || {}
      const columns = data instanceof Map ? [...data.values()] : Object.values(data)
      for (const column of columns) if (column && column[Symbol.iterator]) for (const v of column) add(v)
      for (const option of (Array.isArray(model.options) ? model.options : [])) [option].flat().forEach(add)
    }
  return JSON.stringify([...texts])
})()
"""


@contextmanager
def browser(folder):
    """The port of the debugging protocol of a headless browser."""
    words = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync "
        "--disable-component-update --disable-dev-shm-usage --remote-debugging-port=0"
    )
    process = subprocess.Popen(
        [BROWSER, *words.split(), f"--user-data-dir={folder}", "about:blank"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        for line in process.stderr:
            if found := re.search(r"DevTools listening on ws://127.0.0.1:(\d+)/", line):
                yield int(found[1])
                return
        pytest.skip("the browser did not start")
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()


def texts_of(port, url, wanted, seconds=30):
    """The texts on a page, once all that are wanted are there."""

    async def look():
        request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?{url}", method="PUT")
        with urllib.request.urlopen(request) as answer:
            page = json.load(answer)["webSocketDebuggerUrl"]
        socket = await websocket_connect(page, max_message_size=2**26)
        found, until = set(), time.monotonic() + seconds
        for number in itertools.count():
            message = {"id": number, "method": "Runtime.evaluate", "params": {"expression": TEXTS}}
            await socket.write_message(json.dumps(message))
            while (reply := json.loads(await socket.read_message())).get("id") != number:
                pass
            answer = reply.get("result", {}).get("result", {})  # none while the page loads
            found |= set(json.loads(answer.get("value", "[]")))
            if wanted <= found or time.monotonic() > until:
                socket.close()
                return found
            await asyncio.sleep(0.3)

    return asyncio.run(look())


@pytest.fixture
def cluster():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as made,
        Client(made) as client,
    ):
        yield client


def test_the_dashboard_says_what_happens(cluster, tmp_path):
    link = f"http://127.0.0.1:{cluster.scheduler_info()['services']['dashboard']}"
    with urllib.request.urlopen(f"{link}/individual-task-stream") as page:
        page.read()  # from now on the scheduler remembers tasks
    X = da.from_array(np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float32), chunks=(1000, 4))
    y = (X[:, 0] > 0).astype(int)
    map_ = RandomFourierFeatures(length_scale=2.0, n_components=64, projection="circulant", random_state=0)
    featurize(map_, X, tmp_path / "features.zarr")
    Z = map_.fit_transform(X)
    StreamingRidge(alpha=1e-3).fit(Z, y)
    StreamingSGDClassifier("logistic", alpha=1e-3, n_epochs=1, random_state=0).fit(Z, y)
    with browser(tmp_path / "browser") as port:
        names = {"featurize-circulant", "gram", "targets", "sgd-gradient"}
        assert names <= texts_of(port, f"{link}/individual-task-stream", names)
        spans = {"distrf", "featurize-circulant", "gram", "sgd"}
        assert spans <= texts_of(port, f"{link}/individual-fine-performance-metrics", spans)
