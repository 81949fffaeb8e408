"""What a benchmark is: parts that measure, tables of what they found, and claims with a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

#: One measurement: names and numbers, texts, booleans or lists of them; what JSON holds.
Record = dict[str, Any]
Verdict = Literal["holds", "holds in part", "does not hold", "not measured"]
#: Why a claim does not hold, where nobody has found out.
UNKNOWN = "not looked into"
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
        return one(list(self.have), **values) is not None


@dataclass(frozen=True)
class Part:
    """One figure or table.

    measure : yields records, each as soon as it is there
    table : records to Markdown
    draw : puts records on an empty Matplotlib figure; None: there is no picture
    data : whether it reads data sets from the folder
    resumes : whether it takes hours: its records are kept one by one, and `Run.have` says which need no measuring
    by_processor : whether claims depend on the processor: each record gets its name, "processor", when it is read
    """

    name: str
    measure: Callable[[Run], Iterator[Record]]
    table: Callable[[list[Record]], str]
    draw: Callable[[list[Record], Any], None] | None = None
    data: bool = True
    resumes: bool = False
    by_processor: bool = False


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper or of the README, and what became of it.

    said : the claim, and where it stands; theirs : its figure; ours : what was measured, with the standard error
    why : needed where the verdict is not "holds"
    """

    said: str
    theirs: str
    ours: str
    verdict: Verdict
    why: str = ""

    def __post_init__(self) -> None:
        if self.verdict != "holds" and not self.why:
            raise ValueError(f'a claim that is judged "{self.verdict}" says why: {self.said}')


@dataclass(frozen=True)
class Benchmark:
    """A page of measurements.

    about : Markdown above the tables: the source, the setting, how it differs from the source, and what is left out
    claims : from the records of the parts that were measured, {part: records}; a part that was not is absent
    extracts : {name: Markdown made of the same records}, which other pages show
    guard : whether the command fails where a claim does not hold
    """

    name: str
    title: str
    about: str
    parts: tuple[Part, ...]
    claims: Callable[[dict[str, list[Record]]], list[Claim]] = field(default=lambda records: [])
    extracts: Mapping[str, Callable[[dict[str, list[Record]]], str]] = field(default_factory=dict)
    guard: bool = False

    def part(self, name: str) -> Part:
        """The part of that name."""
        return next(part for part in self.parts if part.name == name)


def spread(values: Sequence[float]) -> Record:
    """{"mean", "standard_error", "n"} over seeds; a single value has no standard error, None."""
    n, mean = len(values), math.fsum(values) / len(values)
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n) if n > 1 else None
    return {"mean": mean, "standard_error": error, "n": n}


def pm(record: Record, digits: int = 2) -> str:
    """mean ± standard error."""
    error = record["standard_error"]
    return f"{record['mean']:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def where(records: list[Record], **values: Any) -> list[Record]:
    """The records that have these values."""
    return [r for r in records if all(r.get(name) == value for name, value in values.items())]


def one(records: list[Record], **values: Any) -> Record | None:
    """The record that has these values; None: there is none."""
    return next(iter(where(records, **values)), None)


def judged(held: int, of: int) -> Verdict:
    """All cases of a claim, at least half of them, or fewer."""
    return "holds" if held == of else "holds in part" if 2 * held >= of else "does not hold"


def exponent(x: float, y: float, x2: float, y2: float) -> float:
    """The slope of log y over log x between two points."""
    return math.log(y2 / y) / math.log(x2 / x)


def markdown(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
