"""What commands about models print and draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dask.utils import format_bytes
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..record import Training

#: Columns of a table that are printed.
_COLUMNS = 50


def print_facts(console: Console, title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Names and values as a table."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(value))
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


#: Most classes that are printed.
_CLASSES = 30


def print_scores(console: Console, title: str, result: dict[str, Any]) -> None:
    """The scores of a model, the first one first, and tables by class and by slice."""
    first, bounds = result["score"], {}
    shown = {first: result[first]}
    for name, value in result.items():
        if name.endswith("_error"):
            bounds[name.removesuffix("_error")] = value
        elif name not in ("score", "rows", "positive", "by"):
            shown[name] = value
    named = {name: _score_name(name, result) for name in shown}
    rounded = {n: _score_value(v, bounds.get(n)) if isinstance(v, float) else v for n, v in shown.items()}
    print_result(console, title, {named[n]: v for n, v in rounded.items()} | {"rows": result["rows"]})
    classes = result.get("classes", ())
    if 0 < len(classes) <= _CLASSES:
        print_table(console, "by class", classes)
    if "slices" in result:
        from ..scores.models import SLICE_SCORES  # with all that computes, which other commands do without

        names = dict.fromkeys(["value", "rows", first, *(n for n in SLICE_SCORES if n in shown)])
        print_table(console, f"by {result['by']}", [{n: piece[n] for n in names} for piece in result["slices"]])


def _score_name(name: str, result: dict[str, Any]) -> str:
    """The name of a score; of an average precision with its class."""
    of = result.get("positive")
    return f"{name} of {of!r}" if name == "average_precision" and of is not None else name


def _score_value(value: float, bound: float | None) -> str:
    return f"{value:.6g}" + (f" ± {bound:.1g} (scores in bins)" if bound else "")


def print_table(console: Console, title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Records of equal keys as a table; columns without any value are left out."""
    table = Table(title=title, title_justify="left")
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    for name in names:
        table.add_column(name.replace("_", " "), justify="left" if name == names[0] else "right")
    for row in rows:
        table.add_row(*(Text(_cell(row[name])) for name in names))
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    plain = isinstance(value, int) and not isinstance(value, bool)
    return "" if value is None else f"{value:,}" if plain else str(value)


def _print_choices(console: Console, training: Training) -> None:
    """What was chosen and why, and what it was compared with."""
    table = Table(title="choices", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for choice in training.choices:
        value = f"{choice.value:.6g}" if isinstance(choice.value, float) else str(choice.value)
        table.add_row(*map(Text, (choice.what.replace("_", " "), value, choice.why)))
    console.print(table)
    for comparison in training.baseline:
        console.print(str(comparison), soft_wrap=True)


def _print_columns(console: Console, columns: Iterable[dict[str, Any]]) -> None:
    """What the columns of a table were taken for, and what became of them."""
    columns = list(columns)
    if not columns:
        return
    table = Table(title="columns", title_justify="left")
    for heading in ("column", "taken for", "since", "encoding", "missing"):
        table.add_column(heading, overflow="fold")
    for column in columns[:_COLUMNS]:
        missing = f"{100 * column['missing']:.3g} %" if column["missing"] else ""
        table.add_row(*map(Text, (column["name"], column["kind"], column["why"], column["encoding"], missing)))
    console.print(table)
    if more := [f"{column['name']} ({column['kind']})" for column in columns[_COLUMNS:]]:
        console.print(
            f"and {len(more):,} more columns, of which --json has all: {', '.join(more)}", markup=False
        )


def print_done(console: Console, facts: dict[str, Any]) -> None:
    """A model that was there already."""
    drawn = f"; plot written to {facts['plot']}" if "plot" in facts else ""
    console.print(f"model {facts['model']} is done already{drawn}")


def print_training(console: Console, title: str, result: dict[str, Any]) -> None:
    """Facts of a trained model, and the history of one that learns by epochs."""
    print_result(console, title, result)
    _print_columns(console, result.get("columns", ()))
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
