"""The dashboard: what its pages call the tasks of a training, and the spans that they offer."""

from __future__ import annotations

import urllib.request

import dask.array as da
import numpy as np
import pytest
from bokeh.client import pull_session
from distributed import Client, LocalCluster
from servers import wait_until

from distrf import RandomFourierFeatures, StreamingRidge, StreamingSGDClassifier, featurize

pytestmark = pytest.mark.slow


def texts_of(url):
    """Every text in the data of the plots of a page, and every option of its menus, as a browser gets them."""
    texts = set()
    with pull_session(url=url) as session:
        for model in session.document.models:
            columns = getattr(model, "data", {})
            for values in (*getattr(columns, "values", tuple)(), getattr(model, "options", ())):
                texts |= {text for value in values for text in (value if type(value) is tuple else [value])}
    return texts


def test_the_dashboard_says_what_happens(tmp_path):
    X = da.from_array(np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float32), chunks=(1000, 4))
    y = (X[:, 0] > 0).astype(int)
    map_ = RandomFourierFeatures(length_scale=2.0, n_components=64, projection="circulant", random_state=0)
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(2, **options) as cluster, Client(cluster) as client:
        link = f"http://127.0.0.1:{client.scheduler_info()['services']['dashboard']}"
        with urllib.request.urlopen(f"{link}/individual-task-stream") as page:
            page.read()  # from now on the scheduler remembers tasks
        featurize(map_, X, tmp_path / "features.zarr")
        Z = map_.fit_transform(X)
        StreamingRidge(alpha=1e-3).fit(Z, y)
        StreamingSGDClassifier("logistic", alpha=1e-3, n_epochs=1, random_state=0).fit(Z, y)
        for page, wanted in (
            ("individual-task-stream", {"featurize-circulant", "gram", "targets", "sgd-gradient"}),
            ("individual-fine-performance-metrics", {"distrf", "featurize-circulant", "gram", "sgd"}),
        ):
            wait_until(lambda url=f"{link}/{page}", wanted=wanted: wanted <= texts_of(url))
