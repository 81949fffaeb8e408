"""What was chosen for a model and why, and what it was compared with: kept with the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Choice:
    """One choice. what : "model", "scale", "length_scale", ...; value : plain data; why : a sentence."""

    what: str
    value: Any
    why: str

    def __str__(self) -> str:
        value = f"{self.value:.4g}" if isinstance(self.value, float) else self.value
        return f"{self.what.replace('_', ' ')}: {value} ({self.why})"


@dataclass(frozen=True)
class Comparison:
    """What was chosen beside a linear model on the columns and beside a constant, on the same rows.

    what : the measure; rows : how they were judged, in words; chosen, linear, constant : the measure of each
    """

    what: str
    rows: str
    chosen: float
    linear: float
    constant: float

    def __str__(self) -> str:
        parts = [("chosen", self.chosen), ("linear", self.linear), ("constant", self.constant)]
        return f"{self.what} on {self.rows}: " + ", ".join(f"{n} {v:.4f}" for n, v in parts)


@dataclass(frozen=True, repr=False)
class Training:
    """The attribute `training_` of pipelines that `distrf.make_model` or `distrf.train` made.

    choices : what was chosen and why
    baseline : comparisons with a linear model and a constant; empty for a pipeline that is not trained
    warnings : what was found wrong
    target : the column of the table that was learned, None for rows without names
    csv : what was said of the CSV that was read, see `distrf.store.csv_format`; empty where nothing was
    dropped : whether rows of a table without a target were to be left out
    candidates : of the last rung of the race, each with its loss on held-out rows, and the constant
    """

    choices: tuple[Choice, ...] = ()
    baseline: tuple[Comparison, ...] = ()
    warnings: tuple[str, ...] = field(default=())
    target: str | None = None
    csv: Mapping[str, Any] = field(default_factory=dict)
    dropped: bool = False
    candidates: tuple[tuple[str, float], ...] = ()

    def chosen(self, what: str) -> Any:
        """The value of a choice, None where it was not made."""
        return next((c.value for c in self.choices if c.what == what), None)

    def __str__(self) -> str:
        return "\n".join(
            [*map(str, self.choices), *map(str, self.baseline), *(f"warning: {w}" for w in self.warnings)]
        )

    def __repr__(self) -> str:
        return str(self) or "Training()"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without what is not there."""
        always = ("choices", "baseline", "warnings")
        return {name: value for name, value in asdict(self).items() if value or name in always}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Training:
        tuples = {
            "choices": tuple(Choice(**c) for c in stored["choices"]),
            "baseline": tuple(Comparison(**c) for c in stored["baseline"]),
            "warnings": tuple(stored["warnings"]),
            "candidates": tuple(map(tuple, stored.get("candidates", ()))),
        }
        names = {f.name for f in fields(cls)}  # facts of a model have others beside
        return cls(**{name: value for name, value in stored.items() if name in names} | tuples)


def pipeline_facts(pipeline: Any) -> dict[str, Any]:
    """What the steps of a fitted pipeline took, chose and reached, as plain JSON, and its `training_`."""
    facts: dict[str, Any] = {}
    for step in reversed(list(pipeline)):
        if hasattr(step, "facts"):
            facts |= step.facts()
    training = getattr(pipeline, "training_", None)
    return facts if training is None else facts | training.to_dict()
