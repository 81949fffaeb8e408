"""`train`: make a model, fit it, and see whether it beats a linear model on the same columns."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from ..errors import InputError
from ..execution.row_blocks import align_rows, blocks_are_csr
from ..linear_model.ridge import fit_beside
from ..parameters import check_keywords
from ..persistence import load_model
from ..randomness import draw_seed
from ..record import Comparison, Training
from ..scores.headline import headline, rare_class
from ..scores.labels import mean_recall
from ..scores.ranking import Ranking
from ..splits import check_split
from ..store.csv_format import reads_csv, said_format
from ..targets import class_targets, regression_targets
from .deciding import all_equal
from .making import Options, Prepared, make_model, prepare, split_for, takes_folds
from .outputs import Outputs, job_of
from .rows import Rows as Opened
from .sample import as_rows, as_targets, see_target
from .search import Verdict
from .tables import keep_reasons, open_training, wants_numbers
from .training_rows import Rows

#: Columns up to which the linear model is fitted to all rows.
_NARROW = 1024


class BaselineWarning(UserWarning):
    """A machine that a linear model on the same columns, or a constant, does as well as; numbers that may be labels;
    a target that does not vary."""


@reads_csv
def train(
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    weight: str | None = None,
    columns: Sequence[Any] | None = None,
    impute: str | float | None = None,
    strict: bool = False,
    split: str = "random",
    by: Any = None,
    baseline: bool = True,
    out: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    target: str | None = None,
    exclude: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    date: Sequence[str] | None = None,
    id: Sequence[str] | None = None,
    drop_missing_target: bool = False,
    **options: Any,
) -> Pipeline:
    """Make a model for these rows, fit it, and compare it with a linear model on the same columns.

    Parameters
    ----------
    X : {array, CSR matrix, Dask array} of shape (n, d), a table, or the path of a store
        Input rows. A table is a path of Parquet or CSV, a data frame, an Arrow table, a Dask DataFrame or what `open_table`
        returns: its columns may be numbers, categories and dates, with missing values. A Zarr store is opened by `open_rows`.
    y : array or Dask array of shape (n,) or (n, C), or None, default=None
        Targets: labels, or numbers, one or C for each row. Not needed if `target` names a column of a table, or for a store
        that has an array y.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row, in the fit and in all that is judged on the way: choices, and the comparisons with a linear
        model and a constant. Rows of weight 0 count as if they were not there.
    weight : str or None, default=None
        The column or array of the weights of rows at a path, which is no column of X. None weighs all alike.
    columns : sequence or None, default=None
        Columns of rows at a path that are read, by name or number. None is all but the target.
    impute : str, float or None, default=None
        What replaces missing values of rows at a path: "mean", "median", "zero" or a number; the columns of a table are then
        numbers. None refuses missing values of numbers, and leaves those of a table to its encoder.
    strict : bool, default=False
        Refuse a Zarr store of another program if chunks are missing, which would be read as the fill value; else it is a
        warning.
    split : {"random", "stratified", "group", "time", "blocks"}, default="random"
        How rows are held out, wherever some are: for choices, for penalties, for early stopping, for probabilities and
        intervals, and for means of the target. "stratified" gives each fold its share of every class, "group" keeps the rows
        of a group together, "time" holds out the latest fifth, which learns from earlier rows alone, "blocks" keeps runs of
        neighbouring rows together.
    by : str, array or Dask array of shape (n,), default=None
        The group or the time of each row, for these splits: a column of a table by its name, or numbers, text (groups) or
        dates. Times stay a feature. Groups are one only if `categorical` or `numeric` names their column.
    baseline : bool, default=True
        Whether ridge is fitted to the scaled columns of all rows too, in the same pass. This is done if the columns are
        dense and at most 1,024, and the model is ridge with several alphas. Else only the sample compares.
    out : str, PathLike or None, default=None
        Folder or URL to save the model to, with what it was asked for.
    checkpoint : str, PathLike or None, default=None
        Folder that keeps the state of SGD, each pass of conjugate gradients and TEFM, and of CompactNonlinearMap. The
        same call with `resume` continues from it, to the same bits.
    checkpoint_every : int or None, default=None
        Batches of SGD between two states. None leaves that of the estimator.
    resume : bool, default=False
        Continue from `checkpoint`. A model of the same job that is in `out` already is loaded.
    overwrite : bool, default=False
        Replace a model in `out`, and start anew if `checkpoint` holds a state.
    target : str or None, default=None
        The column of a table, or the array of a store, that holds the targets.
    exclude : sequence of str or None, default=None
        Columns of a table that are left out.
    categorical : sequence of str or None, default=None
        Columns that are categories, whatever they hold.
    numeric : sequence of str or None, default=None
        Columns that are numbers, such as one that would be taken for an id.
    date : sequence of str or None, default=None
        Columns that are dates.
    id : sequence of str or None, default=None
        Columns that name their rows; they are left out.
    drop_missing_target : bool, default=False
        Leave out the rows of a table that have no `target`, and say how many. Otherwise they are an error.
    **options : object
        Options of `make_model`.

    Returns
    -------
    Pipeline
        The fitted pipeline of `make_model`. Its attribute `training_` has the choices, the comparisons with a linear
        model and a constant, and the warnings. `distrf.save_model` keeps it with the model.

    Raises
    ------
    InputError
        An option breaks a rule, `make_model` refuses the data, or `sample_weight` is a single number. Rows cannot be
        split so: fewer than two groups, times or classes, or missing ones.

    Warns
    -----
    ColumnWarning
        A column of a table is left out, or may not be what it is taken for.
    BaselineWarning
        The model may be of no use, for one of these reasons. On held-out rows it does not beat a constant by a standard
        error of the paired differences. It does not beat a linear model on the columns; nothing is said if both are
        level within a standard error. The target was taken for numbers, but is of an integer dtype with many values
        that each occur often, as labels do. The target is the same in all sampled rows.
    """
    check_keywords("train", options, (*signature(train).parameters, *signature(make_model).parameters))
    if isinstance(y, str):
        raise InputError(
            f"y has one target for each row, got {y!r}; a column of a table is named by target={y!r}"
        )
    check_split(split, by)
    of_table: dict[str, Any] = {
        "exclude": exclude, "categorical": categorical, "numeric": numeric, "date": date, "id": id,
        "drop_missing_target": drop_missing_target or None,
    }  # fmt: skip
    of_table = {name: value for name, value in of_table.items() if value is not None}
    of_path: dict[str, Any] = {"weight": weight, "columns": columns, "impute": impute, "strict": strict or None}
    of_path = {name: value for name, value in of_path.items() if value is not None}
    numbers = options.get("scale", "auto") != "auto" or wants_numbers(options.get("map"))
    if isinstance(X, (str, os.PathLike)):
        named = by if isinstance(by, str) else None
        X = open_training(
            os.fspath(X), numbers=numbers, target=target, split=split, by=named, **of_path, **of_table
        )
    if isinstance(X, Opened):
        rows = Rows.of_path(X, y, sample_weight, split, by)
    else:
        rows = Rows.given(X, y, sample_weight, split, by, {"target": target, **of_path}, of_table, numbers)
    if rows.encoder is not None:
        options["scale"] = rows.encoder
    asked = Options(**options)
    asked = replace(asked, random_state=draw_seed(asked.random_state))
    out, checkpoint = (None if place is None else os.fspath(place) for place in (out, checkpoint))
    outputs = Outputs(out, checkpoint, checkpoint_every, resume, overwrite)
    outputs.check_places(rows.source)
    y, form, seen = rows.y, "", None
    if y is not None:
        y, form, seen = see_target(
            y, asked.random_state, asked.model, {} if rows.data is None else rows.data.seen
        )
    identity = rows.identity(baseline) if out is not None or checkpoint is not None else {}
    job = job_of(identity, asked) if identity else {}
    if outputs.done:
        outputs.check_same_job(job)
        return load_model(outputs.out)  # type: ignore[arg-type, return-value]
    start = time.perf_counter()
    with outputs.held():
        made = prepare(
            rows.X, y, asked, rows.weight, seen, lambda map_, model: outputs.keep_state(map_, model, identity),
            split_for(rows.X, y, asked, split, rows.by, rows.by_name, rows.by_dates),
        )  # fmt: skip
        pipeline = fit_prepared(made, rows.X, y, rows.weight, baseline)
        pipeline.training_ = replace(pipeline.training_, target=rows.target, form=form, csv=said_format())
        keep_reasons(pipeline, rows.kinds, drop_missing_target)
        if out is not None:
            seconds = time.perf_counter() - start
            reading = (
                identity if rows.data is None else {}
            )  # of rows at a path other names may stand for the target
            outputs.save(pipeline, rows.reading | reading, job, seconds, rows.parts, source=rows.source)
    return pipeline


def fit_prepared(
    prepared: Prepared, X: Any, y: Any, sample_weight: Any = None, baseline: bool = True
) -> Pipeline:
    """Fit what `prepare` returned, and compare it with a linear model and a constant.

    Parameters
    ----------
    prepared : Prepared
    X, y, sample_weight, baseline : as `train` takes them
    """
    pipeline, sample = prepared.pipeline, prepared.decisions.sample
    model, mapped = pipeline[-1], "map" in pipeline.named_steps
    sparse = blocks_are_csr(X)
    comparisons, warned = _compare_sample(prepared), list(pipeline.training_.warnings)
    if baseline and compares_all(model, mapped, sparse, X.shape[1]):
        comparisons += _fit_and_compare(prepared, X, y, sample_weight)
    else:
        given = {} if sample_weight is None else {"model__sample_weight": sample_weight}
        for name, step in pipeline.steps:
            given |= {f"{name}__{key}": value for key, value in _folds_for(prepared, step).items()}
        pipeline.fit(X, y, **given)
    if all_equal(sample.y):
        what = "label" if is_classifier(model) else "number"
        warned.append(f"the target is one {what} ({sample.y[0]}) in all rows looked at; the model predicts it")
    warned += _find_beaten(prepared, comparisons, X.shape[0])
    if sample.copies and prepared.split is None and getattr(model, "cv_errors_", None) is not None:
        warned.append(
            f"{100 * sample.copies:.3g} % of the sampled rows are copies of others: cross-validation over all rows "
            "has them on both sides, so its errors and alpha are too small; drop the copies, or give one alpha"
        )
    warned += _check_fitted(prepared)
    pipeline.training_ = Training(pipeline.training_.choices, tuple(comparisons), tuple(warned))
    for text in warned:
        warnings.warn(text, BaselineWarning, stacklevel=3)
    return pipeline


def _folds_for(prepared: Prepared, step: Any) -> dict[str, Any]:
    """The folds as an argument of the `fit` of a step, where there is a split and it takes them."""
    return {"folds": prepared.split.folds.values} if prepared.split is not None and takes_folds(step) else {}


def _find_beaten(prepared: Prepared, comparisons: list[Comparison], n: int) -> list[str]:
    """Whether what was fitted loses to the constant, or to the linear model beside it: by rows held out of the sample.

    Over all rows sums of squared errors are known, not their spread: the sample's is taken for it. Where the sample
    cannot judge, the sums decide alone.
    """
    if not comparisons:
        return []
    last, verdicts = comparisons[0], prepared.verdicts
    nothing = (
        "these columns may not tell the target, rows may be too few, or another scaling or map may be needed"
    )
    if verdicts is None:
        if max(last.machine, last.linear) <= 0:  # type: ignore[type-var, operator]
            return [f"neither the machine nor a linear model beats a constant ({last}); {nothing}"]
        return _say_beaten(last) if last.linear > last.machine else []  # type: ignore[operator]
    machine, linear, constant = verdicts.machine, verdicts.linear, verdicts.constant
    if not linear.beats(constant) and not machine.beats(constant):
        losers = "neither the machine nor a linear model beats"
        if machine is linear:
            losers = "the linear model, which was kept, does not beat"
        return [f"{losers} a constant by a standard error ({last}); {nothing}"]
    if machine is linear:
        return []
    if linear.beats(machine) or not machine.beats(constant):
        return _say_beaten(last)
    if len(comparisons) > 1:
        last = comparisons[1]
        slack = float(np.std(machine.losses - linear.losses)) / np.sqrt(n) / constant.error
        if machine.groups is not None:
            error = machine.standard_error(machine.losses - linear.losses)
            slack = error * np.sqrt(len(machine.losses) / n) / constant.error
        if last.linear - last.machine > slack:  # type: ignore[operator]
            return _say_beaten(last)
    return []


def _say_beaten(comparison: Comparison) -> list[str]:
    remedy = "take map='none', or another map, kernel or scaling"
    return [f"the machine does not beat a linear model on the same columns ({comparison}); {remedy}"]


def _compare_sample(prepared: Prepared) -> list[Comparison]:
    """Ridge on the features, on the columns, and a constant, on held-out rows of the sample."""
    verdicts, judged = prepared.verdicts, prepared.decisions.sample.judged
    if verdicts is None:
        return []
    rows = f"{judged:,} held-out rows of a sample (ridge)"
    each = verdicts.machine, verdicts.linear, verdicts.constant
    if rare := _scores_of_rare_classes(prepared, each):
        return [Comparison(rare[0], rows, *rare[1])]
    model = prepared.pipeline[-1]
    what = "accuracy" if is_classifier(model) else "R²"
    what = what if getattr(model, "class_weight", None) is None else "accuracy, classes weighted"
    return [Comparison(what, rows, *(verdict.score for verdict in each))]


def _scores_of_rare_classes(
    prepared: Prepared, verdicts: tuple[Verdict, ...]
) -> tuple[str, list[float]] | None:
    """Where a class is rare, the score that `evaluate` names first, and what each verdict has of it on held-out rows."""
    sample, targets = prepared.decisions.sample, prepared.decisions.targets
    if targets is None or targets.classes is None:
        return None
    codes = np.searchsorted(targets.classes, np.concatenate([sample.y[held] for _, held in sample.splits]))
    rows = np.bincount(codes, minlength=len(targets.classes))
    rare = rare_class(rows)
    if rare is None:
        return None
    if headline(rows) == "balanced_accuracy":
        there = rows > 0
        weight = np.bincount(codes, sample.held_weights, len(rows))[there]
        missed = [np.bincount(codes, v.missed, len(rows))[there] / weight for v in verdicts]
        return "balanced accuracy", [mean_recall(1.0 - shares) for shares in missed]
    rankings = [Ranking() for _ in verdicts]
    for ranking, verdict in zip(rankings, verdicts, strict=True):
        assert verdict.decisions is not None
        ranking.add(verdict.decisions, codes == 1)
    name = f"average precision of {targets.classes[rare].item()!r}"
    return name, [ranking.average_precision(of_others=rare == 0)[0] for ranking in rankings]


def compares_all(model: Any, mapped: bool, sparse: bool, d: int) -> bool:
    """Whether a linear model on all rows is affordable beside this one, and comparable: ridge with several alphas."""
    return mapped and not sparse and d <= _NARROW and getattr(model, "compares_alphas", False)


def _fit_and_compare(prepared: Prepared, X: Any, y: Any, sample_weight: Any) -> list[Comparison]:
    """Fit the steps; R^2 in cross-validation over all rows, where ridge has squared errors of them."""
    columns, targets = as_rows(X), y
    plain = prepared.verdicts is not None and prepared.verdicts.plain
    for name, step in prepared.pipeline.steps[:-1]:
        X = step.fit_transform(X, y, **_folds_for(prepared, step))
        if name == "table" or (name == "scale" and not plain):
            columns = X
    model = prepared.pipeline[-1]
    errors = fit_beside(model, X, columns, y, sample_weight, **_folds_for(prepared, model))
    if errors is None or model.cv_errors_ is None:
        return []
    variance = _variance(model, columns, targets, sample_weight)
    if not variance > 0:
        return []
    split = "random" if prepared.split is None else prepared.split.kind
    how = "cross-validation" if split == "random" else f"held out by {split}"
    rows = f"all {X.shape[0]:,} rows ({how})"
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


def _check_fitted(prepared: Prepared) -> list[str]:
    """The fitted model on rows that it was trained on: below what was reached on rows not seen, it failed.

    Of numbers by two standard errors too: a few rows of huge targets may decide alone.
    """
    sample, targets, verdicts = prepared.decisions.sample, prepared.decisions.targets, prepared.verdicts
    if verdicts is None or targets is None:
        return []
    machine, constant = verdicts.machine, verdicts.constant
    fitted = prepared.pipeline
    rows, weights = sample.held_rows, sample.held_weights
    with warnings.catch_warnings():  # fitted to a data frame, scored on the sample
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        predicted = fitted.predict(prepared.rows[rows])
    truth = sample.y[rows]
    reached = max(min(verdicts.linear.score, machine.score), constant.score)
    if is_classifier(fitted[-1]):
        score = float(np.mean((predicted == truth) * weights))
        slack = np.sqrt(np.mean(weights**2) / len(rows))  # two standard errors of a share
        if (predicted == predicted[0]).all() and machine.beats(constant):
            return [
                f"all {len(rows):,} sampled rows are given the label {predicted[0]!s}: others are too rare for what "
                "tells them apart; rank rows by decision_function, or give a model with class_weight='balanced'"
            ]
    elif getattr(fitted[-1], "loss", "squared") == "squared":
        encoded = [targets.encode(values, None)[0] for values in (predicted, truth)]
        losses = ((encoded[0] - encoded[1]) ** 2).mean(axis=1) * weights
        seen = replace(constant, losses=losses)
        score = 1.0 - seen.error / (constant.error or 1.0)
        slack = max(0.05, 2 * seen.margin(constant))
    else:  # of absolute errors, as robust losses are nearly, the median is the best constant
        missed = [np.abs(values - truth).T @ weights for values in (predicted, np.median(truth, axis=0))]
        score, reached, slack = 1.0 - float(np.mean(missed[0] / np.maximum(missed[1], 1e-300))), 0.0, 0.05
    if np.isfinite(score) and score >= reached - slack:
        return []
    other = "" if hasattr(fitted[-1], "cv_errors_") else "more epochs, model='ridge' or "
    return [
        f"the fitted model scores {score:.4f} on sampled rows that it was trained on, where ridge in the trial or a "
        f"constant reached {reached:.4f} on rows that it had not seen: training has failed; give {other}another alpha"
    ]


__all__ = ["BaselineWarning", "fit_prepared", "train"]
