"""The options of `make_model`, and the unfitted steps that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline, make_pipeline

from ..errors import InputError
from ..execution.memory import PROCESS_BYTES
from ..features import StreamingScaler
from ..features.base import FeatureEstimator
from ..parameters import check_parameters
from ..registry import kind_for, make_map, named_model
from ..splits import Split, check_split, make_split
from .sample import as_rows, as_targets, look_at_target, wants_labels
from .target import Target, check_target

#: Rows beyond which more than 2,048 features may pay.
MOST_FEATURES_ROWS = 20_000


@dataclass(frozen=True)
class Options:
    """The options of `make_model`, which documents them."""

    model: Any = "auto"
    map: Any = "auto"
    scale: Any = "auto"
    length_scale: float | str | None = "auto"
    n_components: int | str | None = "auto"
    raw_columns: bool | str = "auto"
    random_state: Any = 0

    def __post_init__(self) -> None:
        if self.raw_columns not in (True, False, "auto"):
            raise InputError(f"raw_columns is True, False or 'auto', got {self.raw_columns!r}")
        if isinstance(self.map, FeatureEstimator):
            scale = self.map.scale_parameter()
            of_map = {
                "n_components": ["n_components", "base__n_components"],
                "length_scale": [scale] if scale else [],
            }
            for option, names in of_map.items():
                if getattr(self, option) == "auto" and any(_is_set(self.map, name) for name in names):
                    object.__setattr__(self, option, None)

    @property
    def optional_map(self) -> bool:
        """Whether the columns alone may be taken."""
        return isinstance(self.map, str) and self.map == "auto" and self.raw_columns == "auto"


def _is_set(map_: Any, name: str) -> bool:
    """Whether a parameter of a map, or of its base, was set: it is there, and is neither None nor what it is by itself."""
    of, _, parameter = name.rpartition("__")
    step = getattr(map_, of, None) if of else map_
    value = getattr(step, parameter, None)
    usual = getattr(map_.named_base(getattr(map_, "n_components", 0)), parameter, None) if of else None
    return value is not None and value not in (usual, signature(type(step)).parameters[parameter].default)


def asked_scaler(requested: Any) -> StreamingScaler | None:
    """The unfitted scaler that the option `scale` names; None for none, and where "auto" chooses it later."""
    if requested is None or (isinstance(requested, str) and requested in ("none", "auto")):
        return None
    scaler = clone(requested) if isinstance(requested, StreamingScaler) else StreamingScaler(requested)
    check_parameters(scaler)
    return scaler


def split_for(
    X: Any,
    y: Any,
    options: Options,
    split: str,
    by: Any = None,
    name: str | None = None,
    dates: bool = False,
) -> Split | None:
    """The split of the rows of a training, None for "random"; arguments as of `distrf.splits.make_split`."""
    check_split(split, by)
    if split == "random":
        return None
    X, seed = as_rows(X), int(options.random_state)
    y = as_targets(X, y)
    labels = split != "stratified" or is_classifier(
        choose_learner(options.model, look_at_target(y, seed), seed)[0]
    )
    return make_split(split, X, y, by, name=name, labels=labels, dates=dates, seed=seed)


def auto_components(n: int, memory: int) -> int:
    """Features at most: 4,096 beyond 20,000 rows, 2,048 from 5,000, else 1,024; at most twice the rows, and as memory allows.

    Parameters
    ----------
    n : int, rows of the data
    memory : int, bytes of a worker; 0 if they are unknown

    Returns
    -------
    int
        A power of two, at least 256.
    """
    components = 4096 if n > MOST_FEATURES_ROWS else 2048 if n >= 5000 else 1024
    while components > max(256, 2 * n):
        components //= 2
    left = max(memory - PROCESS_BYTES, memory // 4)
    # Half a float64 Gram matrix for each fold, of which some six meet on a worker.
    while memory and components > 256 and 6 * (5 if components <= 2048 else 2) * 4 * components**2 > left:
        components //= 2
    return components


def chained(*steps: Any) -> Pipeline:
    """The pipeline of steps, without those that are none, or chosen later."""
    return make_pipeline(*(step for step in steps if step is not None and not isinstance(step, str)))


def takes_folds(step: Any) -> bool:
    """Whether the `fit` of an estimator takes the fold of each row."""
    return "folds" in signature(step.fit).parameters


def check_takes_folds(learner: Any, map_: Any) -> None:
    """Raise InputError where a model, or a map that stops early, would hold out rows in its own way."""
    inner = [] if map_ is None or takes_folds(map_) else list(map_.get_params(deep=True).values())
    own = [step for step in inner if getattr(step, "early_stopping", False) is True]
    for step in [*own, *([] if takes_folds(learner) else [learner])]:
        raise InputError(
            f"split= says which rows are held out, and {type(step).__name__} would hold out others: its `fit` gets no folds; "
            "take split='random', another model, or early_stopping=False"
        )


def choose_learner(model: Any, target: Target, seed: int) -> tuple[Any, str]:
    """The unfitted linear model for a target, and why. Raises InputError where they do not go together."""
    labels = wants_labels(model)
    if not isinstance(model, str):
        check_target(type(model).__name__, bool(labels), target)
        return clone(model), f"as given; {target.why}"
    learner = named_model(model_name(model, target)).make(random_state=seed)
    return learner, target.why if labels is None else f"as asked; {target.why}"


def model_name(model: str, target: Target) -> str:
    """The name of a model that goes with a target, as asked or for "auto". Raises InputError where they do not go together."""
    if model == "auto":
        model = kind_for(target.labels)
    check_target(model, named_model(model).classifier, target)
    return model


def unfitted_map(options: Options, labels: bool, seed: int) -> Any:
    """The map as an unfitted estimator that may be changed, or None, with the numbers that the options name."""
    choice = "fourier" if isinstance(options.map, str) and options.map == "auto" else options.map
    if choice is None or (isinstance(choice, str) and choice == "none"):
        return None
    if isinstance(choice, str):
        size = {} if options.n_components in ("auto", None) else {"n_components": options.n_components}
        map_ = make_map(choice, **size, random_state=seed)  # the size of a base follows
        map_.set_params(**map_.target_parameters(labels))
    elif isinstance(choice, FeatureEstimator):
        map_ = clone(choice)
        if options.n_components not in ("auto", None):
            map_.set_params(n_components=options.n_components)
    else:
        raise InputError(
            f"map is a name or an unfitted map of distrf, got {type(choice).__name__}; wrap a transformer of scikit-learn "
            "in Blockwise"
        )
    if options.length_scale not in ("auto", None):
        name = map_.scale_parameter()
        if name is None:
            raise InputError(
                f"length_scale={options.length_scale!r} is for maps with one, and without gamma; got {map_!r}"
            )
        map_.set_params(**{name: options.length_scale})
    return map_


def named(learner: Any) -> str:
    loss = getattr(learner, "loss", None)
    return type(learner).__name__ + (f", {loss} loss" if loss else "")
