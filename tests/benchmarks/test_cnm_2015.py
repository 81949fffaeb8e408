"""What the benchmark of Yu et al. (2015) reads from its records."""

from __future__ import annotations

import pytest

from benchmarks.benchmark import UNKNOWN, Run, spread
from benchmarks.papers import cnm_2015_claims as claims
from benchmarks.papers.cnm_2015_equations import claims_of_equations, equations
from benchmarks.papers.cnm_2015_tables import SETS, needed_for, text_of_needed, unmeasured


def curve(method, scores, name="usps"):
    """Records of one method, whose accuracies at each k are given for each seed."""
    return [{"set": name, "method": method, "k": k, **spread(values)} for k, values in scores.items()]


def test_how_many_features_have_an_accuracy():
    records = curve("RFF", {8: [40.0], 32: [60.0], 128: [80.0]})
    assert needed_for(records, "RFF", 60.0) == 32
    assert needed_for(records, "RFF", 70.0) == pytest.approx(64)  # half way from 32 to 128 in the logarithm
    assert needed_for(records, "RFF", 30.0) == 8
    assert needed_for(records, "RFF", 81.0) is None
    assert text_of_needed(records, "RFF", 81.0) == "> 128"
    assert text_of_needed(records, "CNM", 81.0) == ""


def test_the_factor_on_usps():
    learned = curve("CNM", {4: [87.0], 8: [91.0, 92.0]})
    narrow, wide = curve("RFF", {512: [86.0], 1024: [90.5]}), curve("RFF, wide", {128: [88.0], 256: [91.0]})
    claim = claims.usps_factor(learned + narrow + wide)
    assert claim.verdict == "holds"
    assert "8 against 1,024 (128 x), or 256 of twice the bandwidth (32 x)" in claim.ours
    claim = claims.usps_factor(learned + narrow[:1] + wide)
    assert "more than 512" in claim.ours
    assert (
        "or more than 128 of twice the bandwidth (16 x)" in claims.usps_factor(learned + narrow + wide[:1]).ours
    )
    assert claims.usps_factor(learned + narrow).verdict == "holds"
    assert claims.usps_factor(learned + wide) is None
    claim = claims.usps_factor(learned[:1] + narrow + wide)  # never 90 %
    assert (claim.verdict, claim.ours) == ("does not hold", "CNM has 87.0 % at most, with 4")


def test_one_seed_is_judged_by_its_test_rows():
    """More compact: 91 against 90 % is beyond two standard errors of 100,000 rows, not of 100; unknown rows tell nothing."""
    peer = curve("RFF", {8: [90.0]}, "mine")
    for rows, verdict in ((100_000, "holds"), (100, "does not hold"), (None, "does not hold")):
        learned = curve("CNM", {8: [91.0]}, "mine")[0] | ({"test_rows": rows} if rows else {})
        assert claims.more_compact([learned, *peer]).verdict == verdict
    learned, peer = curve("CNM", {8: [91.0]}, "mnist"), curve("RFF", {8: [90.0]}, "mnist")
    assert claims.more_compact(learned + peer).verdict == "holds"  # the set has 10,000


@pytest.mark.parametrize(
    ("narrow", "verdict", "first"),
    [
        (80.0, "holds", "at twice the bandwidth, which"),
        (91.0, "does not hold", "the one exception, not more accurate"),
    ],
)
def test_twice_the_bandwidth_is_beside_the_verdict(narrow, verdict, first):
    learned, wide = curve("CNM", {8: [91.0]}, "mnist"), curve("RFF, wide", {8: [91.0]}, "mnist")
    claim = claims.more_compact(learned + curve("RFF", {8: [narrow]}, "mnist") + wide)
    assert claim.verdict == verdict
    assert claim.why.startswith(first)
    assert (
        claim.why.lower().count(
            "which the verdict does not count: not more accurate by two standard errors: mnist"
        )
        == 1
    )


def test_what_is_not_measured():
    records = [*curve("CNM", {8: [90.0], 32: [91.0]}), *curve("CNM", {8: [90.0]}, "mnist")]
    assert unmeasured(records) == (
        "Not measured: letter; magic04; banana; ijcnn1; covtype_sample; CNM with more than 8 features on mnist."
    )
    assert unmeasured([r for name in SETS for r in curve("CNM", {8: [90.0]}, name)]) == ""


