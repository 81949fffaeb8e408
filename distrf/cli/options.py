"""Options that commands share, and the estimators they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..errors import InputError
from .maps import ESTIMATORS, MapOptions, number_or_rule, unfitted_map
from .session import UsageError

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Scheduler address or cluster spec file. Default: a local cluster.",
        rich_help_panel="Run",
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory-limit", help="Memory of one local worker, such as 4GiB.", rich_help_panel="Run"),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no report.", rich_help_panel="Run")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel="Run")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output made with another spec.")]

Target = Annotated[str | None, typer.Option("--target", help="Column (Parquet) or array of the targets.")]
Columns = Annotated[
    str | None, typer.Option("--columns", help="Feature columns, comma-separated. Default: all.")
]
Impute = Annotated[
    str | None,
    typer.Option("--impute", help="What replaces nulls: mean, median, zero or a number. Default: refuse them."),
]

MapName = Annotated[
    str,
    typer.Option(
        "--map", help=f"{', '.join(ESTIMATORS)}, or none for the columns as they are.", rich_help_panel="Map"
    ),
]
KernelName = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        help="gaussian, laplacian, cauchy or matern; laplace: exponential_semigroup or reciprocal_semigroup. "
        "Default: the map's first.",
        rich_help_panel="Map",
    ),
]
LengthScale = Annotated[
    str,
    typer.Option("--length-scale", help="A number, or knn, knn-cnm, median, scale.", rich_help_panel="Map"),
]
Gamma = Annotated[
    float | None,
    typer.Option("--gamma", help="scikit-learn's gamma instead of a length scale.", rich_help_panel="Map"),
]
Nu = Annotated[
    float, typer.Option("--nu", help="Smoothness of the Matern kernel: 0.5, 1.5 or 2.5.", rich_help_panel="Map")
]
Components = Annotated[
    int, typer.Option("-D", "--components", help="Number of random features.", rich_help_panel="Map")
]
Projection = Annotated[str, typer.Option("--projection", help="How weights are drawn.", rich_help_panel="Map")]
Phase = Annotated[str, typer.Option("--phase", help="paired or offset.", rich_help_panel="Map")]
Whiten = Annotated[bool, typer.Option("--whiten", help="Whiten the rows first.", rich_help_panel="Map")]
Beta = Annotated[
    str, typer.Option("--beta", help="Of exponential_semigroup: a number, or median.", rich_help_panel="Map")
]
Lam = Annotated[
    str, typer.Option("--lam", help="Of reciprocal_semigroup: a number, or median.", rich_help_panel="Map")
]
Mixed = Annotated[
    str, typer.Option("--n-mixed", help="Laplace, alternating_circulant: 2 or log2.", rich_help_panel="Map")
]
Grids = Annotated[int, typer.Option("--grids", help="Binning: number of grids.", rich_help_panel="Map")]
Bins = Annotated[str, typer.Option("--bins", help="Binning: hashed or exact.", rich_help_panel="Map")]
Degree = Annotated[int, typer.Option("--degree", help="Of polynomial kernels.", rich_help_panel="Map")]
Coef0 = Annotated[
    float,
    typer.Option("--coef0", help="Of the polynomial kernel: weight of low powers.", rich_help_panel="Map"),
]
Base = Annotated[
    str, typer.Option("--base", help="Compact: tensor-sketch, maclaurin, fourier, ...", rich_help_panel="Map")
]
UpFactor = Annotated[
    float, typer.Option("--up-factor", help="Compact: features of the base, over -D.", rich_help_panel="Map")
]
Landmarks = Annotated[
    str,
    typer.Option(
        "--landmarks", help="Nystroem: uniform, k-means++, kmeans or leverage.", rich_help_panel="Map"
    ),
]
Transformer = Annotated[
    str | None,
    typer.Option(
        "--transformer",
        help="Blockwise: a transformer of scikit-learn, such as AdditiveChi2Sampler.",
        rich_help_panel="Map",
    ),
]
BaseComponents = Annotated[
    int | None,
    typer.Option("--base-D", help="Tefm: Fourier features below; default 4 D.", rich_help_panel="Map"),
]
SketchName = Annotated[
    str, typer.Option("--sketch", help="Tefm: gaussian, srht or sparse.", rich_help_panel="Map")
]
Iterations = Annotated[
    int, typer.Option("--n-iter", help="Tefm: products with F'F after the sketch.", rich_help_panel="Map")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the map and of the folds.", rich_help_panel="Map")]

ModelName = Annotated[str, typer.Option("--model", help="ridge or ridge-classifier.", rich_help_panel="Model")]
Alpha = Annotated[
    str, typer.Option("--alpha", help="Penalty, or several, comma-separated.", rich_help_panel="Model")
]
Folds = Annotated[
    str,
    typer.Option("--cv", help="Folds that choose among several alphas, or holdout.", rich_help_panel="Model"),
]
Intercept = Annotated[
    bool, typer.Option("--intercept/--no-intercept", help="Fit an intercept.", rich_help_panel="Model")
]
ClassWeight = Annotated[
    str | None, typer.Option("--class-weight", help="balanced, or none.", rich_help_panel="Model")
]


def listed(text: str | None) -> list[str] | None:
    """Comma-separated names as a list."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def one_of(option: str, value: str | None, known: tuple[str, ...]) -> None:
    """Raise UsageError for a value that is not in the list; None is absent."""
    if value is not None and value not in known:
        raise UsageError(f"{option} is one of {', '.join(known)}, got {value!r}")


def checked(build: Callable[[], Any]) -> Any:
    """The value of `build`; a broken rule in it is a usage error."""
    try:
        return build()
    except InputError as error:
        raise UsageError(str(error)) from error


def make_map(name: str, d: int, **options: Any) -> Any:
    """The unfitted estimator of `--map` and its options, checked before any cluster starts; None for "none".

    options : fields of `distrf.cli.maps.MapOptions`
    """
    if name == "none":
        return None
    if name not in ESTIMATORS:
        raise UsageError(f"unknown --map {name!r}; known: {', '.join(ESTIMATORS)}, none")

    def build() -> Any:
        estimator = ESTIMATORS[name](MapOptions(**options))
        unfitted_map(estimator, d)
        return estimator

    return checked(build)


def make_model(name: str, *, alpha: str, cv: str, intercept: bool, class_weight: str | None, seed: int) -> Any:
    """The unfitted linear model of `--model` and its options."""
    from ..linear_model import StreamingRidge, StreamingRidgeClassifier
    from ..linear_model.ridge import check_alphas

    alphas = checked(lambda: check_alphas([number_or_rule(a) for a in listed(alpha) or []]))
    folds: int | str = cv
    if cv != "holdout":
        if not cv.isdigit() or int(cv) < 2:
            raise UsageError(f"--cv is 'holdout' or a number of folds of at least 2, got {cv!r}")
        folds = int(cv)
    penalty = alphas if len(alphas) > 1 else alphas[0]
    common = {"alphas": penalty, "fit_intercept": intercept, "cv": folds, "random_state": seed}
    if class_weight == "none":
        class_weight = None
    if class_weight not in (None, "balanced"):
        raise UsageError(f"--class-weight is 'balanced' or 'none', got {class_weight!r}")
    if name == "ridge":
        if class_weight is not None:
            raise UsageError("--class-weight is for classifiers; --model is 'ridge'")
        return StreamingRidge(**common)
    if name == "ridge-classifier":
        return StreamingRidgeClassifier(**common, class_weight=class_weight)
    raise UsageError(f"unknown --model {name!r}; known: ridge, ridge-classifier")
