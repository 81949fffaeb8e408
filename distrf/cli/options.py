"""Options that most commands share, and how they are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .function_options import ReadOptions
from .groups import PATH
from .session import RunOptions

if TYPE_CHECKING:
    from ..pipeline.inputs import Input

Rows = Annotated[str, PATH, typer.Argument(help="Rows: a Zarr store or Parquet.")]
ModelPath = Annotated[str, PATH, typer.Argument(help="The folder of the model.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output made with another spec.")]


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


def open_source(X: str, rows: ReadOptions, *, plan: bool = False) -> Input:
    """The rows that the options name; for a plan, an imputation rule is not computed."""
    from ..pipeline.inputs import open_input

    return open_input(X, **rows.values, plan=plan)


NO_FEATURES = "featurize needs a map; --map none has no features"

__all__ = ["CheckpointOptions", "ModelPath", "Overwrite", "ReadOptions", "Rows", "RunOptions", "open_source"]
