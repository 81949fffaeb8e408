"""What every frozen map must do: a class of tests that each map's own test class inherits."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from dask.base import tokenize

from distrf.errors import InputError, SpecMismatchError
from distrf.kernels import Cauchy, Gaussian, Laplacian, Matern
from distrf.maps import FeatureMap, map_from_spec

#: Shift-invariant kernels, which all tests of kernels, projections and Fourier maps go through: a new one is one more here.
SHIFT_INVARIANT = [Gaussian(), Laplacian(), Cauchy(), Matern(0.5), Matern(1.5), Matern(2.5)]
EPS = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float64): 2.0**-53}


class MapContract:
    """Inherit, and define `make`, `explicit`, `tolerance`; override `rows` for other kinds of data.

    `make` is a fixture (parametrise it at will) that returns a function (d, D) -> map. Maps with learned
    arrays set `seeded = False`. Tests marked `base_code` run for the first map of each class: what they look at is in
    the base of all maps.
    """

    #: Whether the map is a seed: small when pickled, whatever d and D.
    seeded = True
    #: Whether CSR blocks are taken.
    sparse = True
    #: Whether NaN may stand in the rows.
    takes_missing = False
    #: Of the rows, where features have the dtype of the rows.
    dtypes = (np.float32, np.float64)
    d, D = 11, 24

    @pytest.fixture(params=[np.float32, np.float64])
    def dtype(self, request):
        if request.param not in self.dtypes:
            pytest.skip("features are of another dtype")
        return request.param

    def explicit(self, map_: FeatureMap, X: np.ndarray) -> np.ndarray:
        """The map's formula in float64 on dense float64 rows."""
        raise NotImplementedError

    def tolerance(self, map_: FeatureMap, X: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Absolute error of each feature that rounding in `dtype` allows, computed, not guessed."""
        raise NotImplementedError

    def rows(self, n: int, d: int) -> np.ndarray:
        """Float64 rows that float32 holds exactly, about a third of them zeros."""
        rng = np.random.default_rng(n)
        return (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)).astype(np.float32).astype(np.float64)

    @pytest.fixture
    def map_(self, make):
        return make(self.d, self.D)

    def test_formula(self, map_, dtype):
        X = self.rows(17, self.d)
        Z = map_(X.astype(dtype))
        assert Z.shape == (17, map_.n_components)
        assert Z.dtype == dtype
        assert (abs(Z - self.explicit(map_, X)) <= self.tolerance(map_, X, np.dtype(dtype))).all()

    @pytest.mark.base_code
    def test_other_dtypes(self, map_):
        X = self.rows(5, self.d) > 0
        expected = {made: map_(X.astype(made)) for made in ("f4", "f8")}
        made = {"f2": "f4", "i1": "f4", "u2": "f4", "?": "f4", "i4": "f8", "i8": "f8", ">f8": "f8"}
        for dtype, working in made.items():
            Z = map_(X.astype(dtype))
            assert Z.dtype == np.dtype(working), dtype
            np.testing.assert_array_equal(Z, expected[working], err_msg=dtype)

    def test_columns_are_parts_of_the_whole(self, map_, dtype):
        X = self.rows(9, self.d).astype(dtype)
        Z, D = map_(X), map_.n_components
        allowed = 2 * self.tolerance(map_, X.astype(np.float64), np.dtype(dtype))
        for a, b in [(0, D), (0, 1), (D - 1, D), (D // 3, D // 3 + 5), (1, D - 1), (2, 2)]:
            part = map_.columns(X, a, b)
            assert part.shape == (9, b - a)
            assert part.dtype == dtype
            assert (abs(part - Z[:, a:b]) <= allowed[:, a:b]).all()

    def test_csr_equals_dense(self, map_, dtype):
        if not self.sparse:
            pytest.skip("dense rows only")
        for density, kind in ((0.02, sp.csr_array), (0.7, sp.csr_matrix)):
            X = self.rows(40, self.d) * (np.random.default_rng(1).random((40, self.d)) < density)
            Z = map_(X.astype(dtype))
            S = map_(kind(X.astype(dtype)))
            assert S.dtype == dtype
            allowed = 2 * self.tolerance(map_, X, np.dtype(dtype))
            assert (abs((S.toarray() if sp.issparse(S) else S) - Z) <= allowed).all(), density

    def test_csr_with_duplicate_entries(self, map_, dtype):
        """Entries given in two parts, out of order, are their sum; the matrix itself is left alone."""
        if not self.sparse:
            pytest.skip("dense rows only")
        X = (self.rows(40, self.d) * (np.random.default_rng(1).random((40, self.d)) < 0.3)).astype(dtype)
        S = sp.csr_array(X)
        indices = np.concatenate([S.indices.reshape(1, -1)] * 2).T.ravel()
        data = np.stack([2 * S.data, -S.data]).T.ravel()  # exact, and norms and bins of the parts are others
        S = sp.csr_array((data, indices, 2 * S.indptr), shape=S.shape)
        for a, b in zip(S.indptr[:-1], S.indptr[1:], strict=True):  # backwards
            S.indices[a:b], S.data[a:b] = S.indices[a:b][::-1].copy(), S.data[a:b][::-1].copy()
        kept = S.data.copy()
        Z, Y = map_(X), map_(S)
        allowed = 2 * self.tolerance(map_, X.astype(np.float64), np.dtype(dtype))
        assert (
            abs((Y.toarray() if sp.issparse(Y) else Y) - (Z.toarray() if sp.issparse(Z) else Z)) <= allowed
        ).all()
        part = map_.columns(S, 1, 3)
        part, whole = (a.toarray() if sp.issparse(a) else a for a in (part, Z))
        assert (abs(part - whole[:, 1:3]) <= allowed[:, 1:3]).all()
        np.testing.assert_array_equal(S.data, kept)

    def test_exact_kernel_of_csr_rows(self, map_):
        X, Y = abs(self.rows(6, self.d)), abs(self.rows(4, self.d))
        try:
            K, L = map_.exact_kernel(X), map_.exact_kernel(X, Y)
        except InputError:  # it approximates none
            return
        for kind in (sp.csr_array, sp.csr_matrix):
            np.testing.assert_allclose(map_.exact_kernel(kind(X)), K, rtol=1e-12)
            np.testing.assert_allclose(map_.exact_kernel(kind(X), kind(Y)), L, rtol=1e-12)

    def test_rows_do_not_know_their_block(self, map_):
        X = self.rows(1100, self.d).astype(np.float32)
        Z = map_(X)
        allowed = 2 * self.tolerance(map_, X.astype(np.float64), X.dtype)
        for a, b in [(0, 1), (511, 513), (700, 1100), (3, 3)]:
            assert (abs(map_(X[a:b]) - Z[a:b]) <= allowed[a:b]).all()

    @pytest.mark.base_code
    def test_memory_order(self, map_):
        X = self.rows(30, self.d)
        Z = map_(X)
        wide = np.zeros((30, 2 * self.d))
        wide[:, ::2] = X
        for same in (np.asfortranarray(X), wide[:, ::2], np.ascontiguousarray(X[::-1])[::-1]):
            np.testing.assert_array_equal(map_(same), Z)

    @pytest.mark.base_code
    def test_input_is_left_alone(self, map_):
        X = self.rows(30, self.d)
        X.flags.writeable = False
        map_(X)

    def test_same_bits_again(self, map_, make):
        X = self.rows(30, self.d)
        np.testing.assert_array_equal(map_(X), make(self.d, self.D)(X))
        assert map_ == make(self.d, self.D)

    def test_pickle(self, map_):
        X = self.rows(30, self.d)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(map_))(X), map_(X))

    def test_pickle_is_small(self, make):
        if not self.seeded:
            pytest.skip("learns from data: its arrays travel apart from it")
        map_ = make(100_000, 1_000_000)
        assert len(pickle.dumps(map_)) < 1024
        map_ = make(self.d, self.D)
        map_(self.rows(2, self.d))  # used maps hold no more than fresh ones
        assert len(pickle.dumps(map_)) < 1024

    def test_arrays_travel_apart(self, map_):
        stub = map_.without_arrays()
        assert len(pickle.dumps(stub)) < 1024
        assert bool(map_.arrays) == (not self.seeded)
        X = self.rows(30, self.d)
        np.testing.assert_array_equal(stub.with_arrays(map_.arrays)(X), map_(X))

    def test_spec_round_trip(self, map_):
        spec = json.loads(json.dumps(map_.spec(), allow_nan=False))
        again = map_from_spec(spec, map_.arrays)
        assert again == map_
        assert tokenize(again) == tokenize(map_)
        np.testing.assert_array_equal(again(self.rows(9, self.d)), map_(self.rows(9, self.d)))

    @pytest.mark.base_code
    def test_spec_that_was_edited(self, map_):
        if not self.seeded:
            pytest.skip("no seed, hence no weights to check")
        spec = map_.spec()
        for edit in ({"seed": spec["seed"] + 1}, {"checksum": spec["checksum"] * (1 + 1e-6) + 1e-6}):
            with pytest.raises(SpecMismatchError, match="makes other weights from the spec"):
                map_from_spec(spec | edit, map_.arrays)

    @pytest.mark.base_code
    def test_spec_with_a_missing_entry(self, map_):
        spec = map_.spec()
        for name in spec:
            with pytest.raises(SpecMismatchError, match="unknown map None" if name == "map" else name):
                map_from_spec({k: v for k, v in spec.items() if k != name}, map_.arrays)

    def test_spec_of_other_arrays(self, map_):
        """Other values, shapes, types and names, of each learned array."""
        arrays, spec = map_.arrays, map_.spec()
        for name, array in arrays.items():
            others = array.copy()
            others.flat[0] += 1
            for other in (others, array[:-1], array[..., None], array.astype("c16"), None):
                given = {k: v for k, v in {**arrays, name: other}.items() if v is not None}
                with pytest.raises(SpecMismatchError, match=r"arrays?\b"):
                    map_from_spec(spec, given)

    @pytest.mark.base_code
    def test_token(self, map_, make):
        assert tokenize(map_) == tokenize(make(self.d, self.D))
        assert tokenize(map_) != tokenize(make(self.d + 1, self.D))

    @pytest.mark.base_code
    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "csr"])
    def test_not_finite(self, map_, kind):
        if kind is sp.csr_array and not self.sparse:
            pytest.skip("dense rows only")
        for bad, name, dtype in (
            (np.nan, "NaN", "f4"),
            (-np.inf, "infinity", "f4"),
            (np.inf, "infinity", "f8"),
        ):
            if self.takes_missing and name == "NaN":
                continue
            X = np.ones((20, self.d), dtype=dtype)
            X[3, 5] = 0
            X[13, 7] = bad
            with pytest.raises(InputError, match=f"row 13 of the block, column 7 is {name} .*1 such"):
                map_(kind(X))
            with pytest.raises(InputError, match="row 13 of the block, column 7"):
                map_.columns(kind(X), 0, 2)
        X[16, 1] = -np.inf
        with pytest.raises(InputError, match=r"row 13 of the block, column 7 is infinity .*2 such"):
            map_(kind(X))

    @pytest.mark.base_code
    def test_sum_that_overflows_is_no_infinity(self, map_):
        X = np.zeros((4, self.d))
        X[:, :2] = 1.7e308
        with np.errstate(all="ignore"):  # the features themselves may overflow
            try:
                map_(X)
            except InputError as error:
                known = ("beyond 1e+15 float64 tells no two rows apart", "features overflow")
                if not any(text in str(error) for text in known):
                    pytest.fail(f"finite rows were refused: {error}")

    @pytest.mark.base_code
    def test_rows_that_no_map_takes(self, map_):
        for X, message in (
            *(
                (np.ones((3, k)), f"X has {k} features, but .* {self.d} features")
                for k in (self.d - 1, self.d + 1)
            ),
            *((np.ones(shape), "2 dimensions") for shape in ((self.d,), (2, self.d, 1))),
            *((np.zeros((2, self.d), k), "numeric, got dtype") for k in (object, "U3", complex, "M8[s]")),
        ):
            with pytest.raises(InputError, match=message):
                map_(X)

    @pytest.mark.base_code
    def test_no_rows(self, map_):
        assert map_(np.empty((0, self.d), dtype=np.float32)).shape == (0, map_.n_components)

    def test_work_is_stated(self, map_):
        operations, parameters = map_.work()
        assert operations > 0
        assert parameters >= 0


def fourier_formula(map_, X):
    """sqrt(2/D) (cos w.x, sin w.x) or sqrt(2/D) cos(w.x + b), from the frequencies and offsets."""
    angle = X @ map_.frequencies().T
    Z = np.empty((len(X), map_.n_components))
    if map_.phase == "paired":
        Z[:, 0::2], Z[:, 1::2] = np.cos(angle), np.sin(angle)[:, : map_.n_components // 2]
        if map_.n_components % 2:
            Z[:, -1] = np.cos(angle[:, -1] + 2 * np.pi * map_.offsets()[-1])
    else:
        Z[:] = np.cos(angle + 2 * np.pi * map_.offsets())
    return np.sqrt(2.0 / map_.n_components) * Z


def phase_error(map_, X, eps):
    """Bound on the rounding error of a phase in radians: d products, d sums, the cast of W, the offset.

    For a matrix product |x|.|w| eps for each of d + 4 roundings; fast transforms round by norms instead.
    """
    W = map_.frequencies()
    if map_.projection == "dense" and map_.root is None:
        size = abs(X) @ abs(W).T
    else:
        size = np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(W, axis=1)
    return eps * ((X.shape[1] + 4) * size + (abs(X @ W.T) + 7.0))


class FourierContract(MapContract):
    def explicit(self, map_, X):
        return fourier_formula(map_, X)

    def tolerance(self, map_, X, dtype):
        inside = np.dtype(np.float64) if map_.kernel.heavy_tailed else dtype
        angle = phase_error(map_, X, EPS[inside]) + phase_error(map_, X, EPS[np.dtype(np.float64)])
        cosine = {np.float32: 2e-7, np.float64: 5e-16}[dtype.type]
        each = np.repeat(angle + 2 * cosine, 2 if map_.phase == "paired" else 1, axis=1)
        return np.sqrt(2.0 / map_.n_components) * each[:, : map_.n_components]
