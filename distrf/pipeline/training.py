"""`train`: make a model, fit it, and see whether it beats a linear model on the same columns."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from dask.base import is_dask_collection, tokenize
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from ..errors import InputError
from ..execution.row_blocks import align_rows, blocks_are_csr
from ..linear_model.ridge import fit_beside
from ..parameters import check_keywords
from ..persistence import load_model
from ..randomness import draw_seed
from ..record import Comparison, Training
from ..targets import class_targets, regression_targets
from .deciding import all_equal
from .loaded import NOT_SAID
from .making import Options, Prepared, make_model, prepare
from .outputs import Outputs, job_of
from .sample import as_rows, as_targets

#: Columns up to which the linear model is fitted to all rows.
_NARROW = 1024


class BaselineWarning(UserWarning):
    """A machine that a linear model on the same columns, or a constant, does as well as; numbers that may be labels;
    a target that does not vary."""


def train(
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    baseline: bool = True,
    out: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **options: Any,
) -> Pipeline:
    """Make a model for these rows and fit it, with a linear model on the same columns beside it.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d); y : targets of shape (n,) or (n, C)
    sample_weight : shape (n,), for the fit; choices leave out rows of weight 0, and take the others alike
    baseline : whether a linear model is fitted to all rows too, in the same pass: ridge on the scaled columns, where
        these are dense and at most 1,024 and the model is ridge; else the sample alone compares
    out : folder or URL of the model to save, with what it was asked for
    checkpoint : folder that keeps the state of SGD, each pass of conjugate gradients and TEFM, and of
        CompactNonlinearMap, from which the same call with `resume` continues, to the same bits
    checkpoint_every : batches of SGD between two states; None is the estimator's
    resume : continue from `checkpoint`; a model of the same job that is in `out` already is loaded
    overwrite : replace a model in `out`, and start anew where `checkpoint` holds a state
    options : of `make_model`

    Returns
    -------
    The fitted Pipeline of `make_model`; `training_` holds the choices, the comparisons with a linear model and a
    constant, and what was warned of. `distrf.save_model` keeps it with the model.

    Warns
    -----
    BaselineWarning : what was fitted does not beat the constant by a standard error of the paired differences of
        held-out rows, or the machine does not beat a linear model on the columns; where it is level with that one
        within a standard error, nothing is said. Or the target is of an integer dtype, taken for numbers, and has many
        values that each occur often, as labels do. Or the target is one number in all rows looked at
    """
    check_keywords("train", options, (*signature(train).parameters, *signature(make_model).parameters))
    X, y = (values if values is None or hasattr(values, "shape") else np.asarray(values) for values in (X, y))
    if sample_weight is not None and np.ndim(sample_weight) == 0:
        raise InputError(f"sample_weight must have one entry for each row, got {sample_weight!r}")
    out, checkpoint = (None if place is None else os.fspath(place) for place in (out, checkpoint))
    outputs, asked = Outputs(out, checkpoint, checkpoint_every, resume, overwrite), Options(**options)
    asked = replace(asked, random_state=draw_seed(asked.random_state))
    outputs.check_places(None)
    kept = out is not None or checkpoint is not None
    identity = {"data": tokenize(X, y, sample_weight), "baseline": baseline} if kept else {}
    job = job_of(identity, asked) if kept else {}
    if outputs.done:
        outputs.check_same_job(job)
        return load_model(outputs.out)  # type: ignore[arg-type, return-value]
    start = time.perf_counter()
    made = prepare(
        X, y, asked, sample_weight, None, lambda map_, model: outputs.keep_state(map_, model, identity)
    )
    pipeline = fit_prepared(made, X, y, sample_weight, baseline)
    if out is not None:
        outputs.save(pipeline, NOT_SAID | identity, job, time.perf_counter() - start)
    return pipeline


def fit_prepared(made: Prepared, X: Any, y: Any, sample_weight: Any = None, baseline: bool = True) -> Pipeline:
    """Fit what `prepare` made, and compare it."""
    pipeline = made.pipeline
    model, mapped = pipeline[-1], "map" in pipeline.named_steps
    sparse = blocks_are_csr(X)
    comparisons, found = _compare_sample(made), list(pipeline.training_.warnings)
    if baseline and compares_all(model, mapped, sparse, X.shape[1]):
        comparisons += _fit_and_compare(made, X, y, sample_weight)
    else:
        weights = {} if sample_weight is None else {"model__sample_weight": sample_weight}
        pipeline.fit(X, y, **weights)
    seen = made.sample.y
    if all_equal(seen):
        what = "label" if is_classifier(model) else "number"
        found.append(f"the target is one {what} ({seen[0]}) in all rows looked at; the model predicts it")
    found += _find_beaten(made, comparisons, X.shape[0])
    if made.sample.copies and getattr(model, "cv_errors_", None) is not None:
        found.append(
            f"{100 * made.sample.copies:.3g} % of the sampled rows are copies of others: cross-validation over all rows "
            "has them on both sides, so its errors and alpha are too small; drop the copies, or give one alpha"
        )
    found += _check_fitted(made)
    pipeline.training_ = Training(pipeline.training_.choices, tuple(comparisons), tuple(found))
    for text in found:
        warnings.warn(text, BaselineWarning, stacklevel=3)
    return pipeline


def _find_beaten(made: Prepared, comparisons: list[Comparison], n: int) -> list[str]:
    """Whether what was fitted loses to the constant, or to the linear model beside it: by rows held out of the sample.

    Over all rows sums of squared errors are known, not their spread: the sample's is taken for it. Where the sample
    cannot judge, the sums decide alone.
    """
    if not comparisons:
        return []
    remedy = "take map='none', or another map, kernel or scaling"
    nothing = (
        "these columns may not tell the target, rows may be too few, or another scaling or map may be needed"
    )
    machine, linear, constant, last = made.machine, made.linear, made.constant, comparisons[0]
    if machine is None or linear is None or constant is None:
        if max(last.machine, last.linear) <= 0:  # type: ignore[type-var, operator]
            return [f"neither the machine nor a linear model beats a constant ({last}); {nothing}"]
        lost = last.linear > last.machine  # type: ignore[operator]
    elif not linear.beats(constant) and not machine.beats(constant):
        which = (
            "the linear model, which was kept,"
            if machine is linear
            else "neither the machine nor a linear model"
        )
        beats = "does not beat" if machine is linear else "beats"
        return [f"{which} {beats} a constant by a standard error ({last}); {nothing}"]
    elif machine is linear:
        return []
    else:
        lost = linear.beats(machine) or not machine.beats(constant)
        if not lost and len(comparisons) > 1:
            last = comparisons[1]
            slack = float(np.std(machine.losses - linear.losses)) / np.sqrt(n) / constant.error
            lost = last.linear - last.machine > slack  # type: ignore[operator]
    return [f"the machine does not beat a linear model on the same columns ({last}); {remedy}"] if lost else []


def _compare_sample(made: Prepared) -> list[Comparison]:
    """Ridge on the features, on the columns, and a constant, on held-out rows of the sample."""
    if made.linear is None or made.constant is None or made.machine is None:
        return []
    what = "accuracy" if is_classifier(made.pipeline[-1]) else "R²"
    margin = made.machine.margin(made.constant)
    rows = f"{made.sample.judged:,} held-out rows of a sample (ridge, machine less constant ± {margin:.4f})"
    return [Comparison(what, rows, made.machine.score, made.linear.score, made.constant.score)]


def compares_all(model: Any, mapped: bool, sparse: bool, d: int) -> bool:
    """Whether a linear model on all rows is affordable beside this one, and comparable: ridge with several alphas."""
    return mapped and not sparse and d <= _NARROW and getattr(model, "compares_alphas", False)


def _fit_and_compare(made: Prepared, X: Any, y: Any, sample_weight: Any) -> list[Comparison]:
    """Fit the steps; R^2 in cross-validation over all rows, where ridge has squared errors of them."""
    columns, targets = as_rows(X), y
    for name, step in made.pipeline.steps[:-1]:
        X = step.fit_transform(X, y)
        if name == "scale" and not made.plain:
            columns = X
    model = made.pipeline[-1]
    errors = fit_beside(model, X, columns, y, sample_weight)
    if errors is None or model.cv_errors_ is None:
        return []
    variance = _variance(model, columns, targets, sample_weight)
    if not variance > 0:
        return []
    rows = f"all {X.shape[0]:,} rows (cross-validation)"
    what = "R² of the labels as -1 and 1" if is_classifier(model) else "R²"
    machine, linear = (1.0 - float(np.min(e)) / variance for e in (model.cv_errors_, errors))
    return [Comparison(what, rows, machine, linear, 0.0)]


def _variance(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Mean over the outputs of the weighted variance of the targets, from passes over them alone."""
    y, weight = as_targets(X, y), sample_weight
    if is_dask_collection(X):
        y = align_rows(X, y, "y")
        weight = None if weight is None else align_rows(X, weight, "sample_weight")
    elif weight is not None:
        weight = np.asarray(weight)
    if is_classifier(model):
        shares = class_targets(y, weight, model.class_weight).shares
        return 0.0 if shares is None else float(np.mean(4 * shares * (1 - shares)))
    centre = regression_targets(y, weight).centre
    squares = (y - (centre[0] if y.ndim == 1 else centre)) ** 2
    return float(np.mean(regression_targets(squares, weight).centre))


