"""The sums of a ridge fit, kept so that those of more rows can be added. Number code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..targets import Targets
from .gram import FoldRule, GramReduction, GramState

_TARGETS = ("classes", "centre", "class_weight", "weight_unit")


@dataclass
class KeptState:
    """The Gram state of all rows so far, and what is needed to add more.

    state : GramState, by fold
    targets : Targets, how the targets in `state` are encoded
    rule : FoldRule of the first rows; later rows follow it by their number among all rows
    rows : how many rows there were
    """

    state: GramState
    targets: Targets
    rule: FoldRule
    rows: int

    @property
    def n_features(self) -> int:
        return int(self.state.sums.shape[1])

    @property
    def reduction(self) -> GramReduction:
        """The reduction of which `state` is the state."""
        return GramReduction(self.n_features, self.targets, self.rule)

    @property
    def nbytes(self) -> int:
        """Bytes in memory and in a model folder."""
        return self.reduction.nbytes

    def next_rule(self) -> FoldRule:
        """The rule for the next rows, whose own numbers begin at 0 again."""
        return replace(self.rule, first=self.rule.first + self.rows)

    def centred(self, centre: np.ndarray) -> KeptState:
        """The same sums for targets of regression less another centre, shape (C,); exact up to rounding."""
        old, by = self.state, centre - self.targets.centre
        if not by.any():
            return self
        state = replace(
            old,
            products=old.products - old.sums[:, :, None] * by,
            targets=old.targets - old.weight[:, None] * by,
            squares=old.squares - 2 * by * old.targets + old.weight[:, None] * by**2,
        )
        return replace(self, state=state, targets=replace(self.targets, centre=centre))

    def added(self, more: KeptState) -> KeptState:
        """The sums of these rows and of more, whose rule was `next_rule`.

        Both are of targets encoded alike. The arrays of `more` are changed; those of this state are not.
        """
        reduction = replace(self.reduction, targets=more.targets)
        return replace(
            self,
            state=reduction.combine(more.state, self.state),
            targets=more.targets,
            rows=self.rows + more.rows,
        )

    def parts(self) -> dict[str, Any]:
        """The state as plain data."""
        sums, tiles = vars(self.state), self.state.tiles
        known = {name: getattr(self.targets, name) for name in _TARGETS}
        flat = {"tiles": tiles.reshape(-1, *tiles.shape[2:])}
        return {"rows": self.rows, "rule": asdict(self.rule)} | sums | flat | known

    @classmethod
    def of(cls, parts: Mapping[str, Any]) -> KeptState:
        """The state of its parts. Raises ValueError, KeyError or TypeError where they do not go together."""
        sums = {field.name: parts[field.name] for field in fields(GramState)}
        k, D, _ = sums["products"].shape
        targets = Targets(**{name: parts[name] for name in _TARGETS})
        kept = cls(GramState(**sums), targets, FoldRule(**parts["rule"]), int(parts["rows"]))
        sums["tiles"] = kept.state.tiles = sums["tiles"].reshape(k, -1, *sums["tiles"].shape[1:])
        expected = vars(GramReduction(D, targets, kept.rule).initial()) | {"shift": np.zeros(D)}
        wrong = [
            name
            for name, value in sums.items()
            if value is not None and np.shape(value) != np.shape(expected[name])
        ]
        if wrong:
            raise ValueError(f"the arrays of a kept state are of different shapes: {wrong}")
        return kept


def check_same_weights(kept: Targets, targets: Targets) -> None:
    """Raise InputError where class weights are not those by which their rows were added."""
    factors = [
        np.ones(len(t.classes)) if t.class_weight is None else t.class_weight  # type: ignore[arg-type]
        for t in (kept, targets)
    ]
    if not np.array_equal(factors[0], factors[1]):
        raise InputError(
            "class_weight is a factor on rows that are added up already, and is not what it was then; restore it, or fit "
            "all rows again"
        )
