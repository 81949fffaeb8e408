"""Ridge by conjugate gradients: equal to the Gram solution, in few passes and little memory."""

from __future__ import annotations

import contextlib
import os
import uuid
import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier
from distrf.errors import InputError, SpecMismatchError
from distrf.execution.memory import PassMemory, Workers
from distrf.ridge import conjugate_passes
from distrf.ridge.conjugate_gradients import NormalReduction, RightReduction
from distrf.ridge.conjugate_passes import direction_count, product_width
from distrf.ridge.gram import FoldRule, GramReduction
from distrf.ridge.solver import choose_solver, solver_that_fits
from distrf.targets import Targets

D = 200


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2500, 4))
    Z = RandomFourierFeatures(
        length_scale=1.5, n_components=D, projection="dense", random_state=0
    ).fit_transform(X)
    y = np.stack([np.sin(2 * X[:, 0]) + 3, X[:, 1] * X[:, 2]], axis=1) + 0.1 * rng.normal(size=(2500, 2))
    return Z, y


def pair(cls=StreamingRidge, *args, **options):
    cg = {"n_directions": 60, "tol": 1e-4} | options
    return cls(*args, solver="gram", fit_intercept=options.get("fit_intercept", True)), cls(
        *args, solver="cg", **cg
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-2, 1e-5])
def test_equals_the_gram_solution(problem, alpha, fit_intercept):
    Z, y = problem
    gram, cg = (m.fit(Z, y) for m in pair(StreamingRidge, alpha, fit_intercept=fit_intercept))
    spread = np.linalg.norm(gram.predict(Z) - fit_intercept * gram.predict(Z).mean(axis=0), axis=0)
    error = np.linalg.norm(cg.predict(Z) - gram.predict(Z), axis=0)
    assert (error <= cg.error_bound_ * spread * (1 + 1e-6) + 1e-9).all()
    assert cg.error_bound_ <= 1e-4
    assert 0 < cg.n_iter_ < 50
    assert cg.n_finder_passes_ == 3
    assert (gram.n_iter_, gram.residual_) == (0, 0.0)
    np.testing.assert_allclose(cg.intercept_, gram.intercept_, atol=1e-3)


def test_reported_residual_is_the_residual(problem):
    Z, y = problem
    cg = StreamingRidge(1e-4, solver="cg", n_directions=20).fit(Z, y)
    Zc, yc = Z - Z.mean(axis=0), y - y.mean(axis=0)
    c = Zc.T @ yc / len(Z)
    r = c - Zc.T @ (Zc @ cg.coef_.T) / len(Z) - 1e-4 * cg.coef_.T
    assert (np.linalg.norm(r, axis=0) / np.linalg.norm(c, axis=0)).max() == pytest.approx(
        cg.residual_, rel=1e-4
    )


def test_weights_and_float32(problem):
    Z, y = problem
    weight = np.random.default_rng(0).random(len(Z)) * (np.arange(len(Z)) % 3 > 0)
    gram, cg = (m.fit(Z.astype(np.float32), y, weight) for m in pair(StreamingRidge, 1e-4, tol=1e-3))
    error = np.linalg.norm(cg.predict(Z) - gram.predict(Z)) / np.linalg.norm(gram.predict(Z))
    assert error < 1e-3


@pytest.mark.parametrize("classes", [2, 4])
def test_classifier_with_class_weights(problem, classes):
    Z, y = problem
    labels = np.digitize(y[:, 1], [-1, 0, 1][: classes - 1])
    options = {"n_directions": 40, "tol": 1e-6}
    gram = StreamingRidgeClassifier(1e-3, class_weight="balanced", solver="gram").fit(Z, labels)
    cg = StreamingRidgeClassifier(1e-3, class_weight="balanced", solver="cg", **options).fit(Z, labels)
    np.testing.assert_allclose(cg.decision_function(Z), gram.decision_function(Z), atol=1e-4)
    np.testing.assert_array_equal(cg.predict(Z), gram.predict(Z))


@pytest.fixture(scope="module")
def noisy(problem):
    Z, y = problem
    return Z, y + np.random.default_rng(1).normal(size=y.shape)


