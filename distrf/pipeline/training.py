"""`train`: make a model, fit it, and keep it, which is made once, with the state from which the fit resumes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from ..errors import InputError, SpecMismatchError, warn
from ..parameters import COLUMNS, FLAG, SEED, ruled
from ..persistence import check_output, load_model, save_model
from ..splits import SPLIT
from ..store import check_apart, check_writable, files, is_model_folder, read_spec, write_model_folder
from ..store.csv_format import reads_csv, said_format
from ..store.outputs import hold
from ..store.spec import differences, to_json
from .loaded import note_reasons
from .making import look, planned_pipeline, prepare
from .options import Options
from .rows import Rows, around_job, open_training
from .target import look_at_target

#: What a state needs to be taken up again: that of SGD, the passes of linear models, and those of a map that learns.
_FOLDERS = ("sgd", "passes", "subspace")


class BaselineWarning(UserWarning):
    """A model that a linear model on the same columns, or a constant, does as well as; a target that
    does not vary."""


@reads_csv
@ruled(split=SPLIT, columns=COLUMNS, drop_missing_target=FLAG, resume=FLAG, overwrite=FLAG, random_state=SEED)
def train(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    sample_weight: Any = None,
    columns: Sequence[Any] | None = None,
    kinds: Mapping[str, str] | None = None,
    drop_missing_target: bool = False,
    split: str = "random",
    by: Any = None,
    model: Any = "auto",
    map: Any = "auto",
    scale: Any = "auto",
    n_components: int | str | None = "auto",
    alpha: Any = "auto",
    set: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    random_state: Any = 0,
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
    target : str or None, default=None
        The column of a table, or the array of a store, that holds the targets.
    sample_weight : array or Dask array of shape (n,), str or None, default=None
        Weight of each row, in the fit and in all that is judged on the way; of a table or of rows at a path also the column or
        array that holds them, which is no column of X. Rows of weight 0 teach and judge no model; the encodings of a table are of all rows.
    columns : sequence or None, default=None
        Columns of rows at a path that are read, by name or number. None is all but the target.
    kinds : mapping of str to str or None, default=None
        What columns of a table are, whatever they hold: "category", "number", "code" (both, where levels tell more), "date", "id" (which names its rows) or "drop".
        The last two are left out. What is not named is told by a sample.
    drop_missing_target : bool, default=False
        Leave out the rows of a table that have no `target`, and say how many. Otherwise they are an error.
    split : {"random", "stratified", "group", "time", "blocks"}, default="random"
        How rows are held out, wherever some are: for choices, for penalties, for early stopping, for probabilities and
        intervals, and for means of the target. "stratified" gives each fold its share of every class, "group" keeps the rows
        of a group together, "time" holds out the latest fifth, which learns from earlier rows alone, "blocks" keeps runs of
        neighbouring rows together.
    by : str, array or Dask array of shape (n,), default=None
        The group or the time of each row, for these splits: a column of a table by its name, or numbers, text (groups) or
        dates. Times stay a feature. Groups are one only if `kinds` or `columns` names their column.
    model : str or estimator, default="auto"
        As `distrf.make_model` takes it, and so are the next six: what is "auto" is chosen on a sample of the rows.
    map : str, estimator or None, default="auto"
        The map of features.
    scale : str, StreamingScaler or None, default="auto"
        Units of the columns. Any other than "auto" takes the columns of a table for numbers.
    n_components : int, str or None, default="auto"
        Number of features.
    alpha : float, list of float or "auto", default="auto"
        Penalty of the model.
    set : mapping of str to object or None, default=None
        Other parameters of these steps.
    out : str, PathLike or None, default=None
        Folder or URL to save the model to, with what it was asked for. While a fit of many passes runs (models logistic, svm,
        huber and SGD, solver="passes", maps tefm, cnm and learned, asked for or chosen), its state lies beside it, in `out` +
        "-state".
    resume : bool, default=False
        Go on where the same call was stopped, to the same bits. A model of the same job that is in `out` already is loaded.
    overwrite : bool, default=False
        Replace what is in `out`, and start anew.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample, the map and the model. None draws one seed.
    {csv}

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
        model on the columns; the target is the same in all sampled rows.
    """
    if resume and out is None:
        raise InputError("resume=True needs out=, the folder of the model, beside which its state is")
    asked = Options(model, map, scale, n_components, alpha, set, random_state)
    rows = open_training(
        X, y, target=target, sample_weight=sample_weight, columns=columns, kinds=kinds, numbers=asked.numbers,
        drop_missing_target=drop_missing_target, split=split, by=by,
    )  # fmt: skip
    asked = asked.with_encoder(rows.encoder)
    outputs = Outputs(None if out is None else os.fspath(out), resume, overwrite)
    outputs.check_places(rows.path)
    job = {} if out is None else job_of(rows.description, asked)
    if outputs.done:
        found = read_spec(str(outputs.out)).get("job", {})  # none of a model that `save_model` wrote
        _check_same(found, job, f"{outputs.out!r} holds a model", "another path")
        return load_model(outputs.out)  # type: ignore[arg-type, return-value]
    start, y = time.perf_counter(), rows.targets("training")
    seen = look_at_target(y, asked.random_state)
    sizes: dict[str, Any] = {"classes": len((rows.info and rows.info.classes) or ()) or seen.distinct}
    sizes |= {"n_components": "auto"} if asked.n_components == "auto" else {}
    planned = partial(planned_pipeline, rows, asked, seen)
    with hold(outputs.out), around_job.get()("train", planned, rows, **sizes):
        known = look(rows.X, y, asked, rows.weights, rows.held, seen)
        pipeline, folds = prepare(known, asked)
        outputs.keep_state(pipeline, job)
        return fit_prepared(pipeline, folds, rows, y, outputs, job, drop_missing_target, start)


