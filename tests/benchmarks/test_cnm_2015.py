"""What the benchmark of Yu et al. (2015) reads from its records."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.benchmark import Run, spread
from benchmarks.papers import cnm_2015_claims as claims
from benchmarks.papers.cnm_2015_equations import claims_of_equations, equations
from benchmarks.papers.cnm_2015_tables import needed_for, text_of_needed


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
    assert claims.usps_factor(learned + narrow) is None


def test_a_difference_is_told_by_its_standard_error():
    a, b = spread([90.0, 92.0]), spread([88.0, 92.0])
    assert claims.beyond(a, b) == pytest.approx(1 / np.sqrt(1 + 4))
    assert claims.beyond(b, a) == -claims.beyond(a, b)
    assert claims.beyond(spread([91.0]), spread([90.0])) == np.inf
    assert claims.beyond(spread([90.0]), spread([90.0])) == 0


def test_above_the_svm_beyond_the_error_of_seeds_and_test_rows():
    svm = {"set": "usps", "method": "RBF SVM", "all_rows": True, "paper_bandwidth": 89.0, **spread([90.5])}
    learned = curve("CNM", {8: [90.0, 90.0]})
    for rows, verdict in (
        (100, "does not hold"),
        (10_000, "holds"),
    ):  # 0.02 of the rows apart: 1.4 or 0.14 points
        claim = claims.above_svm([svm, learned[0] | {"apart": 0.02, "test_rows": rows}])
        assert claim.verdict == verdict
        assert "usps -0.5" in claim.why
    assert claims.above_svm([svm, *learned]) is None


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
