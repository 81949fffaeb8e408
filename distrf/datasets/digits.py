"""Handwritten digits that need no download, and seeded small distortions of them. NumPy in, NumPy out."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.ndimage import map_coordinates

from ..randomness import permutation, uniforms

SIDE = 8
TEST_ROWS = 360
#: Rows that share one block of random words; a fixed part of the definition of the expanded set.
_LOGICAL = 4096
#: Half-widths of the uniform distortions: angle, scale, shear, and shift in pixels along both axes.
_WIDTHS = np.array([np.deg2rad(12.0), 0.10, 0.15, 0.5, 0.5])
#: Rows distorted at once: the temporaries stay in cache.
_TILE = 512


@lru_cache(maxsize=4)
def _split(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = (X / 16.0).astype(np.float32), y.astype(np.int32)
    test = np.zeros(len(y), dtype=bool)
    exact = np.bincount(y) * (TEST_ROWS / len(y))
    counts = exact.astype(int)
    # Largest remainders fill up to 360 rows.
    counts[np.argsort(counts - exact, kind="stable")[: TEST_ROWS - counts.sum()]] += 1
    for label, count in enumerate(counts):
        rows = np.flatnonzero(y == label)
        test[rows[permutation(seed, "digits/split", label, len(rows))[:count]]] = True
    return X[~test], y[~test], X[test], y[test]


def load_digits_split(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Load scikit-learn's bundled 8 x 8 digits, split by class: 1,437 rows to train, 360 to test.

    Parameters
    ----------
    seed : int, default=0
        Seed of the split, which depends on nothing else.

    Returns
    -------
    X_train : array of shape (1437, 64)
        Grey values in [0, 1], float32.
    y_train : array of shape (1437,)
        Digits 0 to 9, int32.
    X_test : array of shape (360, 64)
        As `X_train`.
    y_test : array of shape (360,)
        As `y_train`.
    """
    return tuple(array.copy() for array in _split(seed))  # type: ignore[return-value]


def _draws(first: int, last: int, seed: int) -> np.ndarray:
    """Numbers uniform in (-1, 1) for rows first:last, shape (last - first, 5)."""
    blocks, d = range(first // _LOGICAL, -(-last // _LOGICAL)), len(_WIDTHS)
    words = [uniforms(seed, "digits/distortion", block, _LOGICAL * d) for block in blocks]
    skip = first - blocks.start * _LOGICAL
    return 2.0 * np.concatenate(words).reshape(-1, d)[skip : skip + last - first] - 1.0


def distorted(images: np.ndarray, first: int, last: int, seed: int) -> np.ndarray:
    """Rows first:last of the expanded set: row i shows image i mod n, rotated, scaled, sheared and shifted a little.

    The distortions are uniform up to 12 degrees, 10 % of scale, a shear of 0.15 and a shift of 0.5 pixels. A row depends on the
    seed and its number alone.

    Parameters
    ----------
    images : float32 array of shape (n, 64)
    first, last : int
        First row, and the one after the last.
    seed : int

    Returns
    -------
    array of shape (last - first, 64)
        Grey values, float32, bilinear between pixels and 0 outside the image.
    """
    source = np.arange(first, last) % len(images)
    angle, scale, shear, dx, dy = (_WIDTHS * _draws(first, last, seed)).T[..., None]
    cos, sin = np.cos(angle) / (1.0 + scale), np.sin(angle) / (1.0 + scale)
    y, x = np.indices((SIDE, SIDE)).reshape(2, -1) - (SIDE - 1) / 2
    out = np.empty((last - first, SIDE**2), dtype=np.float32)
    for a in range(0, last - first, _TILE):
        t = slice(a, min(a + _TILE, last - first))
        # The inverse map, from a pixel of the result to a point of the source.
        left = cos[t] * x + (cos[t] * shear[t] - sin[t]) * y + dx[t]
        top = sin[t] * x + (sin[t] * shear[t] + cos[t]) * y + dy[t]
        places = np.stack([np.broadcast_to(source[t, None], left.shape), top, left])
        places[1:] += (SIDE - 1) / 2
        map_coordinates(images.reshape(-1, SIDE, SIDE), places, out[t], order=1, mode="grid-constant")
    return out


def expanded_rows(first: int, last: int, seed: int) -> np.ndarray:
    """Rows first:last of the expanded set, shape (last - first, 64)."""
    return distorted(_split(seed)[0], first, last, seed)


def expanded_labels(first: int, last: int, seed: int) -> np.ndarray:
    """Labels of rows first:last of the expanded set, shape (last - first,)."""
    labels = _split(seed)[1]
    return labels[np.arange(first, last) % len(labels)]
