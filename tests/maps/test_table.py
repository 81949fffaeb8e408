"""Encoded columns of a table: each encoding against an explicit loop, and the map of all of them."""

from __future__ import annotations

import bisect
import datetime as dt
import math

import numpy as np
import pytest
import scipy.sparse as sp
from contracts import MapContract
from hypothesis import given, settings
from hypothesis import strategies as st

from distrf.errors import InputError, SpecMismatchError
from distrf.maps import ScalingMap, TableMap, map_from_spec
from distrf.maps.base import arrays_fingerprint
from distrf.maps.table_columns import (
    FOLDS,
    Cycle,
    Indicator,
    OneHot,
    PiecewiseLinear,
    Scores,
    TargetMeans,
    Units,
    date_parts,
    row_folds,
)
from distrf.maps.table_missing import MISSING, is_missing

EPS = 2.0**-23


def piecewise(x, b):
    """Equation 1 of Gorishniy et al. 2022, and the cut 3 widths beyond the edges."""
    T, e = len(b) - 1, []
    for t in range(1, T + 1):
        if x < b[t - 1] and t > 1:
            e.append(0.0)
        elif x >= b[t] and t < T:
            e.append(1.0)
        else:
            e.append(min(max((x - b[t - 1]) / (b[t] - b[t - 1]), -3.0), 4.0))
    return e


def turn(x, period):
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=x)
    if period == "hour":
        return (moment - dt.datetime(moment.year, moment.month, moment.day)).total_seconds() / 86400
    if period == "weekday":
        return moment.weekday() / 7
    days = (dt.date(moment.year + 1, 1, 1) - dt.date(moment.year, 1, 1)).days
    return (moment.timetuple().tm_yday - 1) / days


def one_feature_set(encoding, x, fold):
    """What the docstring of an encoding says that x becomes, as a list of `width` numbers."""
    e, gone = encoding, x == MISSING
    if isinstance(e, (Units, Scores, PiecewiseLinear)) and gone:
        x = e.replacement
    if isinstance(e, Units):
        v = (x - e.middle) / e.spread
        values = [math.asinh(v) if e.bent else v]
    elif isinstance(e, Scores):
        values = [float(np.interp(x, e.edges, e.scores))]
    elif isinstance(e, PiecewiseLinear):
        values = piecewise(x, e.edges)
    elif isinstance(e, Indicator):
        values = [float(gone)]
    elif isinstance(e, OneHot):
        values = [float(x == code) for code in e.codes]
        values += [float(not gone and x not in e.codes), float(gone)]
    elif isinstance(e, TargetMeans):
        place = bisect.bisect_left(e.codes, x)
        known = place < len(e.codes) and e.codes[place] == x
        values = e.means[fold, place if known else len(e.codes)].tolist()
    else:
        angle = 0.0 if gone else 2 * math.pi * turn(x, e.period)
        values = [0.0, 0.0] if gone else [math.sin(angle), math.cos(angle)]
    return [min(max(e.factor * v, -(2.0**20)), 2.0**20) for v in values]


