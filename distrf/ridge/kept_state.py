"""The sums of a ridge fit, kept so that those of more rows can be added. Number code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..gram_tiles import count_tiles, tile_width
from ..targets import Targets
from .gram import FoldRule, GramReduction, GramState

_SUMS = ("products", "sums", "weight", "targets", "squares")
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
        state, targets = self.state, self.targets
        return {
            "rows": self.rows,
            "rule": asdict(self.rule),
            "rounding": state.rounding,
            "shift": state.shift,
            "tiles": state.tiles.reshape(-1, *state.tiles.shape[2:]),
            **{name: getattr(state, name) for name in _SUMS},
            **{name: getattr(targets, name) for name in _TARGETS},
        }

    @classmethod
    def of(cls, parts: Mapping[str, Any]) -> KeptState:
        """The state of its parts. Raises ValueError, KeyError or TypeError where they do not go together."""
        rule, shift = FoldRule(**parts["rule"]), parts["shift"]
        k, D, C = parts["products"].shape
        T, count = tile_width(D), count_tiles(D)
        shapes: dict[str, tuple[int, ...]] = {
            "sums": (k, D), "weight": (k,), "targets": (k, C), "squares": (k, C), "centre": (C,), "tiles": (k * count, T, T),
        }  # fmt: skip
        wrong = [name for name, shape in shapes.items() if parts[name].shape != shape]
        if wrong or k != rule.n_folds or (shift is not None and shift.shape != (D,)):
            raise ValueError(
                f"the arrays of a kept state are of different shapes: {wrong or 'folds, or shift'}"
            )
        state = GramState(
            tiles=parts["tiles"].reshape(k, count, T, T),
            **{name: parts[name] for name in _SUMS},
            shift=shift,
            rounding=float(parts["rounding"]),
        )
        targets = Targets(**{name: parts[name] for name in _TARGETS})
        return cls(state, targets, rule, int(parts["rows"]))


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
