"""Permutation importance against explicit formulas, scikit-learn's metrics and scikit-learn's own, on rows of every kind."""

from __future__ import annotations

import json

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.inspection import permutation_importance as theirs
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score
from sklearn.pipeline import make_pipeline

from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    StreamingSGDClassifier,
    open_rows,
    permutation_importance,
    save_model,
    write_rows,
)
from distrf.errors import InputError
from distrf.inspection import importance as module
from distrf.inspection.permuted import PermutedReduction, with_columns
from distrf.plot import ImportanceDisplay
from distrf.randomness import permutation

N, D = 600, 4


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(N, D))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=N), rng.uniform(0.2, 2.0, size=N)


def labels(y):
    return np.array(["high", "low", "middle"])[np.digitize(y, [-0.5, 0.5])]


def machine(model=None):
    features = RandomFourierFeatures(length_scale=2.0, n_components=64, random_state=0)
    return make_pipeline(StreamingScaler(), features, StreamingRidge(alpha=1e-4) if model is None else model)


def losses(pipeline, score, X, y, w):
    """A score of the rows, more being better, by scikit-learn's metrics."""
    if score == "accuracy":
        return accuracy_score(y, pipeline.predict(X), sample_weight=w)
    if score == "log_loss":
        return -log_loss(y, pipeline.predict_proba(X), sample_weight=w)
    if score == "r2":
        return r2_score(y, pipeline.predict(X), sample_weight=w)
    return -mean_squared_error(y, pipeline.predict(X), sample_weight=w)


def expected(pipeline, score, X, y, w, groups, n_repeats, seed=0):
    """The definition: each group of columns from the rows of a seeded permutation of all rows."""
    base = losses(pipeline, score, X, y, w)
    found = np.empty((len(groups), n_repeats))
    for r in range(n_repeats):
        order = permutation(seed, f"importance {r}", 0, len(X))
        for g, columns in enumerate(groups):
            other = X.copy()
            other[:, columns] = X[order][:, columns]
            found[g, r] = base - losses(pipeline, score, other, y, w)
    return base, found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("score", ["accuracy", "log_loss", "r2", "squared_error", "several"])