def explicit(map_, X):
    folds = np.clip(X[:, -1], 0, FOLDS).astype(int) if map_.cross else np.full(len(X), FOLDS)
    rows = [
        [v for e in map_.encodings() for v in one_feature_set(e, float(row[e.column]), fold)]
        for row, fold in zip(X, folds, strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(len(X), map_.n_components)


def means_of(codes, outputs=2):
    rng = np.random.default_rng(len(codes))
    return TargetMeans(
        0, 0.7, np.asarray(codes, dtype=float), rng.normal(size=(FOLDS + 1, len(codes) + 1, outputs))
    )


#: Encodings of column 0, and values that show each case of it.
CASES = {
    "standard": (Units(0, 0.5, 2.0, 1.0, 3.0), [0.0, -7.5, 1.0, 1e7, -1e300]),
    "standard of large mean": (Units(0, 1.0, 1e9, 1e9, 1e-3), [1e9, 1e9 + 1e-3, 1e9 - 0.5]),
    "robust": (Units(0, 2.0, 1.0, 1.0, 0.5, True), [0.0, -7.5, 1.0 + 1e-9, 1e7, -1e300, 1e9, 1.0]),
    "quantile": (
        Scores.of_quantiles(0, 1.0, 0.3, np.sort(np.random.default_rng(0).normal(size=101))),
        [*np.linspace(-4, 4, 33), -1e300, 1e300],
    ),
    "piecewise": (
        PiecewiseLinear(0, 0.5, 0.5, np.array([-1.0, 0.0, 2.0, 2.5])),
        [-100.0, -4.0, -2.0, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 2.2, 2.5, 3.0, 4.0, 1e300, -1.7e308],
    ),
    "one bin": (PiecewiseLinear(0, 1.0, 0.0, np.array([0.0, 2.0])), [-10.0, -1.0, 0.0, 1.0, 2.0, 3.0, 50.0]),
    "sixteen bins": (PiecewiseLinear(0, 1.0, 7.5, np.arange(17.0)), [*np.linspace(-5, 22, 55)]),
    "indicator": (Indicator(0, 2.5), [0.0, -1.0]),
    "one-hot": (OneHot(0, 2.0, np.array([-3.0, 0.0, 4.0])), [-3.0, 0.0, -0.0, 4.0, 3.0, 5.0, -9.0]),
    "one-hot of one": (OneHot(0, 2.0, np.array([4.0])), [3.0, 4.0, 5.0]),
    "one-hot of many": (OneHot(0, 1.0, np.arange(0.0, 900.0, 3.0)), [-1.0, 0.0, 1.0, 300.0, 897.0, 898.0, 2e15]),
    "target means": (means_of([MISSING, 1.0, 5.0]), [1.0, 5.0, 2.0, -4.0, 6.0]),
    "means of many": (means_of(range(1000), 1), [0.0, 999.0, 500.0, 500.5, 1000.0, -1.0]),
    "no own mean of missing": (means_of([1.0, 5.0], 1), [1.0, 7.0]),
    **{
        period: (Cycle(0, 1.5, period), [*(np.arange(-60, 90) * 43_210_987.5), 951_782_400.0, 951_868_800.0, -1.0])
        for period in ("hour", "weekday", "yearday")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
def test_encoding_against_a_loop(name, csr):
    encoding, values = CASES[name]
    X = np.array([*values, MISSING], dtype=float)[:, None]
    for cross in (False, True):
        X = np.column_stack([X, np.arange(len(X)) % FOLDS]) if cross else X
        map_ = TableMap.of_encodings(1 + cross, [encoding], csr, cross)
        assert (map_.n_components, map_.slots) == (encoding.width, encoding.slots)
        Z = map_(X)
        assert sp.issparse(Z) == csr
        assert Z.dtype == np.float32
        Z, expected = Z.toarray() if csr else Z, explicit(map_, X)
        assert (np.count_nonzero(Z, axis=1) <= encoding.slots).all()
        np.testing.assert_allclose(Z, expected, rtol=EPS, atol=4e-15 if name != "hour" else 1e-10)


def test_robust_is_the_scaling_of_that_name():
    rng = np.random.default_rng(1)
    X = rng.standard_cauchy((200, 3))
    middle, spread = rng.normal(size=3), rng.uniform(0.5, 2.0, size=3)
    map_ = TableMap.of_encodings(3, [Units(j, 1.0, 0.0, middle[j], spread[j], True) for j in range(3)])
    np.testing.assert_allclose(map_(X), ScalingMap(3, 3, "robust", 1.0, middle, spread)(X), rtol=EPS)


def test_scores_are_those_of_scikit_learn():
    from sklearn.preprocessing import QuantileTransformer

    rng = np.random.default_rng(2)
    x = np.round(rng.normal(size=4000), 1)
    x[:800] = 0.0  # ties
    known = QuantileTransformer(n_quantiles=101, output_distribution="normal", subsample=None).fit(x[:, None])
    encoding = Scores.of_quantiles(0, 1.0, 0.0, known.quantiles_[:, 0])
    inside = encoding.edges[1:-1, None]
    Z = TableMap.of_encodings(1, [encoding])(inside)
    np.testing.assert_allclose(Z, known.transform(inside), atol=1e-5)


def test_target_means_leave_the_own_fold_out():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 6, size=300), rng.normal(size=300)]).astype(float)
    X[:20, 0] = MISSING
    y, w = rng.normal(size=(300, 2)), rng.uniform(0.5, 2.0, size=300)
    folds, m = row_folds(0, 300), 3.0
    codes = np.array([MISSING, 0.0, 1.0, 2.0, 3.0, 4.0])  # 5 is none
    sums, totals = np.zeros((6, FOLDS, 3)), np.zeros((FOLDS, 3))
    for i in range(300):
        row = w[i] * np.array([1.0, *y[i]])
        totals[folds[i]] += row
        if X[i, 0] in codes:
            sums[codes.tolist().index(X[i, 0]), folds[i]] += row
    whole = TableMap.of_encodings(2, [TargetMeans.of_sums(0, codes, sums, totals, m)])
    crossed = whole.crossed()
    for i in range(300):
        Z = crossed(np.column_stack([X, folds])), whole(X)
        for features, others in zip(Z, (folds != folds[i], folds >= 0), strict=True):
            mean = np.average(y[others], axis=0, weights=w[others])
            alike = others & (X[:, 0] == X[i, 0])
            total = (w[alike, None] * y[alike]).sum(axis=0)
            expected = (total + m * mean) / (w[alike].sum() + m) if X[i, 0] in codes else mean
            np.testing.assert_allclose(features[i], expected, rtol=1e-6, atol=1e-7)


def test_target_means_of_one_fold():
    """All rows in one fold: without it there are no rows, and the means are zero."""
    alone = np.outer(np.eye(1, FOLDS)[0], [1.0, 1.0])
    encoding = TargetMeans.of_sums(0, np.ones(1), alone[None], alone, 1.0)
    assert encoding.means[0].tolist() == [[0.0], [0.0]]
    assert encoding.means[FOLDS].tolist() == [[1.0], [1.0]]


def test_row_folds():
    folds = row_folds(0, 5000)
    assert folds.dtype == np.int8
    cut = [row_folds(a, b - a) for a, b in ((0, 17), (17, 18), (18, 5000))]
    np.testing.assert_array_equal(np.concatenate(cut), folds)
    counts = np.bincount(folds, minlength=FOLDS)
    assert len(counts) == FOLDS
    assert abs(counts - 1000).max() < 5 * np.sqrt(5000 * 0.2 * 0.8)
    after = np.bincount(
        FOLDS * folds[:-1].astype(int) + folds[1:], minlength=FOLDS**2
    )  # neighbours say nothing
    assert abs(after - 200).max() < 5 * np.sqrt(5000 * 0.04 * 0.96)


def test_missing():
    np.testing.assert_array_equal(is_missing(np.array([MISSING, 0.0, -(2.0**399)])), [True, False, False])
    assert np.isfinite(1e9 * MISSING**2)


@pytest.mark.parametrize(
    ("days", "timed", "periods"),
    [(3, True, ["hour"]), (15, False, ["weekday"]), (200, False, ["weekday", "yearday"]), (10, False, [])],
)
def test_dates_show_what_varies(days, timed, periods):
    elapsed, *cycles = date_parts(2, 5e8, 1e7, days * 86400.0, timed)
    assert (elapsed.replacement, elapsed.middle, elapsed.spread) == (5e8, 5e8, 1e7)
    assert [c.period for c in cycles] == periods
    assert {e.column for e in (elapsed, *cycles)} == {2}


def every_encoding(d=11):
    """One of each case, spread over d columns, the last of which has none."""
    made = [encoding for encoding, _ in CASES.values()]
    return [type(e).of_numbers(i % (d - 1), e.numbers()) for i, e in enumerate(made)]


class TestTable(MapContract):
    """Features are float32 whatever the dtype of the rows."""

    seeded = False
    dtypes = (np.float32,)

    @pytest.fixture(params=[False, True], ids=["predicting", "training"])
    def make(self, request):
        return lambda d, D: TableMap.of_encodings(d, every_encoding(d), False, request.param)

    def rows(self, n, d):
        return np.round(np.random.default_rng(n).normal(size=(n, d)) * 3)

    def explicit(self, map_, X):
        return explicit(map_, X)

    def tolerance(self, map_, X, dtype):
        return EPS * abs(map_(X)) + 1e-10

    def test_formula(self, map_, dtype):
        super().test_formula(map_, dtype)
        X = self.rows(17, self.d)
        X[::3, ::2] = MISSING
        assert (abs(map_(X) - self.explicit(map_, X)) <= self.tolerance(map_, X, dtype)).all()

    def test_other_dtypes(self, map_):
        X = self.rows(5, self.d) > 0
        for dtype in ("f2", "f4", "i1", "u2", "?", "i4", "i8", ">f8"):
            Z = map_(X.astype(dtype))
            assert Z.dtype == np.float32, dtype
            np.testing.assert_array_equal(Z, map_(X.astype(float)), err_msg=dtype)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_csr_equals_dense_in_any_blocks(data):
    """To the bit, whatever encodings stand beside each other, and however rows are cut into blocks."""
    names = data.draw(st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=12))
    encodings = [type(e).of_numbers(j, e.numbers()) for j, (e, _) in enumerate(CASES[n] for n in names)]
    n, cross = data.draw(st.integers(0, 400)), data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X = np.column_stack([rng.choice([*CASES[name][1], MISSING], size=n) for name in names])
    dense, sparse = (TableMap.of_encodings(len(names), encodings, csr, cross) for csr in (False, True))
    Z, S = dense(X), sparse(X)
    np.testing.assert_array_equal(S.toarray(), Z)
    assert S.has_canonical_format
    assert S.nnz == np.count_nonzero(Z)
    assert S.nnz <= n * sparse.entries_per_row / 2
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    blocks = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
    np.testing.assert_array_equal(np.concatenate([dense(X[b]) for b in blocks]), Z)
    np.testing.assert_array_equal(np.concatenate([sparse(X[b]).toarray() for b in blocks]), Z)


