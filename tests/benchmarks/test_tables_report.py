"""The benchmark of tables: scores by table and method, and verdicts that name the tables behind."""

from __future__ import annotations

import pytest

from benchmarks.tables.tables_report import claims, report


def records(name, **scores):
    """Of a table with labels: {method: score of each seed}; an error where it is None."""
    made = []
    for method, values in scores.items():
        for seed, score in enumerate(values):
            record = {"table": name, "method": method, "seed": seed, "rows": 9, "labels": True}
            made.append(
                record | ({"error": "no"} if score is None else {"score": score, "auc": 0.5, "seconds": 2.0})
            )
    return made


FOUND = [
    *records("adult", distrf=[0.80, 0.82], boosting=[0.90, 0.92], linear=[0.81, 0.81], svm=[0.70, 0.70]),
    *records("wine", distrf=[0.90, 0.90], boosting=[0.80, None], linear=[0.95, 0.95], svm=[0.70, 0.70]),
    *records("churn", distrf=[0.9], boosting=[0.8], linear=[0.8], svm=[0.8]),
]


def test_scores():
    text = report(FOUND)
    assert (
        "| adult | accuracy | 9 | 81.0 ± 1.0 (2 s) | 91.0 ± 1.0 (2 s) | 81.0 ± 0.0 (2 s) | 70.0 ± 0.0 (2 s) |"
        in text
    )
    assert "| wine | accuracy | 9 | 90.0 ± 0.0 (2 s) | 80.0 (2 s) |" in text
    assert text.index("### Tables made here") < text.index("| churn | AUC | 9 | 50.0 (2 s) |")
    assert "Tables made here" not in report(records("wine", distrf=[1.0]))


def test_verdicts_name_the_tables():
    level, near, ahead = claims(FOUND)
    assert (level.ours, level.verdict, level.why) == (
        "2 of 3 tables",
        "holds in part",
        "behind on wine 5.0. wine: not looked into",
    )
    assert (near.ours, near.why) == ("2 of 3 tables", "behind on adult 10.0. adult: not looked into")
    assert (ahead.ours, ahead.why) == ("0 of 3 tables", "ahead on none")  # boosting has one seed on wine


@pytest.mark.parametrize(("boosting", "told"), [([0.80, 0.81], "wine"), ([0.80, 0.90], "none")])
def test_ahead_is_beyond_the_noise_of_seeds(boosting, told):
    found = records("wine", distrf=[0.90, 0.91], boosting=boosting, linear=[0.8, 0.8], svm=[0.8, 0.8])
    assert claims(found)[2].why == f"ahead on {told}"


def test_a_table_on_which_distrf_fails_is_short():
    """Of one seed, or of all."""
    for values in ([None, 0.9], [None, None]):
        wine = records("wine", distrf=values, boosting=[0.8, 0.8], linear=[0.8, 0.8], svm=[0.8, 0.8])
        level, near, ahead = claims(
            [*records("churn", distrf=[0.9], boosting=[0.8], linear=[0.8], svm=[0.8]), *wine]
        )
        for claim in (level, near, ahead):
            assert "of 2 tables" in claim.ours
            assert "failed on wine (no)" in claim.why
        assert (level.ours, level.verdict) == ("1 of 2 tables", "holds in part")
        assert [claim.verdict for claim in claims(wine)] == ["does not hold"] * 3


def test_a_table_on_which_a_peer_fails_is_not_counted():
    found = records("wine", distrf=[0.9], boosting=[None], linear=[0.8], svm=[0.8])
    (level,) = claims(found)
    assert (level.ours, level.verdict) == ("1 of 1 tables", "holds")


def test_seeds_that_do_not_tell():
    """A gap to boosting above two points, with a standard error that covers the bar."""
    found = records("adult", distrf=[0.80, 0.80], boosting=[0.80, 0.86], linear=[0.80, 0.80], svm=[0.80, 0.80])
    _, near, _ = claims(found)
    assert near.why.startswith("behind on adult 3.0 (within two standard errors on adult)")
    assert claims([]) == []


def test_a_reason_is_that_of_the_comparison():
    """Trees are no reason beside an SVM."""
    found = records("splice", distrf=[0.8, 0.8], boosting=[0.9, 0.9], linear=[0.7, 0.7], svm=[0.9, 0.9])
    level, near, _ = claims(found)
    assert level.why == "behind on splice 10.0. splice: not looked into"
    assert near.why.startswith("behind on splice 10.0. splice: single columns decide")
