"""The options of the model, which of them go with which model, and the estimators they stand for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from ..pipeline.kinds import KINDS
from .groups import PATH
from .map_options import number_or_rule, whole_or_rule
from .options import checked, listed, one_of
from .session import UsageError

_SGD = tuple(name for name, kind in KINDS.items() if kind.losses)
_RIDGE = tuple(name for name in KINDS if name not in _SGD)
_CLASSIFIERS = tuple(name for name, kind in KINDS.items() if kind.classifier)


def _option(*names: str, help: str, default: str | bool = True) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Model", show_default=default)


def _sgd(*names: str, help: str, default: str | bool = True) -> Any:
    return typer.Option(*names, help=f"SGD: {help}", rich_help_panel="SGD", show_default=default)


def _ridge(*names: str, help: str, default: str | bool = True) -> Any:
    return typer.Option(*names, help=f"Ridge: {help}", rich_help_panel="Model", show_default=default)


@dataclass(frozen=True)
class ModelOptions:
    """What the command line says about the model, as typed; None is not said."""

    model: Annotated[
        str,
        _option(
            "--model",
            help=f"auto (ridge or ridge-classifier, as the target is), {', '.join(KINDS)}. The last four learn by SGD.",
        ),
    ] = "auto"
    alpha: Annotated[
        str,
        _option(
            "--alpha",
            help="Penalty; ridge: or several, comma-separated. auto: ridge compares many in its one pass, SGD takes what a sample asks for.",
        ),
    ] = "auto"
    intercept: Annotated[bool, _option("--intercept/--no-intercept", help="Fit an intercept.")] = True
    class_weight: Annotated[
        str | None, _option("--class-weight", help="Classifiers: balanced, or none.", default="none")
    ] = None
    tol: Annotated[
        str | None,
        _option(
            "--tol",
            help="SGD: stop when epochs gain less than this share of the loss, or none. Ridge by cg: error of "
            "predictions.",
            default="1e-4, cg 1e-3",
        ),
    ] = None
    directions: Annotated[
        int | None,
        _option(
            "--directions",
            help="Leading directions of the features: SGD preconditions them, cg starts from them.",
            default="from D",
        ),
    ] = None
    cv: Annotated[
        str | None,
        _ridge("--cv", help="folds that choose among alphas, holdout or auto.", default="auto"),
    ] = None
    solver: Annotated[
        str | None,
        _ridge("--solver", help="gram (one pass), cg (less memory) or auto.", default="auto"),
    ] = None
    max_passes: Annotated[int | None, _ridge("--max-passes", help="most passes of cg.", default="50")] = None
    loss: Annotated[
        str | None,
        _sgd(
            "--loss",
            help="hinge, squared_hinge, logistic (one-vs-rest), multinomial, squared, huber, epsilon_insensitive.",
            default="squared for regression, multinomial for logistic, else hinge",
        ),
    ] = None
    epsilon: Annotated[
        str | None,
        _sgd(
            "--epsilon",
            help="of huber and epsilon_insensitive; auto takes it from the targets.",
            default="auto",
        ),
    ] = None
    penalty: Annotated[str | None, _sgd("--penalty", help="l2, l1 or elasticnet.", default="l2")] = None
    l1_ratio: Annotated[float | None, _sgd("--l1-ratio", help="share of l1 in elasticnet.", default="0.15")] = (
        None
    )
    epochs: Annotated[
        str | None,
        _sgd("--epochs", help="passes over the rows, at most; auto is 20, or more of few.", default="auto"),
    ] = None
    patience: Annotated[
        int | None, _sgd("--patience", help="epochs without a gain of --tol before it stops.", default="3")
    ] = None
    early_stopping: Annotated[
        bool, _sgd("--early-stopping", help="judge epochs by held-out rows.", default=False)
    ] = False
    validation_fraction: Annotated[
        float | None,
        _sgd("--validation-fraction", help="share of rows held out by --early-stopping.", default="0.1"),
    ] = None
    learning_rate: Annotated[
        str | None,
        _sgd(
            "--learning-rate",
            help="auto (steps from the spectrum of a row sample), constant, inverse_scaling, adaptive or pegasos.",
            default="auto",
        ),
    ] = None
    eta0: Annotated[float | None, _sgd("--eta0", help="first step.", default="from the spectrum")] = None
    power_t: Annotated[float | None, _sgd("--power-t", help="exponent of inverse_scaling.", default="0.5")] = (
        None
    )
    momentum: Annotated[
        str | None,
        _sgd("--momentum", help="Nesterov's, or auto (from the curvature that batches meet).", default="auto"),
    ] = None
    average: Annotated[
        bool | None,
        _sgd(
            "--average/--no-average",
            help="average the weights of the last batches.",
            default="where steps do not vanish",
        ),
    ] = None
    preconditioner: Annotated[
        str | None,
        _sgd("--preconditioner", help="auto, subspace or none.", default="auto: wherever it applies"),
    ] = None
    batch_size: Annotated[
        str | None, _sgd("--batch-size", help="rows of one step, or auto.", default="auto")
    ] = None
    distribution: Annotated[
        str | None,
        _sgd(
            "--distribution",
            help="synchronous (one step a batch), or local_sgd (steps of their own in each block, then the mean: fewer "
            "messages, less accurate).",
            default="synchronous",
        ),
    ] = None
    shuffle: Annotated[
        bool | None,
        _sgd("--shuffle/--no-shuffle", help="blocks and rows in another order each epoch.", default="shuffle"),
    ] = None


@dataclass(frozen=True)
class CheckpointOptions:
    """Where the state of a training is kept."""

    checkpoint: Annotated[
        str | None,
        PATH,
        _option(
            "--checkpoint",
            help="Folder that keeps the state of SGD, each pass of cg and tefm, and of cnm.",
            default=False,
        ),
    ] = None
    checkpoint_every: Annotated[
        int | None, _sgd("--checkpoint-every", help="batches between two states.", default="50")
    ] = None
    resume: Annotated[
        bool,
        _option(
            "--resume",
            help="Continue from --checkpoint, to the same bits; starts if it is empty. A model that is done is success.",
        ),
    ] = False


#: Parameters that are for these models alone; the rest is for all. The estimator's name where it differs.
_FOR_RIDGE = ("cv", "solver", "max_passes")
_FOR_ALL = ("model", "alpha", "intercept", "class_weight", "tol", "directions", "checkpoint", "resume")
_NAMES = {"epochs": "n_epochs", "patience": "n_iter_no_change", "directions": "n_directions"}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _check_applies(o: ModelOptions, c: CheckpointOptions) -> None:
    """Raise UsageError for an option that the model does not have, or that needs another option."""
    sgd = bool(KINDS[o.model].losses)
    defaults = {f.name: f.default for group in (o, c) for f in fields(group)}
    given = [name for group in (o, c) for name, value in vars(group).items() if value != defaults[name]]
    for name in given:
        if name not in _FOR_ALL and (name in _FOR_RIDGE) == sgd:
            wanted = _SGD if name not in _FOR_RIDGE else _RIDGE
            raise UsageError(f"{_flag(name)} is for --model {', '.join(wanted)}; this is --model {o.model}")
    if o.class_weight is not None and o.model not in _CLASSIFIERS:
        raise UsageError(f"--class-weight is for classifiers; --model is {o.model!r}")
    needs: list[tuple[str, bool, str]] = [
        ("l1_ratio", o.penalty == "elasticnet", "--penalty elasticnet"),
        ("epsilon", o.loss in ("huber", "epsilon_insensitive"), "--loss huber or epsilon_insensitive"),
        ("validation_fraction", o.early_stopping, "--early-stopping"),
        ("power_t", o.learning_rate == "inverse_scaling", "--learning-rate inverse_scaling"),
        ("checkpoint_every", c.checkpoint is not None, "--checkpoint"),
        (
            "resume",
            c.checkpoint is not None or not sgd,
            "--checkpoint FOLDER, the one whose state it continues",
        ),
    ]
    if not sgd:
        cg = o.solver in (None, "auto", "cg")
        needs += [(name, cg, "--solver cg (or auto)") for name in ("tol", "directions", "max_passes")]
    elif o.preconditioner == "none":
        needs.append(("directions", False, "a preconditioner; --preconditioner is none"))
    for name, met, what in needs:
        if name in given and not met:
            raise UsageError(f"{_flag(name)} needs {what}")


def check_name(model: str) -> None:
    """Raise UsageError for a model that does not exist, before anything is read."""
    one_of("--model", model, ("auto", *KINDS))


def make_model(o: ModelOptions, c: CheckpointOptions = CheckpointOptions(), *, seed: int) -> Any:
    """The unfitted linear model of `--model` and its options, checked before any cluster starts.

    Raises UsageError for an unknown name or value, and for an option that the model does not have.
    """
    check_name(o.model)
    _check_applies(o, c)
    one_of("--class-weight", o.class_weight, ("balanced", "none"))
    common: dict[str, Any] = {"fit_intercept": o.intercept, "random_state": seed}
    if KINDS[o.model].classifier:
        common["class_weight"] = None if o.class_weight == "none" else o.class_weight
    return _make_sgd(o, c, common) if KINDS[o.model].losses else _make_ridge(o, common)


def alphas_of(text: str) -> list[float]:
    """`--alpha` as numbers. Raises UsageError for anything that is not one."""
    from ..ridge.alphas import SEVERAL

    alphas = [number_or_rule(a) for a in listed(text) or []]
    checked(lambda: SEVERAL.check("alphas", alphas))
    return alphas


def _make_ridge(o: ModelOptions, common: dict[str, Any]) -> Any:
    from ..linear_model import StreamingRidge, StreamingRidgeClassifier
    from ..parameters import check_parameters

    alphas = ["auto"] if o.alpha == "auto" else alphas_of(o.alpha)
    given = {
        "cv": o.cv and whole_or_rule(o.cv),
        "solver": o.solver,
        "n_directions": o.directions,
        "tol": number_or_rule(o.tol),
        "max_passes": o.max_passes,
    }
    cls = StreamingRidgeClassifier if KINDS[o.model].classifier else StreamingRidge
    made = cls(
        alphas if len(alphas) > 1 else alphas[0],
        **{name: value for name, value in given.items() if value is not None},
        **common,
    )
    checked(lambda: check_parameters(made))
    return made


def _make_sgd(o: ModelOptions, c: CheckpointOptions, common: dict[str, Any]) -> Any:
    from ..linear_model import StreamingSGDClassifier, StreamingSGDRegressor

    kind = KINDS[o.model]
    one_of(f"--loss of {o.model}", o.loss, kind.losses)
    alphas: list[Any] = ["auto"] if o.alpha == "auto" else alphas_of(o.alpha)
    if len(alphas) > 1:
        raise UsageError(f"--model {o.model} takes one --alpha, got {o.alpha!r}; several are for ridge")
    plain = [
        "penalty", "l1_ratio", "patience", "validation_fraction", "learning_rate", "eta0",
        "power_t", "average", "shuffle", "directions", "distribution",
    ]  # fmt: skip
    given = {name: getattr(o, name) for name in plain} | {"checkpoint_every": c.checkpoint_every}
    parameters = {_NAMES.get(name, name): value for name, value in given.items() if value is not None}
    if o.preconditioner is not None:
        parameters["preconditioner"] = None if o.preconditioner == "none" else o.preconditioner
    if o.tol is not None:
        parameters["tol"] = None if o.tol == "none" else number_or_rule(o.tol)
    if o.momentum is not None:
        parameters["momentum"] = number_or_rule(o.momentum)
    for name in ("epochs", "batch_size"):
        if getattr(o, name) is not None:
            parameters[_NAMES.get(name, name)] = whole_or_rule(getattr(o, name))
    if o.epsilon is not None:
        parameters["epsilon"] = number_or_rule(o.epsilon)
    cls = StreamingSGDClassifier if kind.classifier else StreamingSGDRegressor
    made = cls(
        o.loss or kind.losses[0],
        alpha=alphas[0],
        early_stopping=o.early_stopping,
        checkpoint=c.checkpoint,
        resume=c.resume,
        **parameters,
        **common,
    )
    checked(lambda: made._check())
    return made