@pytest.mark.parametrize("csr", [False, True])
def test_no_row_makes_an_infinity(csr):
    """Nor do its products: the numbers that float64 holds, through units as far as an encoding may have them."""
    X = np.array([1.7e308, -1.7e308, 5e-324, 0.0, 1e300, -1e300, MISSING, 1e19])[:, None]
    extreme = [
        Units(0, 1e300, 0.0, -1e300, 5e-324),
        Units(0, 1e300, 0.0, -1e300, 5e-324, True),
        Units(0, 1.0, 1e300, 0.0, 1e300),
        Scores(0, 1e300, 1e300, np.array([-1e300, 5e-324, 1e300]), np.array([-1e300, 0.0, 1e300])),
        PiecewiseLinear(0, -1e300, 1e300, np.array([-1e300, 0.0, 5e-324, 1e300])),
        OneHot(0, 1e300, np.array([0.0])),
        Indicator(0, 1e300),
        means_of([0.0]),
        *(Cycle(0, 1e300, period) for period in ("hour", "weekday", "yearday")),
    ]
    Z = TableMap.of_encodings(1, extreme, csr)(X)
    Z = Z.toarray() if csr else Z
    assert np.isfinite(Z).all()
    assert np.isfinite(np.einsum("ij,ij->i", Z, Z)).all()
    assert abs(Z).max() == 2.0**20
    # order is kept, and what is far stays far
    assert TableMap.of_encodings(1, [Units(0, 1.0, 0.0, 0.0, 1.0)])(X[:2]).tolist() == [[2.0**20], [-(2.0**20)]]


