"""Ridge that takes more rows: its sums against one fit of all rows, and against explicit formulas."""

from __future__ import annotations

import pickle
from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from strategies import cuts

from distrf import StreamingRidge, StreamingRidgeClassifier, load_model, save_model
from distrf.errors import InputError, StoreError
from distrf.ridge.gram import FoldRule, GramReduction
from distrf.ridge.kept_state import KeptState
from distrf.ridge.normal_equations import NormalEquations, compare_alphas
from distrf.store import read_model_folder, write_model_folder
from distrf.targets import class_targets, regression_targets


def problem(n=200, d=7, outputs=None, seed=0):
    """Rows whose mean and targets move as they come, as tomorrow's do, and weights."""
    rng = np.random.default_rng([n, d, seed])
    drift = np.linspace(0, 3, n)[:, None]
    X = rng.normal(size=(n, d)) + rng.normal(size=d) + drift
    W = rng.normal(size=(d,) if outputs is None else (d, outputs))
    y = X @ W + rng.normal(size=(n,) if outputs is None else (n, outputs)) + 100.0
    return X, y, rng.uniform(0.1, 3.0, size=n)


def labels(X, y, names=("blue", "green", "red")):
    edges = np.quantile(y - y.mean(), np.linspace(0, 1, len(names) + 1)[1:-1])
    return np.array(names)[np.searchsorted(edges, y - y.mean())]


def arrays_of(kept):
    return {name: part for name, part in kept.parts().items() if isinstance(part, np.ndarray)}


def in_pieces(model, ends, X, y, weight=None, **more):
    """partial_fit of rows 0:ends[0], ends[0]:ends[1], ..."""
    starts = [0, *ends[:-1]]
    for a, b in zip(starts, ends, strict=True):
        w = {} if weight is None else {"sample_weight": weight[a:b]}
        model.partial_fit(X[a:b], y[a:b], **w, **more)
    return model


