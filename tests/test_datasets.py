import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from strategies import small_seeds

from distrf import RandomFourierFeatures, StreamingRidgeClassifier
from distrf.datasets import distort_digits, expanded_digits, load_digits_split, load_npz
from distrf.errors import InputError, StoreError


def test_split__is_stratified_seeded_and_whole():
    X, y, X_test, y_test = load_digits_split(3)
    assert (X.shape, X_test.shape) == ((1437, 64), (360, 64))
    assert X.dtype == np.float32
    assert (X.min(), X.max()) == (0.0, 1.0)
    original, labels = load_digits(return_X_y=True)
    share = np.bincount(y_test) / np.bincount(labels)
    assert abs(share - 0.2).max() < 0.01
    together = np.concatenate([X, X_test])
    order = np.lexsort(together.T)
    np.testing.assert_array_equal(together[order] * 16, original[np.lexsort(original.T)])
    again = load_digits_split(3)
    assert all((a == b).all() for a, b in zip((X, y, X_test, y_test), again, strict=True))
    assert not np.array_equal(load_digits_split(4)[3], y_test)


def test_split__gives_copies():
    X = load_digits_split(0)[0]
    X[:] = -1
    assert load_digits_split(0)[0].min() == 0


def test_split__golden():
    # The split is part of what users report accuracies on: it must not move.
    X, _, _, y_test = load_digits_split(0)
    assert y_test[:10].tolist() == [5, 6, 1, 5, 9, 4, 6, 1, 1, 0]
    assert float(X[:100].sum()) == 1920.6875


def test_expanded__shows_each_digit_once_a_cycle():
    X, y, *_ = load_digits_split(1)
    Z, labels = (a.compute() for a in expanded_digits(2 * 1437, seed=1, strength=0.0))
    for cycle in (slice(0, 1437), slice(1437, 2874)):
        order = np.lexsort(np.column_stack([Z[cycle], labels[cycle]]).T)
        expected = np.lexsort(np.column_stack([X, y]).T)
        np.testing.assert_allclose(Z[cycle][order], X[expected], atol=1e-6)
        np.testing.assert_array_equal(labels[cycle][order], y[expected])
    assert not np.array_equal(labels[:1437], labels[1437:])


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(1, 12_000), st.integers(1, 5_000), small_seeds)
def test_expanded__depends_on_seed_and_row_alone(n_rows, block_rows, seed):
    X, y = expanded_digits(n_rows, seed, block_rows)
    assert X.shape == (n_rows, 64)
    assert max(X.chunks[0]) <= block_rows
    rows = slice(max(0, n_rows - 50), n_rows)
    whole_X, whole_y = expanded_digits(12_000, seed, 12_000)
    np.testing.assert_array_equal(X[rows].compute(), whole_X[rows].compute())
    np.testing.assert_array_equal(y[rows].compute(), whole_y[rows].compute())


def test_distort__maps_a_plane_to_a_plane():
    # An affine map of a plane is a plane, and bilinear sampling is exact on it.
    yy, xx = np.mgrid[:8, :8]
    plane = (0.05 * xx + 0.03 * yy + 0.2).reshape(1, 64)
    inner = np.zeros((8, 8), dtype=bool)
    inner[2:6, 2:6] = True  # reads no pixel outside the image
    for row in range(20):
        image = distort_digits(plane, (row, row + 1), seed=5).reshape(8, 8)
        fitted, residual, *_ = np.linalg.lstsq(
            np.column_stack([xx[inner], yy[inner], np.ones(16)]), image[inner], rcond=None
        )
        assert residual[0] < 1e-9
        assert abs(fitted[:2] - (0.05, 0.03)).max() < 0.03
    assert not np.allclose(image, plane.reshape(8, 8))


def test_distort__stays_in_range_and_keeps_the_ink():
    X, *_ = load_digits_split(0)
    Z = distort_digits(X, (0, 5000))
    assert Z.dtype == np.float32
    assert Z.min() >= 0
    assert Z.max() <= 1
    assert Z.mean() == pytest.approx(X.mean(), rel=0.05)


def test_expanded__graph_ships_no_data():
    X, y = expanded_digits(1_000_000)
    assert X.npartitions == y.npartitions == 62
    import cloudpickle

    assert len(cloudpickle.dumps(dict(X.__dask_graph__()))) < 200_000


def test_expanded__names_follow_the_arguments():
    assert expanded_digits(100)[0].name == expanded_digits(100)[0].name
    assert expanded_digits(100)[0].name != expanded_digits(100, strength=0.5)[0].name


def test_expanded__trains_a_kernel_machine_that_beats_the_linear_model():
    *_, X_test, y_test = load_digits_split(0)
    X, y = expanded_digits(10_000, seed=0, block_rows=2_500)
    assert isinstance(X, da.Array)
    features = RandomFourierFeatures(n_components=512, random_state=0).fit(X)
    machine = StreamingRidgeClassifier(1e-5).fit(features.transform(X), y)
    linear = StreamingRidgeClassifier(1e-5).fit(X, y)
    assert machine.score(features.transform(X_test), y_test) > linear.score(X_test, y_test) + 0.02


@pytest.mark.parametrize(("n_rows", "block_rows"), [(0, 10), (10, 0)])
def test_expanded__refuses_no_rows(n_rows, block_rows):
    with pytest.raises(InputError, match="at least 1"):
        expanded_digits(n_rows, block_rows=block_rows)


# --- archives ------------------------------------------------------------------------------------------------


def test_npz__dense_and_sparse(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 9, (20, 5)).astype(np.uint8), rng.integers(0, 3, 20)
    S = sp.csr_array(X)
    path = tmp_path / "data.npz"
    parts = {f"X_test_{k}": getattr(S, k) for k in ("data", "indices", "indptr", "shape")}
    np.savez(path, X_train=X, y_train=y, y_test=y, **parts, X=X, y=np.column_stack([y, y]))
    dense, labels = load_npz(path, "train")
    np.testing.assert_array_equal(dense, X)
    np.testing.assert_array_equal(labels, y)
    assert dense.dtype == np.uint8
    sparse, _ = load_npz(path, "test")
    assert isinstance(sparse, sp.csr_array)
    np.testing.assert_array_equal(sparse.toarray(), X)
    assert load_npz(path)[1].shape == (20, 2)


def test_npz__refuses_what_is_not_an_archive(tmp_path):
    with pytest.raises(StoreError, match="cannot be read"):
        load_npz(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("not an archive")
    with pytest.raises(StoreError, match="cannot be read"):
        load_npz(tmp_path / "text.npz")
    np.save(tmp_path / "single.npy", np.ones(3))
    with pytest.raises(StoreError, match="single array"):
        load_npz(tmp_path / "single.npy")


def test_npz__names_what_it_lacks(tmp_path):
    np.savez(tmp_path / "a.npz", X_train=np.ones((2, 2)), y_train=np.ones(2))
    with pytest.raises(InputError, match="must hold X "):
        load_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=np.ones((2, 2)), y=np.ones(3))
    with pytest.raises(InputError, match="as many rows"):
        load_npz(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", X=np.array([{}], dtype=object), y=np.ones(1))
    with pytest.raises(InputError, match="plain numbers"):
        load_npz(tmp_path / "c.npz")
