import numpy as np
import pytest
from sklearn.datasets import load_digits

from distrf.datasets import expanded_digits, load_digits_split
from distrf.datasets.digits import distorted


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
    together[:] = X[:] = -1  # these are copies
    X = load_digits_split(3)[0]
    assert all((a == b).all() for a, b in zip((X, y, X_test, y_test), again, strict=True))
    assert not np.array_equal(load_digits_split(4)[3], y_test)
    # The split is part of what users report accuracies on: it must not move.
    assert load_digits_split(0)[3][:10].tolist() == [5, 6, 1, 5, 9, 4, 6, 1, 1, 0]


def test_expanded__shows_each_digit_once_a_cycle():
    X, y, *_ = load_digits_split(1)
    Z, labels = (a.compute() for a in expanded_digits(2 * 1437, seed=1))
    np.testing.assert_array_equal(labels, [*y, *y])
    for cycle in (slice(0, 1437), slice(1437, 2874)):
        near = ((Z[cycle, None] - X[None, :200]) ** 2).sum(axis=2).argmin(axis=1)
        assert (near[:200] == np.arange(200)).mean() > 0.4  # of 200, by chance one
    assert not np.array_equal(Z[:1437], Z[1437:])


@pytest.mark.parametrize(("n_rows", "block_rows"), [(9_000, 4_096), (8_193, 5_000), (50, 1)])
def test_expanded__depends_on_seed_and_row_alone(n_rows, block_rows):
    X, y = expanded_digits(n_rows, 3, block_rows)
    assert (X.shape, max(X.chunks[0])) == ((n_rows, 64), block_rows)
    whole, rows = expanded_digits(12_000, 3, 12_000), slice(n_rows - 50, n_rows)
    for part, other in zip((X, y), whole, strict=True):
        np.testing.assert_array_equal(part[rows].compute(), other[rows].compute())


def test_distort__maps_a_plane_to_a_plane():
    # An affine map of a plane is a plane, and bilinear sampling is exact on it.
    yy, xx = np.mgrid[:8, :8]
    plane = (0.05 * xx + 0.03 * yy + 0.2).reshape(1, 64)
    inner = np.zeros((8, 8), dtype=bool)
    inner[2:6, 2:6] = True  # reads no pixel outside the image
    for row in range(20):
        image = distorted(np.repeat(plane, 32, axis=0).astype(np.float32), row, row + 1, 5).reshape(8, 8)
        fitted, residual, *_ = np.linalg.lstsq(
            np.column_stack([xx[inner], yy[inner], np.ones(16)]), image[inner], rcond=None
        )
        assert residual[0] < 1e-9
        assert abs(fitted[:2] - (0.05, 0.03)).max() < 0.03
    assert not np.allclose(image, plane.reshape(8, 8))


def test_distort__stays_in_range_and_keeps_the_ink():
    X, *_ = load_digits_split(0)
    Z = distorted(X, 0, 5000, 0)
    assert Z.dtype == np.float32
    assert Z.min() >= 0
    assert Z.max() <= 1
    assert Z.mean() == pytest.approx(X.mean(), rel=0.05)
