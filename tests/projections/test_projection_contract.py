"""What every projection must do, whatever its structure: each entry of the registry is put through it."""

from __future__ import annotations

import numpy as np
import pytest
from contracts import SHIFT_INVARIANT
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import dtypes, ranges, seeds

from distrf.errors import InputError
from distrf.kernels import Gaussian, Laplacian, Matern
from distrf.maps import FourierMap
from distrf.projections import PROJECTIONS, make_projection


def serves(name, kernel):
    return kernel.isotropic or not PROJECTIONS[name].isotropic


PAIRS = [(name, kernel) for name in sorted(PROJECTIONS) for kernel in SHIFT_INVARIANT if serves(name, kernel)]
pairs = pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=lambda v: v if isinstance(v, str) else str(v))
names = pytest.mark.parametrize("name", sorted(PROJECTIONS))


def phases(projection, X, start, stop, scale, dtype):
    """Panels side by side, checked against the interface on the way."""
    out, at, dtype = np.full((len(X), stop - start), np.nan), start, np.dtype(dtype)
    for first, products in projection.phases(np.ascontiguousarray(X, dtype), start, stop, scale, dtype):
        assert first == at
        assert products.dtype == dtype
        assert products.flags.c_contiguous
        at += products.shape[1]
        out[:, first - start : at - start] = products
    assert at == stop
    return out


def rounding(X, W, scale, dtype):
    """What rounding may do to scale * X @ W.T: a transform spreads it over all rows of a block."""
    passes = 4 + np.log2(X.shape[1])
    size = scale * np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(W, axis=1).max()
    return 8 * passes * np.finfo(dtype).eps * size


@pairs
def test_phases_are_products_with_the_matrix(name, kernel):
    m = 300
    for d in (1, 2, 7, 16, 97, 130) if kernel == Gaussian() else (7, 130):
        projection = make_projection(name, kernel, d, m, 11)
        W, X = projection.weights(), np.random.default_rng(d).normal(size=(5, d)).astype(np.float32)
        assert W.shape == (m, d)
        assert W.dtype == np.float64
        assert np.isfinite(W).all()
        exact = 0.3 * X.astype(float) @ W.T
        for start, stop in [(0, m), (1, m), (m - 1, m), (100, 151), (127, 258)]:
            for dtype in (np.float32, np.float64):
                got = phases(projection, X, start, stop, 0.3, dtype)
                assert (abs(got - exact[:, start:stop]) <= rounding(X, W, 0.3, dtype)).all(), (d, dtype)
            np.testing.assert_allclose(projection.weights(start, stop), W[start:stop], rtol=1e-9, atol=1e-12)


@settings(max_examples=80)
@given(st.data())
def test_any_shape_and_range(data):
    name, kernel = data.draw(st.sampled_from(PAIRS))
    dtype = data.draw(dtypes)
    n, d, m = (data.draw(st.integers(1, top)) for top in (5, 140, 3000))
    start, stop = data.draw(ranges(m))
    seed = data.draw(seeds)
    projection, longer = (make_projection(name, kernel, d, rows, seed) for rows in (m, m + 320))
    X, W = np.random.default_rng(n).normal(size=(n, d)).astype(np.float32), projection.weights()
    got = phases(projection, X, start, stop, 0.7, dtype)
    # Rows that are not asked for share transforms with those that are.
    bound = rounding(X, longer.weights(), 0.7, dtype)
    assert (abs(got - 0.7 * X.astype(float) @ W[start:stop].T) <= bound).all()


