"""Tasks and spans on the dashboard say what happens, as the scheduler has them."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from dask.utils import key_split
from distributed import span

from distrf import (
    TEFM,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingSGDClassifier,
    featurize,
    load_model,
    predict,
    save_model,
    write_rows,
)
from distrf.execution.submission import Submission
from distrf.execution.task_names import span_of, task_name
from distrf.maps import MAPS
from distrf.projections import PROJECTIONS


def rows(n=20_000, blocks=1000):
    X = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    return da.from_array(X, chunks=(blocks, 4)), da.from_array((X[:, 0] > 0).astype(int), chunks=blocks)


def circulant(**more):
    return RandomFourierFeatures(
        length_scale=2.0, n_components=64, projection="circulant", random_state=0, **more
    )


@pytest.fixture
def seen(client):
    """Names of tasks, and names of spans, that the scheduler has got in the test."""
    client.run_on_scheduler(_forget)
    return lambda: client.run_on_scheduler(_seen)


def _forget(dask_scheduler):
    dask_scheduler.distrf_known = {
        name: sum(prefix.state_counts.values()) for name, prefix in dask_scheduler.task_prefixes.items()
    }


def _seen(dask_scheduler):
    names = dask_scheduler.distrf_known
    counts = {name: sum(p.state_counts.values()) for name, p in dask_scheduler.task_prefixes.items()}
    new = {name for name, count in counts.items() if count > names.get(name, 0)}
    every = dask_scheduler.extensions["spans"].spans
    return new, {s.name for s in every.values()}


def test_a_training_names_its_phases(seen):
    X, y = rows()
    Z = circulant().fit_transform(X)
    StreamingRidge(alpha=1e-3).fit(Z, y)
    names, spans = seen()
    assert names >= {"gram", "gram-sum"}
    assert ("distrf", "gram") in spans


@pytest.mark.slow
def test_sgd_names_its_steps(seen):
    X, y = rows()
    StreamingSGDClassifier("logistic", alpha=1e-3, n_epochs=1, random_state=0).fit(
        circulant().fit_transform(X), y
    )
    names, spans = seen()
    assert names >= {"targets", "sgd-load", "sgd-featurize", "sgd-gradient"}
    assert {("distrf", "sgd"), ("distrf", "targets")} <= spans


def test_the_range_finder_and_conjugate_gradients(seen):
    X, y = rows()
    Z = TEFM(circulant(), n_components=8, solver="finder", random_state=0).fit_transform(X)
    StreamingRidge(alpha=1e-3, solver="cg", random_state=0).fit(Z, y)
    names, spans = seen()
    assert names >= {"range-finder", "right-hand-sides", "starting-directions"}
    assert {("distrf", "range-finder"), ("distrf", "right-hand-sides")} <= spans


@pytest.mark.slow
def test_features_and_predictions(seen, tmp_path):
    X, y = rows()
    write_rows(X, tmp_path / "rows.zarr")
    map_ = circulant()
    featurize(map_, tmp_path / "rows.zarr", tmp_path / "features.zarr")
    model = StreamingRidge(alpha=1e-3).fit(X, y)
    save_model(model, tmp_path / "model")
    predict(load_model(tmp_path / "model"), tmp_path / "rows.zarr", tmp_path / "predictions.zarr")
    names, spans = seen()
    assert names >= {"write", "featurize-circulant", "predict"}
    assert {("distrf", "featurize-circulant"), ("distrf", "predict")} <= spans


def test_blocks_that_are_held_have_names_too(client, seen):
    X, y = rows()
    Z = circulant().fit_transform(X).persist()
    StreamingRidge(alpha=1e-3).fit(Z, y)
    names, spans = seen()
    assert names >= {"featurize-circulant", "gram", "gram-sum"}
    assert ("distrf", "gram") in spans


def test_spans_of_the_caller_stay_above(client, seen):
    X, y = rows()
    with span("mine") as own:
        StreamingRidge(alpha=1e-3).fit(X, y)
        inside = span_of("gram")
    assert inside["name"] == ("mine", "gram")
    assert inside["ids"][0] == own
    assert ("mine", "gram") in seen()[1]


def test_a_phase_has_one_span_however_often_it_runs():
    assert span_of("sgd") == span_of("sgd")
    assert Submission("sgd")._span == span_of("sgd")
    assert span_of("gram")["ids"][0] == span_of("sgd")["ids"][0]
    assert span_of("gram")["ids"][1] != span_of("sgd")["ids"][1]


@pytest.mark.parametrize(
    "label",
    ["gram", "write features", "conjugate gradients|residual 0.01", "range finder|sketch", "Rows, 2 of 3"],
)
def test_dask_keeps_the_whole_name(label):
    name = task_name(label)
    for key in (f"{name}-{'0f' * 16}-segment-3", f"{name}-sum-{'a1' * 16}-0-2"):
        assert key_split(key).removesuffix("-sum") == name
    assert "|" not in name


def test_every_map_and_projection_has_a_name_that_dask_keeps():
    names = [task_name(f"featurize {word}") for word in (*PROJECTIONS, *MAPS)]
    assert {"featurize-circulant", "featurize_fastfood", "featurize-structured-orthogonal"} <= {*names}
    for name in names:
        assert key_split(f"{name}-{'0f' * 16}") == name
    X, _ = rows()
    assert key_split(circulant().fit_transform(X).name) == "featurize-circulant"