def test_above_the_svm_beyond_the_error_of_seeds_and_test_rows():
    svm = {"set": "usps", "method": "RBF SVM", "all_rows": True, "paper_bandwidth": 89.0, **spread([90.5])}
    learned = curve("CNM", {8: [90.0, 90.0]})
    for rows, verdict in (
        (100, "does not hold"),
        (10_000, "holds in part"),
    ):  # 0.02 of the rows apart: 1.4 or 0.14 points
        claim = claims.above_svm([svm, learned[0] | {"apart": 0.02, "test_rows": rows}])
        assert claim.verdict == verdict
        assert "on 0 of 1: usps -0.5" in claim.why
    assert claims.above_svm([svm, *learned]) is None


@pytest.mark.parametrize(
    ("narrow", "best", "verdict"),
    [
        ((89.0, 89.0, 91.0), (89.5, 91.0, 91.0), "holds"),
        ((89.0, 89.0, 91.0), (91.0, 91.0, 91.0), "holds in part"),  # none above the best of four
        ((89.0, 91.0, 91.0), (89.5, 91.0, 91.0), "holds in part"),  # one is not a few
        ((91.0, 91.0, 91.0), (91.0, 91.0, 91.0), "does not hold"),
    ],
)
def test_a_few_sets_above_the_svm(narrow, best, verdict):
    records = []
    for i, (own, top) in enumerate(zip(narrow, best, strict=True)):
        svm = {"set": f"s{i}", "method": "RBF SVM", "all_rows": True, "paper_bandwidth": own, **spread([top])}
        records += [
            svm,
            curve("CNM", {8: [90.0, 90.0]}, f"s{i}")[0] | {"apart": 0.02, "test_rows": 10_000},
        ]
    few = {"set": "large", "method": "RBF SVM", "all_rows": False, "rows": 40, **spread([80.0])}
    claim = claims.above_svm([*records, few])
    assert claim.verdict == verdict
    assert "of 3 sets (not counted: large," in claim.ours


def test_an_svm_of_a_sample_is_named():
    svm = {"set": "large", "method": "RBF SVM", "all_rows": False, "rows": 4000, **spread([80.0])}
    claim = claims.nonlinear([svm, {"set": "large", "method": "linear", **spread([70.0])}])
    assert "1 of 1 sets measured" in claim.ours
    assert "large (4,000)" in claim.ours
    linear = [
        {"set": "mine", "method": "linear", **spread([90.0])},
        svm | {"set": "mine", "all_rows": True, **spread([90.5])},
    ]
    assert claims.nonlinear(linear).verdict == "does not hold"


@pytest.mark.parametrize(
    ("narrow", "wide", "verdict", "why"),
    [
        (1.0, 1.0, "holds", ""),
        (1.1, 1.0, "holds", ""),
        (1.0, 1.5, "holds in part", "share one vector"),
        (1.5, 1.0, "holds in part", UNKNOWN.capitalize()),
        (1.5, 1.5, "does not hold", UNKNOWN.capitalize()),
    ],
)
def test_both_bandwidths_of_circulants_are_judged(narrow, wide, verdict, why):
    records = [
        {"set": "usps", "bandwidth": rule, "projection": kind, "k": 8, **spread([error, 1.01 * error])}
        for rule, ratio in (("RFF", narrow), ("RFF, wide", wide))
        for kind, error in (("dense", 1.0), ("circulant", ratio), ("circulant, no signs", 9.0))
    ]
    claim = claims.of_figure3(records)[0]
    assert claim.verdict == verdict
    assert why in claim.why
    assert bool(why) == bool(claim.why)


def test_verdicts_on_equations():
    made = {
        claim.said.split(":")[0]: claim.verdict for claim in claims_of_equations([*equations(Run(small=True))])
    }
    assert made == {
        "Proposition 1": "does not hold",
        "The proof of Proposition 1": "does not hold",
        "Eqs. 7 and 9 are the gradients of Eq. 5 by w and by Θ": "does not hold",
        "Eq. 11 is the gradient of Eq. 10": "holds",
        "Eqs. 16 and 17 are the gradient by the vector of a circulant": "holds",
    }
    assert claims_of_equations([]) == []


@pytest.mark.parametrize("part", claims.JUDGES)
def test_no_verdict_without_records(part):
    assert claims.claims({part: []}) == []


def test_a_part_that_is_not_complete():
    assert (
        claims.of_figure2(
            [{"set": "usps", "k": 8, "method": "RFF", "mse": spread([1.0]), "accuracy": spread([1.0])}]
        )
        == []
    )
    assert claims.of_table2([{"set": "usps", "times": 1, "k": 256, "method": "RFF", **spread([1.0])}]) == []
    assert claims.of_speed([{"d": 256, "circulant": 1.0, "dense": 1.0}]) == []
    assert claims.of_figure1([{"set": "usps", "method": "linear", "rows": 9, **spread([90.0])}]) == []
    assert claims.of_figure1(curve("CNM", {8: [90.0]})) == []
