"""Which projection serves a kernel best: kernel error and time of each, on sampled rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .errors import InputError
from .execution.labelled import plain_rows
from .execution.sampling import sampled_rows, take_rows
from .features import RandomFourierFeatures
from .kernels.base import kernel_with
from .kernels.shift_invariant import Kernel
from .metrics import NORMS, kernel_error
from .parameters import NONE, name_in, ruled, several, whole
from .projections import PROJECTIONS
from .randomness import draw_seed
from .store.csv_format import reads_csv
from .typing import ArrayLike


@dataclass(frozen=True)
class ProjectionError:
    """Errors of one projection with D features.

    errors : {norm: error of each draw}, as of `distrf.metrics.kernel_error`; seconds : median time of one transform of
    the sampled rows on one core
    """

    projection: str
    n_components: int
    errors: dict[str, list[float]]
    seconds: float

    def mean(self, norm: str) -> float:
        """Mean over the draws."""
        return float(np.mean(self.errors[norm]))

    def standard_error(self, norm: str) -> float | None:
        """Of the mean; None of one draw."""
        draws = self.errors[norm]
        return float(np.std(draws, ddof=1) / len(draws) ** 0.5) if len(draws) > 1 else None


@dataclass(frozen=True)
class ProjectionErrors:
    """Errors of each projection and number of features, and why others were skipped: {what: reason}."""

    n_rows: int
    found: list[ProjectionError]
    skipped: dict[str, str]

    @property
    def n_draws(self) -> int:
        """Draws of each map."""
        return len(self.found[0].errors["frobenius"])

    def table(self) -> list[dict[str, Any]]:
        """The relative Frobenius error of each draw, as `distrf.plot.KernelErrorDisplay` takes it."""
        return [
            {"map": one.projection, "n_components": one.n_components, "error": draw, "seconds": one.seconds}
            for one in self.found
            for draw in one.errors["frobenius"]
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        projections = []
        for row in self.found:
            errors = {
                norm: {"mean": row.mean(norm), "standard_error": row.standard_error(norm), "draws": draws}
                for norm, draws in row.errors.items()
            }
            projections.append(vars(row) | {"errors": errors})
        counts = {"n_rows": self.n_rows, "n_draws": self.n_draws}
        return counts | {"projections": projections, "skipped": self.skipped}


def usable_projections(
    map: RandomFourierFeatures,
    d: int,
    n_components: Sequence[int] = (256, 1024, 4096),
    projections: Sequence[str] | None = None,
) -> tuple[list[RandomFourierFeatures], dict[str, str]]:
    """Unfitted maps with each projection and number of features that go together, and why others do not.

    projections : None takes all that can serve the kernel; the papers' flawed forms only by name

    Raises InputError where none is left.
    """
    kernel = kernel_with(map.kernel, map.get_params(deep=False), Kernel)
    maps, skipped = [], {}
    for name, projection in PROJECTIONS.items():
        if name not in (projections or PROJECTIONS) or (projections is None and name.endswith("-paper")):
            continue
        if projections is None:
            try:
                projection.check(kernel)
            except InputError:
                continue
        for size in n_components:
            candidate = clone(map).set_params(projection=name, n_components=size)
            try:
                candidate.planned_map(d)
                maps.append(candidate)
            except InputError as error:
                skipped[f"{name}, D = {size}"] = str(error)
    if not maps:
        raise InputError("; ".join(dict.fromkeys(skipped.values())))
    return maps, skipped


@reads_csv
@ruled(
    n_components=several(whole()),
    projections=several(name_in(PROJECTIONS)) | NONE,
    n_draws=whole(),
    n_rows=whole(2),
)
def compare_projections(
    map: RandomFourierFeatures,
    X: ArrayLike,
    *,
    n_components: Sequence[int] = (256, 1024, 4096),
    projections: Sequence[str] | None = None,
    n_draws: int = 5,
    n_rows: int = 1000,
) -> ProjectionErrors:
    """Measure kernel error and time of every projection that fits the kernel of a map.

    Parameters
    ----------
    map : RandomFourierFeatures
        Not fitted: brings kernel, length scale and phase. The first draw has its seed, the next ones those after it.
    X : {array, CSR matrix, Dask array} of shape (n, d)
        Rows; of a Dask array only sampled blocks are read.
    n_components : sequence of int, default=(256, 1024, 4096)
        Numbers of features, D.
    projections : sequence of str or None, default=None
        Names of projections. None takes all that fit the kernel.
    n_draws : int, default=5
        Draws of each map, at least 1.
    n_rows : int, default=1000
        Sampled rows that the kernel matrix is taken on, at least 2.

    Returns
    -------
    ProjectionErrors
        Errors of each draw, relative in the Frobenius and the spectral norm and mean squared, and the time.

    Raises
    ------
    InputError
        A projection is unknown, or none goes with the kernel and the numbers of features.
    """
    X = plain_rows(X)
    maps, skipped = usable_projections(map, X.shape[1], n_components, projections)
    seed = draw_seed(map.random_state)
    rows = take_rows(X, sampled_rows(X.shape[0], n_rows, seed, "compare"))
    return ProjectionErrors(len(rows), [_measure(map_, rows, seed, n_draws) for map_ in maps], skipped)


def _measure(map: RandomFourierFeatures, rows: Any, seed: int, draws: int) -> ProjectionError:
    errors: dict[str, list[float]] = {norm: [] for norm in NORMS}
    seconds = []
    for draw in range(draws):
        fitted = clone(map).set_params(random_state=seed + draw, n_jobs=1).fit(rows)
        fitted.transform(rows[:8])  # makes the weights
        start = time.perf_counter()
        fitted.transform(rows)
        seconds.append(time.perf_counter() - start)
        error = kernel_error(fitted, rows, n_rows=len(rows))
        for norm, draws_of_norm in errors.items():
            draws_of_norm.append(getattr(error, norm))
    return ProjectionError(map.projection, map.n_components, errors, float(np.median(seconds)))
