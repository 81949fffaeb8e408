"""A guard holds, and does not where something became worse."""

from __future__ import annotations

import pytest

from benchmarks import __main__ as command
from benchmarks import goldens
from benchmarks.benchmark import Run

SCORES = (0.90, 0.92, 0.91)


def quality(score, loss=0.0, **of_last):
    """Records of three splits, and of another set, which is as it was; their standard error over splits is 0.00577."""
    made = [
        {
            "set": "a",
            "split": i,
            "score": s + score,
            "score_error": 0.004,
            "log_loss": 0.3 + loss,
            "log_loss_error": 0.01,
        }
        for i, s in enumerate(SCORES)
    ]
    made[-1] = of_last or made[-1]
    return made + [{"set": "b", "split": i, "score": s, "score_error": 0.1} for i, s in enumerate(SCORES)]


@pytest.mark.parametrize(
    ("records", "bad"),
    [
        (quality(-0.017, 0.017), ["mean"]),
        (quality(-0.018), ["set", "mean"]),
        (quality(0.0, 0.018), ["set"]),
        (quality(0.1, set="a", split=2, error="late"), ["set"]),
        (quality(-0.0019), []),
    ],
)
def test_what_counts_as_worse(records, bad, monkeypatch):
    monkeypatch.setattr(goldens, "frozen", lambda part: quality(0.0))
    found = zip(("set", "mean"), goldens.claims({"quality": records}), strict=True)
    assert [which for which, claim in found if claim.verdict == "does not hold"] == bad
    assert ("WORSE" in goldens.show_quality(records)) == ("set" in bad)


@pytest.mark.parametrize(
    ("ours", "MiB", "code"), [(1.05, 105, 0), (1.2, 105, 1), (1.05, 115, 1), (1.0, 130, 1)]
)
def test_the_command_fails_where_a_guard_does_not_hold(ours, MiB, code, monkeypatch):
    was = {
        "speed": [{"what": "map", "ours": 1.0, "theirs": 4.0, "processor": "some"}],
        "memory": [{"what": "fit", "bytes": 100 * 2**20, "planned_bytes": 125 * 2**20}],
    }
    now = {
        "speed": [was["speed"][0] | {"ours": ours}],
        "memory": [was["memory"][0] | {"bytes": MiB * 2**20}],
    }
    monkeypatch.setattr(goldens, "frozen", was.get)
    monkeypatch.setattr(command, "measure", lambda benchmark, part, run, path: now[part.name])
    monkeypatch.setattr(command.results, "machine", lambda: {"processor": "some"})

    def called():
        command.run_all(goldens.BENCHMARK, Run(small=True), ["speed", "memory"], None)

    if code:
        with pytest.raises(SystemExit) as ended:
            called()
        assert ended.value.code == code
    else:
        called()
