"""Splits by class, group and time: which rows they hold out, that everything keeps to them, and what they report."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from distrf import RandomFourierFeatures, StreamingRidge, splits, train, tune
from distrf.errors import InputError
from distrf.pipeline import sample as samples
from distrf.pipeline.judge import Judged
from distrf.splits import hold_copies_together, make_split

pytestmark = pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")
N = 4000
GROUP = np.random.default_rng(0).integers(0, 40, N)
DAY = np.random.default_rng(1).integers(0, 100, N)
LABELS = np.random.default_rng(2).choice(["a", "b", "c"], N, p=[0.8, 0.15, 0.05])
X = np.random.default_rng(3).normal(size=(N, 3))


def lazy(a, rows):
    return da.from_array(a, chunks=(rows, *a.shape[1:]))


def folds_of(kind, by, y=LABELS, chunks=None, **more):
    """The fold of each row, in memory or of Dask arrays in such chunks."""
    if chunks is None:
        return np.asarray(make_split(kind, X[: len(y)], y, by, **more).folds.values)
    by = None if by is None else lazy(by, 333)
    split = make_split(kind, lazy(X[: len(y)], chunks), lazy(y, chunks), by, **more)
    return split.folds.values.compute()


# --------------------------------------------------------------- what they hold out
@pytest.mark.parametrize("chunks", [None, 64, 1000, 3999])
@pytest.mark.parametrize("values", ["numbers", "texts", "floats", "many"])
def test_no_group_is_in_two_folds(values, chunks):
    by = {
        "numbers": GROUP,
        "texts": np.array([f"customer {g}" for g in range(40)])[GROUP],
        "floats": GROUP / 7.0 - 2.0,
        "many": np.random.default_rng(4).integers(0, 10**9, 3990).repeat(2)[:N],
    }[values]
    if values == "many":
        assert len(np.unique(by)) < 4096
        by = np.arange(N) * 3 + 7 * 10**9  # each row its own: all are counted, and as many as there may be
    folds = folds_of("group", by, chunks=chunks)
    assert sorted(set(folds)) == [0, 1, 2, 3, 4]
    for group in np.unique(by)[:200]:
        assert len(set(folds[by == group])) == 1
    assert (folds == folds_of("group", by)).all()
    assert np.bincount(folds).max() < 1.1 * N / 5


@pytest.mark.parametrize("chunks", [None, 64, 1000])
@pytest.mark.parametrize("values", ["numbers", "alike", "dates", "ties", "instants"])
def test_held_out_rows_are_later_than_all_others(values, chunks):
    by = {
        "numbers": np.random.default_rng(6).normal(size=N),
        "dates": np.datetime64("2023-12-01") + DAY,
        "ties": DAY // 30,
        "alike": np.sort(np.random.default_rng(7).lognormal(size=N)),
        "instants": np.datetime64("2024-01-01T00:00:00.000000001") + np.arange(N),
    }[values]
    folds = folds_of("time", by, chunks=chunks)
    assert set(folds) == {-1, 0}
    assert by[folds == 0].min() > by[folds == -1].max() or values == "instants"
    assert (folds == folds_of("time", by)).all()
    held = (folds == 0).mean()
    if values == "ties":  # 10 % or 40 % are the choices
        assert held == (by >= 3).mean()
    elif values != "instants":
        assert abs(held - 0.2) < 0.02


@pytest.mark.parametrize(("n", "chunk"), [(25, 1), (123, 90), (400, 7)])
def test_each_fold_has_a_fifth_of_each_class_to_one_row(n, chunk):
    y = np.random.default_rng(n).permutation(np.r_[np.zeros(n), np.ones(5 + n // 10), np.full(7, 2.0)])
    folds = folds_of("stratified", None, y, seed=n)
    for label in (0, 1, 2):
        counts = np.bincount(folds[y == label], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert (folds_of("stratified", None, y, chunk, seed=n) == folds).all()


def test_copies_share_a_fold():
    """In any order and chunks, dense and as CSR; others are random rows."""
    rng = np.random.default_rng(0)
    which = rng.permutation(np.repeat(np.arange(800), 5))
    rows = np.where(rng.random((800, 6)) < 0.3, 0.0, rng.normal(size=(800, 6)))[which]
    folds = hold_copies_together(rows, 0).folds.values
    assert all(len(set(folds[which == i])) == 1 for i in range(800))
    assert np.abs(np.bincount(folds) / N - 0.2).max() < 5 * np.sqrt(0.16 / 800)
    other = rng.permutation(N)
    assert (hold_copies_together(rows[other], 0).folds.values == folds[other]).all()
    assert (hold_copies_together(np.where(rows == 0, -0.0, rows), 0).folds.values == folds).all()
    assert (hold_copies_together(sp.csr_array(rows), 0).folds.values == folds).all()
    for made in (lazy(rows, 333), lazy(rows, 7).map_blocks(sp.csr_array)):
        assert (hold_copies_together(made, 0).folds.values.compute() == folds).all()
    assert (hold_copies_together(rows, 1).folds.values != folds).any()
    assert hold_copies_together(rows[which < 4], 0) is None  # a fold would be empty
    assert (
        hold_copies_together(np.where(np.arange(N)[:, None] % 2, rows, 0.0), 0) is None
    )  # half of the rows are one


# ------------------------------------------------------------------ all keep to them
@pytest.mark.parametrize("kind", ["group", "time", "stratified"])
@pytest.mark.parametrize("n", [400, 1500, 4000])
def test_samples_keep_to_the_split(kind, n):
    by = {"group": GROUP, "time": DAY, "stratified": None}[kind]
    rows = np.c_[X, GROUP, DAY][:n]
    y = LABELS[:n]
    split = make_split(kind, rows, y, None if by is None else by[:n])
    sample = samples.read_sample(rows, y, 0, split=split)
    weighted = samples.read_sample(rows, y, 0, (GROUP[:n] % 7 > 0) * 1.0, split=split)
    pairs = [(s.X[rest], s.X[held]) for s in (sample, weighted) for rest, held in s.splits]
    assert len(sample.splits) == (1 if n > 2000 or kind == "time" else 5)
    for rest, held in pairs:
        assert len(rest) + len(held) > 0.8 * n
        assert 0.1 < len(held) / len(rest) < 0.5
        if kind == "group":
            assert not set(rest[:, 3]) & set(held[:, 3])
        if kind == "time":
            assert rest[:, 4].max() < held[:, 4].min()


def test_target_means_of_a_sample_keep_to_the_split():
    """Held-out rows of a group must not learn from the targets of the same group in the trial either."""
    towns = np.array([f"town {g}" for g in range(40)])
    table = pa.table({"town": towns[GROUP], "x": X[:, 0], "group": GROUP})
    y = np.random.default_rng(8).normal(size=40)[GROUP]
    reported = {
        kind: train(table.append_column("y", pa.array(y)), target="y", map="none", random_state=0, **more)
        for kind, more in {
            "random": {"kinds": {"group": "drop"}},
            "group": {"split": "group", "by": "group"},
        }.items()
    }
    assert reported["random"].training_.baseline[0].chosen > 0.9
    assert reported["group"].training_.baseline[0].chosen < 0.1
    assert "group" not in reported["group"][0].feature_names_in_


def group_data(n, groups, seed):
    """Rows of groups that six columns tell apart; the target is an effect of the group, and little else."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    marks, effect = rng.normal(size=(groups, 6)), rng.normal(size=groups)
    rows = np.c_[marks[group] + 0.02 * rng.normal(size=(n, 6)), rng.normal(size=n)]
    return rows, effect[group] + 0.5 * rows[:, 6] + 0.2 * rng.normal(size=n), group


