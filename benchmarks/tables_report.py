"""Scores and verdicts of benchmarks/tables.py, as Markdown, from its records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tables_data import MADE, TABLES

METHODS = ("distrf", "boosting", "linear", "svm")
HEADS = ("distrf train", "gradient boosting", "linear, one-hot", "RBF SVM")
#: Below this line the page is made from the records.
MARK = "<!-- Below: python benchmarks/tables.py --json benchmarks/tables.jsonl --page docs/guide/tables_results.md -->"
#: What counts as level with kernel and linear models, and as near to gradient boosting.
LEVEL, NEAR = 0.005, 0.02
#: Tables whose rarer class is so rare that a constant gets this accuracy: they go by the area under the curve.
RARE = {"churn"}

Scores = dict[str, dict[str, dict[int, float]]]


def report(records: list[dict[str, Any]]) -> str:
    """The two tables and the verdicts."""
    seconds: Any = defaultdict(lambda: defaultdict(list))
    scores: Scores = defaultdict(lambda: defaultdict(dict))
    facts: dict[str, dict[str, Any]] = {}
    for record in records:
        name, method = record["table"], record["method"]
        facts[name] = record
        if "score" in record:
            scores[name][method][record["seed"]] = record["auc" if name in RARE else "score"]
            seconds[name][method].append(record["seconds"])
    lines = []
    for title, group in (("Real tables", False), ("Tables made here", True)):
        names = [name for name in TABLES if name in scores and (name in MADE) == group]
        lines += [f"## {title}", "", "| table | score | rows | " + " | ".join(HEADS) + " |"]
        lines.append("|---|---|---:|" + "---:|" * len(METHODS))
        for name in names:
            cells = [f"| {name}", _score_name(name, facts[name]), f"{facts[name]['rows']:,}"]
            for method in METHODS:
                cells.append(_cell(scores[name][method], seconds[name][method]))
            lines.append(" | ".join(cells) + " |")
        lines.append("")
    lines += ["## Verdicts", ""]
    lines += [f"* {verdict}" for verdict in verdicts(scores)]
    return "\n".join(lines) + "\n"


def verdicts(scores: Scores) -> list[str]:
    """What was to be shown, with the tables on which it does not hold."""
    level = {n: gap for n in scores if (gap := _behind(scores[n], ("linear", "svm"), _twice)) is not None}
    near = {n: gap for n in scores if (gap := _behind(scores[n], ("boosting",), lambda _: NEAR)) is not None}
    ahead = [n for n in scores if _mean(scores[n], "distrf") > _mean(scores[n], "boosting") + LEVEL]
    total = len(scores)
    return [
        "Level with the better of the linear model and the SVM (half a point, or two standard errors of the paired "
        f"difference over seeds): {total - len(level)} of {total}{_listed(level)}.",
        f"Within two points of gradient boosting: {total - len(near)} of {total}{_listed(near)}.",
        f"More than half a point ahead of gradient boosting: {len(ahead)} of {total} ({', '.join(ahead)}).",
    ]


def _twice(differences: list[float]) -> float:
    """Half a point, or two standard errors of the mean of these differences."""
    n = len(differences)
    if n < 2:
        return LEVEL
    mean = math.fsum(differences) / n
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in differences) / (n - 1))
    return max(LEVEL, 2 * spread / math.sqrt(n))


def _behind(
    mine: dict[str, dict[int, float]], others: tuple[str, ...], slack: Callable[[list[float]], float]
) -> float | None:
    """How far distrf is behind the best of other methods, if that is more than the slack."""
    best = max(others, key=lambda method: _mean(mine, method))
    seeds = mine["distrf"].keys() & mine[best].keys()
    differences = [mine[best][seed] - mine["distrf"][seed] for seed in sorted(seeds)]
    if not differences:
        return math.nan
    gap = math.fsum(differences) / len(differences)
    return gap if gap > slack(differences) else None


def _mean(mine: dict[str, dict[int, float]], method: str) -> float:
    values = mine[method].values()
    return math.fsum(values) / len(values) if values else -math.inf


def _listed(gaps: dict[str, float]) -> str:
    return f" (behind: {', '.join(f'{name} {100 * gap:.1f}' for name, gap in gaps.items())})" if gaps else ""


def _score_name(name: str, record: dict[str, Any]) -> str:
    if name in RARE:
        return "AUC"
    return "accuracy" if record["labels"] else "R²"


def _cell(by_seed: dict[int, float], seconds: list[float]) -> str:
    if not by_seed:
        return "failed"
    values = list(by_seed.values())
    mean = math.fsum(values) / len(values)
    error = ""
    if len(values) > 1:
        spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
        error = f" ± {100 * spread / math.sqrt(len(values)):.1f}"
    return f"{100 * mean:.1f}{error} ({math.fsum(seconds) / len(seconds):.0f} s)"
