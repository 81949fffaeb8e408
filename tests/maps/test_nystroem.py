"""Nystroem features: the formula, scikit-learn's, landmarks, degenerate landmarks, Dask, files."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, MapContract
from hypothesis import given
from hypothesis import strategies as st
from reductions import count_calls
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import chunk_bytes, chunked, dtypes

from distrf import NystroemFeatures, StreamingRidge, load_model, save_model
from distrf.errors import InputError
from distrf.execution.row_blocks import ARRAYS_PREFIX
from distrf.features.nystroem import LANDMARKS, choose_landmarks
from distrf.kernels import (
    FAMILIES,
    Cauchy,
    Exponential,
    ExponentialSemigroup,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    Polynomial,
    ReciprocalSemigroup,
    SemigroupKernel,
    get_kernel,
)
from distrf.kernels.exact import kernel_block
from distrf.maps import NystroemMap
from distrf.randomness import sample_indices

SHIFT_INVARIANT = [Gaussian(), Laplacian(), Cauchy(), Matern(0.5), Matern(1.5), Matern(2.5)]
KERNELS = [
    *SHIFT_INVARIANT,
    ExponentialSemigroup(0.3),
    ReciprocalSemigroup(2.0),
    Polynomial(2, 0.3, 0.7),
    Exponential(0.2),
]


def exact(kernel, X, Y, length_scale):
    return kernel(X, Y, length_scale) if isinstance(kernel, Kernel) else kernel(X, Y)


class TestNystroem(MapContract):
    seeded = False

    @pytest.fixture(params=KERNELS, ids=repr)
    def make(self, request):
        def make(d, D):
            L = self.rows(D, d)
            return NystroemMap.of_landmarks(request.param, 1.3, L)

        return make

    @pytest.fixture
    def map_(self, make):
        return make(self.d, self.D)

    def rows(self, n, d):
        return abs(super().rows(n, d))

    def explicit(self, map_, X):
        return exact(map_.kernel, X, map_.landmarks, map_.length_scale) @ map_.normalization

    def tolerance(self, map_, X, dtype):
        L, eps, (m, d) = map_.landmarks, EPS[np.dtype(np.float64)], map_.landmarks.shape
        K = exact(map_.kernel, X, L, map_.length_scale)
        norms = (X**2).sum(axis=1)[:, None] + (L**2).sum(axis=1)
        if isinstance(map_.kernel, Kernel):
            # A squared distance is a difference of sums of this size; no kernel here is steeper in it than 3/2.
            error = 1.5 * 8 * (d + 6) * norms / map_.length_scale**2 + 10 * (d + 6)
        elif isinstance(map_.kernel, Polynomial):
            error = 4 * (d + 6) * (map_.kernel.gamma * norms + map_.kernel.coef0) ** 2
        else:  # an exponent, summed over d
            error = 4 * (d + 6) * K * (1 + norms)
        M = abs(map_.normalization)
        return 2 * eps * (error + m * K) @ M + 2 * EPS[dtype] * (abs(K @ map_.normalization) + 1e-300)

    def test_span_of_landmarks(self, map_):
        """Exact between landmarks and on them."""
        Z = map_(map_.landmarks)
        K = map_.exact_kernel(map_.landmarks)
        np.testing.assert_allclose(Z @ Z.T, K, atol=1e-9 * K.max())

    def test_negative_rows(self, map_):
        X = np.ones((4, self.d))
        X[2, 3] = -1
        if isinstance(map_.kernel, SemigroupKernel):
            for kind in (np.asarray, sp.csr_array):
                with pytest.raises(InputError, match=r"row 2 of the block, column 3 is -1"):
                    map_(kind(X))
        else:
            assert np.isfinite(map_(X)).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_kernel_block(kernel, kind, rng):
    X, Y = abs(rng.normal(size=(30, 5))), abs(rng.normal(size=(20, 5)))
    Y[3] = X[4]
    np.testing.assert_allclose(kernel_block(kernel, kind(X), Y, 0.7), exact(kernel, X, Y, 0.7), atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_sparse_landmarks(kernel):
    """Text-like rows: CSR rows against CSR landmarks inside."""
    X = sp.random_array((60, 300), density=0.02, rng=np.random.default_rng(1), format="csr")
    map_ = NystroemMap.of_landmarks(kernel, 1.0, X[:20].toarray())
    Z = map_(X)
    np.testing.assert_allclose(Z, map_(X.toarray()), atol=1e-9 * abs(map_.normalization).max() * abs(Z).max())
    np.testing.assert_allclose(Z[:20] @ Z[:20].T, map_.exact_kernel(X[:20].toarray()), atol=1e-9)


def test_common_offset_costs_no_digits(rng):
    X, Y = rng.normal(size=(30, 5)), rng.normal(size=(20, 5))
    offset = 2.0**20
    np.testing.assert_allclose(
        kernel_block(Gaussian(), X + offset, Y + offset, 1.0), Gaussian()(X + offset, Y + offset), atol=1e-12
    )


def test_every_registered_kernel(rng):
    X = abs(rng.normal(size=(40, 4)))
    for family in FAMILIES:
        for name in family.registry:
            est = NystroemFeatures(name, n_components=40, random_state=0).fit(X)
            Z = est.transform(X)
            np.testing.assert_allclose(Z @ Z.T, est.map_.exact_kernel(X), atol=1e-8)
            assert get_kernel(est.map_.kernel.spec()) == est.map_.kernel


@pytest.mark.parametrize(
    ("kernel", "peer"),
    [
        (Gaussian(), {"kernel": "rbf", "gamma": 0.5 / 2.25}),
        (Laplacian(), {"kernel": "laplacian", "gamma": 1 / 1.5}),
        (Polynomial(3, 0.2, 1.0), {"kernel": "poly", "degree": 3, "gamma": 0.2, "coef0": 1.0}),
    ],
    ids=repr,
)
def test_same_as_scikit_learns(kernel, peer, rng):
    """With its landmarks: equal kernels, and equal features up to a rotation."""
    X, Y = rng.normal(size=(200, 6)), rng.normal(size=(50, 6))
    theirs = Nystroem(n_components=30, random_state=0, **peer).fit(X)
    ours = NystroemMap.of_landmarks(kernel, 1.5, theirs.components_)
    A, B = theirs.transform(Y), ours(Y)
    np.testing.assert_allclose(A @ A.T, B @ B.T, atol=1e-6)
    R = np.linalg.lstsq(A, B, rcond=None)[0]
    np.testing.assert_allclose(R.T @ R, np.eye(30), atol=1e-6)


# ---- degenerate landmarks ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_landmarks(dtype, rng):
    X = rng.normal(size=(12, 4)).astype(dtype)
    once = NystroemMap.of_landmarks(Gaussian(), 2.0, X)
    thrice = NystroemMap.of_landmarks(Gaussian(), 2.0, np.concatenate([X, X, X]))
    assert thrice.n_components == once.n_components == 12
    Y = rng.normal(size=(30, 4))
    np.testing.assert_allclose(thrice(Y) @ thrice(Y).T, once(Y) @ once(Y).T, atol=1e-9)


def test_all_rows_equal():
    est = NystroemFeatures(length_scale=1.0, n_components=5).fit(np.ones((20, 3)))
    np.testing.assert_allclose(est.transform(np.ones((4, 3))), np.ones((4, 1)), rtol=1e-12)
    for rule in LANDMARKS:
        made = clone(est).set_params(landmarks=rule).fit_transform(np.ones((100, 3)))
        assert made.shape == (100, 1)


def test_low_rank_kernel(rng):
    """(x.y)^2 in three columns has rank 6: so many features, and exact."""
    X = rng.normal(size=(100, 3))
    est = NystroemFeatures("polynomial", coef0=0.0, gamma=1.0, n_components=50).fit(X)
    Z = est.transform(X)
    assert Z.shape == (100, 6)
    assert est.get_feature_names_out().shape == (6,)
    np.testing.assert_allclose(Z @ Z.T, (X @ X.T) ** 2, atol=1e-9)


def test_rank(rng):
    X = rng.normal(size=(60, 3))
    full = NystroemFeatures(length_scale=1.0, n_components=60, random_state=0).fit(X)
    part = clone(full).set_params(rank=7).fit(X)
    assert part.transform(X).shape == (60, 7)
    np.testing.assert_array_equal(part.map_.normalization, full.map_.normalization[:, :7])
    values, vectors = np.linalg.eigh(full.map_.exact_kernel(X))
    best = (vectors[:, -7:] * values[-7:]) @ vectors[:, -7:].T
    np.testing.assert_allclose(part.transform(X) @ part.transform(X).T, best, atol=1e-9)
    assert clone(full).set_params(rank=1000).fit(X).transform(X).shape == full.transform(X).shape


def test_zero_kernel():
    with pytest.raises(InputError, match="zero between all landmarks"):
        NystroemFeatures("polynomial", coef0=0.0, gamma=1.0).fit(np.zeros((5, 2)))
    with pytest.raises(InputError, match="the kernel overflows between landmarks"):
        NystroemFeatures("exponential", gamma=1.0).fit(np.full((5, 2), 1e3))


# ---- landmarks --------------------------------------------------------------------------------------


def test_uniform_landmarks(rng):
    X = rng.normal(size=(500, 3))
    made = choose_landmarks("uniform", X, 40, 7)
    np.testing.assert_array_equal(made, X[sample_indices(7, "landmarks", 500, 40)])


@pytest.mark.parametrize("rule", LANDMARKS)
def test_landmarks(rule, rng):
    X = rng.normal(size=(900, 3)).astype(np.float32)

    def made(X, seed=7, m=40):
        return choose_landmarks(rule, X, m, seed)

    L = made(X)
    assert L.shape == (40, 3)
    assert L.dtype == np.float32
    assert len(np.unique(L, axis=0)) == 40
    for same in (da.from_array(X, chunks=(70, 3)), sp.csr_array(X)):
        np.testing.assert_array_equal(made(same), L)
    assert not np.array_equal(made(X, 8), L)
    np.testing.assert_array_equal(made(X[:30]), X[:30])
    if rule != "kmeans":
        assert (L[:, None] == X).all(axis=2).any(axis=1).all()  # rows of X


@pytest.mark.parametrize("rule", LANDMARKS)
def test_landmarks_of_text(rule):
    """Rows of few entries go through the rules as CSR, whatever they come as."""
    X = sp.random_array((200, 300), density=0.02, rng=np.random.default_rng(1), format="csr")
    chosen = choose_landmarks(rule, X, 20, 0)
    np.testing.assert_array_equal(choose_landmarks(rule, X.toarray(), 20, 0), chosen)
    assert chosen.shape == (20, 300)
    found = [(X.toarray() == row).all(axis=1).any() for row in chosen]
    assert all(found) or rule == "kmeans"  # centres are means


@pytest.mark.slow
def test_far_rows_are_found(rng):
    """Ten far points among a thousand in a clump: uniform sampling of 50 rows finds half a one."""
    X = rng.normal(size=(1000, 2)) * 0.05
    rare = rng.permutation(1000)[:10]
    X[rare] += rng.normal(size=(10, 2)) * 20
    K = Gaussian()(X)
    errors = {}
    for rule in LANDMARKS:
        found = []
        for seed in range(5):
            map_ = (
                NystroemFeatures(length_scale=1.0, n_components=100, landmarks=rule, random_state=seed)
                .fit(X)
                .map_
            )
            found.append(np.linalg.norm(K - map_(X) @ map_(X).T, 2))
        errors[rule] = np.mean(found)
    assert errors["k-means++"] < 0.2 * errors["uniform"]


def test_kmeans_beats_uniform(rng):
    X = rng.normal(size=(600, 4)) + 3 * rng.integers(0, 3, size=(600, 1))
    K = Gaussian()(X, None, 2.0)

    def error(rule):
        made = [
            NystroemFeatures(length_scale=2.0, n_components=40, landmarks=rule, random_state=s).fit_transform(X)
            for s in range(8)
        ]
        return [np.linalg.norm(K - Z @ Z.T, 2) for Z in made]

    kmeans, uniform = error("kmeans"), error("uniform")
    assert np.mean(kmeans) < np.mean(uniform) - 2 * np.std(uniform) / np.sqrt(8)


@pytest.mark.parametrize("rule", LANDMARKS)
def test_landmarks_read_a_sample(rule, tmp_path):
    X = np.random.default_rng(0).normal(size=(100_000, 2)).astype(np.float32)
    dX = da.from_array(X, chunks=(100, 2)).map_blocks(
        count_calls, str(tmp_path), dtype=X.dtype, meta=np.empty((0, 0), X.dtype)
    )
    NystroemFeatures(length_scale=1.0, n_components=16, landmarks=rule, random_state=1).fit(dX)
    assert len(list(tmp_path.iterdir())) <= 25  # 16 rows, or 168 in 21 groups of neighbours


# ---- estimator --------------------------------------------------------------------------------------

ESTIMATORS = [
    NystroemFeatures(n_components=8, random_state=0),
    NystroemFeatures("laplacian", length_scale="median", n_components=8, landmarks="kmeans", random_state=0),
    NystroemFeatures("polynomial", degree=3, n_components=8, landmarks="k-means++", random_state=0),
    NystroemFeatures(
        "matern", nu=0.5, gamma=None, n_components=8, landmarks="k-means++", rank=5, random_state=0
    ),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@given(shape=chunked(), est=st.sampled_from(ESTIMATORS), dtype=dtypes, chunk_bytes=chunk_bytes)
def test_dask_is_numpy(shape, est, dtype, chunk_bytes):
    chunks, d = shape
    X = np.random.default_rng([sum(chunks), d]).normal(size=(sum(chunks), d)).astype(dtype)
    est = clone(est)
    if est.kernel != "polynomial":
        est.set_params(length_scale=1.5)
    Z = est.fit_transform(X)
    dX = da.from_array(X, chunks=shape)
    with dask.config.set({"array.chunk-size": f"{chunk_bytes}B", "scheduler": "sync"}):
        lazy = clone(est).fit(dX).transform(dX)
        made = lazy.compute()
    assert lazy.dtype == made.dtype == Z.dtype == dtype
    # The largest entry of the normalization magnifies the rounding of a kernel value.
    size = abs(est.map_.normalization).max() * (1 + abs(est.map_.exact_kernel(X)).max())
    allowed = 100 * d * 8 * EPS[np.dtype(np.float64)] * size + 2 * EPS[np.dtype(dtype)] * (1 + abs(Z).max())
    np.testing.assert_allclose(made, Z, rtol=0, atol=allowed)
    np.testing.assert_allclose(est.transform(sp.csr_array(X)), Z, rtol=0, atol=10 * allowed)


def test_landmarks_travel_once():
    X = np.random.default_rng(0).normal(size=(400, 3))
    dX = da.from_array(X, chunks=(10, 3))
    est = NystroemFeatures(length_scale=1.0, n_components=100, random_state=0).fit(dX)
    assert len(pickle.dumps(est.map_.without_arrays())) < 1024
    graph = dict(est.transform(dX).__dask_graph__())
    shared = [k for k in graph if str(k).startswith(ARRAYS_PREFIX)]
    assert len(shared) == 1
    others = sum(len(pickle.dumps(v)) for k, v in graph.items() if k not in shared and "array" not in str(k))
    assert others < 40 * 4096


@pytest.mark.parametrize("est", ESTIMATORS, ids=repr)
def test_files(est, tmp_path):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    est = clone(est).fit(X)
    Z = est.transform(X)
    save_model(est, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(X), Z)
    assert repr(again) == repr(est)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(est)).transform(X), Z)


def test_kernel_objects_in_files(tmp_path):
    X = abs(np.random.default_rng(0).normal(size=(50, 3)))
    for kernel in KERNELS:
        est = NystroemFeatures(kernel, length_scale=1.0, n_components=6, random_state=0).fit(X)
        assert est.map_.kernel == kernel
        save_model(est, tmp_path / "model", overwrite=True)
        assert load_model(tmp_path / "model").kernel == kernel


def test_trains_out_of_core(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2
    dX, dy = da.from_array(X, chunks=(300, 3)), da.from_array(y, chunks=300)
    model = make_pipeline(
        NystroemFeatures(n_components=150, landmarks="kmeans", random_state=0), StreamingRidge(1e-8)
    )
    predicted = model.fit(dX, dy).predict(dX).compute()
    assert np.mean((predicted - y) ** 2) < 0.02 * y.var()


def test_parameters_of_kernels(rng):
    X = rng.normal(size=(60, 3))
    map_ = NystroemFeatures(gamma=0.4, n_components=20, random_state=0).fit(X).map_
    np.testing.assert_allclose(map_.exact_kernel(X), rbf_kernel(X, gamma=0.4), rtol=1e-12)
    assert NystroemFeatures("matern", nu=2.5, n_components=4).fit(X).map_.kernel == Matern(2.5)
    poly = NystroemFeatures("polynomial", degree=4, gamma=0.3, coef0=2.0, n_components=4).fit(X).map_.kernel
    assert poly == Polynomial(4, 0.3, 2.0)
    norm = NystroemFeatures("exponential", n_components=4).fit(X).map_.kernel.gamma
    assert norm == pytest.approx(1 / (X**2).sum(axis=1).mean())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"kernel": "sigmoid"},
            "kernel must be 'gaussian', .*'exponential_semigroup', .*'polynomial'.* got 'sigmoid'",
        ),
        ({"kernel": 3}, "kernel must be .* got 3"),
        ({"landmarks": "random"}, r"landmarks must be 'uniform', 'k-means\+\+'.* got 'random'"),
        ({"rank": 0}, "rank must be an integer >= 1 or None, got 0"),
        ({"n_components": 0}, "n_components must be an integer >= 1, got 0"),
        ({"length_scale": -1}, "length_scale must be a finite number > 0"),
        ({"kernel": "exponential_semigroup"}, "sampled row .* column . is -"),
    ],
)
def test_bad_parameters(parameters, message, rng):
    with pytest.raises(InputError, match=message):
        NystroemFeatures(**({"length_scale": 1.0} | parameters)).fit(rng.normal(size=(20, 3)))


def test_not_finite_landmarks():
    X = np.ones((20, 2))
    X[3, 1] = np.nan
    with pytest.raises(InputError, match="sampled rows hold NaN or infinity"):
        NystroemFeatures(length_scale=1.0).fit(da.from_array(X, chunks=(5, 2)))