def test_against_the_definition(rows, score, weighted):
    X, y, w = rows
    w = w if weighted else None
    if score in ("accuracy", "log_loss"):
        y = labels(y)
        pipeline = machine(StreamingSGDClassifier("multinomial", n_epochs=3, random_state=0)).fit(X, y)
    else:
        y = np.stack([y, 30 * X[:, 3] + y, np.full(N, 2.0)], axis=1) if score == "several" else y
        score = "r2" if score == "several" else score
        pipeline = machine().fit(X, y)
    found = permutation_importance(pipeline, X, y, sample_weight=w, score=score, n_repeats=3)
    base, wanted = expected(pipeline, score, X, y, w, [[j] for j in range(D)], 3)
    np.testing.assert_allclose(found.importances, wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(abs(found.baseline), abs(base), rtol=1e-9)
    np.testing.assert_allclose(found.importances_mean, wanted.mean(axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.importances_std, wanted.std(axis=1), rtol=1e-8, atol=1e-12)
    assert (found.names, found.score, found.n_rows, found.rows) == (("x0", "x1", "x2", "x3"), score, N, N)


def test_against_scikit_learn(rows):
    """Both draw permutations: their means differ by standard errors of these, here at most four for each of four columns."""
    X, y, _ = rows
    pipeline, repeats = machine().fit(X[:400], y[:400]), 30
    ours = permutation_importance(pipeline, X[400:], y[400:], n_repeats=repeats)
    other = theirs(pipeline, X[400:], y[400:], n_repeats=repeats, random_state=1)
    error = np.sqrt((ours.importances.var(axis=1, ddof=1) + other.importances.var(axis=1, ddof=1)) / repeats)
    assert (np.abs(ours.importances_mean - other.importances_mean) < 4 * error).all()
    assert (ours.importances_std < 2 * other.importances_std).all()
    assert (other.importances_std < 2 * ours.importances_std).all()


@pytest.mark.slow
def test_blocks_that_are_sorted_do_not_matter(rows, monkeypatch):
    """Rows sorted by the column, in small blocks: permuted within blocks it would look unimportant."""
    X, y, _ = rows
    order = np.argsort(X[:, 0])
    X, y = X[order], y[order]
    pipeline = machine().fit(X, y)
    whole = permutation_importance(pipeline, X, y, n_repeats=10)
    within = []
    for first in range(0, N, 20):
        other = X.copy()
        other[first : first + 20, 0] = X[first : first + 20][::-1, 0]
        within.append(r2_score(y, pipeline.predict(X)) - r2_score(y, pipeline.predict(other)))
    monkeypatch.setattr(module, "_POOL_ROWS", 150)
    lazy = permutation_importance(pipeline, da.from_array(X, (20, D)), y, n_repeats=10, n_rows=None)
    assert lazy.n_rows == N
    assert sum(within) < 0.1 * whole.importances_mean[0]
    # The pool is 150 of the 600 rows: its own mean differs by a standard error of so many draws.
    spread = np.std(
        [permutation_importance(pipeline, X, y, n_rows=150, random_state=s).importances_mean for s in range(8)],
        axis=0,
    )
    assert (np.abs(lazy.importances_mean - whole.importances_mean) < 4 * spread + 1e-3).all()


@given(n=st.integers(1, 40), pool=st.integers(1, 15), first=st.integers(0, 40))
def test_each_row_of_the_pool_is_used_equally_often(n, pool, first):
    reduction = PermutedReduction(((0,),), 2, 3, pool, 1, 1.0, 1.0, 0)
    whole = reduction.donors(0, 0, first + n)
    np.testing.assert_array_equal(reduction.donors(0, first, n), whole[first:])
    counts = np.bincount(whole, minlength=pool)
    assert counts.max() - counts.min() <= 1
    assert pool < 8 or (reduction.donors(0, 0, pool) != reduction.donors(1, 0, pool)).any()


@pytest.mark.parametrize("kind", ["csr", "frame", "array"])
def test_columns_from_other_rows(rng, kind):
    X, pool = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    make = {"csr": sp.csr_array, "frame": pd.DataFrame, "array": np.array}[kind]
    given_rows, donors = make(X), rng.integers(5, size=7)
    found = with_columns(given_rows, make(pool), (2, 0), donors)
    assert type(found) is type(given_rows)
    wanted = X.copy()
    wanted[:, [0, 2]] = pool[donors][:, [0, 2]]
    np.testing.assert_array_equal(found.toarray() if kind == "csr" else found, wanted)
    np.testing.assert_array_equal(given_rows.toarray() if kind == "csr" else given_rows, X)


def test_rows_of_every_kind_are_alike(rows):
    X, y, _ = rows
    X = np.where(np.abs(X) < 0.5, 0, X)
    y = labels(y)
    pipeline = make_pipeline(
        RandomFourierFeatures(n_components=32, random_state=0), StreamingRidgeClassifier(alpha=1e-4)
    )
    pipeline.fit(X, y)
    plain = permutation_importance(pipeline, X, y)
    for other in (sp.csr_array(X), da.from_array(X, (70, D)), pd.DataFrame(X)):
        np.testing.assert_array_equal(permutation_importance(pipeline, other, y).importances, plain.importances)


def test_data_frames_keep_their_columns(rows):
    """Steps of scikit-learn that take columns by name, and a model of its own."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    X = rows[0]
    frame = pd.DataFrame({"number": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue"), "unused": X[:, 2]})
    encode = ColumnTransformer(
        [("one", OneHotEncoder(), ["colour"]), ("as", "passthrough", ["number", "unused"])]
    )
    target = np.where(frame["colour"] == "red", "yes", "no")
    pipeline = make_pipeline(encode, LogisticRegression()).fit(frame, target)
    found = permutation_importance(pipeline, frame, target, score="log_loss")
    assert found.names == ("number", "colour", "unused")
    assert found.order[0] == 1
    base, wanted = expected_of_frame(pipeline, frame, target)
    np.testing.assert_allclose(found.importances[1], wanted, rtol=1e-9)
    np.testing.assert_allclose(found.baseline, base, rtol=1e-9)


def expected_of_frame(pipeline, frame, target):
    base, wanted = log_loss(target, pipeline.predict_proba(frame)), []
    for r in range(5):
        other = frame.copy()
        other["colour"] = frame["colour"].to_numpy()[permutation(0, f"importance {r}", 0, len(frame))]
        wanted.append(log_loss(target, pipeline.predict_proba(other)) - base)
    return base, wanted


def test_groups(rows):
    """Two columns that say the same: each alone is half as important as both, or less."""
    X, _, _ = rows
    X = np.column_stack([X, X[:, 0]])
    y = X[:, 0]
    model = StreamingRidge(alpha=1e-6).fit(X, y)
    found = permutation_importance(model, X, y, columns={"both": [0, "x4"], "first": ["x0"], "none": (1, 2, 3)})
    both, first, none = found.importances_mean
    assert found.names == ("both", "first", "none")
    assert both > 3 * first > 0.1
    assert abs(none) < 1e-6
    some = permutation_importance(model, X, y, columns=["x4", 0])
    assert some.names == ("x4", "x0")
    np.testing.assert_array_equal(some.importances[1], found.importances[1])


@pytest.mark.slow
def test_same_bits_for_one_and_two_workers(rows, one_worker_client, client, monkeypatch):
    X, y, _ = rows
    monkeypatch.setattr(module, "_POOL_ROWS", 100)
    pipeline, lazy = machine().fit(X, y), da.from_array(X, (50, D))
    bits = []
    for workers in (one_worker_client, client):
        with workers.as_current():
            bits.append([permutation_importance(pipeline, lazy, y, n_rows=n).importances for n in (None, 300)])
    for one, two in zip(*bits, strict=True):
        np.testing.assert_array_equal(one, two)


def test_kept_sums_do_not_travel(rows):
    X, y, _ = rows
    small, large = (machine(StreamingRidge(alpha=1e-3, keep_state=keep)).fit(X, y) for keep in (False, True))
    sizes = []
    for pipeline in (small, large):
        judge = module._judge(pipeline, "r2", X[:10], y[:10])
        sizes.append(
            PermutedReduction.of(
                judge, groups=((0,),), n_repeats=1, seed=0, row_flops=1.0, row_bytes=1.0
            ).judge_bytes
        )
    assert abs(sizes[0] - sizes[1]) < 100
    assert large[-1].state_.rows == N


def test_rows_are_sampled(rows, tmp_path):
    X, y, _ = rows
    pipeline = machine().fit(X, y)
    some = permutation_importance(pipeline, X, y, n_rows=200)
    assert (some.n_rows, some.rows) == (200, N)
    assert "on 200 rows sampled of 600" in str(some)
    again = permutation_importance(pipeline, da.from_array(X, (37, D)), y, n_rows=200)
    np.testing.assert_array_equal(some.importances, again.importances)
    other = permutation_importance(pipeline, X, y, n_rows=200, random_state=1)
    assert (some.importances != other.importances).any()


def test_constant_targets_and_columns(rows):
    X, _, _ = rows
    X[:, 2] = 5.0
    y = np.full(N, 3.0)
    model = StreamingRidge(alpha=1.0).fit(X, y)
    found = permutation_importance(model, X, y)
    assert np.isfinite(found.importances).all()
    assert (found.importances[2] == 0).all()


def test_report(rows):
    X, y, _ = rows
    found = permutation_importance(machine().fit(X, y), X, y, n_repeats=2)
    table = found.to_dict()
    json.dumps(table)
    assert [c["name"] for c in table["columns"]] == [found.names[i] for i in found.order]
    assert table["columns"][0]["name"] == "x0"
    assert len(table["columns"][0]["each"]) == 2
    lines = str(found).splitlines()
    assert lines[0].startswith("r2 0.")
    assert "lost" in lines[0]
    assert lines[1].split()[0] == "x0"
    gained = permutation_importance(machine().fit(X, y), X, y, score="squared_error", n_repeats=1)
    assert "gained" in str(gained)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["nope"]}, "'nope' is not among"),
        ({"columns": [4]}, "4 is not among"),
        ({"columns": []}, "columns must be"),
        ({"columns": {"a": []}}, "columns must be"),
        ({"columns": {"a": [0, 0]}}, "columns must be"),
        ({"columns": {}}, "columns must be"),
        ({"n_repeats": 0}, "n_repeats must be"),
        ({"n_rows": 1}, "n_rows must be"),
        ({"score": "auc"}, "score must be"),
        ({"score": "accuracy"}, "not for a regressor"),
        ({"y": None}, "needs a target"),
        ({"sample_weight": np.zeros(N)}, "zero everywhere"),
        ({"sample_weight": -np.ones(N)}, "sample_weight must hold"),
        ({"y": np.full(N, "a")}, "holds text"),
    ],
)
def test_what_is_refused(rows, options, message):
    X, y, _ = rows
    model = StreamingRidge(alpha=1.0).fit(X, y)
    with pytest.raises(InputError, match=message):
        permutation_importance(model, X, **{"y": y} | options)


def test_models_that_are_refused(rows):
    X, y, _ = rows
    with pytest.raises(InputError, match="predicts"):
        permutation_importance(StreamingScaler().fit(X), X, y)
    model = StreamingRidgeClassifier(alpha=1.0).fit(X, labels(y))
    with pytest.raises(InputError, match="not for a classifier"):
        permutation_importance(model, X, labels(y), score="r2")
    with pytest.raises(InputError, match="holds numbers"):
        permutation_importance(model, X, y > 0)
    if not hasattr(model, "predict_proba"):
        with pytest.raises(InputError, match="probabilities"):
            permutation_importance(model, X, labels(y), score="log_loss")


@pytest.mark.slow
def test_command(rows, tmp_path, cli):
    X, y, _ = rows
    table = {f"c{j}": X[:, j].astype("f4") for j in range(D)} | {"price": y}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    model = tmp_path / "m"
    cli("train", tmp_path / "a.parquet", model, "--target", "price", "-D", 64, "--alpha", 1e-4)
    words = ["importance", model, tmp_path / "a.parquet", "--n-repeats", 2]
    said = json.loads(cli(*words, "--json", "--plot", tmp_path / "p.png").out)
    assert [c["name"] for c in said["columns"]][:2] == ["c0", "c1"]
    assert said["score"] == "r2"
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert cli(*words, "--columns", "c1,3", "--score", "squared_error").out.startswith("squared_error")
    assert "'nope'" in cli(*words, "--columns", "nope", code=1).err
    assert "--plot" in cli(*words, "--plot", tmp_path / "p.nope", code=2).err
    (direct,) = [permutation_importance(model, tmp_path / "a.parquet", n_repeats=2)]
    assert said["columns"][0]["each"] == direct.importances[0].tolist()


@pytest.mark.slow
def test_tables(rng, tmp_path, cli):
    """Columns as they are in the table, categories among them; those that the encoder leaves out do nothing."""
    frame = pd.DataFrame({"number": rng.normal(size=400), "colour": rng.choice(["red", "blue", "green"], 400)})
    frame["same"] = 7
    frame["price"] = frame["number"] + 3.0 * (frame["colour"] == "red")
    frame.to_csv(tmp_path / "a.csv", index=False)
    cli("train", tmp_path / "a.csv", tmp_path / "m", "--target", "price", "--alpha", 1e-4, "-D", 64)
    found = permutation_importance(tmp_path / "m", tmp_path / "a.csv", n_repeats=2)
    assert dict(zip(found.names, found.importances_mean > 0.1, strict=True)) == {
        "number": True,
        "colour": True,
        "same": False,
    }
    assert found.names[found.order[0]] == "colour"
    same = permutation_importance(tmp_path / "m", frame.drop(columns="price"), frame["price"], n_repeats=2)
    np.testing.assert_allclose(same.importances, found.importances, rtol=1e-9)
    assert same.names == found.names


def test_stores_without_names(rows, tmp_path):
    X, y, _ = rows
    write_rows(X, tmp_path / "a.zarr", y)
    save_model(machine().fit(*open_rows(tmp_path / "a.zarr")), tmp_path / "m")
    assert permutation_importance(tmp_path / "m", tmp_path / "a.zarr", n_repeats=1).names[0] == "x0"


def test_plot(rows):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    X, y, _ = rows
    found = permutation_importance(machine().fit(X, y), X, y)
    ax = ImportanceDisplay.from_importance(found, most=3).ax_
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.get_yticklabels()] == [found.names[i] for i in found.order[:3]]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], found.importances_mean[found.order[:3]])
    assert "r2 lost" in ax.get_xlabel()
    assert "1 less important" in ax.get_xlabel()
    assert ax.yaxis_inverted()
    pyplot.close(ax.figure)
    with pytest.raises(InputError, match="most"):
        ImportanceDisplay.from_importance(found, most=0)


def test_plot__of_an_estimator(rows):
    X, y, _ = rows
    model = machine().fit(X, y)
    wanted = permutation_importance(model, X, y, n_repeats=2)
    display = ImportanceDisplay.from_estimator(model, X, y, n_repeats=2, most=2)
    np.testing.assert_array_equal(display.importance.importances, wanted.importances)
    assert len(display.ax_.patches) == 2
    with pytest.raises(InputError, match="most"):
        ImportanceDisplay.from_estimator(model, X, y, most=0)
