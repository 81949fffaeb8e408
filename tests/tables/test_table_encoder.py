"""The encoder of tables: one pass, bounded state, the same features from every source and on any number of workers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from distrf import TableEncoder, train
from distrf.errors import InputError
from distrf.maps.table_columns import FOLDS, Indicator, OneHot, TargetMeans, Units, row_folds

N = 3000
#: What is left out is warned of: test_kinds.py and test_what_becomes_of_each_column look at it.
pytestmark = pytest.mark.filterwarnings("ignore::distrf.tables.kinds.ColumnWarning")


def numbers_table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": pa.array(rng.normal(40, 10, size=n), mask=rng.random(n) < 0.1),
            "city": pa.array(rng.choice(["Ulm", "Bonn", "Köln"], size=n), mask=rng.random(n) < 0.05),
            "zip": np.char.add("D-", rng.integers(0, 400, size=n).astype(str)),
            "when": rng.integers(0, 10**8, size=n).astype("datetime64[s]"),
            "flag": rng.random(n) < 0.3,
            "same": np.ones(n),
            "row": np.arange(n),
        }
    )


def target_of(table, seed=1):
    zips = np.array([float(text[2:]) for text in table.column("zip").to_pylist()])
    return np.sin(zips) + 0.3 * np.random.default_rng(seed).normal(size=len(zips))


def encodings_of(encoder, name):
    at = [column["name"] for column in encoder.columns_].index(name)
    return [one for one in encoder.map_.encodings() if one.column == at]


def test_what_becomes_of_each_column():
    table = numbers_table()
    encoder = TableEncoder().fit(table, target_of(table))  # numbers of rows are no warning
    kinds = {column["name"]: column["kind"] for column in encoder.columns_}
    assert kinds == {
        "age": "number", "city": "category", "zip": "category", "when": "date", "flag": "category", "same": "drop",
        "row": "id",
    }  # fmt: skip
    assert [type(one) for one in encodings_of(encoder, "age")] == [Units, Indicator]
    assert [type(one) for one in encodings_of(encoder, "city")] == [OneHot]
    assert [type(one) for one in encodings_of(encoder, "zip")] == [TargetMeans]
    assert not encodings_of(encoder, "same")
    age = np.array(table.column("age").to_pylist(), dtype=float)
    units = encodings_of(encoder, "age")[0]
    present = np.sort(age[~np.isnan(age)])
    ranks = np.searchsorted(present, [units.middle]) / len(present)
    assert abs(ranks - 0.5).max() < 0.02
    assert encoder.columns_[0]["missing"] == pytest.approx(np.isnan(age).mean(), abs=1e-6)
    names = encoder.get_feature_names_out()
    assert len(names) == encoder.map_.n_components == len(set(names))


@pytest.mark.parametrize("numbers", ["standard", "robust", "quantile", "piecewise", "both"])
def test_columns_count_alike(numbers):
    """Two rows at random are at a squared distance near 2 in a column of any usual law, within a factor of 2.5."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=N), rng.uniform(size=N), 1e6 + rng.exponential(size=N)])
    encoder = TableEncoder(numbers).fit(X)
    Z = encoder.transform(X).astype(float)
    assert Z.shape[1] == {"piecewise": 48, "both": 51}.get(numbers, 3)
    first, second = Z[rng.permutation(N)], Z[rng.permutation(N)]
    each = ((first - second) ** 2).mean(axis=0).reshape(3, -1).sum(axis=1)
    low, high = (0.8, 5.0) if numbers != "both" else (1.6, 10.0)
    assert (each > low).all()
    assert (each < high).all(), each


