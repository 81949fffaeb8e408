"""The choice between range finder and Gram matrix by size and memory, and the plan of either. Nothing runs."""

from __future__ import annotations

from dataclasses import dataclass

from dask.utils import format_bytes

from ..execution.memory import PassMemory, Workers, machine_memory, states_held
from ..execution.passes import count_segments
from ..execution.planned import Costs, PlannedRows
from ..gram_tiles import tiles_nbytes
from ..maps.tiles import FeatureTiles
from .reductions import GramTilesReduction, ProductReduction

SOLVERS = ("auto", "finder", "gram")
#: Fewest rows for each feature of a Gram matrix by "auto": with fewer, its eigenvectors in the client take longer than its pass saves.
#: Those of up to `_QUICK` features take a fraction of a second.
_ROWS_PER_FEATURE, _QUICK = 8, 1_024
#: The most columns of a sketch that has more than directions: eigenvectors of a wider one take longer than its passes.
_WIDEST = 2_048
#: Most bytes of all states of one column block on a worker: 1 GiB.
COLUMN_BLOCK_BYTES = 2**30


@dataclass(frozen=True)
class Search:
    """The size of a search, from which costs follow.

    source : the features of `n_rows` rows, `itemsize` bytes a number; width : l plus oversampling
    n_iter : products with F'F after the sketch
    """

    n_rows: int
    source: FeatureTiles
    width: int
    itemsize: int
    n_iter: int


def column_blocks(n_rows: int, source: FeatureTiles, width: int) -> list[tuple[int, int]]:
    """Cut the features into column blocks, each summed in a pass of its own, if sums of D l numbers are too large.

    The cut depends on the data alone. In a pass a worker holds a few states of (last - first) l float64
    numbers, which a column block keeps within 1 GiB in all. Each pass computes the product F Q again, which is half of the
    work.
    """
    D = source.n_features
    whole = ProductReduction(source, width=width, last=D)
    if states_held(count_segments(n_rows, whole)) * whole.nbytes <= COLUMN_BLOCK_BYTES:
        return [(0, D)]
    step = max(1024, COLUMN_BLOCK_BYTES // (states_held(64) * 8 * width) // 1024 * 1024)
    return [(a, min(a + step, D)) for a in range(0, D, step)]


def sketch_width(n_rows: int, source: FeatureTiles, width: int) -> int:
    """Columns of Theta: twice the directions, of which the leading ones of the sketch are kept.

    Where the spectrum falls slowly, more columns gain much. On cpu_act (512 directions of 4,096) the residual over the
    best one is, after one product and after two, 1.055 and 1.022 with half as many columns again, and 1.045 and 1.019
    with twice as many. There are at most 2,048, or `width` if that is more, and just `width` where sums go by column blocks.
    """
    wide = min(source.n_features, max(width, min(2 * width, _WIDEST)))
    return wide if len(column_blocks(n_rows, source, wide)) == 1 else width


def gram_client_bytes(n_features: int) -> int:
    """Bytes in the client for solver="gram": the tiles as received, the matrix, and LAPACK's copy and eigenvectors."""
    return tiles_nbytes(n_features) + 24 * n_features**2


def choose(solver: str, search: Search, workers: Workers) -> tuple[str, str]:
    """Choose the solver, with the reason in words: "finder" and "gram" as they are; "auto" is the Gram matrix where it is cheaper and fits.

    The finder takes 4 D l operations of a row for the sketch, which has twice the columns, and for each product, and 2 D l for the
    singular values; the matrix D^2, in float64, where products of float32 numbers cost half.
    """
    if solver != "auto":
        return solver, "asked for"
    # The number of workers does not enter: the solver, and so the bits, must not depend on it.
    D, n, reduction = search.source.n_features, search.n_rows, GramTilesReduction(search.source)
    most = (6 + 4 * search.n_iter) * search.width * search.itemsize / 8
    if most < D:
        return "finder", f"{D} features are more than {most:.0f}, above which a Gram matrix costs more"
    if D > _QUICK and n < _ROWS_PER_FEATURE * D:
        return "finder", f"{n} rows are too few for the eigenvectors of {D} features"
    segments = count_segments(n, reduction)
    memory = PassMemory(
        0, reduction.scratch_bytes, reduction.nbytes, segments=segments, threads=workers.threads
    )
    obstacle = against_gram(D, memory, workers, gram_client_bytes(D))
    return ("finder", obstacle) if obstacle else ("gram", f"one pass, and {D} features are few")


def against_gram(n_features: int, memory: PassMemory, workers: Workers, client_bytes: int) -> str:
    """Why the pass for a Gram matrix does not fit into a worker, or what is made of it into the client; "" if both do."""
    needs, have = f"the Gram matrix of {n_features} features needs", machine_memory()
    if workers.memory_limit and memory.peak > workers.memory_limit:
        return f"{needs} {format_bytes(memory.peak)} on a worker of {format_bytes(workers.memory_limit)}"
    if client_bytes > have:
        return f"{needs} {format_bytes(client_bytes)} in the client of {format_bytes(have)} to be factored"
    return ""


@dataclass(frozen=True)
class SubspaceCosts:
    """Costs of finding a subspace, for the plan.

    passes : sweeps over the rows; reduction : the one with the largest state
    learned_bytes : of Q on a worker, that of the pass before and the next; client_bytes : the most that the client holds
    """

    passes: int
    reduction: GramTilesReduction | ProductReduction
    learned_bytes: int
    client_bytes: int

    def costs(self, rows: PlannedRows) -> Costs:
        """These costs as a plan adds them up."""
        memory = rows.pass_memory(self.reduction, self.learned_bytes)
        return Costs((rows.passes(self.passes, self.reduction),), memory=memory, client_bytes=self.client_bytes)


def subspace_costs(solver: str, search: Search) -> SubspaceCosts:
    """Passes and memory of a range finder with the solver chosen, at its full width."""
    n_rows, source, width, D = search.n_rows, search.source, search.width, search.source.n_features
    if solver == "gram":
        return SubspaceCosts(1, GramTilesReduction(source), 0, gram_client_bytes(D))
    blocks = column_blocks(n_rows, source, width)
    widest = ProductReduction(source, width=sketch_width(n_rows, source, width), last=blocks[0][1])
    passes = (1 + search.n_iter) * len(blocks) + 1
    # The client holds the sum of a column block as it arrives and its factors, and Q, the next one, and two copies of Q
    # while it sends it. A worker may still have Q of the pass before when it gets that of the next.
    basis = search.itemsize * D * width
    client, learned = 4 * widest.nbytes + 4 * basis, min(2, search.n_iter * len(blocks) + 1) * basis
    return SubspaceCosts(passes, widest, learned, client)
