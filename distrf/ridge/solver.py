"""Which solver a ridge fit uses: one pass for the Gram matrix where that fits into memory, else passes of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dask.base import is_dask_collection
from dask.utils import format_bytes

from ..execution.memory import PassMemory, Workers, machine_memory
from ..execution.passes import count_segments, pass_memory
from ..execution.scheduler import current_client
from .gram import GramReduction

SOLVERS = ("auto", "gram", "passes")


def choose_solver(
    solver: str, reductions: Sequence[GramReduction], arrays: Sequence[Any]
) -> tuple[GramReduction, str, str]:
    """Choose "gram" or "passes" for a fit to these arrays; see `first_that_fits` for arguments and result."""
    n = arrays[0].shape[0]
    workers = Workers.of_client(current_client())

    def memory(reduction: GramReduction) -> PassMemory:
        if not is_dask_collection(arrays[0]):
            return PassMemory(0, 0, reduction.nbytes, segments=count_segments(n, reduction))
        segments = min(count_segments(n, reduction), len(arrays[0].chunks[0]))
        return pass_memory(reduction, list(arrays), segments, workers)

    return first_that_fits(solver, reductions, memory, workers)


def first_that_fits(
    solver: str,
    reductions: Sequence[GramReduction],
    memory: Callable[[GramReduction], PassMemory],
    workers: Workers,
) -> tuple[GramReduction, str, str]:
    """Choose the first reduction whose pass fits, and the solver. Returns (reduction, "gram" or "passes", the reason).

    solver : "gram" and "passes" are returned as they are; "auto" is "gram" if some reduction fits into workers and client
    reductions : in order of preference; if none fits, the last is returned
    memory : function that returns the memory of a pass with a reduction
    """
    for reduction in reductions:
        chosen, reason = solver_that_fits(reduction, memory(reduction), workers, reduction.solve_bytes)
        if chosen == "gram":
            break
    return (reduction, chosen, reason) if solver == "auto" else (reduction, solver, "asked for")


def solver_that_fits(
    reduction: GramReduction, memory: PassMemory, workers: Workers, solve_bytes: int
) -> tuple[str, str]:
    """("gram" if this pass and its final solve fit into memory, else "passes"; the reason in words)."""
    D = reduction.n_features
    if workers.memory_limit and memory.peak > workers.memory_limit:
        return "passes", (
            f"the Gram matrix of {D} features needs {format_bytes(memory.peak)} on a worker of "
            f"{format_bytes(workers.memory_limit)}"
        )
    have = machine_memory()
    if solve_bytes > have:
        return "passes", (
            f"factoring the Gram matrix of {D} features needs {format_bytes(solve_bytes)} in the client of "
            f"{format_bytes(have)}"
        )
    return "gram", f"the Gram matrix of {D} features fits: one pass, exact"
