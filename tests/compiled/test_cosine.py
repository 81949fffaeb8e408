"""The fused cosine: full working precision over a thousand turns, against long double."""

from __future__ import annotations

import numpy as np
import pytest

from distrf.compiled.cosine import cos_offset, cos_sin

TOLERANCE = {np.float32: 2e-7, np.float64: 4e-16}
DTYPES = [
    np.float32,
    pytest.param(
        np.float64,
        marks=pytest.mark.skipif(
            np.finfo(np.longdouble).eps > 1e-18, reason="long double is no wider than double here"
        ),
    ),
]


def exact(turns):
    """cos and sin of phases in turns, long double; the reduction to half a turn is exact."""
    turns = turns.astype(np.longdouble)
    angle = 2 * np.longdouble("3.14159265358979323846264338327950288") * (turns - np.rint(turns))
    return np.cos(angle), np.sin(angle)


def phases(dtype):
    rng = np.random.default_rng(3)
    quarters = np.arange(-4000, 4001) / 4.0
    eighths = np.arange(-80, 81) / 8.0
    near = np.nextafter(quarters.astype(dtype), dtype(np.inf))
    tiny = np.ldexp(1.0, -np.arange(1, 149 if dtype is np.float32 else 1000))
    parts = [
        rng.uniform(-1000, 1000, 200_000),
        rng.uniform(-1, 1, 200_000),
        quarters,
        eighths,
        near,
        -near,
        tiny,
    ]
    values = np.concatenate(parts).astype(dtype)
    return values[: len(values) // 4 * 4].reshape(4, -1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cos_sin(dtype):
    p = phases(dtype)
    out = np.empty((4, 2 * p.shape[1]), dtype=dtype)
    cos_sin(p, out, 0, 1.0)
    cosine, sine = exact(p)
    assert abs(out[:, 0::2] - cosine).max() < TOLERANCE[dtype]
    assert abs(out[:, 1::2] - sine).max() < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_cos_offset(dtype):
    p = phases(dtype)
    b = np.random.default_rng(4).uniform(0, 1, p.shape[1]).astype(dtype)
    out = np.empty(p.shape, dtype=dtype)
    cos_offset(p, b, out, 0, 1.0)
    assert abs(out - exact(p + b)[0]).max() < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_becomes_nan(dtype, bad):
    p = np.array([[0.25, bad, 0.5]], dtype=dtype)
    out = np.empty((1, 6), dtype=dtype)
    cos_sin(p, out, 0, 1.0)
    assert np.isnan(out).tolist() == [[False, False, True, True, False, False]]
    cos_offset(p, np.zeros(3, dtype=dtype), out, 0, 1.0)
    assert np.isnan(out[0, :3]).tolist() == [False, True, False]
