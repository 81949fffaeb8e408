"""Scores and verdicts of the benchmark `tables`, from its records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.benchmark import UNKNOWN, Claim, Record, judged, markdown, pm, spread
from benchmarks.tables.tables_data import MADE, TABLES

METHODS = ("distrf", "boosting", "linear", "svm")
HEADS = ("distrf train", "gradient boosting", "linear, one-hot", "RBF SVM")
#: What counts as level with kernel and linear models, and as near to gradient boosting.
LEVEL, NEAR = 0.005, 0.02
#: Tables whose rarer class is so rare that a constant gets this accuracy: they go by the area under the curve.
RARE = {"churn"}

Scores = dict[str, dict[str, dict[int, float]]]


def by_table(records: list[Record]) -> Scores:
    """{table: {method: {seed: score}}}."""
    scores: Scores = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if "score" in record:
            name = record["table"]
            scores[name][record["method"]][record["seed"]] = record["auc" if name in RARE else "score"]
    return scores


def report(records: list[Record]) -> str:
    """A table of the real ones and one of those made here."""
    scores, facts = by_table(records), {r["table"]: r for r in records}
    seconds: Any = defaultdict(list)
    for r in records:
        if "score" in r:
            seconds[r["table"], r["method"]].append(r["seconds"])
    blocks = []
    for title, group in (("Real tables", False), ("Tables made here", True)):
        rows = []
        for name in [name for name in TABLES if name in scores and (name in MADE) == group]:
            cells = [_cell(scores[name][method], seconds[name, method]) for method in METHODS]
            rows.append([name, _score_name(name, facts[name]), f"{facts[name]['rows']:,}", *cells])
        if rows:
            blocks += [f"### {title}", markdown(["table", "score", "rows", *HEADS], rows)]
    return "\n\n".join(blocks)


def claims(records: list[Record]) -> list[Claim]:
    """What was to be shown, with the tables on which it does not hold. A table on which distrf failed is one of them."""
    scores = by_table(records)
    failed = {r["table"]: r["error"] for r in records if r["method"] == "distrf" and "score" not in r}

    def gaps_to(others: Sequence[str]) -> dict[str, Gap]:
        """{table: how far distrf is behind}, where both have scores, and distrf has not failed."""
        found = {name: behind(scores[name], others) for name in scores if name not in failed}
        return {name: gap for name, gap in found.items() if gap}

    level = gaps_to(("linear", "svm"))
    # two standard errors count as level
    short = [(name, gap) for name, gap in level.items() if gap.short(LEVEL) and not gap.untold(0.0)]
    gaps = gaps_to(("boosting",))
    near = [(name, gap) for name, gap in gaps.items() if gap.short(NEAR)]
    ahead = [name for name, gap in gaps.items() if gap.ahead(LEVEL)]
    made = []
    if level or failed:
        made.append(
            _claim(
                "`train` is level with the better of the linear model and the SVM: half a point, or two standard errors of the paired "
                "difference over seeds",
                "kernels", len(level), short, failed, "",
            )
        )  # fmt: skip
    if gaps or failed:
        untold = [name for name, gap in near if gap.untold(NEAR)]
        rest = f" (within two standard errors on {', '.join(untold)})" if untold else ""
        total = len(gaps) + len(failed)
        why = f"ahead on {', '.join(ahead) or 'none'}" + (f"; {_failed(failed)}" if failed else "")
        made += [
            _claim("`train` is within two points of gradient boosting", "boosting", len(gaps), near, failed, rest),
            Claim(
                "`train` is ahead of gradient boosting by more than half a point and two standard errors", "every table",
                f"{len(ahead)} of {total} tables", judged(len(ahead), total), why,
            ),
        ]  # fmt: skip
    return made


def _claim(
    said: str, to: str, level: int, short: list[tuple[str, Gap]], failed: dict[str, str], rest: str
) -> Claim:
    """to : whom distrf is compared with, a name of REASONS
    level : tables on which distrf and the others have scores; short : those of them on which distrf is behind
    """
    total, held = level + len(failed), level - len(short)
    listed = ", ".join(f"{name} {100 * gap.mean:.1f}" for name, gap in short)
    behind_ = [f"behind on {listed}{rest}"] if short else []
    shared: dict[str, list[str]] = {}
    for name, _ in short:
        shared.setdefault(REASONS[to].get(name, UNKNOWN), []).append(name)
    known = [f"{', '.join(names)}: {reason}" for reason, names in shared.items()]
    why = ". ".join([*behind_, *known, *([_failed(failed)] if failed else [])])
    return Claim(said, "every table", f"{held} of {total} tables", judged(held, total), why)


def _failed(failed: dict[str, str]) -> str:
    return "failed on " + ", ".join(f"{name} ({error.splitlines()[0][:80]})" for name, error in failed.items())


#: What is known of tables on which we are behind: one-hot models and SVMs, or boosting.
_MORE = "more features and rows gain part of it"
REASONS = {
    "kernels": {},
    "boosting": {
        "splice": "single columns decide, which trees cut; more features of the length scale that is chosen do not help",
        "covtype": _MORE,
        "census_house": _MORE,
    },
}


@dataclass(frozen=True)
class Gap:
    """How far distrf is behind the best of other methods: mean over seeds, and its standard error if there are some."""

    mean: float
    error: float | None

    def short(self, slack: float) -> bool:
        return self.mean > slack

    def ahead(self, slack: float) -> bool:
        """Whether distrf is ahead by more than that, and by more than two standard errors; not known from one seed."""
        return self.error is not None and self.mean < -max(slack, 2 * self.error)

    def untold(self, slack: float) -> bool:
        """Whether seeds do not tell that."""
        return self.error is not None and self.mean - slack <= 2 * self.error


def behind(mine: dict[str, dict[int, float]], others: Sequence[str]) -> Gap | None:
    """None without seeds that distrf and the best of the others have."""
    best = max(others, key=lambda method: _mean(mine, method))
    seeds = sorted(mine["distrf"].keys() & mine[best].keys())
    if not seeds:
        return None
    found = spread([mine[best][seed] - mine["distrf"][seed] for seed in seeds])
    return Gap(found["mean"], found["standard_error"])


def _mean(mine: dict[str, dict[int, float]], method: str) -> float:
    values = mine[method].values()
    return math.fsum(values) / len(values) if values else -math.inf


def _score_name(name: str, record: dict[str, Any]) -> str:
    if name in RARE:
        return "AUC"
    return "accuracy" if record["labels"] else "R²"


def _cell(by_seed: dict[int, float], seconds: list[float]) -> str:
    if not by_seed:
        return "failed"
    found = spread([100 * value for value in by_seed.values()])
    return f"{pm(found, 1)} ({math.fsum(seconds) / len(seconds):.0f} s)"
