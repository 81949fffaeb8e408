"""AUC and average precision from bins of scores: their bounds, what they are off by, and processor time.

    python benchmarks/ranking.py [--rows 10000000]

Two classes of drawn scores, one with a tenth of the rows (and one with 1 in 10,000), in blocks of 100,000 rows, against
scikit-learn on all rows. The table is in docs/guide/scores.md.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from distrf.scores.ranking import Ranking

BLOCK = 100_000


def normal(rng, y):
    return rng.normal(size=len(y)) + y


def narrow(rng, y):
    """Decision values of ridge where a class is rare: close to -1, but for few rows."""
    return np.where(
        y & (rng.random(len(y)) < 0.3),
        rng.normal(size=len(y)),
        -1 + 0.003 * rng.normal(size=len(y)) + 0.003 * y,
    )


def heavy(rng, y):
    return rng.standard_cauchy(len(y)) + y


def probability(rng, y):
    return 1 / (1 + np.exp(8 - 2 * normal(rng, y)))


CASES = {
    "normal": (normal, 0.1),
    "normal, 1 in 10,000": (normal, 1e-4),
    "near -1 but for few": (narrow, 0.1),
    "Cauchy": (heavy, 0.1),
    "small probabilities": (probability, 0.1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    n = parser.parse_args().rows
    print("| scores | AUC | bound | off by | average precision | bound | off by | s |\n|" + "---|" * 8)
    for name, (draw, share) in CASES.items():
        rng = np.random.default_rng(0)
        y = rng.random(n) < share
        scores = draw(rng, y)
        start, ranking = time.process_time(), Ranking()
        for a in range(0, n, BLOCK):
            part = Ranking()
            part.add(scores[a : a + BLOCK], y[a : a + BLOCK])
            ranking.merge(part)
        seconds = time.process_time() - start
        cells = [name]
        for (value, bound), exact in (
            (ranking.roc_auc(), roc_auc_score(y, scores)),
            (ranking.average_precision(), average_precision_score(y, scores)),
        ):
            cells += [f"{value:.6f}", f"{bound:.1e}", f"{abs(value - exact):.0e}"]
        print("|", " | ".join([*cells, f"{seconds:.1f}"]), "|", flush=True)


if __name__ == "__main__":
    main()