def test_target_means_hide_the_own_target():
    """A category that says nothing: fitted on `fit_transform`, a linear model finds nothing; on the means of all rows it would."""
    rng = np.random.default_rng(3)
    table = pa.table(
        {"code": np.char.add("c", rng.integers(0, 1000, size=N).astype(str)), "x": rng.normal(size=N)}
    )
    y = rng.normal(size=N)
    encoder = TableEncoder()
    Z = encoder.fit_transform(table, y)
    own = LinearRegression().fit(Z, y).score(Z, y)
    assert own < 5 * 2 / N  # two features by chance, within five times their expectation
    folds = row_folds(0, N)
    means = encodings_of(encoder, "code")[0]
    assert isinstance(means, TargetMeans)
    codes = encoder.coded_rows(table)[:, 0]
    at = np.searchsorted(means.codes, codes)
    np.testing.assert_allclose(Z[:, 0], means.means[folds, at, 0], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(encoder.transform(table)[:, 0], means.means[FOLDS, at, 0], rtol=1e-6, atol=1e-7)


def test_target_means_of_a_table_of_one_column():
    """Rows that are all alike in a level are in several folds: the slope at training is that at prediction."""
    rng = np.random.default_rng(4)
    zips = rng.integers(0, 200, size=20_000)
    effect = rng.normal(size=200)
    y = effect[zips] + 0.5 * rng.normal(size=20_000)
    table = pa.table({"zip": np.char.add("D-", zips.astype(str))})
    model = make_pipeline(TableEncoder(), LinearRegression()).fit(table, y)
    fresh = rng.integers(0, 200, size=5000)
    truth = effect[fresh] + 0.5 * rng.normal(size=5000)
    assert (
        model.score(pa.table({"zip": np.char.add("D-", fresh.astype(str))}), truth) > 0.75
    )  # 0.8 is what there is


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"numbers": "none"}, "numbers"),
        ({"n_bins": 1}, "n_bins"),
        ({"columns": ["age"]}, "columns"),
        ({"columns": {"height": "number"}}, "said by name"),
        ({"columns": {name: "drop" for name in numbers_table(1).column_names}}, "no column is left"),
    ],
)
def test_refused(parameters, words):
    with pytest.raises(InputError, match=words):
        TableEncoder(**parameters).fit(numbers_table(100))
    with pytest.raises(NotFittedError):
        TableEncoder().transform(numbers_table(10))


def test_a_table_in_which_nothing_varies_is_told_by_kinds():
    """What `train` guesses reaches the encoder as said, which the user did not."""
    table = pa.table({"name": [f"a{i}" for i in range(60)], "same": [1] * 60, "y": np.arange(60) / 7})
    with pytest.raises(InputError, match="no column varies: 'name': id, 'same': the same"):
        train(table, target="y")


def test_a_tail_behind_zeros_is_told_apart():
    rng = np.random.default_rng(7)
    x = np.where(rng.random(N) < 0.97, 0.0, rng.exponential(size=N))
    encoder = TableEncoder("piecewise").fit(x[:, None])
    edges = encodings_of(encoder, "x0")[0].edges
    assert len(edges) > 12  # of 17: few rows of the tail are in the sketch twice
    assert edges[0] == 0.0
    assert (np.bincount(np.searchsorted(edges, x[x > 0]), minlength=len(edges))[1:] > 0).all()


def test_far_dates_leave_others_apart():
    """1 % of 9999-12-31: dates of a few years still differ by about their own spread."""
    seconds = np.random.default_rng(8).integers(0, 10**8, size=N)
    seconds[::100] = 253_370_764_800
    table = pa.table({"end": seconds.astype("datetime64[s]")})
    Z = TableEncoder().fit_transform(table)
    usual = seconds < 10**9
    assert 0.4 < Z[usual, 0].std() < 2


def test_drift():
    table = numbers_table()
    encoder = TableEncoder().fit(table, target_of(table))
    assert encoder.find_drift(table) == []
    n = 1000
    flag = [None] * 20 + [True] * (n - 20)
    other = pa.table(
        {
            "age": np.linspace(0, 200, n), "city": ["Ulm"] * 950 + ["Rom"] * 50, "zip": ["D-7"] * n, "same": np.ones(n),
            "when": np.full(n, 10**7).astype("datetime64[s]"), "flag": flag, "row": np.arange(n),
        }
    )  # fmt: skip
    age, city, missing = encoder.find_drift(other)
    late = other.set_column(4, "when", pa.array(np.full(n, 10**9).astype("datetime64[s]")))
    assert any(said.startswith("'when' is beyond 1970-01-") for said in encoder.find_drift(late))
    assert age.startswith("'age' is beyond")
    assert "'city' has a level that was never seen in 5 % of 1,000 rows" in city
    assert "'flag' is missing in 2 %" in missing
    ages = np.where(np.arange(n) < 30, np.inf, np.where(np.arange(n) < 50, np.nan, 40.0))
    ages = other.set_column(0, "age", pa.array(ages))
    assert encoder.find_drift(ages)[0].startswith("'age' is infinite, or no number, in 3 % of 1,000 rows")


def test_what_is_no_number_is_counted():
    """In all rows, and told from what is missing; both encode alike."""
    ages = np.array([1.0, 2.0, 5.0, 9.0, np.nan, np.inf, -np.inf])
    encoder = TableEncoder().fit(ages[:, None])
    (column,) = encoder.columns_
    assert (column["unread"], column["missing"]) == (2, pytest.approx(3 / 7, abs=1e-6))
    Z = encoder.transform(ages[:, None])
    np.testing.assert_array_equal(Z[5:], Z[[4, 4]])
