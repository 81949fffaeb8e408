"""A verdict can fail, and its reason is shown in the case that it explains."""

from __future__ import annotations

import pytest

from benchmarks import accuracy_claims, results
from benchmarks.benchmark import UNKNOWN
from benchmarks.maps import polynomial
from benchmarks.models import calibration, sgd
from benchmarks.planning import plan, scale
from benchmarks.speed import maps, maps_claims, subspace_claims


def solvers(*gaps):
    return [
        {"set": f"set {i}", "loss": "hinge", "peer": 90.0 + gap, "ours": 90.0} for i, gap in enumerate(gaps)
    ]


def solver_gaps(*gaps):
    return [r | {"peer seconds": 1.0, "our seconds": 1.0} for r in solvers(*gaps)]


def losses(*gaps):
    """Of both models: log loss of ours above that of the peer."""
    return [
        {"set": f"set {i}", "model": model + peer, "mean": 0.5 if peer else 0.5 + gap, "standard_error": 0.001}
        for i, gap in enumerate(gaps)
        for model in ("ridge", "SVM")
        for peer in ("", ", scikit-learn")
    ]


def landmarks(*gaps):
    return [
        {"set": f"set {i}", "m": 64, "rule": rule, "spectral": {"mean": 0.1 + more, "standard_error": 0.001}}
        for i, gap in enumerate(gaps)
        for rule, more in (("uniform", 0.0), ("kmeans", gap))
    ]


def transforms(*ratios):
    return [
        {"p": 2**i, "dtype": "float32", "vectors": ratio, "tile": 1.0, "rows": 0.5, "gemm": 0.5}
        for i, ratio in enumerate(ratios, 8)
    ]


def residuals(*ratios):
    return [
        {"set": "usps", "l": i, "method": "finder", "q": 0, "float32": ratio, "float64": 1.0}
        for i, ratio in enumerate(ratios)
    ]


def solver_times(*times):
    return [{"D": 8, "l": i, "auto": "gram", "gram": t, "finder": 1.0} for i, t in enumerate(times)]


def denses(*ratios):
    return [
        {
            "projection": "dense",
            "d": 2**i,
            "dtype": "float32",
            "map": ratio,
            "RBFSampler": 1.0,
            "product": 1.0,
            "floor": 1.0,
        }
        for i, ratio in enumerate(ratios, 8)
    ]


def solver_seconds(*ratios):
    made = solvers(*(0.0 for _ in ratios))
    return [r | {"peer seconds": 1.0, "our seconds": ratio} for r, ratio in zip(made, ratios, strict=True)]


def planned(*ratios):
    return [{"job": str(i), "planned_bytes": ratio, "bytes": 1.0} for i, ratio in enumerate(ratios)]


def floors(*ratios):
    return [
        {"projection": "fastfood", "d": 2**i, "dtype": "float32", "product": ratio, "floor": 1.0}
        for i, ratio in enumerate(ratios, 8)
    ]


#: (claims, part, words of the claim, records of cases, a case that holds, one that does not)
SHARES = [
    (sgd.claims, "solvers", "within 0.3 points", solver_gaps, 0.0, 1.0),
    (sgd.claim_quick, None, "no more time", solver_seconds, 1.0, 2.0),
    (plan.claims, "jobs", "not far above", planned, 1.0, 2.0),
    (maps_claims.claim_dense, None, "Dense features", denses, 1.0, 2.0),
    (calibration.claims, "losses", "calibrated SVM", losses, 0.0, 0.1),
    (polynomial.claims, "landmarks", "centres of clusters", landmarks, 0.0, 0.1),
    (maps_claims.claims, "hadamard", "Transforms in vectors", transforms, 2.0, 0.5),
    (maps_claims.claim_floor, None, "`fastfood`", floors, 1.0, 3.0),
    (subspace_claims.claims, "residual", "float32 loses nothing", residuals, 1.0, 2.0),
    (subspace_claims.claims, "solvers", "the cheaper solver", solver_times, 1.0, 2.0),
]


@pytest.mark.parametrize(
    ("claims", "part", "words", "records", "good", "bad"), SHARES, ids=[case[2] for case in SHARES]
)
def test_a_share_of_cases_is_judged_alike(claims, part, words, records, good, bad):
    for cases, expected in (
        ((good, good, good), "holds"),
        ((good, good, bad), "holds in part"),
        ((good, bad, bad), "does not hold"),
        ((bad, bad, bad), "does not hold"),
    ):
        made = records(*cases)
        judged = claims({part: made} if part else made)
        (claim,) = [c for c in (judged if isinstance(judged, list) else [judged]) if words in c.said]
        assert claim.verdict == expected


def test_a_peer_that_does_not_reach_the_accuracy():
    ours = {"score": 96.0, "seconds": 10.0, "features": 8.0, "epochs": 1}
    for score, seconds, verdict, why in (
        (96.5, 31.0, "holds", ""),
        (95.0, 41.0, "holds", ""),
        (96.5, 20.0, "does not hold", "making features takes 16 of its 20 s, and 8 of 10 s of ours"),
        (95.0, 20.0, "not measured", "2 epochs were tried"),
    ):
        claim = sgd.claim_peer({"score": score, "seconds": seconds, "features": 8.0, "epochs": 2}, ours)
        assert claim.verdict == verdict
        assert claim.why.startswith(why)
    older = {"score": 96.5, "seconds": 20.0, "epochs": 2}
    assert sgd.claim_peer(older, ours).why == UNKNOWN


