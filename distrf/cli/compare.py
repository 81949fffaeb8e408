"""Compare the ways to draw a projection on one data set: kernel error and time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o
from .groups import PATH
from .session import Session
from .usage import UsageError, whole_numbers

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from .estimator_options import FourierOptions

_NORMS = ("frobenius", "spectral", "mse")


def compare(
    source: o.Source,
    map: FourierOptions,
    n_components: Annotated[
        str, typer.Option("--n-components", "-D", help="Numbers of random features, comma-separated.")
    ] = "256,1024,4096",
    projections: Annotated[
        str | None,
        typer.Option("--projections", help="Only these, comma-separated. Default: all that fit the kernel."),
    ] = None,
    draws: Annotated[int, typer.Option("--draws", help="Draws of each map.", min=1, max=2**20)] = 5,
    n_rows: Annotated[
        int, typer.Option("--n-rows", help="Sampled rows the kernel matrix is taken on.", min=2, max=2**20)
    ] = 1000,
    plot: Annotated[
        str | None, PATH, typer.Option("--plot", help="Write a plot of the errors to this file.")
    ] = None,
    *,
    rows: o.ReadOptions,
    run: o.RunOptions,
) -> None:
    """Kernel error and time of every projection that fits the kernel, on a sample of the rows."""
    from ..execution.sampling import sampled_rows, take_rows
    from ..store import check_apart
    from .outputs import check_writable
    from .plots import check_plot

    session = Session(run)
    sizes = whole_numbers(n_components)
    check_plot(plot)
    check_apart(plot, [source], what="--plot")
    check_writable(plot)
    data = o.open_source(source, rows)
    usable, skipped = [], {}
    for name in _chosen(map, projections):
        for size in sizes:
            try:
                map.with_(name, size, map.seed).make(data.d)
                usable.append((name, size))
            except UsageError as error:
                skipped[f"{name}, D = {size}"] = str(error)
    if not usable:
        raise UsageError("; ".join(dict.fromkeys(skipped.values())))
    with session.connected():
        X, _ = data.rows()
        sample = take_rows(X, sampled_rows(X.shape[0], n_rows, map.seed, "compare"))
    seeds = range(map.seed, map.seed + draws)
    measured = [_measure(name, size, sample, map, seeds) for name, size in usable]
    if plot:
        _plot(measured, plot)
    result = {"rows": len(sample), "seeds": draws, "maps": measured, "skipped": skipped, "plot": plot}
    session.finish(result, lambda console: _print(console, result))


def _chosen(map: FourierOptions, projections: str | None) -> list[str]:
    """Projections asked for, or all that can serve the kernel (the papers' flawed forms left out)."""
    from ..errors import InputError
    from ..kernels.base import kernel_with
    from ..kernels.shift_invariant import Kernel
    from ..projections import PROJECTIONS

    if projections is not None:
        wanted = o.listed(projections) or []
        unknown = [name for name in wanted if name not in PROJECTIONS]
        if unknown:
            raise UsageError(f"unknown --projections {unknown}; known: {', '.join(sorted(PROJECTIONS))}")
        return wanted
    plain = map.with_("dense", 2, map.seed).make()
    chosen = o.checked(lambda: kernel_with(plain.kernel, plain.get_params(deep=False), Kernel))
    names = []
    for name, projection in PROJECTIONS.items():
        try:
            projection.check(chosen)
        except InputError:
            continue
        if not name.endswith("-paper"):
            names.append(name)
    return names


def _measure(name: str, size: int, rows: np.ndarray, map: FourierOptions, seeds: range) -> dict[str, Any]:
    """Mean and standard error of each kernel error over seeds, and the median time of one transform."""
    import numpy as np

    from ..metrics import kernel_error

    errors: dict[str, list[float]] = {norm: [] for norm in _NORMS}
    seconds = []
    for seed in seeds:
        estimator = map.with_(name, size, seed).make(rows.shape[1])
        estimator.set_params(n_jobs=1).fit(rows)
        estimator.transform(rows[:8])  # makes the weights
        start = time.perf_counter()
        estimator.transform(rows)
        seconds.append(time.perf_counter() - start)
        error = kernel_error(estimator, rows, n_rows=len(rows), norms=_NORMS)
        for norm in _NORMS:
            errors[norm].append(getattr(error, norm))
    entry: dict[str, Any] = {"map": name, "n_components": size, "seconds": float(np.median(seconds))}
    for norm, values in errors.items():
        entry[norm] = float(np.mean(values))
        entry[f"{norm}_se"] = float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else None
    entry["draws"] = errors["frobenius"]
    return entry


def _plot(measured: list[dict[str, Any]], path: str) -> None:
    from ..plot import plot_kernel_error
    from .plots import write_plot

    table = [
        {"map": m["map"], "n_components": m["n_components"], "error": draw}
        for m in measured
        for draw in m["draws"]
    ]
    axes = plot_kernel_error(table)
    axes.set_ylabel("|K - ZZ'|_F / |K|_F")
    write_plot(axes, path)


def _print(console: Console, result: dict[str, Any]) -> None:
    from rich.table import Table

    title = f"kernel error on {result['rows']:,} rows, {result['seeds']} draws, mean ± standard error"
    table = Table(title=title, title_justify="left")
    for heading in ("projection", "D", "Frobenius", "spectral", "MSE", "ms"):
        left = heading == "projection"
        table.add_column(heading, justify="left" if left else "right", no_wrap=not left, overflow="fold")
    before = None
    for m in result["maps"]:
        name, before = ("" if m["map"] == before else m["map"]), m["map"]
        cells = [_cell(m[norm], m[f"{norm}_se"]) for norm in _NORMS]
        table.add_row(name, f"{m['n_components']:,}", *cells, f"{1000 * m['seconds']:.1f}")
    console.print(table)
    for what, why in result["skipped"].items():
        console.print(f"skipped {what}: {why}")
    if result["plot"]:
        console.print(f"plot written to {result['plot']}")


def _cell(mean: float, error: float | None) -> str:
    return f"{mean:.3g}" + (f" ±{error:.0e}".replace("e-0", "e-") if error is not None else "")
