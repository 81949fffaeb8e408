"""What commands about models print and draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dask.utils import format_bytes
from rich.console import Console
from rich.table import Table

from ..record import Training


def print_facts(console: Console, title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Names and values as a table."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value)
    console.print(table)


def print_result(console: Console, title: str, result: dict[str, Any]) -> None:
    """Flat facts as a table."""
    shown = []
    for key, value in result.items():
        if key == "peak_bytes_per_worker":
            value = ", ".join(format_bytes(v) for v in value.values())
        elif isinstance(value, float):
            value = f"{value:.6g}"
        elif isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:,}"
        if value is not None and not isinstance(value, (dict, list)):
            shown.append((key.replace("_", " "), str(value)))
    print_facts(console, title, shown)


def _print_choices(console: Console, training: Training) -> None:
    """What was chosen and why, and what it was compared with."""
    table = Table(title="choices", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for choice in training.choices:
        value = f"{choice.value:.6g}" if isinstance(choice.value, float) else str(choice.value)
        table.add_row(choice.what.replace("_", " "), value, choice.why)
    console.print(table)
    for comparison in training.baseline:
        console.print(str(comparison), soft_wrap=True)


def print_done(console: Console, facts: dict[str, Any]) -> None:
    """A model that was there already."""
    drawn = f"; plot written to {facts['plot']}" if "plot" in facts else ""
    console.print(f"model {facts['model']} is done already{drawn}")


def print_training(console: Console, title: str, result: dict[str, Any]) -> None:
    """Facts of a trained model, and the history of one that learns by epochs."""
    print_result(console, title, result)
    _print_choices(console, Training.from_dict(result))
    history = result.get("history")
    if not history:
        return
    scored = any(entry["validation_score"] is not None for entry in history)
    table = Table(title="epochs", title_justify="left")
    for heading in ("epoch", "loss", *(("validation",) if scored else ()), "batches", "seconds", "rows/s"):
        table.add_column(heading, justify="right")
    for entry in history:
        score = entry["validation_score"]
        table.add_row(
            str(entry["epoch"]),
            f"{entry['loss']:.5g}",
            *(("" if score is None else f"{score:.4f}",) if scored else ()),
            f"{entry['batches']:,}",
            f"{entry['seconds']:.2f}",
            f"{entry['rows'] / max(entry['seconds'], 1e-9):,.0f}",
        )
    console.print(table)
