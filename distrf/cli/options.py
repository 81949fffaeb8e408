"""Every option of the command line, declared once by the name of a parameter in Python, and texts as values."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer


def _text(help: str, metavar: str = "TEXT", *names: str, kind: Any = str | None, **more: Any) -> Any:
    return Annotated[kind, typer.Option(*names, help=help, metavar=metavar, show_default=False, **more)]


def _number(help: str) -> Any:
    return _text(help, "INT", kind=int | None)


def _names(help: str) -> Any:
    return _text(help, "NAMES", kind=list[str] | None)


def _pairs(help: str) -> Any:
    return _text(help, "NAME=VALUE", kind=list[str] | None)


def _flag(name: str, help: str, *short: str) -> Any:
    return Annotated[bool, typer.Option(name, *short, help=help)]


# fmt: off
OPTIONS: dict[str, Any] = {
    # rows
    "target": _text("Column, or array of a store, to learn.", "NAME"),
    "weight": _text("Column or array of the weights of the rows.", "NAME"),
    "columns": _names("Columns to read, between commas; else all others."),
    "kind": _pairs("Of a column: number, category, code (both), date, id or drop."),
    "drop_missing_target": _flag("--drop-missing-target", "Leave out rows without a target."),
    "csv": _pairs("As in pandas: sep, decimal, header, encoding, ..."),
    # how rows are held out
    "split": _text("random, stratified, group, time or blocks.", "NAME"),
    "by": _text("Column of the groups or the times.", "NAME"),
    # the pipeline
    "model": _text("auto, ridge, ridge-classifier; by passes: logistic, svm, huber; sgd-regressor, sgd-classifier.", "NAME"),
    "map": _text("auto, none, fourier, laplace, tensor-sketch, binning, nystroem, tefm, cnm, learned or blockwise.", "NAME"),
    "n_components": _text("D, number of random features, or auto.", "INT", "--n-components", "-D"),
    "alpha": _text("Penalty, several between commas, or auto."),
    "scale": _text("Units: auto, none, standard, robust, divide, ...", "NAME"),
    "random_state": _text("Seed of samples, map and model.", "INT", "--seed"),
    "set": _pairs("Other parameters: map__phase=offset, model__cv=5."),
    # of some commands
    "rows": _number("Rows to expand the training digits to."),
    "out": _text("Folder for the files.", "PATH"),
    "seed": _number("Seed of the shuffle, or of the distortions."),
    "shuffle": _flag("--shuffle", "Shuffle all rows (files sorted by date or class)."),
    "block_rows": _number("Rows of a block."),
    "dtype": _text("Type of X: float32 or float64."),
    "n_features": _number("Columns of svmlight text."),
    "zero_based": _text("Whether svmlight text counts from 0: yes or no."),
    "append": _flag("--append", "Append the rows to the store that is there."),
    "again": _flag("--again", "Take rows that are there already once more."),
    "workers": _number("Number of workers, else that of the cluster."),
    "classes": _number("Number of classes, where it is known."),
    "resume": _flag("--resume", "Go on where a job was stopped; done is success."),
    "overwrite": _flag("--overwrite", "Replace an output of other data or options."),
    "report": _text("Write a page of figures and scores: report.html.", "PATH"),
    "grid": _pairs("Values to search: alpha=1e-6,1e-4 map__gamma=1,2."),
    "keys": _names("Columns to write beside predictions, to Parquet."),
    "probabilities": _text("Write those of the classes: yes, no or auto."),
    "interval": _text("Write ends that hold this share of targets.", "SHARE", kind=float | None),
    "like": _text("Folder of a map or model, taken as it was fitted.", "PATH"),
    "save_map": _text("Folder to keep the fitted map in.", "PATH"),
    # of all commands
    "cluster": _text("Scheduler address, spec file, local or none.", "PATH"),
    "memory_limit": _text("Memory of one local worker, such as 4GiB.", "SIZE"),
    "tls": _text("Folder of ca.pem, cert.pem and key.pem.", "PATH"),
    "quiet": _flag("--quiet", "Print warnings and errors only.", "-q"),
    "json": _flag("--json", "Print the result as JSON."),
}
# fmt: on
ROWS = ("target", "weight", "columns", "kind", "drop_missing_target", "csv")
SPLIT = ("split", "by")
MAP = ("map", "n_components", "scale", "random_state", "set")
MODEL = ("model", "alpha", *MAP)
ALL = ("cluster", "memory_limit", "tls", "quiet", "json")


# ---- texts as values ----


def by_rules(function: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """{parameter: value} for a public function, checked by its rules before anything starts; what has no rule stays."""
    from ..parameters import checked

    rules = getattr(function, "parameter_rules", {})
    return {name: checked(name, v, rules[name]) if name in rules else v for name, v in given.items()}


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """{name: text} of texts NAME=VALUE; of one name the last."""
    found = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not (mark and name.strip()):
            raise typer.BadParameter(f"--{option} takes NAME=VALUE, got {text!r}")
        found[name.strip()] = value
    return found


def column_names(option: str, texts: Iterable[str]) -> list[str]:
    """The columns that texts name: several between commas; one that has commas stands in double quotes."""
    found = [name for text in texts for name in next(csv.reader([text], skipinitialspace=True), []) if name]
    if not found:
        raise typer.BadParameter(f"--{option} names columns, got {list(texts)!r}")
    return found


def csv_reading(said: Mapping[str, str]) -> AbstractContextManager[None]:
    """Around a command whose CSV is read as was said."""
    if not said:
        return nullcontext()
    from ..parameters import check_known
    from ..store.csv_format import CsvFormat, reading

    for name in said:
        check_known("csv", name, CsvFormat.parameter_rules, "what pandas names so")
    return reading(CsvFormat(**by_rules(CsvFormat, said)))


def given_options(typed: Mapping[str, Any]) -> dict[str, Any]:
    """{parameter: value} of what was typed; lists of columns, and pairs as dictionaries."""
    given = {}
    for name, value in typed.items():
        if isinstance(value, str) and (not value.strip() or "\0" in value):
            raise typer.BadParameter(f"{name} must not be empty, got {value!r}; give a value, or leave it out")
        if name in ("csv", "grid", "kind", "set"):
            value = pairs(name, value or ())
        elif isinstance(value, (list, tuple)) and value:
            value = column_names(name, value)
        if value or (value == 0 and value is not False):
            given[name] = value
    return given