def test_standard_errors_count_groups():
    """As many copies of each row as there are do not make a mean more certain."""
    values = np.random.default_rng(0).normal(size=200)
    alone = Judged(values).error(values)
    copied = Judged(values.repeat(9), groups=np.arange(200).repeat(9))
    assert copied.error(copied.losses) == pytest.approx(alone, rel=0.01)
    assert Judged(values.repeat(9)).error(copied.losses) < 0.4 * alone


def test_the_last_fit_of_train_has_the_folds_too():
    rows, y, group = group_data(1500, 40, 3)
    options = {"map": RandomFourierFeatures(), "scale": "none", "n_components": 128, "random_state": 0}
    ridge = StreamingRidge((1e-6, 1e-2))
    model = train(rows, y, model=ridge, split="group", by=group, **options)
    folds = np.asarray(make_split("group", rows, y, group).folds.values)
    alone = clone(ridge).fit(model[:-1].transform(rows), y, folds=folds)
    np.testing.assert_allclose(model[-1].cv_errors_, alone.cv_errors_, rtol=1e-3)


def test_tune_judges_by_new_groups():
    rows, y, group = group_data(1500, 40, 3)
    found = {
        kind: tune(
            rows, y, map=RandomFourierFeatures(n_components=128, random_state=0), scale=None, model="ridge",
            grid={"map__length_scale": [0.5, 2.0], "alpha": [1e-6, 1e-2]}, split=kind, by=by,
        )
        for kind, by in (("random", None), ("group", group))
    }  # fmt: skip
    assert found["random"].best["score"] > 0.8
    assert found["group"].best["score"] < 0.5
    assert [found[kind].model.training_.chosen("split") for kind in found] == [None, "group"]


