"""Log loss of calibrated ridge and SVM, beside logistic regression and scikit-learn's calibration of the same models."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss

from benchmarks import data
from benchmarks.benchmark import Benchmark, Claim, Part, Record, Run, judged, markdown, one, pm, spread, where
from benchmarks.clocks import cpu
from distrf import RandomFourierFeatures, StreamingRidgeClassifier, StreamingSGDClassifier

SETS = ("a9a", "ijcnn1", "w8a", "letter", "usps", "dna")
#: Sets whose columns are brought to standard units; the others are flags, or of like units.
SCALED = ("letter", "usps")
ROWS, COMPONENTS = 5_000, 512


def models() -> dict[str, Any]:
    made: dict[str, Any] = {"logistic": StreamingSGDClassifier("multinomial")}
    for name, model in (("ridge", StreamingRidgeClassifier()), ("SVM", StreamingSGDClassifier("hinge"))):
        made[name] = clone(model).set_params(calibrate=True)
        made[f"{name}, scikit-learn"] = CalibratedClassifierCV(model, method="sigmoid", ensemble=False)
    return made


def losses(run: Run) -> Iterator[Record]:
    """Log loss of test rows; the seed draws training and test rows and the map."""
    for name in run.pick(SETS, ("dna",)):
        X, y, T, t = data.split(run, name, 0)
        found: dict[str, list[float]] = {model: [] for model in models()}
        seconds: dict[str, list[float]] = {model: [] for model in models()}
        for seed in range(run.pick(3, 2)):
            few, few_y = data.sample(X, y, ROWS, seed)
            test, test_y = data.sample(T, t, ROWS, seed)
            A, B = data.dense(few), data.dense(test)
            if name in SCALED:
                A, B = data.standard(A, B)
            map_ = RandomFourierFeatures(n_components=run.pick(COMPONENTS, 32), random_state=seed)
            A, B = map_.fit_transform(A), map_.transform(B)
            for label, model in models().items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    taken, fitted = cpu(lambda m=model, A=A, y=few_y: m.fit(A, y))
                found[label].append(float(log_loss(test_y, fitted.predict_proba(B), labels=fitted.classes_)))
                seconds[label].append(taken)
        for label, values in found.items():
            record = {"set": name, "model": label, "rows": len(few_y), "D": A.shape[1]}
            yield record | {"seconds": float(np.median(seconds[label])), **spread(values)}


def show(records: list[Record]) -> str:
    names = list(dict.fromkeys(r["model"] for r in records))
    rows = [
        [name, *(pm(where(records, set=name, model=model)[0], 3) for model in names)]
        for name in dict.fromkeys(r["set"] for r in records)
    ]
    n = records[0]["n"]
    return f"Log loss, mean over {n} draws of rows and map ± standard error.\n\n" + markdown(["", *names], rows)


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    records, made = found.get("losses", []), []
    sets = list(dict.fromkeys(r["set"] for r in records))
    for model in ("ridge", "SVM"):
        short = []
        pairs = {
            name: [one(records, set=name, model=m) for m in (model, f"{model}, scikit-learn")] for name in sets
        }
        both = {name: (ours, theirs) for name, (ours, theirs) in pairs.items() if ours and theirs}
        for name, (ours, theirs) in both.items():
            gap = ours["mean"] - theirs["mean"]
            if gap > 0.02 * theirs["mean"]:
                error = (ours["standard_error"] ** 2 + theirs["standard_error"] ** 2) ** 0.5
                short.append(
                    f"{name} {ours['mean']:.3f}, {theirs['mean']:.3f}"
                    + (" (within two standard errors)" if gap < 2 * error else "")
                )
        if both:
            made.append(
                Claim(
                    f"calibrated {model} has the log loss of scikit-learn's calibration, within 2 %", "every set",
                    f"{len(both) - len(short)} of {len(both)}", judged(len(both) - len(short), len(both)), "; ".join(short),
                )
            )  # fmt: skip
    return made


ABOUT = f"""
[Calibration](../methods/calibration.md) in the fit of ridge and SVM beside `CalibratedClassifierCV` of scikit-learn (`sigmoid`,
`ensemble=False`, five folds) on the same models, and logistic regression. {ROWS:,} training and {ROWS:,} test rows, {COMPONENTS} Fourier
features.
"""

BENCHMARK = Benchmark("calibration", "Calibrated probabilities", ABOUT, (Part("losses", losses, show),), claims)
