"""Every option of the command line, declared once. Their names are those of parameters in Python."""

from typing import Annotated, Any

import typer

from . import job_file
from .job_file import PATH


def _text(help: str, metavar: str = "TEXT", *names: str, kind: Any = str | None, **more: Any) -> Any:
    return Annotated[kind, typer.Option(*names, help=help, metavar=metavar, show_default=False, **more)]


def _path(help: str, **more: Any) -> Any:
    return _text(help, PATH, **more)


def _number(help: str, *names: str) -> Any:
    return _text(help, "INT", *names, kind=int | None)


def _names(help: str) -> Any:
    return _text(f"{help} Several between commas.", "NAMES", kind=list[str] | None)


def _pairs(help: str) -> Any:
    return _text(help, "NAME=VALUE", kind=list[str] | None)


def _flag(help: str, *names: str) -> Any:
    return Annotated[bool, typer.Option(*names, help=help)]


# fmt: off
RUN: dict[str, Any] = {
    "job": _path("YAML or JSON file of arguments and options; those that are typed win.", is_eager=True, callback=job_file.take),
    "cluster": _path("Scheduler address, cluster spec file, local, or none: threads of this process, as for small data."),
    "memory_limit": _text("Memory of one local worker, such as 4GiB.", "SIZE"),
    "tls": _path("Folder with ca.pem, cert.pem and key.pem: encrypt, and let in only who has such a certificate."),
    "quiet": _flag("No progress and no result; warnings stay.", "--quiet", "-q"),
    "json": _flag("Print the result as JSON.", "--json"),
    "csv": _pairs("How CSV is read, as pandas says it: sep, decimal, thousands, na_values, keep_default_na, header, encoding."),
}
ROWS: dict[str, Any] = {
    "target": _text("Column (Parquet, CSV) or array (Zarr) of the targets.", "NAME"),
    "weight": _text("Column or array of the weights of the rows.", "NAME"),
    "columns": _names("Columns that are read, by name or number; all but the target, where none is named."),
    "impute": _text("What replaces missing values: mean, median, zero or a number."),
    "strict": _flag("Refuse a Zarr store of another program if chunks are missing; else a warning.", "--strict"),
}
TABLE: dict[str, Any] = {
    "exclude": _names("Columns of a table that are left out."),
    "categorical": _names("Columns of a table that are categories, whatever they hold."),
    "numeric": _names("Columns of a table that are numbers, such as one that would be taken for an id."),
    "date": _names("Columns of a table that are dates."),
    "id": _names("Columns of a table that name their rows; they are left out."),
    "drop_missing_target": _flag("Leave out rows of a table without a target; say how many.", "--drop-missing-target"),
}
SPLIT: dict[str, Any] = {
    "split": _text("How rows are held out: random, stratified, group, time, blocks. Of ingest: train or test of .npz."),
    "by": _text("Column of their groups or times. Of evaluate: score the rows of each of its values too.", "NAME"),
}
MAP: dict[str, Any] = {
    "map": _text("fourier, laplace, binning, tensor-sketch, maclaurin, nystroem, tefm, cnm, learned, blockwise, none or auto.", "NAME"),
    "kernel": _text("Kernel of the map.", "NAME"),
    "n_components": _text("D, number of features of the map, or auto.", "INT", "--n-components", "-D"),
    "length_scale": _text("Length scale of the kernel, a rule such as knn, or auto."),
    "scale": _text("Units: standard, minmax, maxabs, robust, robust-zeros, l1-rows, l2-rows, divide, none or auto.", "NAME"),
    "set": _pairs("Any other parameter: map__projection=dense, model__cv=5, scale__divisor=255. A wrong name lists them."),
    "random_state": _text("Seed of the map, the folds and the order of rows.", "INT", "--random-state", "--seed"),
}
MODEL: dict[str, Any] = {
    "model": _text("ridge, ridge-classifier, logistic, svm, huber, sgd-regressor, sgd-classifier or auto.", "NAME"),
    "alpha": _text("Penalty, or several between commas of which cross-validation takes one, or auto."),
}
RAW_COLUMNS: dict[str, Any] = {
    "raw_columns": _text("Whether the columns stand beside the features: yes, no or auto.")
}
#: Of some commands.
OTHERS: dict[str, Any] = {
    "out": _path("What is written."),
    "overwrite": _flag("Replace an output of other data or options.", "--overwrite"),
    "report": _path("Write a page of figures, choices, scores, time and environment to this file, report.html."),
    "plot": _path("Draw how the model was trained, or the importance of columns, to this file."),
    "checkpoint": _path("Folder that keeps the state of a training of many passes."),
    "checkpoint_every": _number("Batches of SGD between two states."),
    "resume": _flag("Continue from --checkpoint, to the same bits; a model that is done is success.", "--resume"),
    "sparse": _text("How X is stored: csr or dense."),
    "shuffle": _flag("Shuffle all rows (files sorted by date or class).", "--shuffle"),
    "seed": _number("Seed of the shuffle, or of the demonstration.", "--seed"),
    "block_rows": _number("Rows of a block."),
    "dtype": _text("Type of X: float32 or float64."),
    "n_features": _number("Columns of an svmlight file, where its rows have no entry in the last ones."),
    "zero_based": _text("Whether the indices of an svmlight file count from 0: yes or no."),
    "append": _flag("Append the rows to the store that is there.", "--append"),
    "again": _flag("Add rows that are there already, which else are refused.", "--again"),
    "rows": _number("Rows to expand the training digits to."),
    "featurize": _flag("Plan featurize in place of train.", "--featurize"),
    "classes": _number("Number of classes, where it is known."),
    "workers": _number("Number of workers, where it is not that of the cluster."),
    "save_map": _path("Folder to keep the fitted map in."),
    "like": _path("Take the map of this folder (of --save-map, or a model) as it was fitted."),
    "n_rows": _number("Rows of a sample: the largest one of tune, those that --importance predicts."),
    "factor": _number("A level of the search keeps one candidate in so many."),
    "model_out": _path("The folder of the model that the job file will train; model where none is named."),
    "keys": _names("Columns to write beside the predictions, to Parquet."),
    "probabilities": _text("Whether the probability of each class is written: yes, no or auto."),
    "interval": _text("Write the ends of intervals that hold this share of targets.", "SHARE", kind=float | None),
    "importance": _flag("Measure what the model loses where a column is taken from other rows.", "--importance"),
    "n_repeats": _number("How often --importance permutes each column."),
    "scoring": _text("What --importance measures: a score of scikit-learn, such as accuracy, r2 or neg_log_loss."),
    "new_classes": _flag("Take labels that the model does not know for classes of their own.", "--new-classes"),
}
# fmt: on
OPTIONS = RUN | ROWS | TABLE | SPLIT | MAP | MODEL | RAW_COLUMNS | OTHERS
