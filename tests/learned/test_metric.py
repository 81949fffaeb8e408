"""Learned metrics: the identity against explicit gradients, what is found, the same numbers however rows come, resumption."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import distrf.learned.metric as metric_module
from distrf import (
    LearnedMetric,
    NystroemFeatures,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingScaler,
    TableEncoder,
    WithColumns,
    load_model,
    open_rows,
    plan,
    save_model,
    train,
    write_rows,
)
from distrf.errors import InputError, SpecMismatchError
from distrf.kernels import Gaussian, Laplacian
from distrf.learned.metric import average_outer_product
from distrf.maps import FourierMap, WithColumnsMap
from distrf.ridge.gram import FoldRule, GramReduction
from distrf.ridge.normal_equations import NormalEquations
from distrf.targets import regression_targets


def base(D=64, **options):
    return RandomFourierFeatures(n_components=D, random_state=1, **options)


SMALL = {"n_rounds": 1, "length_scales": (1.0,)}
SEVERAL = "the length scale is measured on rows, and rows are the folds: repeated rows make others than one weighted row"
FAILURES = {f"check_sample_weight_equivalence_on_{kind}_data": SEVERAL for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [
        LearnedMetric(base(8), **SMALL),
        LearnedMetric(base(8, order=1), metric="diagonal", linear=False, **SMALL),
    ],
    expected_failed_checks=lambda estimator: FAILURES,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- the identity ------------------------------------------------------------------------------------

D_IN = 5
MAPS = {
    "plain": {},
    "metric": {"root": np.random.default_rng(5).normal(size=(D_IN, D_IN))},
    "diagonal": {"root": np.arange(1.0, D_IN + 1) / 4},
    "order": {"order": 2, "column_weights": np.arange(1.0, D_IN + 1)},
    "laplacian": {"kernel": Laplacian(), "length_scale": 9.0},
    "orthogonal": {"projection": "structured_orthogonal"},
}


@pytest.mark.parametrize("linear", [False, True], ids=["features", "columns"])
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weights"])
@pytest.mark.parametrize("name", MAPS)
def test_outer_products_are_those_of_the_gradients(name, weighted, linear, rng):
    """In float64, to 1e-10: by the formula of each gradient, and by finite differences of the predictions."""
    n, D, outputs = 150, 24, 3
    known = {"kernel": Gaussian(), "length_scale": 2.0, "projection": "dense", "phase": "paired", "seed": 3}
    map_ = FourierMap(D_IN, D, **known | MAPS[name])
    whole = WithColumnsMap.over(map_, 1.7) if linear else map_
    X, weight = rng.normal(size=(n, D_IN)), rng.uniform(0.1, 3, n) if weighted else None
    y = np.sin(X[:, :outputs]) + X[:, [1]] * X[:, [4]] + 7
    reduction = GramReduction(whole.n_components, regression_targets(y, weight), FoldRule.of_cv(3, 0))
    state = reduction.initial()
    for a in range(0, n, 50):
        rest = () if weight is None else (weight[a : a + 50],)
        state = reduction.update(state, a, whole(X[a : a + 50]), y[a : a + 50], *rest)
    system = NormalEquations(state, whole.n_components, True)
    solution, (S, mean) = next(system.solve([1e-3])), system.moments()
    d = whole.n_components - D
    w, plain = solution.weights[d:], solution.weights[:d] / 1.7 if linear else 0.0
    W, p = map_.frequencies(), np.full(n, 1 / n) if weight is None else weight / weight.sum()
    found = average_outer_product(S[d:, d:], mean[d:], w, W, plain)

    P, s = X @ W.T, np.sqrt(2 / D)
    gradients = np.stack(
        [s * (np.cos(P) * w[1::2, c] - np.sin(P) * w[0::2, c]) @ W for c in range(outputs)], axis=1
    )
    gradients += np.transpose(plain) if linear else 0.0
    expected = np.einsum("n,ncj,nck->jk", p, gradients, gradients)
    assert abs(found - expected).max() < 1e-10 * abs(expected).max()
    diagonal = average_outer_product(S[d:, d:], mean[d:], w, W, plain, diagonal=True)
    assert abs(diagonal - expected.diagonal()).max() < 1e-10 * abs(expected).max()

    step, steps = 2e-3, {-3: -1 / 60, -2: 3 / 20, -1: -3 / 4, 1: 3 / 4, 2: -3 / 20, 3: 1 / 60}  # of sixth order
    differences = np.empty_like(gradients)
    for j in range(D_IN):
        moved = {k: X + k * step * np.eye(D_IN)[j] for k in steps}
        differences[:, :, j] = sum(f * (whole(moved[k]) @ solution.weights) for k, f in steps.items()) / step
    by_differences = np.einsum("n,ncj,nck->jk", p, differences, differences)
    assert abs(found - by_differences).max() < 1e-10 * abs(by_differences).max()


# ---- what is found -----------------------------------------------------------------------------------


def made(n, d=12, columns=(1, 4, 7), noise=0.05, seed=0):
    """Three columns matter, two of them by their product."""
    rng = np.random.default_rng(seed)
    X, (a, b, c) = rng.normal(size=(n, d)), columns
    return X, np.sin(2 * X[:, a]) + X[:, b] * X[:, c] + noise * rng.normal(size=n)


def most(columns):
    """The three columns that matter most."""
    return sorted(np.argsort(columns)[-3:].tolist())


@pytest.mark.parametrize(
    ("n", "d", "D", "times"), [(2500, 20, 256, 4), pytest.param(6000, 100, 1024, 2, marks=pytest.mark.slow)]
)
def test_three_columns_of_many_are_found(n, d, D, times):
    """By a weight for each, with an error like that of knowing them; a matrix has far more to learn from these rows."""
    known, everything = [d // 10, d // 3, 4 * d // 5], list(range(d))
    X, y = made(n, d, known)
    T, t = made(2000, d, known, noise=0.0, seed=1)

    def error(map_, columns):
        model = StreamingRidge().fit(map_.transform(X[:, columns]), y)
        return np.mean((model.predict(map_.transform(T[:, columns])) - t) ** 2)

    learned = LearnedMetric(base(D), metric="diagonal", n_rounds=6).fit(X, y)
    assert most(learned.columns_) == known
    assert learned.columns_[known].sum() > 0.99
    assert learned.columns_.sum() == pytest.approx(1)
    told = LearnedMetric(base(D), metric="diagonal", n_rounds=6).fit(X[:, known], y)
    assert error(learned, everything) < times * error(told, known)
    assert error(base(D).fit(X), everything) > 20 * error(learned, everything)
    matrix = LearnedMetric(base(D), metric="full", n_rounds=2, length_scales=(1.0,)).fit(X, y)
    assert set(known) <= set(np.argsort(matrix.columns_)[-4:].tolist())
    assert matrix.rounds_[2]["loss"] < 0.8 * matrix.rounds_[0]["loss"]


def test_held_out_rows_teach_no_metric(rng):
    """Of targets that are noise nothing is learned that lowers the error of rows that are not learned from."""
    X, y = rng.normal(size=(400, 160)), rng.normal(size=400)
    learned = LearnedMetric(base(320), metric="full", n_rounds=1, length_scales=(1.0,)).fit(X, y)
    before, after = (one["loss"] for one in learned.rounds_)
    assert after > 0.95 * before


def test_the_weights_of_frequencies_of_few_columns():
    X, y = made(2000, 20)
    learned = LearnedMetric(base(256, order=2), n_rounds=2).fit(X, y)
    weights = learned.map_.column_weights
    assert learned.metric_.tolist() == [1.0] * 20
    assert most(learned.columns_) == most(weights) == [1, 4, 7]
    assert weights[[1, 4, 7]].sum() > 0.4
    assert weights.min() >= 0.2 / 20


def test_the_best_round_is_kept():
    X, y = made(600)
    learned = LearnedMetric(base(), n_rounds=8).fit(X, y)
    losses = [one["loss"] for one in learned.rounds_]
    assert [one["best"] for one in learned.rounds_] == [loss == min(losses) for loss in losses]
    assert losses[:-1] == sorted(losses[:-1], reverse=True)
    assert len(losses) == 9 or losses[-1] >= losses[-2]
    assert (
        learned.length_scale_ == learned.map_.length_scale == learned.rounds_[np.argmin(losses)]["length_scale"]
    )
    root = learned.map_.root
    np.testing.assert_allclose(root @ root.T, learned.metric_)


@pytest.mark.parametrize("linear", [True, False])
def test_rows_far_out_do_not_spoil_it(linear):
    """A hundred times as far as the others; the columns themselves are not bounded as cosines are."""
    X, y = made(2000)
    clean = LearnedMetric(base(256), linear=linear).fit(X, y)
    far = X.copy()
    far[::400] *= 100
    learned = LearnedMetric(base(256), linear=linear).fit(far, y)
    assert most(learned.columns_ / far.var(axis=0)) == [1, 4, 7]
    more = 0.12 if linear else 0.05
    assert learned.rounds_[-1]["loss"] < clean.rounds_[-1]["loss"] + more < 0.5 * clean.rounds_[0]["loss"]


@pytest.mark.parametrize("order", [None, 2])
def test_a_column_far_out_in_few_rows_gets_no_importance_by_it(order):
    X, y = made(2000)
    X[::400, 9] *= 1e4
    learned = LearnedMetric(base(256, order=order), linear=False).fit(X, y)
    assert most(learned.columns_) == [1, 4, 7]
    assert len(learned.rounds_) > 2


def test_labels_are_coded_as_by_ridge(rng):
    X = rng.normal(size=(800, 6))
    names = np.array(["a", "b", "c"])[np.digitize(X[:, 2] ** 2, [0.3, 1.2])]
    learned = LearnedMetric(base(), labels=True).fit(X, names)
    assert learned.columns_.argmax() == 2
    one_hot = 2.0 * (names[:, None] == np.unique(names)) - 1
    same = LearnedMetric(base()).fit(X, one_hot)
    assert same.columns_.argmax() == 2
    with pytest.raises(InputError, match="needs numbers as y"):
        LearnedMetric(base()).fit(X, names)
    fitted = train(X, names, map="learned", n_components=64)
    assert fitted.score(X, names) > 0.8
    found = fitted["map"].get_params()
    assert found.get("base__labels", found.get("labels")) is True


@pytest.mark.parametrize("scale", ["auto", "standard"])
def test_what_was_learned_is_saved_and_told(scale, tmp_path, rng):
    """Beside the columns in one map, of columns that were coded: by the names of the table."""
    table = pd.DataFrame(
        {"age": rng.normal(40, 10, 400), "town": rng.choice(["a", "b", "c"], 400), "noise": rng.random(400)}
    )
    y = np.sin(table["age"] / 5) + (table["town"] == "b")
    table = table if scale == "auto" else table.drop(columns="town")
    learned = make_pipeline(
        TableEncoder(numbers="piecewise") if scale == "auto" else StreamingScaler(),
        WithColumns(LearnedMetric(base(), n_rounds=1), random_state=0), StreamingRidge(1e-3),
    ).fit(table, y)  # fmt: skip
    save_model(learned, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    found, map_ = loaded[1].base_, learned[1].base_
    assert found.rounds_ == map_.rounds_
    np.testing.assert_array_equal(found.columns_, map_.columns_)
    np.testing.assert_array_equal(found.metric_, map_.metric_)
    np.testing.assert_array_equal(loaded.predict(table), learned.predict(table))


def test_several_targets_count_in_their_own_units(rng):
    X = rng.normal(size=(800, 6))
    Y = np.stack([np.sin(2 * X[:, 0]), 1e4 * np.cos(2 * X[:, 3]), np.zeros(800)], axis=1)
    columns = LearnedMetric(base()).fit(X, Y).columns_
    assert 0.3 < columns[0] < 0.7
    assert 0.3 < columns[3] < 0.7


# ---- however rows come -------------------------------------------------------------------------------


def lazy(array, rows=150):
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


def assert_same(one, other, rtol=1e-6):
    assert len(one.rounds_) == len(other.rounds_)
    np.testing.assert_allclose(one.columns_, other.columns_, rtol=rtol, atol=1e-9)
    assert one.length_scale_ == pytest.approx(other.length_scale_)
    np.testing.assert_allclose(one.metric_, other.metric_, rtol=rtol, atol=1e-7)


def test_rows_in_memory_lazy_stored_and_sparse_give_the_same(tmp_path, rng):
    X = made(700, d=12)[0] * (rng.random((700, 12)) < 0.5)
    y = np.sin(2 * X[:, 1]) + X[:, 4] * X[:, 7]
    more = rng.uniform(0.5, 2, 700), np.arange(700) % 3
    model = LearnedMetric(base(), alpha=1e-3, linear=False, n_rounds=2)
    memory = clone(model).fit(X, y, *more)
    lazily = clone(model).fit(*map(lazy, (X, y, *more)))
    assert_same(memory, lazily)
    np.testing.assert_allclose(lazily.transform(lazy(X)).compute(), memory.transform(X), atol=1e-5)
    assert_same(memory, clone(model).fit(sp.csr_array(X), y, *more))
    write_rows(lazy(X), tmp_path / "rows.zarr", lazy(y))
    assert_same(memory, clone(model).fit(*open_rows(tmp_path / "rows.zarr"), *map(lazy, more)))


def test_same_bits_for_one_worker_two_and_three(client, one_worker_client):
    X, y = made(800, d=12)
    fits = []
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with Client(n_workers=3, set_as_default=False, **options) as three:
        for one in (client, one_worker_client, three):
            with one.as_current():
                fits.append(LearnedMetric(base(32), n_rounds=2).fit(lazy(X), lazy(y)))
    for one in fits[1:]:
        np.testing.assert_array_equal(one.metric_, fits[0].metric_)
        assert one.rounds_ == fits[0].rounds_


def test_a_fit_that_was_killed_goes_on(tmp_path, dies):
    X, y = made(600, d=12)
    options = {"alpha": np.array([1e-4, 1e-2]), "checkpoint": tmp_path / "state"}
    model = LearnedMetric(base(32), metric="diagonal", n_rounds=3, **options)
    whole = clone(model).set_params(checkpoint=None).fit(X, y)
    passes = dies(metric_module, "run_pass", 3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    model.fit(X, y)
    assert len(passes) == 1 + len(whole.rounds_)
    assert model.rounds_ == whole.rounds_
    np.testing.assert_array_equal(model.metric_, whole.metric_)
    with pytest.raises(SpecMismatchError, match="another job"):
        clone(model).set_params(metric="full").fit(X, y)
    with pytest.raises(SpecMismatchError, match="other targets"):
        clone(model).fit(X, -y)


@pytest.mark.parametrize("metric", ["full", "diagonal"])
def test_the_plan_counts_passes_and_the_state(metric):
    X, y = made(600)
    steps = make_pipeline(LearnedMetric(base(), metric=metric, n_rounds=2), StreamingRidge(1e-3))
    text = str(plan(steps, lazy(X), lazy(y)))
    learned = "a 12 x 12 matrix" if metric == "full" else "a weight for each of 12 columns"
    assert f"metric, {learned}, learned in 3 passes or fewer, of 3 fit(s) with 76 features each" in text
    map_ = LearnedMetric(base(), metric=metric).planned_map(12)
    assert map_.held_bytes(4) == 12 * (144 if metric == "full" else 12)


def test_a_diagonal_of_wide_rows_needs_no_matrix(monkeypatch):
    X = sp.random(50, 20_000, density=1e-3, random_state=0, format="csr", dtype=np.float32)
    monkeypatch.setattr("distrf.execution.memory.machine_memory", lambda: 2**30)
    learned = LearnedMetric(base(8), alpha=np.array([1e-3, 1.0]), metric="auto", **SMALL).fit(
        X, X[:, :1].toarray()[:, 0]
    )
    assert learned.metric_.shape == learned.columns_.shape == (20_000,)
    planned = plan(make_pipeline(clone(learned), StreamingRidge(1e-3)), X, X[:, :1].toarray()[:, 0])
    assert planned.client_peak > 3 * 8 * 1000 * 20_000  # sampled rows, in the metric, and centred


def test_refuses():
    X, y = made(50, d=12)
    with pytest.raises(InputError, match="an even number of features, got RandomFourierFeatures"):
        LearnedMetric(base(phase="offset")).fit(X, y)
    with pytest.raises(InputError, match="an even number of features, got NystroemFeatures"):
        LearnedMetric(NystroemFeatures()).fit(X, y)
    with pytest.raises(InputError, match="base must be a feature estimator"):
        LearnedMetric(StreamingRidge()).fit(X, y)
    with pytest.raises(InputError, match="at least one non-zero number"):
        LearnedMetric(base()).fit(X, y, np.zeros(50))
    with pytest.raises(InputError, match="got text; say labels=True"):
        LearnedMetric(base()).fit(X, np.where(y > 0, "a", "b"))


@pytest.mark.slow
def test_train_judges_the_metric_and_not_plain_features(tmp_path):
    """Which lose to the columns here, so that train told not to take what is far better."""
    X, y = made(1500, 40)
    y = y + X[:, 0]
    found = train(
        X, y, map="learned", n_components=256, set={"map__metric": "diagonal"}, out=tmp_path / "model"
    )
    told = found.training_.baseline[-1]
    assert told.chosen > 0.5
    assert not found.training_.warnings
