"""Codes: levels of whole numbers become target means where they tell more than the number, and only there."""

import numpy as np
import pandas as pd
import pytest

import distrf
from distrf.maps.table_columns import row_folds
from distrf.tables.encodings import levels_tell
from distrf.tables.summary import SummaryReduction, summarise
from distrf.targets import class_targets, regression_targets

N = 4000


def told(x, y, targets) -> bool:
    summary = summarise(x[:, None], SummaryReduction((0,), (0,), len(x), targets), y)
    return levels_tell(summary.levels[0], summary)


def by_rows(x, y) -> float:
    """The gain of the levels over the line on rows of other folds, row by row: the formula of `levels_tell`."""
    values, k = np.unique(x, return_inverse=True)
    n, gain = np.bincount(k), 0.0
    means = np.bincount(k, y) / n
    within = ((y - means[k]) ** 2).sum() / (len(y) - len(n))
    ranks = np.minimum(np.searchsorted(np.cumsum(n), np.linspace(0, 1, 17) * len(y)), len(n) - 1)
    edges = np.unique(values[ranks])
    line = np.stack([np.interp(x, edges, one) for one in np.eye(len(edges))], axis=1)
    folds = row_folds(0, len(x))
    for fold in range(folds.max() + 1):
        rest, held = folds != fold, folds == fold
        fit = line @ np.linalg.lstsq(line[rest], y[rest], rcond=None)[0]
        w = np.bincount(k[rest], minlength=len(n))
        apart = np.bincount(k[rest], (y - fit)[rest], len(n)) / np.maximum(w, 1)
        between = max(((w * apart**2).sum() - np.count_nonzero(w) * within) / w.sum(), 0.0)
        moved = (apart * w * between / (w * between + within))[k]
        gain += (((y - fit) ** 2 - (y - fit - moved) ** 2)[held]).sum()
    return gain


def test_gain_is_that_of_rows(rng, monkeypatch):
    """The share at which levels begin to tell is the gain by rows over the variance, to rounding and the tiny penalty."""
    x = rng.integers(0, 150, N).astype(float)
    y = rng.normal(size=150)[x.astype(int)] + rng.normal(size=N)
    share = by_rows(x, y) / (len(y) * y.var())
    for times, tells in ((1 - 1e-5, True), (1 + 1e-5, False)):
        monkeypatch.setattr("distrf.tables.encodings._SHARE", share * times)
        assert told(x, y, regression_targets(y, None)) is tells


@pytest.mark.parametrize("effect", ["levels", "smooth", "none", "steps of few rows"])
@pytest.mark.parametrize("labels", [False, True])
def test_levels_tell_where_the_number_does_not(effect, labels):
    """Of ten draws: always, or never."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 200, N).astype(float)
        f = {
            "levels": rng.normal(size=200)[x.astype(int)], "smooth": 3 * np.sin(x / 40), "none": 0 * x,
            "steps of few rows": 5.0 * (x == 7),
        }[effect]  # fmt: skip
        y = f + rng.normal(size=N)
        y = np.where(y > 0, "a", "b") if labels else y
        targets = class_targets(y, None, None) if labels else regression_targets(y, None)
        if effect != "steps of few rows":
            assert told(x, y, targets) is (effect == "levels"), seed
        x[rng.random(N) < 0.02] = np.nan
        told(x, y, targets)  # and with missing values it does not fail


def test_numbers_of_shops_are_as_good_as_their_names(rng):
    """Beside a number; what is said to be a number stays one, and so does one of other rows alone."""
    shop, x = rng.integers(0, 100, N), rng.normal(size=N)
    y = rng.normal(size=100)[shop] + np.sin(2 * x) + 0.3 * rng.normal(size=N)
    frame, train = pd.DataFrame({"shop": 7 * shop + 13, "x": x, "day": np.arange(N) % 7}), np.arange(N) < 3000
    scores = {}
    for name, shops, kinds in (
        ("code", frame["shop"], None), ("text", "s" + frame["shop"].astype(str), None), ("number", frame["shop"], {"shop": "number"}),
    ):  # fmt: skip
        table = frame.assign(shop=shops)
        model = distrf.train(table[train], y[train], kinds=kinds, n_components=128)
        scores[name] = model.score(table[~train], y[~train])
        encoding = {column["name"]: column["encoding"] for column in model[0].columns_}
        assert ("means of the target, 100 levels" in encoding["shop"]) is (name != "number")
        assert "means" not in encoding["day"]
    assert scores["code"] > scores["text"] - 0.02 > scores["number"] + 0.2


@pytest.mark.parametrize(("classes", "width"), [(8, 1 + 8), (9, 1)])
def test_more_than_eight_targets_give_codes_no_means(classes, width, rng):
    """As of letters told by sixteen small numbers: 26 means of each would drown the numbers."""
    x = rng.integers(0, 200, N)
    labels = np.char.add("c", (x * 7919 % 211 % classes).astype(str))
    assert distrf.TableEncoder().fit_transform(pd.DataFrame({"x": x}), labels).shape[1] == width


@pytest.mark.parametrize("labels", [False, True])
def test_levels_that_change_what_another_column_does(labels, rng):
    """Their own columns tell it, as those of a category do; the means of the target and the number tell less."""
    code, X = rng.integers(0, 24, N), rng.normal(size=(N, 4))
    y = 3 * rng.normal(size=24)[code] * X[:, 0] + rng.normal(size=N)
    y = np.where(y > 0, "a", "b") if labels else y
    frame, train, scores = pd.DataFrame(X, columns=list("wxyz")).assign(code=code), np.arange(N) < 3000, []
    for kinds in (None, {"code": "category"}, {"code": "number"}):
        model = distrf.train(frame[train], y[train], kinds=kinds, n_components=256)
        scores.append(model.score(frame[~train], y[~train]))
    assert scores[0] > max(scores[1] - 0.02, scores[2] + 0.02)


def test_means_of_many_classes_count_as_one_column(rng):
    """Two rows are at a squared distance of about 2 in a column, whatever number of classes it has means of."""
    x = rng.integers(0, 50, N)
    for classes in (4, 16):
        labels = np.char.add("c", ((x * 7919 % 211 + rng.integers(0, 2, N)) % classes).astype(str))
        Z = distrf.TableEncoder(columns={"x": "category"}).fit_transform(pd.DataFrame({"x": x}), labels)
        assert Z.shape[1] == classes
        assert 1.2 < 2 * Z.var(axis=0).sum() < 2.8
