"""What a shorter length scale than the trials chose gives once a model is fitted to all rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from unittest import mock

import distrf
from benchmarks.benchmark import Benchmark, Claim, Part, Record, Run, markdown
from benchmarks.tables.defaults_data import load
from distrf.pipeline import deciding

SETS = ("letter", "magic04", "census_house", "kin40k", "covtype", "protein", "ijcnn1", "airline", "mnist")
FACTORS = (1.0, 0.6, 0.35)


def shorter(run: Run) -> Iterator[Record]:
    """Ridge on the features of `make_model`, with the length scale of its trials times each factor."""
    for name in run.pick(SETS, ("diabetes",)):
        problem = load(name, run.data, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with mock.patch.object(deciding, "_SHORTER", 1.0):
                chosen = distrf.make_model(problem.X, problem.y, map="fourier").training_.chosen("length_scale")
            for factor in FACTORS:
                model = distrf.make_model(problem.X, problem.y, map="fourier", length_scale=factor * chosen)
                score = 100 * float(model.fit(problem.X, problem.y).score(problem.T, problem.t))
                yield {"set": name, "rows": problem.X.shape[0], "factor": factor, "score": score}


def by_set(records: list[Record]) -> dict[tuple[str, int], dict[float, float]]:
    """{(set, rows): {factor: score}}."""
    made: dict[tuple[str, int], dict[float, float]] = {}
    for r in records:
        made.setdefault((r["set"], r["rows"]), {})[r["factor"]] = r["score"]
    return made


def show(records: list[Record]) -> str:
    rows = [
        [name, f"{n:,}", *(f"{scores[f]:.1f}" if f in scores else "" for f in FACTORS)]
        for (name, n), scores in by_set(records).items()
    ]
    return "Accuracy or $R^2$ in percent on test rows, seed 0.\n\n" + markdown(
        ["set", "rows", "as in the trials", *(f"{f:g} times" for f in FACTORS[1:])], rows
    )


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    mine = by_set(found.get("shorter", []))
    gains = {name: s[0.6] - s[1.0] for (name, _), s in mine.items() if 0.6 in s and 1.0 in s}
    if not gains:
        return []
    best, worst = max(gains, key=lambda name: gains[name]), min(gains, key=lambda name: gains[name])
    ok = gains[worst] > -0.5
    return [
        Claim(
            "one step to a shorter length scale gains, and loses next to nothing where it does not", "no set loses half a point",
            f"{best} {gains[best]:+.1f}, {worst} {gains[worst]:+.1f}", "holds" if ok else "does not hold",
            "" if ok else f"{worst} loses {-gains[worst]:.1f} points",
        )
    ]  # fmt: skip


ABOUT = """
A trial of `make_model` is trained on few rows and features; the model on all, and more rows tell apart what lies closer together
([rules of the choices](../guide/choices_rules.md)). Sets and splits are those of [defaults](defaults.md).
"""

BENCHMARK = Benchmark(
    "length_scales", "Shorter length scales", ABOUT, (Part("shorter", shorter, show),), claims
)