def test_two_workers_of_a_subspace():
    record = {"one": 2.0, "two": 1.0, "cores": 2, "same bits": True}
    for changed, verdict, why in (
        ({}, "holds", ""),
        ({"same bits": False}, "does not hold", f"the bits differ: {UNKNOWN}"),
        ({"two": 2.0}, "does not hold", f"slower than 1.6 times: {UNKNOWN}"),
        ({"two": 2.0, "cores": 1}, "not measured", "two workers shared one core"),
        ({"two": 2.0, "cores": 1, "same bits": False}, "does not hold", "the bits differ"),
    ):
        claim = subspace_claims.claim_workers([record | changed])
        assert claim.verdict == verdict
        assert claim.why.startswith(why)


def test_plans_lie_between_their_bars():
    found = [{"job": str(i), "planned_bytes": x, "bytes": 1.0} for i, x in enumerate((0.9, 1.2, 1.4, 2.0))]
    least, most = plan.claims({"jobs": found})
    assert (least.verdict, most.verdict) == ("holds in part", "holds in part")
    assert least.why == f"{UNKNOWN}: 0 0.90"
    assert most.why == f"{UNKNOWN}: 3 2.00"
    assert least.ours == "3 of 4, 0.90 to 2.00, median 1.30"
    assert all(claim.verdict == "holds" for claim in plan.claims({"jobs": found[1:3]}))
    assert plan.claims({}) == []


def test_workers_that_stay_are_judged():
    def record(case, efficiency, step=None):
        return {"job": "ridge", "workers": 8, "case": case, "efficiency": efficiency, "step": step}

    (claim,) = scale.claims({"cluster": [record("8", 0.9), record("8, then 4", 0.1), record("8", 0.0, 1.0)]})
    assert (claim.verdict, claim.ours) == ("holds", "1 of 1, 0.90 to 0.90, median 0.90")


def test_the_bar_of_speed_is_that_of_the_processor():
    """Linux writes avx512vbmi; records of AMD say avx512f where a run looked for another name."""
    wide = [
        {
            "d": 512,
            "dtype": "float32",
            "projection": "circulant",
            "RBFSampler": 4.0,
            "map": 1.0,
            "floor": 1.0,
            "cosines": 1.0,
        }
    ]
    for processor, bar, verdict in (
        ("AMD EPYC, family 25 model 17, avx512f", "3 x, on a processor with", "holds"),
        ("Intel(R) Xeon(R) Processor, family 6 model 106, avx512vbmi", "3 x, on a processor with", "holds"),
        ("Intel(R) Xeon(R) Processor, family 6 model 85, avx512f", "6.6 x, on a processor without", "holds in part"),
        ("AMD EPYC, family 23 model 49, avx2", "6.6 x, on a processor without", "holds in part"),
    ):  # fmt: skip
        part = maps.BENCHMARK.part("wide")
        (claim,) = maps_claims.claim_peer(results.placed(part, wide, {"processor": processor}))
        assert claim.theirs.startswith(bar)
        assert claim.verdict == verdict
    assert results.placed(maps.BENCHMARK.part("narrow"), wide, {}) is wide


@pytest.mark.parametrize(
    ("ours", "verdict", "why"),
    [
        (2.0, "holds", ""),
        (2.1, "holds in part", "above by 0.10, at"),
        (9.0, "does not hold", "above by 7.00, at"),
    ],
)
def test_a_set_beside_the_best_of_its_page(ours, verdict, why):
    peers = [
        {"set": "some", "model": name, "mean": mean, "standard_error": None, "test": 5000, "fit": 3.0}
        for name, mean in (("good", 2.0), ("bad", 30.0))
    ]
    records = [*peers, peers[0] | {"model": "distrf", "D": 8, "mean": ours}]
    for part in ("letter", "covtype", "kddcup"):
        claim, *_ = accuracy_claims.claims({part: records})
        assert claim.theirs == "2.00 % (good), 3.0 s"
        assert claim.verdict == verdict
        assert claim.why.startswith(why)
        assert verdict != "does not hold" or claim.why.endswith(UNKNOWN)


def test_plans_of_a_million_features():
    def found(planned):
        return {
            "D": 8, "q": 0, "worker GiB": 1.0, "worker planned": planned, "client GiB": 1.0, "client planned": planned,
            "orthogonality": 0.0,
        }  # fmt: skip

    for planned, verdict in ((1.2, "holds"), (2.0, "does not hold")):
        claim = subspace_claims.claim_loose([found(planned)])
        assert claim.verdict == verdict
    assert f"worker: {UNKNOWN}. client: the plan counts copies" in claim.why
    assert "client" not in subspace_claims.claim_loose([found(2.0) | {"client planned": 1.0}]).why