@names
def test_a_seed_is_the_whole_randomness(name):
    projection, again, other = (make_projection(name, Gaussian(), 20, 60, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(projection.weights(), again.weights())
    assert projection == again
    # Every coordinate is made from the seed; a structured row may share a few values with another.
    assert (projection.weights() != other.weights()).mean() > 0.5


#: A row of the weights of this definition of each projection: a change here breaks stored specs.
PINNED = {
    ("circulant", Matern(2.5), 32): [-2.1010790377118753, -1.1419381556209924, 0.8452565725221566],
    ("alternating_circulant", Matern(2.5), 32): [-0.9376606835151496, 0.6328217084831179, 0.1006633262004374],
    ("alternating_circulant-log2", Matern(2.5), 32): [-0.4636934887563311, 0.6328217084831179, -1.0487747453149918],
    ("fastfood", Matern(2.5), 20): [-0.9327311288881027, 1.2238715871033918, 0.5356546892634287],
    ("structured_orthogonal", Matern(2.5), 20): [1.5700289559732652, -2.5120463295572244, 0.9420173735839592],
    ("orthogonal", Matern(2.5), 20): [-0.5856902338874269, -1.1742163245300972, -1.2643344187057006],
    ("quasi", Gaussian(), 20): [-0.9344404821063987, -1.7662472883341152],
    ("quasi", Laplacian(), 20): [-1.6314103252434222, -8.189370829637962],
    ("quasi", Matern(0.5), 20): [-0.4957684845713746, -0.9370845530384454],
}  # fmt: skip


@pytest.mark.parametrize("made", PINNED, ids=str)
def test_weights_are_pinned(made):
    name, kernel, d = made
    W = make_projection(name, kernel, d, 40, 2024).weights(33, 34)
    np.testing.assert_allclose(W[0, : len(PINNED[made])], PINNED[made], rtol=1e-10)


#: A structure is judged by the Gaussian, other laws by rows that are independent or circulant; the rest is slow.
LAWS = [
    pair
    if pair[1] == Gaussian() or pair[0] in ("dense", "circulant")
    else pytest.param(*pair, marks=pytest.mark.slow)
    for pair in PAIRS
]
laws = pytest.mark.parametrize(("name", "kernel"), LAWS, ids=lambda v: v if isinstance(v, str) else str(v))


class TestUnbiased:
    """Means over seeds against the exact kernel, within the standard error that the seeds show."""

    SEEDS = 600
    d, m = 12, 48

    def differences(self, kernel):
        """A one-hot, a constant and a random difference at which the kernel is near one half."""
        V = np.vstack([np.eye(self.d)[0], np.ones(self.d), np.random.default_rng(0).normal(size=self.d)])
        for v in V:
            grid = np.geomspace(1e-3, 1e2, 400)[:, None] * v
            v *= np.interp(-0.5, -kernel(grid, np.zeros((1, self.d)))[:, 0], np.geomspace(1e-3, 1e2, 400))
        return V

    @staticmethod
    def bias(name, kernel, V):
        """The only bias that a projection declares: SORF's, |bias| <= E min(r^4 s^2 / (4 p), 2)."""
        if name != "structured_orthogonal":
            return 0.0
        radii = kernel.radii(0, 0, 20_000)
        r = np.ones(1) if radii is None else radii
        s = (V**2).sum(axis=1)
        return np.minimum(r[:, None] ** 4 * s**2 / (4 * 16), 2.0).mean(axis=0)

    @laws
    def test_estimates_average_to_the_kernel(self, name, kernel):
        V = self.differences(kernel)
        k, k_wrong = (kernel(V, np.zeros((1, self.d)), length_scale=scale)[:, 0] for scale in (1.0, 1.1))
        # Rows of one circulant block agree most where the law has Laplacian's tails: twice the seeds see as much.
        seeds = 2 * self.SEEDS if isinstance(kernel, Laplacian) else self.SEEDS
        made = np.array(
            [
                np.cos(make_projection(name, kernel, self.d, self.m, seed).weights() @ V.T).mean(axis=0)
                for seed in range(seeds)
            ]
        )
        error = made.std(axis=0) / np.sqrt(seeds)
        assert (abs(made.mean(axis=0) - k) <= 4.5 * error + self.bias(name, kernel, V)).all()
        assert (4.5 * error < abs(k - k_wrong))[[0, 2]].all()  # a bandwidth off by 1.1 would fail

    @names
    def test_offset_phase(self, name):
        """Through the map: z(x) . z(y), offsets and all."""
        kernel = Gaussian()
        V = self.differences(kernel)
        x = np.random.default_rng(3).normal(size=(1, self.d))
        rows = np.vstack([x, x + V])
        made, seeds = [], self.SEEDS // 2
        for seed in range(seeds):
            Z = FourierMap(self.d, self.m, kernel, 1.0, name, "offset", seed)(rows)
            made.append(Z[1:] @ Z[0])
        error = np.std(made, axis=0) / np.sqrt(seeds)
        k = kernel(V, np.zeros((1, self.d)))[:, 0]
        assert (abs(np.mean(made, axis=0) - k) <= 4.5 * error + self.bias(name, kernel, V)).all()


@names
def test_refusals_name_projection_kernel_and_remedy(name):
    for kernel in SHIFT_INVARIANT:
        if not serves(name, kernel):
            with pytest.raises(InputError, match=rf"{name}.*{kernel.name}.*use projection="):
                FourierMap(8, 32, kernel, 1.0, name, "paired", 0)
