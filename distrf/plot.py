"""Displays with matplotlib, which is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from .errors import InputError
from .features.base import FeatureEstimator
from .maps import FeatureMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .inspection.importance import Importance

__all__ = [
    "plot_alphas",
    "plot_importance",
    "plot_kernel_error",
    "plot_kernel_estimates",
    "plot_learning_curve",
    "plot_spectrum",
    "plot_training",
]

_MARKERS = "osD^vP*X"


class MissingPlotError(InputError, ImportError):
    """matplotlib is not installed."""


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingPlotError(
            f'plots need matplotlib, which cannot be imported ({error}); pip install "distrf[plot]"'
        ) from error
    return pyplot.subplots(layout="constrained")[1]


def plot_kernel_error(table: Iterable[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """Plot the kernel error against the number of features, one line for each map.

    Parameters
    ----------
    table : iterable of mappings
        Rows with the entries "map" (name), "n_components" and "error". Rows that repeat a map and a number
        of features (other seeds) are drawn as mean and standard deviation.
    ax : matplotlib axes or None, default=None
        Axes to draw on. None makes new ones.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Raises
    ------
    InputError
        The table is empty, or a row lacks an entry.
    """
    groups: dict[str, dict[int, list[float]]] = {}
    for row in table:
        missing = {"map", "n_components", "error"} - set(row)
        if missing:
            raise InputError(
                f"each row of the table has 'map', 'n_components' and 'error'; one lacks {sorted(missing)} "
                f"and has {sorted(row)}"
            )
        groups.setdefault(str(row["map"]), {}).setdefault(int(row["n_components"]), []).append(
            float(row["error"])
        )
    if not groups:
        raise InputError("the table has no rows; give one for each map and number of features")
    ax = _axes(ax)
    for i, (name, points) in enumerate(groups.items()):
        D = sorted(points)
        mean = [float(np.mean(points[k])) for k in D]
        spread = [float(np.std(points[k], ddof=1)) if len(points[k]) > 1 else 0.0 for k in D]
        # Lines of near-equal maps are told apart by a nudge of their points, not by colour alone.
        nudged = np.array(D) * 1.02 ** (i - (len(groups) - 1) / 2)
        ax.errorbar(
            nudged, mean, yerr=spread, label=name, marker=_MARKERS[i % len(_MARKERS)], capsize=3, markersize=5
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    sizes = sorted({k for points in groups.values() for k in points})
    ax.set_xticks(sizes, [f"{k:,}" for k in sizes])
    ax.minorticks_off()
    ticks = _round_ticks([np.mean(v) for points in groups.values() for v in points.values()])
    if len(ticks) > 1:
        ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.set_xlabel("features D")
    ax.set_ylabel("kernel error")
    ax.grid(alpha=0.3)
    # Many names would stand on the lines.
    outside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(groups) > 4 else {}
    ax.legend(frameon=False, **outside)
    return ax


def plot_kernel_estimates(map_: FeatureEstimator | FeatureMap, X: np.ndarray, ax: Axes | None = None) -> Axes:
    """Plot estimated against exact kernel values of all pairs of rows (Feng et al. 2015, Figure 1 a to c).

    Each pair is a point (k(x, y), z(x).z(y)); the diagonal is where exact features would lie.

    Parameters
    ----------
    map_ : fitted feature estimator or FeatureMap
        A fitted feature estimator or its `map_`, which must know its kernel.
    X : array of shape (n, d)
        Rows; n^2 / 2 points are drawn.
    ax : matplotlib axes or None, default=None
        Axes to draw on. None makes new ones.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Raises
    ------
    InputError
        The map is not fitted, or X has fewer than two rows.
    """
    map_ = getattr(map_, "map_", map_)
    if not isinstance(map_, FeatureMap):
        raise InputError(
            f"plot_kernel_estimates takes a fitted feature estimator or its map_, got {type(map_).__name__}; "
            "call fit first"
        )
    if len(X) < 2:
        raise InputError(f"plot_kernel_estimates needs pairs of rows, got {len(X)} row(s)")
    Z = map_(X)
    pairs = np.triu_indices(len(X), 1)
    exact, estimated = map_.exact_kernel(X)[pairs], (Z @ Z.T)[pairs]
    ax = _axes(ax)
    ax.plot(exact, estimated, ".", markersize=2, alpha=0.4, rasterized=True)
    ends = [min(exact.min(), estimated.min()), max(exact.max(), estimated.max())]
    ax.plot(ends, ends, color="black", linewidth=1)
    ax.set_xlabel("kernel k(x, y)")
    ax.set_ylabel("estimate z(x) · z(y)")
    ax.grid(alpha=0.3)
    return ax


def _round_ticks(values: list[Any]) -> list[float]:
    """1, 2 and 5 times powers of ten near the values: a log axis of less than a decade has too few labels."""
    positive = [float(v) for v in values if v > 0]
    if not positive:
        return []
    low, high = min(positive) / 1.5, max(positive) * 1.5
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [m * 10.0**k for k in decades for m in (1, 2, 5) if low <= m * 10.0**k <= high]
    return ticks if len(ticks) <= 12 else [t for t in ticks if np.isclose(np.log10(t) % 1, 0)]


def plot_alphas(model: BaseEstimator, ax: Axes | None = None) -> Axes:
    """Plot the cross-validation error against alpha, the chosen one marked.

    Parameters
    ----------
    model : fitted model or Pipeline
        A model fitted with several alphas, or a Pipeline that ends in one.
    ax : matplotlib axes or None, default=None
        Axes to draw on. None makes new ones.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Raises
    ------
    InputError
        The model was not cross-validated.
    """
    if isinstance(model, Pipeline):
        model = model[-1]
    errors = getattr(model, "cv_errors_", None)
    if errors is None:
        raise InputError(
            f"plot_alphas needs a model fitted with several alphas; this {type(model).__name__} has no cv_errors_"
        )
    alphas = np.asarray(model.alphas_, dtype=np.float64)
    order = np.argsort(alphas)
    chosen = int(np.flatnonzero(alphas == model.alpha_)[0])
    ax = _axes(ax)
    ax.plot(alphas[order], np.asarray(errors)[order], marker="o", markersize=5)
    ax.plot(
        alphas[chosen], errors[chosen], "o", markersize=12, fillstyle="none", color="C3",
        label=f"chosen: {alphas[chosen]:g}",
    )  # fmt: skip
    # A penalty of 0 has no place on a logarithmic axis.
    if (alphas > 0).all():
        ax.set_xscale("log")
    else:
        ax.set_xscale("symlog", linthresh=min(alphas[alphas > 0], default=1.0))
    ax.set_xlabel("alpha")
    ax.set_ylabel("mean squared error, held-out rows")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return ax


def plot_learning_curve(
    model: BaseEstimator | Mapping[str, BaseEstimator], ax: Axes | None = None, *, x: str = "epochs"
) -> Axes:
    """Plot the loss of each epoch, and the validation score where there is one, on an axis of its own at the
    right.

    Parameters
    ----------
    model : fitted model, Pipeline or dict
        A fitted SGD model, a Pipeline that ends in one, or {name: model} to compare several.
    ax : matplotlib axes or None, default=None
        Axes to draw on. None makes new ones.
    x : {"epochs", "seconds"}, default="epochs"
        Horizontal axis: epochs, or seconds of training.

    Returns
    -------
    matplotlib axes
        The axes of the loss.

    Raises
    ------
    InputError
        A model has no history, there is no model, or `x` is another word.
    """
    if x not in ("epochs", "seconds"):
        raise InputError(f"x is 'epochs' or 'seconds', got {x!r}")
    named = dict(model) if isinstance(model, Mapping) else {"": model}
    curves = {name: _history(fitted) for name, fitted in named.items()}
    if not curves:
        raise InputError("plot_learning_curve needs at least one model, got an empty mapping")
    ax = _axes(ax)
    scored = {name: [e for e in curve if e["validation_score"] is not None] for name, curve in curves.items()}
    right = ax.twinx() if any(scored.values()) else None
    lines: list[Any] = []
    for i, (name, curve) in enumerate(curves.items()):
        where = dict(zip((e["epoch"] for e in curve), _along(curve, x), strict=True))
        style: dict[str, Any] = {"marker": _MARKERS[i % len(_MARKERS)], "markersize": 5}
        # Losses and scores of one model: one colour and marker where there are several models.
        color = f"C{i if len(curves) > 1 else 0}"
        label = f"{name}: loss" if name else "loss"
        lines += ax.plot(list(where.values()), [e["loss"] for e in curve], label=label, color=color, **style)
        if right is not None and scored[name]:
            color = f"C{i if len(curves) > 1 else 1}"
            label = f"{name}: validation score" if name else "validation score"
            lines += right.plot(
                [where[e["epoch"]] for e in scored[name]], [e["validation_score"] for e in scored[name]],
                label=label, color=color, linestyle="--", **style,
            )  # fmt: skip
    losses = [e["loss"] for curve in curves.values() for e in curve]
    if min(losses) > 0 and max(losses) > 5 * min(losses):
        ax.set_yscale("log")
        ticks = _round_ticks(losses)
        if len(ticks) > 1:
            ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
            ax.minorticks_off()
    if x == "epochs":
        locator: Any = ax.xaxis.get_major_locator()
        locator.set_params(integer=True)
    ax.set_xlabel("epoch" if x == "epochs" else "seconds of training")
    ax.set_ylabel("loss with penalty, rows of the epoch")
    ax.grid(alpha=0.3)
    if right is not None:
        right.set_ylabel("score on held-out rows")
    if len(lines) > 1:
        ax.legend(handles=lines, frameon=False, loc="best" if right is None else "center right")
    return ax


def _history(model: Any) -> list[dict[str, Any]]:
    if isinstance(model, Pipeline):
        model = model[-1]
    history = getattr(model, "history_", None)
    if not history:
        raise InputError(
            f"plot_learning_curve needs a model fitted by SGD; this {type(model).__name__} has no history_"
        )
    return list(history)


def _along(curve: list[dict[str, Any]], x: str) -> list[float]:
    if x == "epochs":
        return [entry["epoch"] for entry in curve]
    return np.cumsum([entry["seconds"] for entry in curve]).tolist()


def plot_spectrum(tefm: BaseEstimator, ax: Axes | None = None) -> Axes:
    """Plot the share of the features' energy along each direction, and what the first l directions leave out.

    Parameters
    ----------
    tefm : fitted TEFM or Pipeline
        A fitted TEFM, or a Pipeline that holds one.
    ax : matplotlib axes or None, default=None
        Axes to draw on. None makes new ones.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Raises
    ------
    InputError
        The model has no spectrum.
    """
    if isinstance(tefm, Pipeline):
        tefm = next((step for step in tefm if hasattr(step, "explained_energy_")), tefm)
    shares = getattr(tefm, "explained_energy_", None)
    if shares is None:
        raise InputError(
            f"plot_spectrum needs a fitted TEFM; this {type(tefm).__name__} has no explained_energy_"
        )
    shares = np.asarray(shares, dtype=np.float64)
    count = np.arange(1, len(shares) + 1)
    # Rounding leaves a few 1e-8 where everything is explained, or less than nothing.
    left = np.maximum(1.0 - np.cumsum(shares), 1e-8)
    ax = _axes(ax)
    ax.plot(count, np.maximum(shares, 1e-12), label="along direction l")
    ax.plot(count, left, linestyle="--", label="beyond the first l")
    ax.set_yscale("log")
    ax.set_xlabel("direction l")
    ax.set_ylabel("share of the energy |F|²")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return ax


def plot_importance(importance: Importance, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Plot what a model loses where each column is permuted, the most important at the top.

    Parameters
    ----------
    importance : Importance
        What `distrf.permutation_importance` returned. Bars are means over the repeats, lines their standard deviations.
    ax : matplotlib axes or None, default=None
        Axes to draw on. None makes new ones.
    most : int, default=20
        Columns or groups that are drawn; the others are left out, and counted below.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Raises
    ------
    InputError
        `most` is below 1.
    """
    if most < 1:
        raise InputError(f"most is at least 1, got {most}")
    drawn = importance.order[:most]
    ax = _axes(ax)
    places = np.arange(len(drawn))
    ax.barh(
        places,
        importance.importances_mean[drawn],
        xerr=importance.importances_std[drawn],
        height=0.7,
        error_kw={"capsize": 3, "linewidth": 1},
    )
    ax.set_yticks(places, [importance.names[i] for i in drawn])
    ax.invert_yaxis()
    ax.axvline(0.0, color="black", linewidth=1)
    less = importance.score in ("accuracy", "r2")
    what = f"{importance.score.replace('_', ' ')} {'lost' if less else 'gained'} where the column is permuted"
    left = len(importance.names) - len(drawn)
    ax.set_xlabel(f"{what}\n{left:,} less important ones are not drawn" if left else what)
    ax.grid(alpha=0.3, axis="x")
    return ax


def plot_training(pipeline: Any) -> Any:
    """Draw what a training leaves: its learning curve or the errors of several alphas, and the spectrum of a TEFM.

    Parameters
    ----------
    pipeline : Pipeline
        A fitted one whose last step is a model, or a loaded one, which keeps what is drawn.

    Returns
    -------
    matplotlib.axes.Axes
        The first of the axes.

    Raises
    ------
    InputError
        There is nothing to draw: ridge with one alpha.
    """
    model = pipeline[-1]
    displays: list[Any] = []
    if any(hasattr(step, "explained_energy_") for step in pipeline):
        displays.append(plot_spectrum)
    if hasattr(model, "history_"):
        displays.append(plot_learning_curve)
    elif model.cv_errors_ is not None:
        displays.append(plot_alphas)
    if not displays:
        raise InputError(
            "a training is drawn by its epochs, several alphas or a TEFM; this is ridge with one alpha"
        )
    if len(displays) == 1:
        return displays[0](pipeline)
    from matplotlib import pyplot

    _, axes = pyplot.subplots(1, len(displays), figsize=(6.4 * len(displays), 4.8), layout="constrained")
    for display, ax in zip(displays, axes, strict=True):
        display(pipeline, ax)
    return axes[0]
