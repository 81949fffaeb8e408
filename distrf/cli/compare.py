"""Compare the ways to draw a projection on one data set: kernel error and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import options as o
from .groups import PATH
from .session import Session
from .usage import checked, whole_numbers

if TYPE_CHECKING:
    from rich.console import Console

    from ..comparing import ProjectionErrors
    from .estimator_options import FourierOptions


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
    n_draws: Annotated[int, typer.Option("--n-draws", help="Draws of each map.", min=1, max=2**20)] = 5,
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
    from ..comparing import compare_projections, usable_projections
    from ..store import check_apart, check_writable
    from .plots import check_plot

    session = Session(run)
    sizes, names = whole_numbers(n_components), o.listed(projections)
    check_plot(plot)
    check_apart(plot, [source], what="--plot")
    check_writable(plot)
    data = o.open_source(source, rows)
    estimator = map.make()
    checked(lambda: usable_projections(estimator, data.d, sizes, names))
    with session.connected():
        X, _ = data.rows()
        found = compare_projections(
            estimator, X, n_components=sizes, projections=names, n_draws=n_draws, n_rows=n_rows
        )
    if plot:
        _plot(found, plot)
    result = found.to_dict() | {"n_draws": n_draws, "plot": plot}
    session.finish(result, lambda console: _print(console, found, plot))


def _plot(found: ProjectionErrors, path: str) -> None:
    from ..plot import plot_kernel_error
    from .plots import write_plot

    table = [
        {"map": one.projection, "n_components": one.n_components, "error": draw}
        for one in found.found
        for draw in one.errors["frobenius"]
    ]
    axes = plot_kernel_error(table)
    axes.set_ylabel("|K - ZZ'|_F / |K|_F")
    write_plot(axes, path)


def _print(console: Console, result: ProjectionErrors, plot: str | None) -> None:
    from rich.table import Table

    draws = len(result.found[0].errors["frobenius"])
    title = f"kernel error on {result.n_rows:,} rows, {draws} draws, mean ± standard error"
    table = Table(title=title, title_justify="left")
    for heading in ("projection", "D", "Frobenius", "spectral", "MSE", "ms"):
        left = heading == "projection"
        table.add_column(heading, justify="left" if left else "right", no_wrap=not left, overflow="fold")
    before = None
    for one in result.found:
        name, before = ("" if one.projection == before else one.projection), one.projection
        cells = [_cell(one.mean(norm), one.standard_error(norm)) for norm in one.errors]
        table.add_row(name, f"{one.n_components:,}", *cells, f"{1000 * one.seconds:.1f}")
    console.print(table)
    for what, why in result.skipped.items():
        console.print(f"skipped {what}: {why}")
    if plot:
        console.print(f"plot written to {plot}")


def _cell(mean: float, error: float | None) -> str:
    return f"{mean:.3g}" + (f" ±{error:.0e}".replace("e-0", "e-") if error is not None else "")