def fit_prepared(
    pipeline: Pipeline, folds: dict[str, Any], rows: Rows, y: Any, outputs: Outputs, job: dict[str, Any],
    dropped: bool, start: float,
) -> Pipeline:  # fmt: skip
    """Fit what `prepare` returned, say what was found wrong, and keep it with how its rows were read.

    Parameters
    ----------
    pipeline, folds : of `prepare`
    rows, y : that it was made for
    outputs, job : where it is kept, and what was asked for
    dropped : whether rows without a target were to be left out
    start : when the job began
    """
    warned = pipeline.training_.warnings
    weights = {} if rows.weights is None else {"model__sample_weight": rows.weights}
    pipeline.fit(rows.X, y, **folds, **weights)
    for text in warned:
        warn(text, BaselineWarning)
    target = rows.target or (rows.info and rows.info.target)
    pipeline.training_ = replace(pipeline.training_, target=target, csv=said_format(), dropped=dropped)
    note_reasons(pipeline[0], rows.kinds)
    if outputs.out is not None:
        made = {
            "source": rows.path,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": sys.version.split()[0],
            "seconds": round(time.perf_counter() - start, 3),
        }
        details: dict[str, Any] = {"input": rows.description, "job": job, "provenance": made}
        if hasattr(pipeline[-1], "state_"):
            details["trained_on"] = [{"data": data, "rows": n} for data, n in rows.parts]
        save_model(pipeline, outputs.out, overwrite=outputs.overwrite, **details)
        outputs.forget_state()
    return pipeline


@dataclass(frozen=True)
class Outputs:
    """Where a training keeps its model, and beside it the state of its fit; see `distrf.train`."""

    out: str | None = None
    resume: bool = False
    overwrite: bool = False

    @property
    def checkpoint(self) -> str | None:
        """The folder of the state."""
        return None if self.out is None else f"{self.out.rstrip('/')}-state"

    @property
    def done(self) -> bool:
        """Whether the model is there, and is to be left as it is."""
        return self.resume and not self.overwrite and self.out is not None and is_model_folder(self.out)

    def check_places(self, source: str | None) -> None:
        """Raise for outputs that cannot be written, or lie in each other or in the rows."""
        check_apart(self.out, [source], what="the model")
        check_apart(self.checkpoint, [source], what="the state of the fit")
        if not self.done:
            check_writable(self.out)
            if self.out is not None:
                check_output(self.out, self.overwrite)

    def keep_state(self, pipeline: Pipeline, job: dict[str, Any]) -> None:
        """Note in the folder of the checkpoint of which job it is, before anything is fitted; the steps that keep a state learn of it.

        A model that alone would keep one and fits in one pass keeps none. Raises SpecMismatchError for a folder of another job, and
        for one that holds a state which neither `resume` nor `overwrite` speaks of.
        """
        path, last = self.checkpoint, pipeline[-1]
        keeping: dict[str, Any] = {}
        for step in pipeline.get_params().values():
            if folder := getattr(step, "checkpoint_folder", ""):
                keeping.setdefault(folder, step)  # a map goes before the one below it
        alone = [*keeping.values()] == [last] and getattr(last, "solver", "") == "auto"
        if path is None or not keeping or alone:
            return
        ours = is_model_folder(f"{path}/job")
        if ours and self.resume:
            _check_same(read_spec(f"{path}/job"), job, f"the state in {path!r} is", "another out")
        elif ours and not self.overwrite:
            raise SpecMismatchError(
                f"{path!r} holds the state of a training; resume=True continues it, overwrite=True starts anew"
            )
        else:
            self.forget_state()
            write_model_folder(f"{path}/job", job, {}, overwrite=True)
        for folder, step in keeping.items():
            step.set_params(checkpoint=f"{path}/{folder}")

    def forget_state(self) -> None:
        """Remove the state, of a fit that is done or is not resumed."""
        path = f"{self.checkpoint}"
        if self.checkpoint is None or not is_model_folder(f"{path}/job"):
            return
        for folder in ("job", *_FOLDERS):
            files.remove(files.normalise(f"{path}/{folder}"))
        with suppress(OSError):  # what others keep there stays
            os.rmdir(path)


def _check_same(found: dict[str, Any], job: dict[str, Any], what: str, other: str) -> None:
    if changed := differences(found, job):
        raise SpecMismatchError(
            f"{what} of another job ({'; '.join(changed[:12])}); give the options it was made with, or {other}, or overwrite=True "
            "to start anew"
        )


def job_of(identity: dict[str, Any], options: Any) -> dict[str, Any]:
    """What a training is asked for, as JSON: equal for options that mean the same.

    identity : of the rows; options : of `make_model`, without a checkpoint, which changes no model
    """
    return {name: _plain(part) for name, part in ({"input": identity} | vars(options)).items()}


def _plain(value: Any) -> Any:
    """The JSON of an unfitted estimator, of a kernel, or of what is JSON."""
    if isinstance(value, BaseEstimator):
        parameters = value.get_params(deep=False)
        return {"class": type(value).__name__} | {name: _plain(v) for name, v in parameters.items()}
    return to_json(value.spec() if hasattr(value, "spec") else value)


__all__ = ["BaselineWarning", "Outputs", "fit_prepared", "train"]
