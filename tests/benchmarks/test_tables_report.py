"""The benchmark of tables: scores by table and method, and verdicts that name the tables behind."""

from __future__ import annotations

import pytest

from benchmarks.tables.tables_report import BETTER, claims, report, standing


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
    level, near = claims(FOUND)
    assert (level.ours, level.verdict, level.why) == (
        "2 of 3 tables",
        "holds in part",
        "behind on wine 5.0. wine: not looked into",
    )
    assert (near.ours, near.why) == ("1 of 2 tables", "behind on adult 10.0. adult: not looked into")


@pytest.mark.parametrize(
    ("boosting", "how"),
    [
        ([0.80, 0.81], "better"), ([0.80, 0.90], "level"), ([0.90, 0.914], "level"), ([0.915, 0.925], "up to two points behind"),
        ([0.95, 0.96], "more than two points behind"), ([0.80, None], "not to be compared"), ([None, None], "not to be compared"),
    ],
)  # fmt: skip
def test_where_a_table_stands_beside_boosting(boosting, how):
    """Better is beyond the noise of seeds; what boosting did not finish is neither a win nor near."""
    found = records("wine", distrf=[0.90, 0.91], boosting=boosting, linear=[0.8, 0.8], svm=[0.8, 0.8])
    assert {name: mine for name, mine in standing(found).items() if mine} == {how: ["wine"]}
    assert ("boosting" in "".join(claim.said for claim in claims(found))) == (how != "not to be compared")


def test_counts_stand_below_the_tables():
    text = report([*FOUND, *records("banana", distrf=[0.9, 0.9], boosting=[0.8, 0.8])])
    assert "of 3 tables: better on 1 (banana); more than two points behind on 1 (adult)." in text
    assert "Not counted, since boosting ended in an error on some split: wine." in text
    assert "of 1 table: level on 1 (churn)." in text
    assert standing([]) == {how: [] for how in standing(FOUND)}
    assert standing(FOUND)[BETTER] == []


def test_a_table_on_which_distrf_fails_is_short():
    """Of one seed, or of all."""
    for values in ([None, 0.9], [None, None]):
        wine = records("wine", distrf=values, boosting=[0.8, 0.8], linear=[0.8, 0.8], svm=[0.8, 0.8])
        level, near = claims([*records("churn", distrf=[0.9], boosting=[0.8], linear=[0.8], svm=[0.8]), *wine])
        for claim in (level, near):
            assert "of 2 tables" in claim.ours
            assert "failed on wine (no)" in claim.why
        assert (level.ours, level.verdict) == ("1 of 2 tables", "holds in part")
        assert [claim.verdict for claim in claims(wine)] == ["does not hold"] * 2


def test_a_table_on_which_a_peer_fails_is_not_counted():
    found = records("wine", distrf=[0.9], boosting=[None], linear=[0.8], svm=[0.8])
    (level,) = claims(found)
    assert (level.ours, level.verdict) == ("1 of 1 tables", "holds")


def test_seeds_that_do_not_tell():
    """A gap to boosting above two points, with a standard error that covers the bar."""
    found = records("adult", distrf=[0.80, 0.80], boosting=[0.80, 0.86], linear=[0.80, 0.80], svm=[0.80, 0.80])
    _, near = claims(found)
    assert near.why.startswith("behind on adult 3.0 (within two standard errors on adult)")
    assert claims([]) == []


def test_a_reason_is_that_of_the_comparison():
    """Beside an SVM, and beside trees."""
    found = records("splice", distrf=[0.8, 0.8], boosting=[0.9, 0.9], linear=[0.7, 0.7], svm=[0.9, 0.9])
    level, near = claims(found)
    assert level.why.startswith("behind on splice 10.0. splice: few features")
    assert [claim.why.split()[-1] for claim in (level, near)] == ["level", "nearer"]
