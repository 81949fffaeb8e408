"""What a shorter length scale than the trials chose gives once a model is fitted to all rows.

    python benchmarks/length_scales.py DATA kin40k letter mnist

For sets of benchmarks/defaults_data.py, split by seed 0: accuracy or R^2 on the test rows of ridge on the features of
`make_model`, with the length scale that its trials chose, times 1, 0.6 and 0.35. The table is in docs/guide/choices_rules.md.
"""

from __future__ import annotations

import argparse
import warnings
from unittest import mock

from defaults_data import SETS, load

import distrf
from distrf.pipeline import deciding

FACTORS = (1.0, 0.6, 0.35)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("sets", nargs="+", choices=list(SETS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.sets:
        problem = load(name, args.data, 0)
        with mock.patch.object(deciding, "_SHORTER", 1.0):
            chosen = distrf.make_model(problem.X, problem.y).training_.chosen("length_scale")
        scores = []
        for factor in FACTORS if chosen is not None else ():
            model = distrf.make_model(problem.X, problem.y, length_scale=factor * chosen)
            scores.append(f"{factor:g}: {model.fit(problem.X, problem.y).score(problem.T, problem.t):.4f}")
        print(f"{name:<14} n = {problem.X.shape[0]:,}", *scores, sep="   ", flush=True)


if __name__ == "__main__":
    main()
