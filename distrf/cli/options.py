"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from .groups import PATH

Rows = Annotated[str, PATH, typer.Argument(help="Rows: a Zarr store or Parquet.")]
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
            help="Batches of SGD between two states. [default: 50]",
            show_default=False,
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


NO_FEATURES = "featurize needs a map; --map none has no features"
