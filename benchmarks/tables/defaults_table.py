"""Tables and verdicts of the benchmark `defaults`, from its records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.benchmark import UNKNOWN, Claim, Record, judged, spread
from benchmarks.tables.defaults_data import SVM_ROWS, TEST_ROWS, TRAIN_ROWS
from benchmarks.tables.reasons import BOOSTING, KERNELS, SPLICE_CODES

#: How far below another method counts as equal: a point of accuracy, or 0.02 of R^2; half of it for the baseline.
SLACK = {"classification": 0.01, "regression": 0.02}
#: Two points as shares of that: 0.02 of either, as on the page of tables.
TWO_POINTS = {"classification": 2.0, "regression": 1.0}
GROUPS = ("train", "bare")


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


def by_cell(records: Iterable[Record]) -> Cells:
    """The records of each method on each set."""
    grouped: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        grouped[record["set"], record["method"]].append(record)
    return {key: Cell.of(of_key) for key, of_key in grouped.items()}


def report(records: Iterable[Record], sets: list[str], methods: list[str]) -> str:
    """All verdicts and tables that these records allow; sets and methods give the order."""
    records = list(records)
    cells = by_cell(records)
    whole = [r for r in records if "n" in r and r["method"] != "peer svm"]  # whose rows are capped
    rows = {r["set"]: f"{r['n']:,} x {r['d']:,}" for r in whole}
    parts = [HEADING, *(verdicts(cells, sets, methods, group) for group in GROUPS)]
    for task, title in (("classification", "accuracy in %"), ("regression", "R^2")):
        for group in [g for g in GROUPS if any(m.startswith(g) for _, m in cells)] or ["peer"]:
            peers = [m for m in methods if m.startswith("peer")]
            ours = [m for m in methods if m.startswith(group) and m not in peers]
            parts.append(table(cells, rows, sets, ours + peers, task, f"{title}: {group} and peers"))
    return "\n\n".join(part for part in parts if part)


HEADING = (
    "Each figure is a mean over seeds: of `train` and `bare` over as many as column *seeds* says, of the peers over one to three. "
    "In brackets CPU seconds of fit and predict. "
    f"At most {TRAIN_ROWS:,} training rows, {SVM_ROWS:,} for the SVM, and {TEST_ROWS:,} test rows. `!`: some seed warned; "
    "`crash`: some seed raised; `late`: over the time limit; `-`: not for such rows; empty: not run yet."
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
    lines += [f"`{m}`: {counted(found)}" for m, found in told.items() if any(found.values())]
    if sound := [f"`{m}`" for m, found in told.items() if not any(found.values())]:
        lines.append(f"{', '.join(sound)}: no crash, no warning, nothing worse than a constant")
    return "\n".join(lines[:2] + [f"* {line}" for line in lines[2:] if line])


def short_of(
    cells: Cells, sets: list[str], method: str, other: str, share: float | dict[str, float]
) -> tuple[list[str], dict[str, str], list[str]]:
    """The sets that both have, those where the method is below the other by more than a share of the slack, and by how much.

    A crash is below. The last are those of the second where the seeds do not tell: the bar is within two standard errors.
    """
    both = [s for s in sets if (s, method) in cells and cells.get((s, other), _NONE).scores]
    short, untold = {}, []
    for s in both:
        mine, theirs = cells[s, method], cells[s, other]
        scores = paired(mine, theirs)
        slack = (share[mine.task] if isinstance(share, dict) else share) * SLACK[mine.task]
        if scores is None:
            short[s] = str(mine)
        elif not scores[0] >= scores[1] - slack:
            short[s] = f"{shown(mine.task, scores[0])} < {shown(mine.task, scores[1])}"
            found = spread(
                [theirs.scores[i] - mine.scores[i] for i in sorted(mine.scores.keys() & theirs.scores.keys())]
            )
            if found["n"] > 1 and found["mean"] - slack <= 2 * found["standard_error"]:
                untold.append(s)
    return both, short, untold


def against(cells: Cells, sets: list[str], method: str, other: str, share: float, bar: str) -> str:
    """On how many sets the method is not below the other by more than a share of the slack."""
    both, short, _ = short_of(cells, sets, method, other, share)
    listed = _listed([f"{s} {what}" for s, what in short.items()])
    return f"`{method}` {bar} `{other}`: {len(both) - len(short)} of {len(both)}{listed}" if both else ""


#: What may go wrong on a set, in the words of a verdict.
CRASHED, WORSE, SILENT, WARNED = "crashed", "worse than a constant", "of these without a warning", "warned"


def failures(cells: Cells, sets: list[str], method: str) -> dict[str, list[str]]:
    """{what went wrong: sets, with its figures or words}, in the order of the verdict."""
    mine = {s: cells[s, method] for s in sets if (s, method) in cells}

    def worse(s: str) -> bool:
        scores = paired(mine[s], cells.get((s, "peer dummy"), _NONE))
        return scores is not None and not scores[0] >= scores[1] - SLACK[mine[s].task]

    bad = {s: cell for s, cell in mine.items() if worse(s)}
    return {
        CRASHED: [f"{s} ({cell.errors[0].splitlines()[0][:80]})" for s, cell in mine.items() if cell.errors],
        WORSE: [f"{s} {shown(cell.task, cell.score or 0.0)}" for s, cell in bad.items()],
        SILENT: [s for s, cell in bad.items() if not cell.warned],
        WARNED: [s for s, cell in mine.items() if cell.warned],
    }


def counted(found: dict[str, list[str]]) -> str:
    """On how many sets each went wrong, and on which."""
    return "; ".join(f"{what} on {len(sets)}{_listed(sets)}" for what, sets in found.items())


def _listed(found: list[str]) -> str:
    return f" ({', '.join(found)})" if found else ""


#: Sentences of docs/guide/defaults.md: (method, other, share of the slack, said).
SAID: tuple[tuple[str, str, float | dict[str, float], str], ...] = (
    ("train", "peer svm", 1.0, "`train` without options is within a point of an RBF SVM, or better"),
    ("train", "peer linear", 0.5, "`train` without options is at most half a point below a linear model"),
    (
        "train",
        "peer boosting",
        TWO_POINTS,
        "`train` without options is within two points of gradient boosting (0.02 of $R^2$), or better",
    ),
    ("train sgd", "train ridge", 1.0, "SGD is within a point of ridge, or better"),
    (
        "bare ridge",
        "peer svm",
        1.0,
        "ridge put together by hand, with defaults, is within a point of an RBF SVM",
    ),
    ("bare squared", "bare ridge", 1.0, "SGD with the squared loss, by hand, is within a point of ridge"),
)
_CONTENTS = "standard units spoil counts, fingerprints and pixels"
_FEW = "the default number of features is small for so many rows"
_HINGE = "on text the hinge loss is worse than squares"
#: What is known of a set on which a method is below another, {(method, other): {set: reason}}. The others were not looked into.
KNOWN: dict[tuple[str, str], dict[str, str]] = {
    ("train", "peer svm"): KERNELS | {"newsgroups": "the peer is a linear SVM on tf-idf there, which suits text"},
    ("train", "peer linear"): {
        "ujiindoorloc": "its test rows were taken months later, which no rows held out of the training rows tell",
    },
    ("train", "peer boosting"): BOOSTING | {"splice": SPLICE_CODES},
    ("train sgd", "train ridge"): {
        "covtype": "a very small penalty is best, and SGD in float32 leaves directions alone in which rows hardly vary",
        "newsgroups": _HINGE, "sector": _HINGE,
        "airline": "few rows have very large targets, of which the sample that the penalty is measured on may hold too few",
    },
    ("bare ridge", "peer svm"): {
        **dict.fromkeys(("newsgroups", "sector", "ujiindoorloc", "mnist", "usps"), _CONTENTS),
        **dict.fromkeys(("ijcnn1", "letter", "kin40k"), _FEW),
    },
}  # fmt: skip


def reasons(method: str, other: str, short: Iterable[str], tested: dict[str, int]) -> str:
    """What is known of the sets that are short, those of one reason together.

    tested : test rows of the sets of labels: where one of them is more than half a point, that is a reason
    """
    known = KNOWN.get((method, other), {})
    shared: dict[str, list[str]] = {}
    for s in short:
        few = (
            f"of {tested[s]} test rows one is {100 / tested[s]:.1f} points"
            if tested.get(s, 200) < 200
            else UNKNOWN
        )
        shared.setdefault(known.get(s, few), []).append(s)
    return ". ".join(f"{', '.join(listed)}: {text}" for text, listed in shared.items())


def claims(records: list[Record], sets: list[str], methods: list[str]) -> list[Claim]:
    """What became of the sentences of the guide."""
    cells, made = by_cell(records), []
    tested = {r["set"]: r["n_test"] for r in records if "n_test" in r and r["task"] == "classification"}
    for method, other, share, said in SAID:
        both, short, untold = short_of(cells, sets, method, other, share)
        if not both:
            continue
        held = len(both) - len(short)
        why = "; ".join(f"{s} {what}" for s, what in short.items())
        why += f" (within two standard errors on {', '.join(untold)})" if untold else ""
        why += f". {reasons(method, other, short, tested)}" if short else ""
        made.append(Claim(said, "every set", f"{held} of {len(both)} sets", judged(held, len(both)), why))
    mine = [s for s in sets if (s, "train") in cells]
    if mine:
        made.append(claim_sound(failures(cells, sets, "train"), len(mine)))
    return made


def claim_sound(found: dict[str, list[str]], sets: int) -> Claim:
    """Nothing crashed, or was worse than a constant; warnings are told."""
    bad = {what: found[what] for what in (CRASHED, WORSE) if found[what]}
    return Claim(
        "`train` without options: no crash, nothing worse than a constant", "every set",
        f"{sets} sets: {counted(found)}", "does not hold" if bad else "holds", counted(bad),
    )  # fmt: skip
