"""The sums of a ridge fit, kept so that those of more rows can be added. Number code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..gram_tiles import lower_tiles, tile_width
from ..targets import Targets
from .gram import FoldRule, GramReduction, GramState

_PARTS = ("products", "sums", "weight", "targets", "squares")


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

    def with_classes(self, targets: Targets) -> KeptState:
        """The same sums for targets of more classes, which no row so far has.

        The column of a class is -1 in all rows of other classes, so its sums follow from those of the rows: nothing is lost.

        targets : with all classes of this state, sorted; its class weights of these are the same
        """
        assert self.targets.classes is not None
        assert targets.classes is not None
        known = self.targets.classes
        if len(known) == len(targets.classes):
            return replace(self, targets=targets)
        old = self.state
        nobody = {"products": -old.sums[:, :, None], "targets": -old.weight[:, None]}
        columns: dict[str, Any] = {}
        for name, none in nobody.items():
            values = getattr(old, name)
            values = np.concatenate([-values, values], axis=-1) if len(known) == 2 else values
            place = np.searchsorted(targets.classes, known)
            columns[name] = np.repeat(none, len(targets.classes), axis=-1)
            columns[name][..., place] = values
        squares = np.repeat(old.weight[:, None], len(targets.classes), axis=1)
        return replace(self, state=replace(old, squares=squares, **columns), targets=targets)

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

    # --- as data ---------------------------------------------------------------------------------------------

    def spec(self) -> dict[str, Any]:
        """What is not an array, as JSON."""
        return {"rows": self.rows, "rounding": self.state.rounding, "rule": asdict(self.rule)}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name; those that there are none of are left out."""
        state, targets = self.state, self.targets
        found: dict[str, Any] = {name: getattr(state, name) for name in _PARTS}
        found |= {"tiles": state.tiles.reshape(-1, *state.tiles.shape[2:]), "shift": state.shift}
        found |= {name: getattr(targets, name) for name in ("centre", "classes", "class_weight")}
        return {name: array for name, array in found.items() if array is not None}

    @classmethod
    def of(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> KeptState:
        """The state of a spec and its arrays. Raises ValueError where they do not go together."""
        targets = Targets(arrays.get("classes"), arrays["centre"], arrays.get("class_weight"))
        rule = FoldRule(**spec["rule"])
        k, D, C = arrays["products"].shape
        T, count = tile_width(D), len(lower_tiles(D))
        shapes = {
            "sums": (k, D), "weight": (k,), "targets": (k, C), "squares": (k, C), "centre": (C,),
            "tiles": (k * count, T, T), "shift": (D,),
        }  # fmt: skip
        wrong = [name for name, shape in shapes.items() if name in arrays and arrays[name].shape != shape]
        if wrong or k != rule.n_folds:
            raise ValueError(f"the arrays of a kept state are of different shapes: {wrong or 'folds'}")
        state = GramState(
            tiles=arrays["tiles"].reshape(k, count, T, T),
            **{name: arrays[name] for name in _PARTS},
            shift=arrays.get("shift"),
            rounding=float(spec["rounding"]),
        )
        return cls(state, targets, rule, int(spec["rows"]))


def check_same_weights(kept: Targets, targets: Targets) -> None:
    """Raise InputError where class weights of classes that are known are not those by which their rows were added."""
    factors = [
        np.ones(len(t.classes)) if t.class_weight is None else t.class_weight  # type: ignore[arg-type]
        for t in (kept, targets)
    ]
    assert kept.classes is not None
    assert targets.classes is not None
    if not np.array_equal(factors[0], factors[1][np.searchsorted(targets.classes, kept.classes)]):
        raise InputError(
            "class_weight is a factor on rows that are added up already, and is not what it was then; restore it, or fit "
            "all rows again"
        )
