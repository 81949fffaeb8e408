"""What commands print: facts and tables as plain text, the specs of stores and models as YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..record import Training
from ..representation import shown

#: Rows of a table that are printed.
_ROWS = 50


def facts(title: str, values: Mapping[str, Any]) -> str:
    """Names and values, one a line; lists and what is not there are left out."""
    flat = {
        name.replace("_", " "): v
        for name, v in values.items()
        if v is not None and not isinstance(v, (dict, list))
    }
    width = max(map(len, flat), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {_cell(value)}" for name, value in flat.items())])


def table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Records of equal keys as a table, with what names them first, as given: the label 2019 is not 2,019."""
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)] if rows else []
    cells = [[str(row[names[0]]), *(_cell(row[name]) for name in names[1:])] for row in rows[:_ROWS]]
    cells = [[name.replace("_", " ") for name in names], *cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    more = [str(row[names[0]]) for row in rows[_ROWS:]]
    lines += [f"and {len(more):,} more, of which --json has all: {', '.join(more)}"] if more else []
    return "\n".join(["", f"{title}:", *(f"  {line}" for line in lines)])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    plain = isinstance(value, int) and not isinstance(value, bool)
    return "" if value is None else f"{value:,}" if plain else str(value)


def document(value: Any) -> str:
    """Nested JSON as YAML."""
    import yaml

    plain = json.loads(json.dumps(value, default=str))  # without tuples and numbers of NumPy
    return yaml.safe_dump(
        plain, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None
    ).rstrip()


def store(info: Any) -> str:
    """A store in short."""
    return facts(f"{info.kind} in {info.path}", {name: shown(value) for name, value in info.facts()})


def training(title: str, result: dict[str, Any]) -> str:
    """Facts of a trained model, its columns, choices, and the history of one that learns by epochs."""
    columns = [{"column": c["name"], "taken for": c["kind"], "since": c["why"], "encoding": c["encoding"],
                "missing": f"{100 * c['missing']:.3g} %" if c["missing"] else ""} for c in result.get("columns", ())]  # fmt: skip
    parts = [facts(title, result)]
    parts += [table("columns", columns)] if columns else []
    parts += ["", str(Training.from_dict(result | {"warnings": []}))]
    epochs = [
        {name: value for name, value in entry.items() if name != "rows"} for entry in result.get("history", ())
    ]
    return "\n".join(parts + ([table("epochs", epochs)] if epochs else []))


def scores(title: str, found: Any) -> str:
    """The scores of a model, the first one first, and tables by class and by slice."""
    parts, classes = [title, str(found)], found.get("classes", ())
    parts += [table("by class", classes)] if 0 < len(classes) <= _ROWS else []
    if "slices" in found:
        from ..scores.models import SLICE_SCORES

        names = dict.fromkeys(["value", "rows", found["score"], *(n for n in SLICE_SCORES if n in found)])
        parts += [table(f"by {found['by']}", [{n: piece[n] for n in names} for piece in found["slices"]])]
    return "\n".join(parts)
