"""AUC and average precision from bins of scores: their bounds, what they are off by, and processor time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.benchmark import Benchmark, Claim, Part, Record, Run, markdown
from benchmarks.clocks import cpu
from distrf.scores.ranking import Ranking

BLOCK = 100_000


def normal(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
    return rng.normal(size=len(y)) + y


def narrow(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
    """Decision values of ridge where a class is rare: almost all at -1."""
    near = -1 + 0.003 * rng.normal(size=len(y)) + 0.003 * y
    return np.where(y & (rng.random(len(y)) < 0.3), rng.normal(size=len(y)), near)


def heavy(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
    return rng.standard_cauchy(len(y)) + y


def probability(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(8 - 2 * normal(rng, y)))


#: name: (scores, share of the class)
CASES = {
    "normal": (normal, 0.1),
    "normal, 1 in 10,000": (normal, 1e-4),
    "almost all scores at -1": (narrow, 0.1),
    "Cauchy": (heavy, 0.1),
    "small probabilities": (probability, 0.1),
}
#: Names of cases in records of older runs.
FORMER = {"near -1 but for few": "almost all scores at -1"}


def ranked(scores: np.ndarray, y: np.ndarray) -> Ranking:
    """Block by block, each merged into the state of those before."""
    ranking = Ranking()
    for a in range(0, len(y), BLOCK):
        part = Ranking()
        part.add(scores[a : a + BLOCK], y[a : a + BLOCK])
        ranking.merge(part)
    return ranking


def bins(run: Run) -> Iterator[Record]:
    """Drawn scores of two classes, against scikit-learn on all rows."""
    n = run.pick(10_000_000, 200_000)
    for name, (draw, share) in CASES.items():
        rng = np.random.default_rng(0)
        y = rng.random(n) < share
        scores = draw(rng, y)
        seconds, ranking = cpu(lambda scores=scores, y=y: ranked(scores, y))
        theirs, exact = cpu(lambda s=scores, y=y: (roc_auc_score(y, s), average_precision_score(y, s)))
        record: Record = {"scores": name, "rows": n, "seconds": seconds, "scikit-learn seconds": theirs}
        made = (ranking.roc_auc(), ranking.average_precision())
        for score, (value, bound), right in zip(("AUC", "AP"), made, exact, strict=True):
            record |= {
                score: float(value),
                f"{score} bound": float(bound),
                f"{score} off": abs(float(value - right)),
            }
        yield record


def show(records: list[Record]) -> str:
    rows = []
    for r in records:
        name = FORMER.get(r["scores"], r["scores"])
        cells = [[f"{r[s]:.6f}", f"{r[f'{s} bound']:.1e}", f"{r[f'{s} off']:.0e}"] for s in ("AUC", "AP")]
        rows.append([name, *cells[0], *cells[1], f"{r['seconds']:.1f}", f"{r['scikit-learn seconds']:.1f}"])
    head = ["scores", "AUC", "bound", "off by", "average precision", "bound", "off by", "s", "scikit-learn s"]
    return f"{records[0]['rows']:,} rows; s is processor time.\n\n" + markdown(head, rows)


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    records = found.get("bins", [])
    if not records:
        return []
    both = [(r[f"{s} off"], r[f"{s} bound"]) for r in records for s in ("AUC", "AP")]
    worst = max(records, key=lambda r: max(r["AUC bound"], r["AP bound"]))
    inside = all(off <= bound * (1 + 1e-5) for off, bound in both)  # the file has six digits
    return [
        Claim(
            "AUC and average precision are off by no more than the bound that comes with them", "the bound",
            f"off by {max(off for off, _ in both):.0e} at most; bounds {max(bound for _, bound in both):.1e} at most "
            f"({FORMER.get(worst['scores'], worst['scores'])})",
            "holds" if inside else "does not hold", "" if inside else "a bound is too small",
        )
    ]  # fmt: skip


ABOUT = """
`roc_auc` and `average_precision` of [scores](../guide/scores.md) from bins that take bounded memory, against scikit-learn on all
rows. Two classes of drawn scores, one with a tenth of the rows, or 1 in 10,000, in blocks of 100,000 rows.
"""

BENCHMARK = Benchmark(
    "ranking", "AUC and average precision from bins", ABOUT, (Part("bins", bins, show, data=False),), claims
)
