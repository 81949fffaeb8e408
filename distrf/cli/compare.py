"""Compare the ways to draw a projection on one data set: kernel error and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .function_options import FunctionOptions, ReadOptions
from .options import RunOptions
from .session import Session
from .signatures import Place
from .usage import checked

if TYPE_CHECKING:
    from rich.console import Console

    from ..comparing import ProjectionErrors
    from .estimator_options import FourierOptions


class CompareOptions(FunctionOptions):
    """The options of `distrf.compare_projections` beside those of the map."""

    function = "distrf.comparing:compare_projections"
    left_out = ("map", "X")


def compare(
    X: Place,
    *,
    map: FourierOptions,
    given: CompareOptions,
    plot: Place | None = None,
    rows: ReadOptions,
    run: RunOptions,
) -> None:
    """Kernel error and time of every projection that fits the kernel, on a sample of the rows.

    Parameters
    ----------
    X : Place
        Rows: a Zarr store, Parquet or CSV.
    plot : Place or None
        Write a plot of the errors to this file.

    Examples
    --------
    distrf compare data.zarr -D 1024,4096 --projections dense,orthogonal,fastfood --plot errors.png
    """
    from ..comparing import usable_projections
    from ..plot import KernelErrorDisplay
    from .plots import check_place, write_plot

    session = Session(run)
    check_place(plot, X)
    data = rows.open(X)
    estimator = map.make()
    wanted = {name: given.values[name] for name in ("n_components", "projections") if name in given.values}
    checked(lambda: usable_projections(estimator, data.d, **wanted))
    session.need_no_workers(data)
    with session.connected():
        found = given.call(estimator, data.rows()[0])
    if plot:
        axes = KernelErrorDisplay.from_table(found.table()).ax_
        axes.set_ylabel("|K - ZZ'|_F / |K|_F")
        write_plot(axes, plot)
    result = found.to_dict() | {"plot": plot}
    session.finish(result, lambda console: _print(console, found, plot))


def _print(console: Console, result: ProjectionErrors, plot: str | None) -> None:
    from rich.table import Table

    title = f"kernel error on {result.n_rows:,} rows, {result.n_draws} draws, mean ± standard error"
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
