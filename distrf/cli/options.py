"""Options that most commands share, and how they are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, ParameterError
from .groups import PATH
from .map_options import MAPS, MapOptions, check_applies, number_or_rule
from .session import Json, Quiet, RunOptions, UsageError

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

#: Options whose name is not that of the parameter.
_OPTIONS = {
    "divisor": "--divide-by",
    "method": "--scale",
    "alphas": "--alpha",
    "n_components": "-D",
    "n_directions": "--directions",
    "n_epochs": "--epochs",
    "n_grids": "--grids",
    "n_iter_no_change": "--patience",
    "random_state": "--seed",
}


def checked(build: Callable[[], Any], **names: str) -> Any:
    """The value of `build`; a broken rule in it is a usage error, which names the option of a parameter.

    names : {parameter: option} where they are other than usual
    """
    try:
        return build()
    except ParameterError as error:
        usual = "--" + error.parameter.replace("_", "-")
        option = names.get(error.parameter) or _OPTIONS.get(error.parameter, usual)
        rule = error.rule.removesuffix(" or None")
        raise UsageError(f"{option} must be {rule}, got {error.value}") from error
    except InputError as error:
        raise UsageError(str(error)) from error


def make_map(name: str, d: int, **options: Any) -> Any:
    """The unfitted estimator of `--map` and its options, checked before any cluster starts; None for "none".

    options : fields of `distrf.cli.map_options.MapOptions`
    """
    return map_of(MapOptions(**{"map": name, **options}), d)


def map_of(options: MapOptions, d: int | None) -> Any:
    """`make_map` from the whole group; with d None as it would be made, since it has been checked."""
    if options.map not in (*MAPS, "none"):
        raise UsageError(f"unknown --map {options.map!r}; known: {', '.join(MAPS)}, none")
    checked(lambda: check_applies(options))
    if options.map == "none":
        return None
    from .maps import ESTIMATORS

    def build() -> Any:
        estimator = ESTIMATORS[options.map](options)
        if d is not None:
            estimator.planned_map(d)
        return estimator

    return checked(build, n_epochs="--map-epochs")


__all__ = [
    "Json",
    "MapOptions",
    "ModelPath",
    "Overwrite",
    "Quiet",
    "ReadOptions",
    "RowOptions",
    "RunOptions",
    "Source",
    "Strict",
    "Target",
    "checked",
    "listed",
    "make_map",
    "map_of",
    "number_or_rule",
    "one_of",
]
