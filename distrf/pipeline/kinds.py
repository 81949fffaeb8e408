"""The names of models: light, for the command line. `families` makes estimators of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What a model's name stands for: classifier or not, and the losses it may have, the first by default; none for ridge."""

    classifier: bool
    losses: tuple[str, ...] = ()


KINDS = {
    "ridge": Kind(False),
    "ridge-classifier": Kind(True),
    "sgd-regressor": Kind(False, ("squared", "huber", "epsilon_insensitive")),
    "sgd-classifier": Kind(True, ("hinge", "squared_hinge", "logistic", "multinomial", "squared")),
    "svm": Kind(True, ("hinge", "squared_hinge")),
    "logistic": Kind(True, ("multinomial", "logistic")),
}


def kind_for(labels: bool) -> str:
    """The model of "auto"."""
    return "ridge-classifier" if labels else "ridge"
