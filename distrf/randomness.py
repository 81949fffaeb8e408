"""Named, counter-based random streams.

Every number is a function of (seed, stream name, block, position) alone: raw words of the Philox
counter generator, whose stream NumPy guarantees, put through our own transforms. So any part of a
random matrix can be made anywhere, without the rest and without a shared state.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
from scipy.special import ndtri

from .errors import InputError
from .parameters import SEED

_MAX_SEED = 2**63


def draw_seed(random_state: object = None) -> int:
    """Turn scikit-learn's `random_state` into a seed: an integer is kept, None draws one from the system.

    Raises ParameterError for negative integers and for other types.
    """
    SEED.check("random_state", random_state)
    if random_state is None:
        return secrets.randbelow(_MAX_SEED)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_MAX_SEED))
    return int(random_state.randint(2**31) if isinstance(random_state, np.random.RandomState) else random_state)  # type: ignore[call-overload]


def raw_words(seed: int, stream: str, block: int, count: int, start: int = 0) -> np.ndarray:
    """`count` 64-bit words of the stream, from word `start` on: the raw words of Philox. Shape (count,), uint64."""
    key = hashlib.blake2b(f"{seed}/{stream}/{block}".encode(), digest_size=16).digest()
    generator = np.random.Philox(key=np.frombuffer(key, dtype="<u8").astype(np.uint64))
    skip = int(start) % 4  # a step of the counter makes four words
    generator.advance(int(start) // 4)
    return generator.random_raw(skip + count)[skip:]


def mixed_words(keys: np.ndarray) -> np.ndarray:
    """A hash of each 64-bit key, uint64: splitmix64 (Steele, Lea & Flood 2014)."""
    words = np.asarray(keys, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))


def below(words: np.ndarray, k: int) -> np.ndarray:
    """Numbers below k < 2^31 from the upper halves of random words, int8 or int64."""
    places = (words >> np.uint64(32)) * np.uint64(k) >> np.uint64(32)
    return places.astype(np.int8 if k <= 127 else np.int64)


def uniforms(seed: int, stream: str, block: int, count: int, start: int = 0) -> np.ndarray:
    """`count` numbers uniform in the open interval (0, 1), float64: (k + 1/2) / 2^52 for the upper 52 bits k of each word."""
    out = (raw_words(seed, stream, block, count, start) >> np.uint64(12)).astype(np.float64)
    out += 0.5
    out *= 2.0**-52
    return out


def quantile(law: str, u: np.ndarray) -> np.ndarray:
    """Inverse distribution function of a standard law at u in (0, 1), elementwise, float64.

    Parameters
    ----------
    law : "normal" | "cauchy" | "laplace" | "exponential" | "levy" (1 / 2 g^2, g normal)
    u : array, any shape
    """
    if law == "normal":
        return ndtri(np.asarray(u, dtype=np.float64))
    if law == "cauchy":
        return np.tan(np.pi * (u - 0.5))
    if law == "laplace":
        centred = u - 0.5
        return -np.sign(centred) * np.log1p(-2.0 * np.abs(centred))
    if law == "exponential":
        return -np.log1p(-u)
    if law == "levy":  # |g| as the normal quantile of u / 2 < 1/2: increasing in u, no digit lost near u = 1
        g = quantile("normal", 0.5 * u)
        return 0.5 / (g * g)
    raise InputError(f"unknown law {law!r}; known: normal, cauchy, laplace, exponential, levy")


def variates(seed: int, stream: str, block: int, count: int, law: str, start: int = 0) -> np.ndarray:
    """`count` independent draws of a standard law from the stream, float64."""
    return quantile(law, uniforms(seed, stream, block, count, start))


def signs(seed: int, stream: str, block: int, count: int) -> np.ndarray:
    """`count` independent signs, -1.0 or 1.0, one bit of the stream each, float64."""
    words = raw_words(seed, stream, block, -(-count // 64))
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), count=count, bitorder="little")
    return 1.0 - 2.0 * bits


def chi(seed: int, stream: str, block: int, count: int, dof: int) -> np.ndarray:
    """`count` norms of standard normal vectors with `dof` >= 2 coordinates, float64.

    Exact in law: the gamma sampler of Marsaglia & Tsang (ACM TOMS 26, 2000), with shape dof / 2.
    Fewer than 5 in 100 draws are rejected; they are drawn again, from the stream of the next attempt.
    """
    out = np.empty(count)
    todo = np.arange(count)
    a = dof / 2.0 - 1.0 / 3.0
    attempt = 0
    while todo.size:
        u = uniforms(seed, f"{stream}/{attempt}", block, 2 * todo.size)
        z = quantile("normal", u[: todo.size])
        v = np.maximum(1.0 + z / np.sqrt(9.0 * a), 0.0) ** 3
        with np.errstate(divide="ignore"):  # v = 0 is rejected: log 0 is minus infinity
            taken = np.log(u[todo.size :]) < 0.5 * z * z + a * (1.0 - v + np.log(v))
        out[todo[taken]] = np.sqrt(2.0 * a * v[taken])
        todo = todo[~taken]
        attempt += 1
    return out


def permutation(seed: int, stream: str, block: int, n: int) -> np.ndarray:
    """A seeded permutation of range(n): the order of n random words (ties by index)."""
    return np.argsort(raw_words(seed, stream, block, n), kind="stable")


def sample_indices(seed: int, stream: str, n: int, size: int) -> np.ndarray:
    """min(size, n) distinct indices of range(n), sorted, without touching n numbers when n is large."""
    if size >= n:
        return np.arange(n)
    if n <= 4 * size or n <= 100_000:
        return np.sort(permutation(seed, stream, 0, n)[:size])
    chosen: dict[int, None] = {}
    block = 0
    while len(chosen) < size:
        for u in uniforms(seed, stream, block, size):
            chosen.setdefault(min(int(u * n), n - 1))
        block += 1
    return np.sort(np.fromiter(chosen, dtype=np.int64, count=len(chosen))[:size])
