"""Finder or Gram matrix: which is cheaper, whether it fits, and why. Nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dask.utils import format_bytes

from ..execution.memory import PassMemory, Workers, states_held
from ..execution.passes import count_segments
from ..execution.planned import Costs, PlannedRows, cached_bytes
from ..gram_tiles import tiles_nbytes
from ..maps.tiles import FeatureTiles
from .reductions import GramTilesReduction, ProductReduction
from .sketches import make_sketch

SOLVERS = ("auto", "finder", "gram")
#: An eigendecomposition of D x D in the client takes about as long as this times D^3 operations of a pass. The
#: number of workers is left out on purpose: the solver, and so the bits, must not depend on it.
_EIGH = 20.0
#: Partial results of one panel of features, all that meet on a worker: 1 GiB.
PANEL_BYTES = 2**30
#: Partial results as large as those of a panel that meet on a worker.
PARTIALS = states_held(PANEL_BYTES, 64)


@dataclass(frozen=True)
class Choice:
    """The solver to take, and the reason in words."""

    solver: str
    reason: str


def partials_held(n_rows: int, reduction: Any) -> int:
    """How many partial results of a pass meet on a worker, at most."""
    return states_held(reduction.nbytes, count_segments(n_rows, reduction))


def panels(n_rows: int, source: FeatureTiles, width: int) -> list[tuple[int, int]]:
    """Panels of features whose products are summed in separate passes, because their sums take D l numbers.

    A function of the data alone. A pass sums at most four partial results of (last - first) l float64 on a
    worker; panels keep these within 1 GiB. Each panel repeats the product F Q, not the other half of the work.
    """
    D = source.n_features
    whole = ProductReduction(source, width=width, last=D)
    if partials_held(n_rows, whole) * whole.nbytes <= PANEL_BYTES:
        return [(0, D)]
    step = max(1024, PANEL_BYTES // (PARTIALS * 8 * width) // 1024 * 1024)
    return [(a, min(a + step, D)) for a in range(0, D, step)]


def sketch_width(n_rows: int, source: FeatureTiles, width: int) -> int:
    """Columns of Theta: twice the directions, of which the leading ones of the sketch are kept.

    A slowly falling spectrum (cpu_act, 512 of 4,096) asks for it: residual over the best one after one product
    and two, 1.055 and 1.022 with half as many again, 1.045 and 1.019 with twice as many. Just `width` where sums go
    by panels.
    """
    wide = min(source.n_features, 2 * width)
    return wide if len(panels(n_rows, source, wide)) == 1 else width


def finder_flops(n_rows: int, source: FeatureTiles, width: int, sketch: str, n_iter: int, final: bool) -> float:
    """Arithmetic of the finder: a sketch, `n_iter` products, and the final pass."""
    D, count = source.n_features, len(panels(n_rows, source, width))
    feature, again = source.flops_per_row(), 0 if source.whole() else 1
    product = count * (feature + 2.0 * D * width) + again * feature + 2.0 * D * width
    theta = make_sketch(sketch, n_rows, sketch_width(n_rows, source, width), 0)
    sketching = feature + theta.flops_per_row(D)
    last = feature + 2.0 * D * width + 2.0 * width**2
    return n_rows * (sketching + n_iter * product + final * last)


def gram_flops(n_rows: int, source: FeatureTiles, itemsize: int) -> float:
    """Arithmetic of the Gram way, in operations on numbers of `itemsize` bytes: its products are float64."""
    D = float(source.n_features)
    return n_rows * (source.flops_per_row() + D**2 * (8 / itemsize)) + _EIGH * D**3


def gram_client_bytes(n_features: int) -> int:
    """Tiles as they arrive, the matrix and LAPACK's copy with vectors."""
    return tiles_nbytes(n_features) + 24 * n_features**2


def choose(
    solver: str,
    n_rows: int,
    source: FeatureTiles,
    width: int,
    sketch: str,
    n_iter: int,
    final: bool,
    workers: Workers,
    itemsize: int,
) -> Choice:
    """The solver that `solver` stands for, for features of `itemsize` bytes."""
    if solver != "auto":
        return Choice(solver, "asked for")
    import psutil

    D = source.n_features
    reduction = GramTilesReduction(source)
    segments = count_segments(n_rows, reduction)
    memory = PassMemory(
        0, reduction.scratch_bytes, reduction.nbytes, segments=segments, threads=workers.threads
    )
    if workers.memory_limit and memory.peak > workers.memory_limit:
        return Choice(
            "finder",
            f"a Gram matrix of {D} features needs {format_bytes(memory.peak)} on a worker of "
            f"{format_bytes(workers.memory_limit)}",
        )
    have = psutil.virtual_memory().total
    if gram_client_bytes(D) > have:
        return Choice(
            "finder",
            f"its eigenvectors need {format_bytes(gram_client_bytes(D))} in the client of {format_bytes(have)}",
        )
    finder, gram = (
        finder_flops(n_rows, source, width, sketch, n_iter, final),
        gram_flops(n_rows, source, itemsize),
    )
    taken, other = ("gram", "finder") if gram <= finder else ("finder", "gram")
    costs = {"gram": gram, "finder": finder}
    return Choice(taken, f"{costs[taken]:.2g} operations against {costs[other]:.2g} of the {other}")


@dataclass(frozen=True)
class SubspaceCosts:
    """What finding a subspace takes, for the plan; nothing is run.

    passes : sweeps over the rows; flops : of all of them; reduction : the one with the largest state
    learned_bytes : Q as the workers get it; client_bytes : the most that the client holds
    """

    choice: Choice
    passes: int
    flops: float
    reduction: GramTilesReduction | ProductReduction
    learned_bytes: int
    client_bytes: int

    def costs(self, rows: PlannedRows, weights: float) -> Costs:
        """As a part of a plan; weights : bytes of the weights of the map below."""
        reduction, at_once = self.reduction, rows.uncut_rows
        segments = rows.segments(reduction, at_once)
        memory = PassMemory(
            at_once * rows.columns * rows.itemsize,
            reduction.scratch_bytes,
            reduction.nbytes,
            cached_bytes(rows.weights + weights, rows.itemsize) + self.learned_bytes,
            segments,
            rows.workers.threads,
        )
        flops = self.flops + self.passes * rows.n * rows.map_flops
        tasks = self.passes * (2 * segments - 1)
        return Costs(
            self.passes, tasks, self.passes, flops=flops, memory=memory, client_bytes=self.client_bytes
        )


def subspace_costs(
    choice: Choice,
    n_rows: int,
    source: FeatureTiles,
    width: int,
    sketch: str,
    n_iter: int,
    final: bool,
    itemsize: int,
) -> SubspaceCosts:
    """Passes, arithmetic and memory of `find_subspace` with the solver chosen, at its full width."""
    D = source.n_features
    if choice.solver == "gram":
        return SubspaceCosts(
            choice, 1, gram_flops(n_rows, source, itemsize), GramTilesReduction(source), 0, gram_client_bytes(D)
        )
    cut = panels(n_rows, source, width)
    widest = ProductReduction(source, width=sketch_width(n_rows, source, width), last=cut[0][1])
    passes = (1 + n_iter) * len(cut) + final
    # The sum of a panel arrives, is factored beside it, and Q is sent while it is kept.
    client = 4 * widest.nbytes + 3 * itemsize * D * width
    flops = finder_flops(n_rows, source, width, sketch, n_iter, final)
    return SubspaceCosts(choice, passes, flops, widest, itemsize * D * width, client)