def edited(parts=None, numbers=None, **entries):
    """The spec and the arrays of a map with some of both changed, by one who knows of the digest."""
    map_ = TableMap.of_encodings(
        3, [OneHot(0, 1.0, np.arange(4.0)), Units(1, 1.0, 0.0, 0.0, 1.0), OneHot(2, 1.0, np.arange(1.0, 4.0))]
    )
    arrays = {name: array.copy() for name, array in map_.arrays.items()}
    for name, change in (("parts", parts), ("numbers", numbers)):
        for place, value in (change or {}).items():
            arrays[name][place] = value
    return {**map_.spec(), "digest": arrays_fingerprint(arrays), **entries}, arrays


@pytest.mark.parametrize(
    "change",
    [
        {"parts": {(0, 0): 99}}, {"parts": {(0, 0): -1}}, {"parts": {(1, 1): 3}}, {"parts": {(1, 1): -1}},
        {"parts": {(0, 2): 5}}, {"parts": {(1, 3): 0}}, {"parts": {(0, 5): 2}}, {"parts": {(2, 4): 10**9}},
        {"numbers": {3: 0.5}}, {"numbers": {8: 0.0}}, {"numbers": {0: np.nan}}, {"numbers": {11: 7.5}},
        {"numbers": {11: 1e9}}, {"numbers": {11: np.inf}}, {"numbers": {12: -1.0}},
        {"n_components": 3}, {"n_components": 99}, {"slots": 2}, {"slots": 4}, {"held": 1}, {"n_features_in": 2},
    ],
    ids=str,
)  # fmt: skip
def test_arrays_that_no_encodings_make(change):
    """The loops write where the arrays say: so a file that was made up does not get to them."""
    assert map_from_spec(*edited()) == map_from_spec(*edited())
    with pytest.raises(SpecMismatchError, match="save the map again"):
        map_from_spec(*edited(**change))


