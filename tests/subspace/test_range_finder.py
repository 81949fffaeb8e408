"""The range finder against dense decompositions, across chunkings, workers and interruptions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from distrf import RandomFourierFeatures
from distrf.errors import SpecMismatchError, StoreError
from distrf.execution.memory import Workers
from distrf.maps.tiles import FeatureTiles
from distrf.store import write_model_folder
from distrf.subspace import RangeFinder, choice, range_finder
from distrf.subspace.choice import Search, choose, column_blocks, subspace_costs
from distrf.subspace.reductions import GramTilesReduction, ProductReduction, RitzReduction, SketchReduction
from distrf.subspace.sketches import make_sketch
from distrf.subspace.tsqr import qr_positive

N, D = 3000, 256


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(5).normal(size=(N, 5))


@pytest.fixture(scope="module")
def base(rows):
    return RandomFourierFeatures(gamma=0.05, n_components=D, projection="dense", random_state=3).fit(rows).map_


@pytest.fixture(scope="module")
def features(rows, base):
    return base(rows)


@pytest.fixture(scope="module")
def sigma(features):
    return np.linalg.svd(features, compute_uv=False)


def residual(F, Q):
    Q = Q.astype(np.float64)
    return np.linalg.norm(F - (F @ Q) @ Q.T) / np.linalg.norm(F)


def best(sigma, kept):
    return np.sqrt((sigma[kept:] ** 2).sum() / (sigma**2).sum())


@pytest.mark.parametrize("sketch", ["gaussian", "srht"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_residual_near_the_best(rows, base, features, sigma, sketch, dtype):
    found = [
        RangeFinder(48, sketch=sketch, n_iter=q, solver="finder").find(rows.astype(dtype), base)
        for q in range(3)
    ]
    ratios = [residual(features, f.basis) / best(sigma, 48) for f in found]
    assert ratios[0] < 2.5
    assert ratios[1] < 1.05
    assert ratios[2] < 1.02
    for q, f in enumerate(found):
        assert f.basis.dtype == dtype
        assert f.basis.shape == (D, 48)
        assert f.passes == q + 2
        np.testing.assert_allclose(f.basis.T @ f.basis, np.eye(48), atol=5e-6 if dtype == np.float32 else 1e-12)
        exact = residual(features, f.basis)
        assert f.residual == pytest.approx(exact, rel=2e-3)
        assert (f.singular_values <= sigma[:48] * (1 + 1e-5)).all()  # as Ritz values do
    np.testing.assert_allclose(found[2].singular_values[:30], sigma[:30], rtol=1e-3)


def test_float32_blocks_are_as_good_as_float64(rows, base, features):
    ratio = [
        residual(features, RangeFinder(48, solver="finder").find(rows.astype(t), base).basis)
        for t in (np.float32, np.float64)
    ]
    assert ratio[0] / ratio[1] < 1.005


def test_gram_is_exact(rows, base, features, sigma):
    found = RangeFinder(40, solver="gram").find(rows, base)
    np.testing.assert_allclose(found.singular_values, sigma[:40], rtol=1e-9)
    assert residual(features, found.basis) / best(sigma, 40) == pytest.approx(1, abs=1e-9)
    assert found.passes == 1
    V = np.linalg.svd(features, full_matrices=False)[2][:5].T
    V *= np.sign(V[abs(V).argmax(axis=0), range(5)])
    np.testing.assert_allclose(found.basis[:, :5], V, atol=1e-7)


def test_features_themselves(rows, features, sigma):
    found = RangeFinder(30, n_iter=2, solver="finder").find(features, None)
    np.testing.assert_allclose(found.singular_values[:20], sigma[:20], rtol=1e-3)


class TestColumnBlocks:
    """Wide maps: column blocks within a tile of rows, and column blocks in passes of their own."""

    def test_column_blocks_give_the_same(self, monkeypatch, rows, base):
        whole = RangeFinder(20, solver="finder").find(rows, base)
        monkeypatch.setattr("distrf.maps.tiles._WHOLE_BYTES", 0)
        monkeypatch.setattr("distrf.maps.tiles._COLUMNS", 60)
        tiled = RangeFinder(20, solver="finder").find(rows, base)
        np.testing.assert_allclose(tiled.basis, whole.basis, atol=1e-7)
        monkeypatch.setattr(range_finder, "column_blocks", lambda *_: [(0, 100), (100, 200), (200, D)])
        cut = RangeFinder(20, solver="finder").find(rows, base)
        np.testing.assert_allclose(cut.basis, whole.basis, atol=1e-7)
        assert cut.passes == 3 + 3 + 1

    def test_partial_results_stay_below_their_bound(self, base):
        source = FeatureTiles(base, 1_000_000)
        cut = column_blocks(10_000_000, source, 266)
        assert cut[0][0] == 0
        assert cut[-1][1] == 1_000_000
        assert all(a[1] == b[0] for a, b in itertools.pairwise(cut))
        assert all(4 * 8 * 266 * (b - a) <= choice.COLUMN_BLOCK_BYTES for a, b in cut)
        assert column_blocks(10_000_000, FeatureTiles(base, 4096), 266) == [(0, 4096)]

    def test_folds_state_their_size_and_scratch(self, base):
        source = FeatureTiles(base, D)
        sketch = make_sketch("gaussian", N, 20, 0)
        for fold in (
            SketchReduction(source, sketch=sketch, first=10, last=50),
            ProductReduction(source, width=20, first=10, last=50),
            RitzReduction(source, width=20),
            GramTilesReduction(source),
        ):
            assert fold.initial().nbytes == fold.nbytes
            assert fold.flops_per_row > 0
            assert fold.scratch_bytes > 0


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("finished", [0, 1, 3])
def test_resumes_at_the_last_finished_pass(tmp_path, monkeypatch, rows, base, finished):
    path = tmp_path / "steps"
    options = {"n_iter": 2, "solver": "finder", "seed": 4}
    whole = RangeFinder(20, **options).find(rows, base)
    made = []

    def failing(*args, **kwargs):
        if len(made) == stop:
            raise Interrupted
        made.append(None)
        return range_finder_pass(*args, **kwargs)

    range_finder_pass, stop = range_finder.run_pass, finished
    monkeypatch.setattr(range_finder, "run_pass", failing)
    with pytest.raises(Interrupted):
        RangeFinder(20, checkpoint=path, **options).find(rows, base)
    made, stop = [], None
    resumed = RangeFinder(20, checkpoint=path, **options).find(rows, base)
    assert len(made) == 4 - finished
    assert resumed.passes == whole.passes == 4  # of the whole job
    np.testing.assert_array_equal(resumed.basis, whole.basis)
    np.testing.assert_array_equal(resumed.singular_values, whole.singular_values)
    again = RangeFinder(20, checkpoint=path, **options).find(rows, base)
    assert len(made) == 4 - finished
    assert again.passes == 4
    np.testing.assert_array_equal(again.basis, whole.basis)


def test_checkpoint_of_another_fit_is_refused(tmp_path, rows, base):
    RangeFinder(8, checkpoint=tmp_path / "a", solver="finder").find(rows, base)
    with pytest.raises(SpecMismatchError, match="n_components: 8 -> 9"):
        RangeFinder(9, checkpoint=tmp_path / "a", solver="finder").find(rows, base)
    with pytest.raises(SpecMismatchError, match="a fit to other rows"):
        RangeFinder(8, checkpoint=tmp_path / "a", solver="finder").find(rows + 1, base)
    write_model_folder(tmp_path / "b", {"model": 1}, {})
    with pytest.raises(StoreError, match="must be free or hold a distrf checkpoint"):
        RangeFinder(9, checkpoint=tmp_path / "b").find(rows, base)


class TestChoice:
    workers = Workers(2, 1, 8 * 2**30)

    def choose(self, n, D, wanted, workers=workers, solver="auto", itemsize=8):
        return choose(solver, Search(n, FeatureTiles(None, D), wanted, itemsize, 1), workers)

    def test_gram_where_it_is_cheaper(self):
        assert self.choose(10**7, 2048, 1000)[0] == "gram"
        assert self.choose(10**7, 8192, 64)[0] == "finder"
        assert "8192 features are more than 640" in self.choose(10**7, 8192, 64)[1]

    def test_finder_where_the_gram_matrix_does_not_fit(self):
        chosen = self.choose(10**9, 16_384, 8000, Workers(4, 1, 4 * 2**30))
        assert chosen[0] == "finder"
        assert "on a worker of 4.00 GiB" in chosen[1]

    def test_the_number_of_workers_does_not_matter(self):
        for n, D, wanted in itertools.product((10**5, 10**7), (2048, 8192), (64, 1000)):
            few, many = (self.choose(n, D, wanted, Workers(count, 1, 8 * 2**30)) for count in (1, 100))
            assert few == many

    def test_costs(self):
        """Passes and bytes as `RangeFinder` will have them."""
        source = FeatureTiles(None, 1_000_000)
        chosen = self.choose(10**7, 1_000_000, 266)
        costs = subspace_costs(chosen[0], Search(10**7, source, 266, 4, 1))
        assert chosen[0] == "finder"
        assert costs.passes == 2 * len(column_blocks(10**7, source, 266)) + 1
        assert costs.learned_bytes == 2 * 4 * 266 * 10**6  # that of the pass before, and the next
        assert costs.client_bytes < 24 * 266 * 10**6
        search = Search(10**7, FeatureTiles(None, 2048), 1000, 4, 1)
        exact = subspace_costs(self.choose(10**7, 2048, 1000)[0], search)
        assert (exact.passes, exact.learned_bytes) == (1, 0)
        sent = [
            subspace_costs(chosen[0], Search(100, FeatureTiles(None, 4096), 64, 4, q)).learned_bytes
            for q in (0, 1)
        ]
        assert sent == [4 * 64 * 4096, 2 * 4 * 64 * 4096]


def test_gram_matrix_of_float32_rows_keeps_small_directions():
    """Products in float32 drown what lies below 3e-4 of the first singular value; D above 1,024 had them."""
    rng = np.random.default_rng(0)
    U, V = (qr_positive(rng.normal(size=(size, 40)))[0] for size in (3000, 1200))
    sigma = np.logspace(0, -5, 40)
    X = ((U * sigma) @ V.T).astype(np.float32)
    for solver in ("gram", "finder"):
        found = RangeFinder(40, solver=solver, n_iter=2).find(X, None)
        ratio = found.singular_values / sigma
        print(f"{solver}: the last singular value is {ratio[-1]:.3g} times what it should be")
        np.testing.assert_allclose(ratio, 1, atol=0.01)
        assert abs(np.linalg.svd(V.T @ found.basis, compute_uv=False) - 1).max() < 1e-3


def test_more_directions_than_rows(base):
    X = np.random.default_rng(0).normal(size=(10, 5))
    found = RangeFinder(40, solver="finder").find(X, base)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(40), atol=1e-12)
    assert residual(base(X), found.basis) < 1e-12
    np.testing.assert_allclose(found.singular_values[10:], 0, atol=1e-6)
