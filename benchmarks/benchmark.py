"""What a benchmark is made of: parts that measure, and the table of what each found."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: One measurement: names and numbers, texts, booleans or lists of them; what JSON holds.
Record = dict[str, Any]
#: What stands in a table for a record: a format of its values, or a function of it.
Cell = str | Callable[[Record], Any]
Table = Callable[[list[Record]], str]
MIB = 2**20


@dataclass(frozen=True)
class Run:
    """How parts are run.

    data : folder of the .npz archives; None: they are not there
    small : seconds instead of minutes, on drawn rows in place of data: whether a part works, not what it measures
    have : what the file of results has of a part that resumes: it is not measured again
    """

    data: Path | None = None
    small: bool = False
    have: tuple[Record, ...] = ()

    def pick(self, full: Any, small: Any) -> Any:
        """The size of a full run, or of a small one."""
        return small if self.small else full

    def has(self, **values: Any) -> bool:
        """Whether the file of results has a record with these values."""
        return bool(where(self.have, **values))


@dataclass(frozen=True)
class Part:
    """One figure or table, named by the function that measures it; its docstring stands above the table.

    measure : yields records, each as soon as it is there
    table : records to Markdown
    data : whether it reads data sets from the folder
    resumes : whether it takes hours: its records are kept one by one, and `Run.have` says which need no measuring
    """

    measure: Callable[[Run], Iterator[Record]]
    table: Table
    data: bool = True
    resumes: bool = False

    @property
    def name(self) -> str:
        return self.measure.__name__

    def show(self, records: list[Record]) -> str:
        """What was measured, and the table."""
        return f"{inspect.getdoc(self.measure)}\n\n{self.table(records)}"


# ---- tables -------------------------------------------------------------------------------------------


def markdown(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def text(cell: Cell, record: Record) -> str:
    return str(cell(record)) if callable(cell) else cell.format_map(record)


def lines(columns: dict[str, Cell]) -> Table:
    """A line for each record. columns : {head: cell}"""
    return lambda records: markdown([*columns], [[text(cell, r) for cell in columns.values()] for r in records])


def grid(row: Cell, column: Cell, cell: Cell, head: str = "") -> Table:
    """A line for each text of `row` and a column for each of `column`, in the order of the records."""

    def table(records: list[Record]) -> str:
        found: dict[str, dict[str, str]] = {}
        for r in records:
            found.setdefault(text(row, r), {})[text(column, r)] = text(cell, r)
        heads = list(dict.fromkeys(text(column, r) for r in records))
        return markdown([head, *heads], [[name, *(of.get(h, "") for h in heads)] for name, of in found.items()])

    return table


def pm(digits: int = 2, times: float = 1.0, of: str | None = None) -> Cell:
    """A cell: mean ± standard error of a record, or of one of its values, times a factor."""

    def cell(record: Record) -> str:
        found = record[of] if of else record
        error = found["standard_error"]
        return f"{times * found['mean']:.{digits}f}" + (
            "" if error is None else f" ± {times * error:.{digits}f}"
        )

    return cell


def over(rival: str, name: str, shown: str, paper: dict[int, float], theirs: str = "") -> Cell:
    """A cell: how many times as long the rival takes, and in the paper, {d: ratio}."""

    def cell(r: Record) -> str:
        said = f" ({(theirs or shown).format(paper[r['d']])})" if r["d"] in paper else ""
        return shown.format(r[rival] / r[name]) + said

    return cell


# ---- records ------------------------------------------------------------------------------------------


def spread(values: Sequence[float]) -> Record:
    """{"mean", "standard_error", "n"} over seeds; a single value has no standard error, None."""
    n, mean = len(values), math.fsum(values) / len(values)
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n) if n > 1 else None
    return {"mean": mean, "standard_error": error, "n": n}


def where(records: Sequence[Record], **values: Any) -> list[Record]:
    """The records that have these values."""
    return [r for r in records if all(r.get(name) == value for name, value in values.items())]
