"""`train`: make a model, and fit it."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from sklearn.pipeline import Pipeline

from ..errors import InputError
from ..parameters import check_keywords
from ..persistence import load_model
from ..randomness import draw_seed
from ..splits import check_split
from ..store.csv_format import reads_csv, said_format
from .making import Prepared, make_model, prepare
from .options import Options, split_for, takes_folds
from .outputs import Outputs, job_of
from .rows import Rows as Opened
from .sample import see_target
from .tables import keep_reasons, open_training, wants_numbers
from .training_rows import Rows


class BaselineWarning(UserWarning):
    """A model that a linear model on the same columns, or a constant, does as well as; numbers that may be labels; a target that
    does not vary."""


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
    """Make a model for these rows, and fit it.

    Parameters
    ----------
    X : {array, CSR matrix, Dask array} of shape (n, d), a table, or the path of a store
        Input rows. A table is a path of Parquet or CSV, a data frame, an Arrow table, a Dask DataFrame or what `open_table`
        returns: its columns may be numbers, categories and dates, with missing values. A Zarr store is opened by `open_rows`.
    y : array or Dask array of shape (n,) or (n, C), or None, default=None
        Targets: labels, or numbers, one or C for each row. Not needed if `target` names a column of a table, or for a store
        that has an array y.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row, in the fit and in all that is judged on the way. Rows of weight 0 count as if they were not
        there.
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
    out : str, PathLike or None, default=None
        Folder or URL to save the model to, with what it was asked for.
    checkpoint : str, PathLike or None, default=None
        Folder that keeps the state of SGD, each pass of gradients and of TEFM, and of CompactNonlinearMap. The
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
        The fitted pipeline of `make_model`. Its attribute `training_` has the choices, the candidates, a linear model and a
        constant among them, and the warnings. `distrf.save_model` keeps it with the model.

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
        The model may be of no use: no candidate beats a constant on held-out rows by a standard error of the paired
        differences, and the constant is delivered unless a map was asked for; a map that was asked for is beaten by a linear
        model on the columns; the target was taken for numbers, but is of an integer dtype with many values that each occur
        often, as labels do; the target is the same in all sampled rows.
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
    identity = rows.identity() if out is not None or checkpoint is not None else {}
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
        pipeline = fit_prepared(made, rows.X, y, rows.weight)
        pipeline.training_ = replace(pipeline.training_, target=rows.target, form=form, csv=said_format())
        keep_reasons(pipeline, rows.kinds, drop_missing_target)
        if out is not None:
            seconds = time.perf_counter() - start
            reading = (
                identity if rows.data is None else {}
            )  # of rows at a path other names may stand for the target
            outputs.save(pipeline, rows.reading | reading, job, seconds, rows.parts, source=rows.source)
    return pipeline


def fit_prepared(prepared: Prepared, X: Any, y: Any, sample_weight: Any = None) -> Pipeline:
    """Fit what `prepare` returned, and say what was found wrong.

    Parameters
    ----------
    prepared : Prepared
    X, y, sample_weight : as `train` takes them
    """
    pipeline, warned = prepared.pipeline, list(prepared.pipeline.training_.warnings)
    given = {} if sample_weight is None else {"model__sample_weight": sample_weight}
    if prepared.split is not None:
        folds = prepared.split.folds.values
        given |= {f"{name}__folds": folds for name, step in pipeline.steps if takes_folds(step)}
    pipeline.fit(X, y, **given)
    for text in warned:
        warnings.warn(text, BaselineWarning, stacklevel=3)
    return pipeline


__all__ = ["BaselineWarning", "fit_prepared", "train"]
