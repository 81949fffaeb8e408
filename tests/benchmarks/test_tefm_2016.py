"""The pieces of the benchmark of Chen et al. (2016) that figures rest on."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.tefm_2016 import distances
from benchmarks.papers.tefm_2016_claims import above, claims, ratio, reached_at
from benchmarks.papers.tefm_2016_maps import AsPrinted, plain
from distrf.subspace.sketches import make_sketch

ROWS = np.random.default_rng(0).normal(size=(120, 5))


def test_norms_are_those_of_the_eigenvalues():
    fitted = plain(64, 2.0, 0).fit(ROWS)
    K = fitted.map_.exact_kernel(ROWS)
    made = [plain(D, 2.0, 1).fit_transform(ROWS) for D in (16, 64)]
    exact = [abs(np.linalg.eigvalsh(K - G @ G.T)).max() for G in made]
    np.testing.assert_allclose(distances(K, made), exact, rtol=2e-3)


@pytest.mark.parametrize("sketch", ["gaussian", "srht"])
@pytest.mark.parametrize("q", [0, 2])
def test_the_algorithms_to_the_letter(sketch, q):
    one = AsPrinted(plain(32, 2.0, 0), 6, sketch, q, seed=3)
    G = one.fit_transform(ROWS)
    F = plain(32, 2.0, 0).fit_transform(ROWS)
    Y = np.linalg.matrix_power(F.T @ F, q) @ F.T @ make_sketch(sketch, len(F), 6, 3).rows(0, len(F))
    Q = np.linalg.qr(Y)[0]
    np.testing.assert_allclose(G @ G.T, F @ Q @ Q.T @ F.T, atol=1e-9)
    np.testing.assert_allclose(one.transform(ROWS), G, atol=1e-12)
    assert set(one.seconds) == {"F", "Y", "QR", "FQ"}
    between = AsPrinted(plain(32, 2.0, 0), 6, sketch, q, seed=3, between=True)
    np.testing.assert_allclose(between.fit_transform(ROWS) @ between.Q.T, G @ one.Q.T, atol=1e-7)


def test_where_a_curve_has_an_error():
    curve = [{"l": n, "mean": 1 / n, "mapping": n / 10, "training": n**2 - n / 10} for n in (8, 4, 2)]
    at = reached_at(curve, 1 / 6)
    assert at["l"] == pytest.approx(6)
    assert at["seconds"] == pytest.approx(36)
    assert reached_at(curve, 0.9) == {"l": 2, "seconds": 4}
    assert reached_at(curve, 0.1) is None
    assert reached_at([], 0.1) is None


def test_ratios_are_paired_by_seed():
    records = [
        {"set": "a", "l": 4, "method": "TEFM-G", "errors": [1.0, 3.0]},
        {"set": "a", "l": 4, "method": "RKS", "errors": [2.0, 6.0]},
    ]
    assert ratio(records, "a", 4, "TEFM-G", "RKS") == {"mean": 0.5, "standard_error": 0.0, "n": 2}
    assert ratio(records, "a", 4, "TEFM-G", "Quasi") is None
    assert above({"mean": 0.5, "standard_error": 0.1}, 0.2)
    assert not above({"mean": 0.5, "standard_error": 0.1}, 0.4)


def test_no_records_no_claims():
    assert claims({}) == []
