"""Options that most commands share, and how they are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .groups import PATH
from .session import RunOptions
from .usage import UsageError, checked

if TYPE_CHECKING:
    from ..pipeline.inputs import Input

Source = Annotated[str, PATH, typer.Argument(help="Rows: a Zarr store or Parquet.")]
ModelPath = Annotated[str, PATH, typer.Argument(help="The folder of the model.")]
Target = Annotated[str | None, typer.Option("--target", help="Column (Parquet) or array of the targets.")]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse a Zarr store of others that lacks chunks; else it is a warning."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output made with another spec.")]


@dataclass(frozen=True)
class RowOptions:
    """How rows are read."""

    target: Target = None
    columns: Annotated[
        str | None, typer.Option("--columns", help="Feature columns, comma-separated. Default: all.")
    ] = None
    impute: Annotated[
        str | None,
        typer.Option(
            "--impute", help="What replaces nulls: mean, median, zero or a number. Default: refuse them."
        ),
    ] = None


@dataclass(frozen=True)
class ReadOptions(RowOptions):
    """How rows of a store or of Parquet are read."""

    strict: Strict = False


@dataclass(frozen=True)
class CheckpointOptions:
    """Where the state of a training is kept."""

    checkpoint: Annotated[
        str | None,
        PATH,
        typer.Option(
            "--checkpoint",
            help="Folder that keeps the state of SGD, each pass of cg and tefm, and of cnm.",
            rich_help_panel="Model",
        ),
    ] = None
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            "--checkpoint-every",
            help="Batches of SGD between two states.",
            show_default="50",
            rich_help_panel="Model",
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue from --checkpoint, to the same bits; starts if it is empty. A model that is done is success.",
            rich_help_panel="Model",
        ),
    ] = False


def open_source(source: str, rows: ReadOptions, *, plan: bool = False) -> Input:
    """The rows that the options name; for a plan, an imputation rule is not computed."""
    from ..pipeline.inputs import open_input

    names, impute = column_names(rows.columns), number_or_rule(rows.impute)
    return open_input(source, rows.target, names, impute, strict=rows.strict, plan=plan)


def listed(text: str | None) -> list[str] | None:
    """Comma-separated names as a list."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def column_names(text: str | None, option: str = "--columns") -> list[str] | None:
    """The columns of an option as a list. Raises UsageError for one that names a column twice, or none."""
    names = listed(text)
    if names is not None:
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or not names:
            raise UsageError(
                f"{option} names columns once each, comma-separated, got {text!r}"
                + (f" with {', '.join(twice)} twice" if twice else "")
            )
    return names


def one_of(option: str, value: str | None, known: tuple[str, ...]) -> None:
    """Raise UsageError for a value that is not in the list; None is absent."""
    if value is not None and value not in known:
        raise UsageError(f"{option} is one of {', '.join(known)}, got {value!r}")


NO_FEATURES = "featurize needs a map; --map none has no features"


def number_or_rule(text: str | None) -> Any:
    """A float where the text is one, else the text."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


__all__ = [
    "CheckpointOptions",
    "ModelPath",
    "Overwrite",
    "ReadOptions",
    "RowOptions",
    "RunOptions",
    "Source",
    "Strict",
    "Target",
    "checked",
    "listed",
    "number_or_rule",
    "one_of",
]