def test_parts_of_another_shape_or_type():
    spec, arrays = edited()
    parts = arrays["parts"]
    for other in (
        {**arrays, "parts": parts[0]},
        {**arrays, "parts": parts[:, :5]},
        {**arrays, "parts": parts[:0]},
        {**arrays, "parts": parts.astype(float)},
        {"parts": parts},
    ):
        with pytest.raises(SpecMismatchError, match="save the map again"):
            map_from_spec({**spec, "digest": arrays_fingerprint(other)}, other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Units(4, 1.0, 0.0, 0.0, 0.0), "Units has a positive spread; that of column 4 has not"),
        (lambda: Units(4, 1.0, 0.0, np.inf, 1.0), "numbers within .*1e.300; that of column 4 has not"),
        (lambda: Scores(0, 1.0, 0.0, np.arange(3.0), np.zeros(2)), "a score for each edge"),
        (lambda: PiecewiseLinear(0, 1.0, 0.0, np.zeros(2)), "ascending edges, 2 at least"),
        (lambda: OneHot(0, 1.0, np.array([MISSING, 1.0])), "of which MISSING is none"),
        (lambda: TargetMeans(0, 1.0, np.arange(2.0), np.zeros((2, 3, 1))), r"means of shape \(6, 3, 'targets'\)"),
        (lambda: Cycle(0, 1.0, "month"), "a period of hour, weekday, yearday"),
        (lambda: TableMap.of_encodings(2, []), "at least one encoding"),
        (lambda: TableMap.of_encodings(2, [Indicator(2, 1.0)]), "column below 2"),
    ],
)  # fmt: skip
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()