# -------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("kind", "by", "y", "message"),
    [
        ("group", None, LABELS, "name it with by="),
        ("time", None, LABELS, "name it with by="),
        ("random", GROUP, LABELS, "split='random'"),
        ("stratified", GROUP, LABELS, "split='stratified'"),
        ("somehow", None, LABELS, "split"),
        ("group", np.zeros(N), LABELS, "one group in all 4,000 rows"),
        ("group", np.where(GROUP == 3, np.nan, GROUP), LABELS, "row .* has none"),
        ("group", np.array(["a", None] * (N // 2), dtype=object), LABELS, "row 1 has none"),
        ("group", GROUP[:-1], LABELS, "one value for each row"),
        ("time", np.ones(N), LABELS, "is the same in all"),
        ("time", np.where(DAY == 3, np.nan, DAY), LABELS, "needs the time of every row"),
        ("time", DAY.astype(str), LABELS, "times are numbers or dates"),
        ("stratified", None, np.repeat("a", N), "at least 2 classes"),
        ("stratified", None, np.r_[np.repeat("a", N - 2), ["b", "b"]], "fewer than 5 rows"),
        ("group", lazy(GROUP, 100), LABELS, "compute"),
    ],
)
def test_splits_that_cannot_be(kind, by, y, message):
    with pytest.raises(InputError, match=message):
        make_split(kind, X, y, by)


def test_labels_beyond_memory_are_not_stratified(monkeypatch):
    monkeypatch.setattr(splits, "_LABEL_BYTES", LABELS.nbytes - 1)
    with pytest.raises(InputError, match="of 4,000 rows; take split='random'"):
        make_split("stratified", X, lazy(LABELS, 100))


def test_what_train_refuses():
    with pytest.raises(InputError, match="names a column of a table"):
        train(X, X[:, 0], split="group", by="customer")
    with pytest.raises(InputError, match="the target is numbers"):
        train(X, X[:, 0], split="stratified")
    with pytest.raises(InputError, match="keep_state"):
        train(X, X[:, 0], model=StreamingRidge(keep_state=True), split="group", by=GROUP, n_components=64)
    table = pa.table({"group": GROUP, "x": X[:, 0], "y": X[:, 1]})
    with pytest.raises(InputError, match="which is the target"):
        train(table, target="y", split="group", by="y")
    with pytest.raises(InputError, match="no column that is read"):
        train(table, target="y", split="group", by="customer")