def assert_same(left, right, rtol=1e-9):
    """Equal but for the rounding of sums in float64, which the condition of the system (below 1e4 here) enlarges."""
    np.testing.assert_allclose(left.coef_, right.coef_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(left.intercept_, right.intercept_, rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(left.alphas_, right.alphas_)
    assert left.alpha_ == right.alpha_
    if right.cv_errors_ is not None:
        np.testing.assert_allclose(left.cv_errors_, right.cv_errors_, rtol=1e-8)


@given(data=st.data(), intercept=st.booleans(), weighted=st.booleans(), outputs=st.sampled_from([None, 2]))
def test_pieces_are_one_fit(data, intercept, weighted, outputs):
    n = data.draw(st.integers(1, 60))
    X, y, w = problem(n, 4, outputs)
    w = w if weighted else None
    ends = [*sorted({*data.draw(cuts(n)), n} - {0})]
    alone = StreamingRidge(alpha=1e-2, fit_intercept=intercept).fit(X, y, w)
    grown = in_pieces(clone(alone), ends, X, y, w)
    assert_same(grown, alone)
    assert grown.coef_.shape == alone.coef_.shape
    assert grown.state_.rows == n


@pytest.mark.parametrize("cv", ["auto", "holdout", 3])
@pytest.mark.parametrize("alpha", ["auto", (1e-3, 1e-1, 10.0)])
@pytest.mark.parametrize("kind", [StreamingRidge, StreamingRidgeClassifier])
def test_folds_go_on_by_row_number(kind, alpha, cv):
    """The penalties are compared as by one pass over all rows."""
    X, y, w = problem(900)
    y = labels(X, y) if kind is StreamingRidgeClassifier else y
    grown = in_pieces(kind(alpha=alpha, cv=cv), [400, 401, 650, 900], X, y, w)
    rule = FoldRule.of_cv(5 if cv == "auto" else cv, 0)
    targets = class_targets(y, w, None) if y.dtype.kind == "U" else regression_targets(y, w)
    reduction = GramReduction(X.shape[1], targets, rule)
    state = reduction.update(reduction.initial(), 0, X, y, w)
    system = NormalEquations(state, X.shape[1], True)
    compared = compare_alphas(system, None if alpha == "auto" else alpha, reduction)
    assert grown.alphas_.tolist() == compared.alphas
    assert grown.alpha_ == compared.alpha
    np.testing.assert_allclose(grown.cv_errors_, compared.errors, rtol=1e-9)
    (solution,) = system.solve([compared.alpha])
    np.testing.assert_allclose(np.atleast_2d(grown.coef_), solution.weights.T, rtol=1e-8, atol=1e-10)


def test_an_error_that_rounding_made_is_not_the_least():
    """Next to an eigenvalue below 0, as rounding makes them, weights are huge and errors come out as anything, below 0 too."""
    X, y, _ = problem(900)
    X[:, -1] = X[:, -2]
    reduction = GramReduction(X.shape[1], regression_targets(y, None), FoldRule.of_cv(3, 0))
    state = reduction.update(reduction.initial(), 0, X, y)
    state.rounding = 1e-7
    system = NormalEquations(state, X.shape[1], True)
    least = 2 * system.rounding_floor()
    direction = np.zeros(X.shape[1])
    direction[-2:] = np.sqrt([0.5, 0.5]) * [1, -1]
    for fold in range(3):
        state.tiles[fold, 0, : len(direction), : len(direction)] -= (
            least * state.weight[fold] * np.outer(direction, direction)
        )
        state.products[fold] += 1e-7 * state.weight[fold] * direction[:, None]
    alphas = [least * (1 + 1e-5), 1e-2]
    (lost,) = (s for s in system.solve(alphas[:1], without=0))
    assert system.fold_error(lost, 0, np.ones(1)) < 0
    compared = compare_alphas(system, alphas, reduction)
    assert compared.alpha == 1e-2
    assert (compared.errors > 0).all()


def test_classes_that_are_named_before_any_row_has_them():
    X, y, _ = problem(100)
    y = labels(X, y)
    grown = StreamingRidgeClassifier(alpha=1e-2).partial_fit(
        X[:50], y[:50], classes=["red", "pink", "blue", "green"]
    )
    assert grown.classes_.tolist() == ["blue", "green", "pink", "red"]
    for rows in ((X[50:], np.full(50, "grey")), (X[50:], y[50:], ["grey", "red"])):
        with pytest.raises(InputError, match=r"'grey'.*classes= of the first call"):
            grown.partial_fit(*rows)
    assert grown.state_.rows == 50
    grown.partial_fit(X[50:], y[50:])
    alone = StreamingRidgeClassifier(alpha=1e-2).fit(X, y)
    known = grown.classes_ != "pink"
    np.testing.assert_allclose(grown.coef_[known], alone.coef_, rtol=1e-9)
    np.testing.assert_array_equal(grown.predict(X), alone.predict(X))


def test_far_targets_keep_their_digits():
    """Targets are centred at the mean of all rows, not of the first: float32 products would lose those far from it."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(4000, 1100)).astype(np.float32)
    y = X[:, 0] + np.where(np.arange(4000) < 20, 0.0, 1e6)
    alone = StreamingRidge(alpha=1.0).fit(X[20:], y[20:])
    grown = (
        StreamingRidge(alpha=1.0).partial_fit(X[:20], y[:20], np.full(20, 1e-12)).partial_fit(X[20:], y[20:])
    )
    np.testing.assert_allclose(grown.coef_, alone.coef_, atol=1e-4)


# ---- what is refused ------------------------------------------------------------------------------------------


def test_without_state_the_error_names_the_option():
    X, y, _ = problem(100)
    model = StreamingRidge(alpha=1.0).fit(X, y)
    assert not hasattr(model, "state_")
    kept = StreamingRidge(alpha=1.0, keep_state=True).fit(X, y)
    kept.set_params(keep_state=False).fit(X, y)  # not the sums of other rows
    for fitted in (model, kept):
        assert not hasattr(fitted, "partial_fit")
        with pytest.raises(AttributeError) as refused:
            fitted.partial_fit(X, y)
        assert "keep_state=True" in str(refused.value.__cause__)


def test_passes_cannot():
    X, y, _ = problem(100)
    model = StreamingRidge(solver="passes", keep_state=True)
    assert not hasattr(model, "partial_fit")
    for refused in (lambda: model.fit(X, y), model.check):
        with pytest.raises(InputError, match="solver='passes'"):
            refused()


def test_bad_rows_leave_the_model_as_it_was():
    X, y, _ = problem(100)
    model = StreamingRidge(alpha=(0.1, 1.0)).partial_fit(X, y)
    before = pickle.dumps(model)
    bad = X.copy()
    bad[3, 2] = np.nan
    for rows, targets, weight, message in [
        (bad, y, None, "finite|NaN"),
        (da.from_array(bad, 10), y, None, "row 3"),
        (X[:, :-1], y, None, "features"),
        (X, np.stack([y, y], axis=1), None, "as many columns"),
        (X, y[:-1], None, "inconsistent|rows"),
        (X, y, -np.ones(100), "sample_weight"),
    ]:
        with pytest.raises(InputError, match=message):
            model.partial_fit(rows, targets, weight)
        assert pickle.dumps(model) == before


def test_other_options_are_refused():
    X, y, _ = problem(100)
    names = labels(X, y)
    balanced = StreamingRidgeClassifier(class_weight="balanced", keep_state=True)
    assert not hasattr(balanced, "partial_fit")
    with pytest.raises(InputError, match="balanced"):
        balanced.fit(X, names)
    model = StreamingRidgeClassifier(alpha=1.0, class_weight={"red": 2.0}).partial_fit(X, names)
    with pytest.raises(InputError, match="class_weight"):
        model.set_params(class_weight=None).partial_fit(X, names)
    model = StreamingRidge(alpha=1.0).partial_fit(X, y)
    with pytest.raises(InputError, match="compared by folds"):
        model.set_params(alpha="auto").partial_fit(X, y)


# ---- saving and planning --------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ["auto", 1.0])
@pytest.mark.parametrize("kind", [StreamingRidge, StreamingRidgeClassifier])
def test_saved_models_take_more_rows(tmp_path, kind, alpha):
    X, y, w = problem(300, 9)
    y = labels(X, y) if kind is StreamingRidgeClassifier else y
    weight = {"red": 2.0} if kind is StreamingRidgeClassifier else None
    model = kind(alpha=alpha, keep_state=True, **({"class_weight": weight} if weight else {}))
    model.fit(X[:200], y[:200], w[:200])
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    for grown in (model, loaded, pickle.loads(pickle.dumps(model))):
        grown.partial_fit(X[200:], y[200:], sample_weight=w[200:])
        np.testing.assert_array_equal(grown.coef_, model.coef_)
        assert grown.state_.rows == 300
    assert clone(model).keep_state
    assert not hasattr(clone(model), "state_")


def test_damaged_states_are_refused(tmp_path):
    X, y, _ = problem(100)
    save_model(StreamingRidge(keep_state=True).fit(X, y), tmp_path / "m")
    spec, arrays = read_model_folder(tmp_path / "m")
    arrays["model.state_.sums"] = arrays["model.state_.sums"][:, 1:]
    write_model_folder(tmp_path / "n", spec, arrays)
    with pytest.raises(StoreError, match="not a valid model"):
        load_model(tmp_path / "n")


def test_kept_states_are_added_without_changing_the_first():
    X, y, _ = problem(50)
    reduction = GramReduction(7, regression_targets(y, None), FoldRule.of_cv(3, 1))
    state = reduction.update(reduction.initial(), 0, X[:30], y[:30])
    kept = KeptState(state, reduction.targets, reduction.rule, 30)
    before = {name: array.copy() for name, array in arrays_of(kept).items()}
    rest = replace(reduction, rule=kept.next_rule())
    more = KeptState(rest.update(rest.initial(), 0, X[30:], y[30:]), rest.targets, rest.rule, 20)
    total = kept.added(more)
    for name, array in before.items():
        np.testing.assert_array_equal(arrays_of(kept)[name], array)
    whole = reduction.update(reduction.initial(), 0, X, y)
    whole.move(total.state.shifts)
    for name in ("tiles", "products", "sums", "weight", "targets", "squares"):
        np.testing.assert_allclose(getattr(total.state, name), getattr(whole, name), rtol=1e-11, atol=1e-10)
