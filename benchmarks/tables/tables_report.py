"""Scores and verdicts of the benchmark `tables`, from its records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.benchmark import UNKNOWN, Claim, Record, judged, markdown, pm, spread
from benchmarks.tables.reasons import BOOSTING, KERNELS, MORE, SPLICE_CATEGORIES
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
    """A table of the real ones and one of those made here, each with its counts beside boosting below."""
    scores, facts = by_table(records), {r["table"]: r for r in records}
    seconds: Any = defaultdict(list)
    for r in records:
        if "score" in r:
            seconds[r["table"], r["method"]].append(r["seconds"])
    found = standing(records)
    blocks = []
    for title, group in (("Real tables", False), ("Tables made here", True)):
        names = [name for name in TABLES if name in scores and (name in MADE) == group]
        rows = []
        for name in names:
            cells = [_cell(scores[name][method], seconds[name, method]) for method in METHODS]
            rows.append([name, _score_name(name, facts[name]), f"{facts[name]['rows']:,}", *cells])
        if rows:
            blocks += [f"### {title}", markdown(["table", "score", "rows", *HEADS], rows)]
            blocks.append(counts({how: [n for n in mine if n in names] for how, mine in found.items()}))
    return "\n\n".join(block for block in blocks if block)


def failures(records: list[Record], method: str) -> dict[str, str]:
    """{table on which some split ended in an error: the error}."""
    return {r["table"]: r["error"] for r in records if r["method"] == method and "score" not in r}


def gaps_to(records: list[Record], others: Sequence[str]) -> dict[str, Gap]:
    """{table: how far distrf is behind}, where both have scores, and distrf has not failed."""
    scores, failed = by_table(records), failures(records, "distrf")
    found = {name: behind(scores[name], others) for name in scores if name not in failed}
    return {name: gap for name, gap in found.items() if gap}


def below_kernels(records: list[Record]) -> dict[str, Gap]:
    """The tables on which distrf is behind the better of linear model and SVM; two standard errors count as level."""
    gaps = gaps_to(records, ("linear", "svm"))
    return {name: gap for name, gap in gaps.items() if gap.short(LEVEL) and not gap.untold(0.0)}


def beside_boosting(records: list[Record]) -> dict[str, Gap]:
    """The gaps to boosting where it finished on every split: where it did not, one split left compares nothing."""
    failed = failures(records, "boosting")
    return {name: gap for name, gap in gaps_to(records, ("boosting",)).items() if name not in failed}


#: How distrf stands beside boosting, in the words of the page.
BETTER, NEITHER, NEARLY, BEHIND, OPEN = (
    "better", "level", "up to two points behind", "more than two points behind", "not to be compared",
)  # fmt: skip


def standing(records: list[Record]) -> dict[str, list[str]]:
    """{how distrf stands beside boosting: tables}, each table once; without those on which distrf failed."""
    found: dict[str, list[str]] = {how: [] for how in (BETTER, NEITHER, NEARLY, BEHIND, OPEN)}
    for name, gap in beside_boosting(records).items():
        level = not gap.short(LEVEL) or gap.untold(0.0)
        how = BETTER if gap.ahead(LEVEL) else BEHIND if gap.short(NEAR) else NEITHER if level else NEARLY
        found[how].append(name)
    lost = failures(records, "distrf")
    found[OPEN] = [name for name in failures(records, "boosting") if name not in lost]
    return found


def counts(found: dict[str, list[str]]) -> str:
    """The counts of `standing` in words; "" where there are none."""
    of = sum(map(len, found.values()))
    said = [f"{how} on {len(mine)} ({', '.join(mine)})" for how, mine in found.items() if mine and how != OPEN]
    if not said:
        return ""
    text = f"`distrf train` beside gradient boosting, of {of} {'table' if of == 1 else 'tables'}: {'; '.join(said)}."
    if found[OPEN]:
        text += f" Not counted, since boosting ended in an error on some split: {', '.join(found[OPEN])}."
    return text


def claims(records: list[Record]) -> list[Claim]:
    """What was to be shown, with the tables on which it does not hold. A table on which distrf failed is one of them."""
    failed = failures(records, "distrf")
    level, gaps = gaps_to(records, ("linear", "svm")), beside_boosting(records)
    near = [(name, gap) for name, gap in gaps.items() if gap.short(NEAR)]
    made = []
    if level or failed:
        made.append(
            _claim(
                "`train` is level with the better of the linear model and the SVM: half a point, or two standard errors of the paired "
                "difference over seeds",
                "kernels", len(level), [*below_kernels(records).items()], failed, "",
            )
        )  # fmt: skip
    if gaps or failed:
        untold = [name for name, gap in near if gap.untold(NEAR)]
        rest = f" (within two standard errors on {', '.join(untold)})" if untold else ""
        said = "`train` is within two points of gradient boosting"
        made.append(_claim(said, "boosting", len(gaps), near, failed, rest))
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
REASONS = {
    "kernels": KERNELS,
    "boosting": BOOSTING | {"splice": SPLICE_CATEGORIES, "covtype": MORE},
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