def _check_fitted(made: Prepared) -> list[str]:
    """The fitted model on rows that it was trained on: below what was reached on rows not seen, it failed.

    Of numbers by two standard errors too: a few rows of huge targets may decide alone.
    """
    if made.linear is None or made.constant is None or made.machine is None or made.targets is None:
        return []
    sample = made.sample
    fitted = Pipeline([step for step in made.pipeline.steps if step[0] != "scale"])  # the sample is scaled
    rows = np.concatenate([held for _, held in sample.splits])
    with warnings.catch_warnings():  # fitted to a data frame, scored on the sample
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        predicted = fitted.predict(sample.X[rows])
    truth = sample.y[rows]
    reached = max(min(made.linear.score, made.machine.score), made.constant.score)
    if is_classifier(fitted[-1]):
        score = float(np.mean(predicted == truth))
        slack = 1 / np.sqrt(len(rows))  # two standard errors of a share
        if (predicted == predicted[0]).all() and made.machine.beats(made.constant):
            return [
                f"all {len(rows):,} sampled rows are given the label {predicted[0]!s}: others are too rare for what "
                "tells them apart; rank rows by decision_function, or give a model with class_weight='balanced'"
            ]
    else:
        encoded = [made.targets.encode(values, None)[0] for values in (predicted, truth)]
        losses = ((encoded[0] - encoded[1]) ** 2).mean(axis=1)
        seen = replace(made.constant, losses=losses)
        score = 1.0 - seen.error / (made.constant.error or 1.0)
        slack = max(0.05, 2 * seen.margin(made.constant))
    if np.isfinite(score) and score >= reached - slack:
        return []
    return [
        f"the fitted machine scores {score:.4f} on sampled rows that it was trained on, where ridge in the trial or a "
        f"constant reached {reached:.4f} on rows that it had not seen: training has failed; give more epochs, "
        "another alpha, or model='ridge'"
    ]


__all__ = ["BaselineWarning", "fit_prepared", "train"]
