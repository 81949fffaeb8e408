"""Tables and verdicts of benchmarks/defaults.py, as Markdown, from its records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from defaults_data import SVM_ROWS, TEST_ROWS, TRAIN_ROWS

#: How far below another method counts as equal: a point of accuracy, or 0.02 of R^2; half of it for the baseline.
SLACK = {"classification": 0.01, "regression": 0.02}
GROUPS = ("train", "bare")
#: Below this line a page is made from the records.
MARK = "<!-- Below: python benchmarks/defaults.py --json benchmarks/defaults.jsonl --page docs/guide/defaults.md -->"


@dataclass(frozen=True)
class Cell:
    """One method on one set: means over the seeds.

    scores : by seed, of those that have one; seconds : CPU of fit and of predicting the test rows, mean
    warned : seeds that warned; errors : of the seeds that ended in one
    """

    task: str
    scores: dict[int, float]
    seconds: float
    warned: int
    errors: tuple[str, ...]

    @classmethod
    def of(cls, records: list[dict[str, Any]]) -> Cell:
        scored = [r for r in records if "score" in r]
        return cls(
            records[0]["task"],
            {r["seed"]: r["score"] for r in scored},
            math.fsum(r["fit"] + r["predict"] for r in scored) / max(1, len(scored)),
            sum(bool(r.get("warned")) for r in records),
            tuple(r["error"] for r in records if "error" in r),
        )

    @property
    def score(self) -> float | None:
        """The mean over the seeds; None where a seed has none."""
        return None if self.errors or not self.scores else mean(self.scores.values())

    def __str__(self) -> str:
        if self.errors:
            return "late" if all(e.startswith("not done") for e in self.errors) else "crash"
        if self.score is None:
            return "-"
        mark = "!" if self.warned else ""
        return f"{shown(self.task, self.score)}{mark} ({self.seconds:.{0 if self.seconds >= 9.95 else 1}f})"


def mean(scores: Iterable[float]) -> float:
    listed = list(scores)
    return math.fsum(listed) / len(listed)


def paired(mine: Cell, other: Cell) -> tuple[float, float] | None:
    """Mean scores of both over the seeds that both have; None without such seeds, or where mine has an error."""
    seeds = mine.scores.keys() & other.scores.keys()
    if mine.errors or not seeds:
        return None
    return mean(mine.scores[s] for s in seeds), mean(other.scores[s] for s in seeds)


Cells = dict[tuple[str, str], Cell]
_NONE = Cell("", {}, 0.0, 0, ())


def shown(task: str, score: float) -> str:
    return f"{100 * score:.1f}" if task == "classification" else f"{score:.3f}"


def report(records: Iterable[dict[str, Any]], sets: list[str], methods: list[str]) -> str:
    """All verdicts and tables that these records allow; sets and methods give the order."""
    records = list(records)
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        grouped[record["set"], record["method"]].append(record)
    cells = {key: Cell.of(of_key) for key, of_key in grouped.items()}
    if not cells:
        return "no records yet"
    whole = [r for r in records if "n" in r and r["method"] != "peer svm"]  # whose rows are capped
    rows = {r["set"]: f"{r['n']:,} x {r['d']:,}" for r in whole}
    parts = [heading(records), *(verdicts(cells, sets, methods, group) for group in GROUPS)]
    for task, title in (("classification", "accuracy in %"), ("regression", "R^2")):
        for group in [g for g in GROUPS if any(m.startswith(g) for _, m in cells)] or ["peer"]:
            peers = [m for m in methods if m.startswith("peer")]
            ours = [m for m in methods if m.startswith(group) and m not in peers]
            parts.append(table(cells, rows, sets, ours + peers, task, f"{title}: {group} and peers"))
    return "\n\n".join(part for part in parts if part)


def paged(page: str, made: str) -> str:
    """A page whose part below the mark is replaced by what was made of the records."""
    head, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page has no line {MARK!r}")
    return f"{head}{mark}\n\n{made}\n"


def heading(records: list[dict[str, Any]]) -> str:
    machines = sorted(
        {", ".join(f"{k} {v}" for k, v in r["machine"].items()) for r in records if "machine" in r}
    )
    return (
        "Means of so many seeds of ours, and of up to three of the peers; in brackets CPU seconds of fit and predict. "
        f"At most {TRAIN_ROWS:,} training rows, "
        f"{SVM_ROWS:,} for the SVM, and {TEST_ROWS:,} test rows. `!`: some seed warned; `crash`: some seed raised; "
        "`late`: over the time limit; `-`: not for such rows; empty: not run yet.\n\n" + "\n\n".join(machines)
    )


def table(
    cells: Cells, rows: dict[str, str], sets: list[str], methods: list[str], task: str, title: str
) -> str:
    """One row a set, one column a method; empty where there are no records of the group."""
    sets = [s for s in sets if any((s, m) in cells and cells[s, m].task == task for m in methods)]
    methods = [m for m in methods if any((s, m) in cells for s in sets)]
    if not sets:
        return ""
    lines = [f"### {title[0].upper()}{title[1:]}", "", f"| set | n x d | seeds | {' | '.join(methods)} |"]
    lines.append("|---" * (len(methods) + 3) + "|")
    for s in sets:
        shown_cells = [str(cells[s, m]) if (s, m) in cells else "" for m in methods]
        seeds = next((len(cells[s, m].scores) for m in methods if (s, m) in cells), 0)
        lines.append(f"| {s} | {rows.get(s, '')} | {seeds} | {' | '.join(shown_cells)} |")
    return "\n".join(lines)


def verdicts(cells: Cells, sets: list[str], methods: list[str], group: str) -> str:
    """The bars: one line for each method of the group and each bar."""
    ours = [m for m in methods if m.startswith(group) and any((s, m) in cells for s in sets)]
    if not ours:
        return ""
    ridge = f"{group} ridge"
    stochastic = [m for m in ours if not m.endswith(("ridge", "tefm", "cnm")) and m != group]
    lines = [f"### Verdicts: {group}", ""]
    for m in stochastic:
        lines.append(against(cells, sets, m, ridge, 1.0, "within 1 point (0.02) of"))
    if ridge in ours:
        lines.append(against(cells, sets, ridge, "peer svm", 1.0, "within 1 point (0.02) of"))
    for m in ours:
        lines.append(against(cells, sets, m, "peer linear", 0.5, "at most 0.5 points (0.01) below"))
    told = {m: failures(cells, sets, m) for m in ours}
    lines += [line for line in told.values() if line]
    if sound := [f"`{m}`" for m, line in told.items() if not line]:
        lines.append(f"{', '.join(sound)}: no crash, no warning, nothing worse than a constant")
    return "\n".join(lines[:2] + [f"* {line}" for line in lines[2:] if line])


def against(cells: Cells, sets: list[str], method: str, other: str, share: float, bar: str) -> str:
    """On how many sets the method is not below the other by more than a share of the slack; a crash is below."""
    both = [s for s in sets if (s, method) in cells and cells.get((s, other), _NONE).scores]
    short = []
    for s in both:
        mine = cells[s, method]
        scores = paired(mine, cells[s, other])
        if scores is None:
            short.append(f"{s} {mine}")
        elif not scores[0] >= scores[1] - share * SLACK[mine.task]:
            short.append(f"{s} {shown(mine.task, scores[0])} < {shown(mine.task, scores[1])}")
    return (
        f"`{method}` {bar} `{other}`: {len(both) - len(short)} of {len(both)}{_listed(short)}" if both else ""
    )


def failures(cells: Cells, sets: list[str], method: str) -> str:
    """Crashes, results worse than a constant, of these the ones without a warning, and warnings; empty for none."""
    mine = {s: cells[s, method] for s in sets if (s, method) in cells}
    crashed = [f"{s} ({cell.errors[0].splitlines()[0][:80]})" for s, cell in mine.items() if cell.errors]

    def worse(s: str) -> bool:
        scores = paired(mine[s], cells.get((s, "peer dummy"), _NONE))
        return scores is not None and not scores[0] >= scores[1] - SLACK[mine[s].task]

    bad = {s: cell for s, cell in mine.items() if worse(s)}
    silent = [s for s, cell in bad.items() if not cell.warned]
    warned = [s for s, cell in mine.items() if cell.warned]
    counts: list[tuple[str, list[str]]] = [
        ("crashed", crashed),
        ("worse than a constant", [f"{s} {shown(c.task, c.score or 0.0)}" for s, c in bad.items()]),
        ("of these without a warning", silent),
        ("warned", warned),
    ]
    said = "; ".join(f"{name} on {len(found)}{_listed(found)}" for name, found in counts)
    return f"`{method}`: {said}" if any(found for _, found in counts) else ""


def _listed(found: list[str]) -> str:
    return f" ({', '.join(found)})" if found else ""