ALPHAS = list(np.geomspace(1e-6, 1e-1, 9))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_several_alphas_share_their_passes(noisy, seed):
    """On held-out rows whose errors have one valley."""
    gram = StreamingRidge(ALPHAS, cv="holdout", solver="gram", random_state=seed).fit(*noisy)
    cg = StreamingRidge(ALPHAS, solver="cg", n_directions=40, random_state=seed).fit(*noisy)
    assert cg.alpha_ == gram.alpha_
    best = int(np.argmin(gram.cv_errors_))
    near = slice(max(best - 1, 0), best + 2)
    np.testing.assert_allclose(cg.cv_errors_[near], gram.cv_errors_[near], rtol=1e-2)
    predicted = [m.predict(noisy[0]) for m in (cg, gram)]
    assert np.linalg.norm(predicted[0] - predicted[1]) < 1e-3 * np.linalg.norm(predicted[1])
    assert cg.n_iter_ < 45
    # All rows are solved in the passes that choose among alphas: few more than for the alpha that was chosen.
    alone = StreamingRidge(cg.alpha_, solver="cg", n_directions=40, random_state=seed).fit(*noisy)
    assert cg.n_iter_ <= alone.n_iter_ + 6


@pytest.mark.parametrize("seed", [0, 4])
def test_either_of_two_valleys(noisy, seed):
    """The error falls on both sides of a ridge of 3 % between them."""
    gram = StreamingRidge(ALPHAS, cv="holdout", solver="gram", random_state=seed).fit(*noisy)
    cg = StreamingRidge(ALPHAS, solver="cg", n_directions=40, random_state=seed).fit(*noisy)
    errors = gram.cv_errors_
    assert errors[ALPHAS.index(cg.alpha_)] < 1.03 * errors.min()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_and_in_memory_agree(problem, dtype):
    Z, y = problem[0].astype(dtype), problem[1]
    now = StreamingRidge(1e-4, solver="cg", n_directions=30).fit(Z, y)
    expected = now.predict(Z)
    for size in (77, 300):
        lazy = StreamingRidge(1e-4, solver="cg", n_directions=30).fit(
            da.from_array(Z, chunks=(size, D)), da.from_array(y, chunks=(100, 2))
        )
        assert np.linalg.norm(lazy.predict(Z) - expected) < 1e-5 * np.linalg.norm(expected)
        assert lazy.n_iter_ == now.n_iter_
    csr = StreamingRidge(1e-4, solver="cg", n_directions=30).fit(sp.csr_array(Z), y)
    assert np.linalg.norm(csr.predict(Z) - expected) < 1e-5 * np.linalg.norm(expected)


