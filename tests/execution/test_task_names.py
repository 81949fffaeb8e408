"""Tasks and spans on the dashboard say what happens, as the scheduler has them."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from dask.utils import key_split
from distributed import span

import distrf
from distrf.execution.graph import span_of, task_name
from distrf.projections import PROJECTIONS
from distrf.sgd.dask_batches import Submission


def rows(n=20_000, blocks=1000):
    X = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    return da.from_array(X, chunks=(blocks, 4)), da.from_array((X[:, 0] > 0).astype(int), chunks=blocks)


def circulant():
    options = {"length_scale": 2.0, "n_components": 64, "random_state": 0}
    return distrf.RandomFourierFeatures(projection="circulant", **options)


@pytest.fixture
def seen(client):
    """Names of tasks, and names of spans, that the scheduler has got in the test."""
    before, _ = client.run_on_scheduler(_seen)

    def new():
        counts, spans = client.run_on_scheduler(_seen)
        return {name for name, count in counts.items() if count > before.get(name, 0)}, spans

    return new


def _seen(dask_scheduler):
    counts = {name: sum(p.state_counts.values()) for name, p in dask_scheduler.task_prefixes.items()}
    return counts, {span.name for span in dask_scheduler.extensions["spans"].spans.values()}


def ridge(X, y, folder):
    distrf.StreamingRidge(alpha=1e-3).fit(circulant().fit_transform(X), y)


def ridge_of_held_blocks(X, y, folder):
    distrf.StreamingRidge(alpha=1e-3).fit(circulant().fit_transform(X).persist(), y)


def sgd(X, y, folder):
    features = circulant().fit_transform(X)
    distrf.StreamingSGDClassifier("logistic", alpha=1e-3, n_epochs=1, random_state=0).fit(features, y)


def range_finder_and_passes(X, y, folder):
    Z = distrf.TEFM(circulant(), n_components=8, solver="finder", random_state=0).fit_transform(X)
    distrf.StreamingRidge(alpha=1e-3, solver="passes", random_state=0).fit(Z, y)


def written(X, y, folder):
    distrf.write_rows(X, folder / "rows.zarr")
    distrf.featurize(circulant(), folder / "rows.zarr", folder / "features.zarr")
    distrf.save_model(distrf.StreamingRidge(alpha=1e-3).fit(X, y), folder / "model")
    distrf.predict(distrf.load_model(folder / "model"), folder / "rows.zarr", folder / "predictions.zarr")


@pytest.mark.parametrize(
    ("work", "names", "spans"),
    [
        (ridge, {"gram", "gram-sum"}, {"gram"}),
        (ridge_of_held_blocks, {"featurize-circulant", "gram", "gram-sum"}, {"gram"}),
        (range_finder_and_passes, {"range-finder", "gradient"}, {"range-finder", "gradient"}),
        pytest.param(sgd, {"targets", "sgd-load", "sgd-featurize", "sgd-gradient"}, {"sgd", "targets"}, marks=pytest.mark.slow),
        pytest.param(written, {"write", "featurize-circulant", "predict"}, {"featurize-circulant", "predict"}, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_names_of_tasks_and_spans(seen, tmp_path, work, names, spans):
    work(*rows(), tmp_path)
    names_seen, spans_seen = seen()
    assert names_seen >= names
    assert {("distrf", span) for span in spans} <= spans_seen


def test_spans(client, seen):
    """Those of the caller stay above; a phase has one, however often it runs."""
    X, y = rows()
    assert span_of("sgd") == span_of("sgd") == Submission("sgd")._span
    outer, gram = (span_of(name)["ids"] for name in ("sgd", "gram"))
    assert outer[0] == gram[0]
    assert outer[1] != gram[1]
    with span("mine") as own:
        distrf.StreamingRidge(alpha=1e-3).fit(X, y)
        inside = span_of("gram")
    assert (inside["name"], inside["ids"][0]) == (("mine", "gram"), own)
    assert ("mine", "gram") in seen()[1]


def test_names_of_features():
    names = {task_name(f"featurize {word}") for word in PROJECTIONS}
    assert names >= {"featurize-circulant", "featurize_fastfood", "featurize-structured-orthogonal"}
    assert key_split(circulant().fit_transform(rows()[0]).name) == "featurize-circulant"