@pytest.mark.slow
def test_same_bits_for_one_worker_and_two(client, one_worker_client, problem):
    Z, y = (da.from_array(a.astype(np.float32), chunks=(100, -1)) for a in problem)
    two = StreamingRidge([1e-4, 1e-3], solver="cg", n_directions=30).fit(Z, y)
    with one_worker_client.as_current():
        one = StreamingRidge([1e-4, 1e-3], solver="cg", n_directions=30).fit(Z, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.n_iter_ == two.n_iter_


def _die_once(block, folder, after):
    """The worker that reads the block number `after`, of all passes together, dies."""
    folder.mkdir(exist_ok=True)
    (folder / uuid.uuid4().hex).touch()
    if len(list(folder.iterdir())) > after:
        with contextlib.suppress(FileExistsError), open(f"{folder}-died", "x"):
            os._exit(1)
    return block


@pytest.mark.slow
def test_same_bits_after_a_killed_worker(tmp_path, problem):
    from distributed import Client, LocalCluster

    Z, y = (da.from_array(a.astype(np.float32), chunks=(100, -1)) for a in problem)
    folder = tmp_path / "reads"
    dying = Z.map_blocks(
        _die_once, folder, 5 * Z.numblocks[0], dtype=np.float32, meta=np.empty((0, 0), np.float32)
    )
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(**options) as cluster, Client(cluster):
        plain = StreamingRidge([1e-4, 1e-3], solver="cg", n_directions=30).fit(Z, y)
        again = StreamingRidge([1e-4, 1e-3], solver="cg", n_directions=30).fit(dying, y)
    assert (tmp_path / "reads-died").exists()
    assert len(list(folder.iterdir())) > 6 * Z.numblocks[0]  # it died amid the passes
    np.testing.assert_array_equal(again.coef_, plain.coef_)
    assert again.n_iter_ == plain.n_iter_


class Interrupted(Exception):
    pass


@pytest.fixture(scope="module", params=[1e-4, [1e-4, 1e-2]], ids=["one-alpha", "two-alphas"])
def whole(request, problem):
    """A fit that nothing interrupts."""
    return StreamingRidge(request.param, solver="cg", n_directions=20).fit(*problem)


@pytest.mark.parametrize("finished", [0, 1, 4])
def test_resumes_at_the_last_finished_pass(problem, tmp_path, monkeypatch, whole, finished):
    Z, y = problem
    run_pass, labels = conjugate_passes.run_pass, []

    def counted(*args, label, **kwargs):
        if len(labels) == finished:
            raise Interrupted
        labels.append(label)
        return run_pass(*args, label=label, **kwargs)

    model = clone(whole).set_params(checkpoint=tmp_path / "c")
    monkeypatch.setattr(conjugate_passes, "run_pass", counted)
    with pytest.raises(Interrupted):
        model.fit(Z, y)
    finished = -1
    first, labels = labels, []
    model.fit(Z, y)
    assert len(first) + len(labels) == whole.n_iter_ + 2  # right-hand sides, products of the first directions
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    assert (model.n_iter_, model.n_finder_passes_) == (whole.n_iter_, whole.n_finder_passes_)
    labels = []
    np.testing.assert_array_equal(model.fit(Z, y).coef_, whole.coef_)
    assert not labels


def test_more_passes_go_on_from_the_checkpoint(problem, tmp_path):
    Z, y = problem
    options = {"solver": "cg", "n_directions": 20, "checkpoint": tmp_path / "c"}
    with pytest.warns(ConvergenceWarning):
        StreamingRidge(1e-4, max_passes=3, **options).fit(Z, y)
    kept = {p.name for p in (tmp_path / "c").iterdir()}
    model = StreamingRidge(1e-4, **options).fit(Z, y)
    assert kept < {p.name for p in (tmp_path / "c").iterdir()}
    np.testing.assert_array_equal(
        model.coef_, StreamingRidge(1e-4, solver="cg", n_directions=20).fit(Z, y).coef_
    )


def test_checkpoint_of_another_fit_is_refused(problem, tmp_path):
    Z, y = problem
    options = {"solver": "cg", "n_directions": 20, "checkpoint": tmp_path / "c"}
    StreamingRidge(1e-3, **options).fit(Z, y)
    with pytest.raises(SpecMismatchError, match=r"alphas: \[0\.001\] -> \[0\.01\]"):
        StreamingRidge(1e-2, **options).fit(Z, y)
    with pytest.raises(SpecMismatchError, match="a fit to other rows"):
        StreamingRidge(1e-3, **options).fit(Z[::-1], y)
    with pytest.raises(SpecMismatchError, match="a fit to other targets"):
        StreamingRidge(1e-3, **options).fit(Z, y[::-1])
    labels = np.where(y[:, 0] > 3, "above", "below")
    options["checkpoint"] = tmp_path / "classes"
    StreamingRidgeClassifier(1e-3, **options).fit(Z, labels)
    with pytest.raises(SpecMismatchError, match="a fit to other targets"):
        StreamingRidgeClassifier(1e-3, **options).fit(Z, labels[::-1])


def test_too_few_passes_warn(problem):
    Z, y = problem
    with pytest.warns(ConvergenceWarning, match="stopped after 1 passes at a relative residual"):
        StreamingRidge(1e-8, solver="cg", n_directions=5, max_passes=1).fit(Z, y)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_passes_than_allowed(problem, most):
    """Several alphas too: passes that choose among them leave fewer for the one chosen."""
    Z, y = problem
    with pytest.warns(ConvergenceWarning, match=f"stopped after {most} passes"):
        model = StreamingRidge([1e-8, 1e-7], solver="cg", n_directions=5, max_passes=most).fit(Z, y)
    assert model.n_iter_ == most


def test_targets_without_signal(problem):
    Z, _ = problem
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = StreamingRidge(1e-3, solver="cg").fit(Z, np.full(len(Z), 7.0))
    np.testing.assert_allclose(model.predict(Z), 7.0)


@pytest.mark.parametrize("alphas", [1e-4, [1e-4, 1e-3]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_features_have_no_signal(problem, dtype, alphas):
    """What is left of the right-hand sides is rounding: the intercept predicts, and nothing warns."""
    Z, y = np.ones((len(problem[1]), 40), dtype) / 3, problem[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = StreamingRidge(alphas, solver="cg").fit(Z, y)
    assert model.error_bound_ == 0
    np.testing.assert_allclose(model.predict(Z), np.tile(y.mean(axis=0), (len(Z), 1)), rtol=1e-6)


def test_held_out_rows_without_weight(problem):
    Z, y = problem
    held_out = FoldRule.of_cv("holdout", 0).of_rows(0, len(Z)) == 0
    with pytest.raises(InputError, match="zero on all rows held out to compare alphas"):
        StreamingRidge([1e-4, 1e-3], solver="cg").fit(Z, y, np.where(held_out, 0.0, 1.0))


def test_folds_against_dense_formulas(problem):
    Z, y = problem
    targets = Targets(None, np.zeros(2))
    rule = FoldRule.of_cv("holdout", 0)
    held = rule.of_rows(0, len(Z)) == 0
    weight = np.linspace(0, 1, len(Z))
    right = RightReduction(D, targets, rule)
    state = right.initial()
    V = np.random.default_rng(0).normal(size=(D, 6))
    normal = NormalReduction(D, targets, rule, 6, V)
    assert state.nbytes == right.nbytes
    assert normal.initial().nbytes == normal.nbytes
    products = normal.initial()
    for a in range(0, len(Z), 700):
        block = (a, Z[a : a + 700], y[a : a + 700], weight[a : a + 700])
        state = right.update(state, *block)
        products = normal.update(products, *block)
    for s, rows in ((0, held), (1, ~held)):
        assert state[s, -1, 2] == pytest.approx(weight[rows] @ (Z[rows] ** 2).sum(axis=1))
        W = weight[rows, None]
        np.testing.assert_allclose(state[s, :-2, :2], Z[rows].T @ (W * y[rows]), atol=1e-9)
        np.testing.assert_allclose(state[s, :-2, 2], Z[rows].T @ W[:, 0], atol=1e-9)
        np.testing.assert_allclose(state[s, -2], [*(W * y[rows]).sum(axis=0), W.sum()], atol=1e-9)
        np.testing.assert_allclose(state[s, -1, :2], (W * y[rows] ** 2).sum(axis=0), atol=1e-9)
        np.testing.assert_allclose(products[s], Z[rows].T @ (W * (Z[rows] @ V)), atol=1e-9)


def test_auto_says_why(problem):
    Z, y = problem
    model = StreamingRidge(1e-3).fit(Z, y)
    assert model.solver_ == "gram"
    assert "fits: one pass, exact" in model.solver_reason_
    fold = GramReduction(65_536, Targets(None, np.zeros(10)))
    small = Workers(2, 1, 2 * 2**30)
    chosen, reason = solver_that_fits(fold, PassMemory(0, 0, fold.nbytes, segments=2), small, 0)
    assert chosen == "cg"
    assert "on a worker of 2.00 GiB" in reason
    chosen, reason = solver_that_fits(fold, PassMemory(0, 0, 0), small, 10**15)
    assert chosen == "cg"
    assert "in the client" in reason
    assert choose_solver("cg", [fold], [Z, y]) == (fold, "cg", "asked for")


def test_partial_results_are_bounded():
    for features in (4096, 65_536, 1_000_000):
        width = product_width(10**7, features, 2, 512)
        assert 4 * 8 * 2 * features * width <= 2**30 or width <= 16
    assert product_width(7291, 4096, 1, 512) == 512


def test_directions():
    assert [direction_count("auto", d) for d in (10, 300, 2048, 65_536)] == [10, 64, 256, 512]
    assert direction_count(1024, 200) == 200


@parametrize_with_checks(
    [StreamingRidge(1e-3, solver="cg"), StreamingRidgeClassifier(1e-3, solver="cg")],
    expected_failed_checks=lambda estimator: dict.fromkeys(
        (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ),
        "the check sets cv to a list of index splits, which streamed rows do not have",
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
