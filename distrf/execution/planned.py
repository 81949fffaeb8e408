"""How a plan asks each step for its costs: `PlannedRows` are the rows that reach it, `Costs` are its answer.

The rows are lazy arrays, made by the maps as `transform` makes them. So a plan cuts blocks, counts segments and adds up memory by
the functions of the pass itself. Nothing is read.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from ..errors import InputError
from ..maps import FeatureMap, working_dtype
from .graph import stored_row_bytes
from .memory import PassMemory, Workers
from .passes import count_segments, pass_memory, pass_segments
from .row_blocks import array_blocks, blocks_are_csr, map_features, rows_per_block, source_of
from .sampling import TakeReduction, neighbours
from .segments import is_held
from .stored_blocks import stored_pieces


@dataclass(frozen=True)
class Phase:
    """Passes of a job that are alike: over the rows, over targets alone, or the epochs of SGD.

    Attributes
    ----------
    passes : int
    tasks : int
        Of all passes.
    sweeps : float
        How often all rows are read.
    parts : int
        Tasks of a pass, or of a batch, that can run at once. 0 of passes over samples or targets alone, which are short.
    """

    passes: int
    tasks: int
    sweeps: float
    parts: int

    @classmethod
    def of_passes(cls, passes: int, segments: int, sweeps: float | None = None) -> Phase:
        """Passes whose segments are added on a tree. Each reads all rows, unless `sweeps` says what short ones read."""
        tasks = passes * (2 * segments - 1)
        return cls(passes, tasks, passes, segments) if sweeps is None else cls(passes, tasks, sweeps, 0)


#: A worker that holds nothing.
_BARE = PassMemory(0, 0, 0)


@dataclass(frozen=True)
class Costs:
    """What one step of a job costs.

    Attributes
    ----------
    phases : tuple of Phase
        What runs, one phase after the other.
    written : int
        Bytes written.
    memory : PassMemory
        Of the pass with the highest peak on a worker.
    client_bytes : int
        The most that the client holds.
    notes : tuple of str
        Sentences for the user: what was chosen or assumed.
    """

    phases: tuple[Phase, ...] = ()
    written: int = 0
    memory: PassMemory = _BARE
    client_bytes: int = 0
    notes: tuple[str, ...] = ()

    def __add__(self, other: Costs) -> Costs:
        """The costs of two steps, one after the other. A worker has the records that it kept from the first during the second."""
        then = replace(other.memory, records=max(self.memory.records, other.memory.records))
        return Costs(
            self.phases + other.phases,
            self.written + other.written,
            then if then.peak > self.memory.peak else self.memory,
            max(self.client_bytes, other.client_bytes),
            self.notes + other.notes,
        )


@dataclass(frozen=True)
class PlannedRows:
    """The lazy rows that reach a step of a pipeline.

    Attributes
    ----------
    X : Dask array of shape (n, width)
        As the step gets them.
    stored : Dask array of shape (n, d)
        As they are read.
    workers : Workers
    outputs : int
        Columns of the encoded target, see `distrf.targets.Targets`.
    labelled : bool
        Whether there is a target.
    """

    X: da.Array
    stored: da.Array
    workers: Workers
    outputs: int = 1
    labelled: bool = False

    @classmethod
    def of(cls, X: Any, workers: Workers, labelled: bool = False) -> PlannedRows:
        """The rows of a Dask array, an array or a CSR matrix, before any step."""
        if not X.shape[0]:
            raise InputError(f"X: Found array with 0 sample(s), at least 1 is required; got shape {X.shape}")
        working_dtype(X.dtype)  # refuses what are no numbers
        if not is_dask_collection(X):
            X = array_blocks(X, f"planned-{uuid.uuid4().hex}", rows_per_block(X.dtype.itemsize * X.shape[1]))
        return cls(X, X, workers, labelled=labelled)

    def after(self, map_: FeatureMap) -> PlannedRows:
        """The rows that the next step gets: the features that `map_` makes of these."""
        return replace(self, X=map_features(map_, self.X))

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Columns as they are read."""
        return int(self.stored.shape[1])

    @property
    def width(self) -> int:
        """Columns that reach the step."""
        return int(self.X.shape[1])

    @property
    def blocks(self) -> int:
        return int(self.X.numblocks[0])

    @property
    def block_rows(self) -> int:
        return int(max(self.X.chunks[0]))

    @property
    def maps(self) -> list[FeatureMap]:
        """The maps of the steps before, in order."""
        return source_of(self.X)[1][::-1]

    @property
    def entries(self) -> int:
        """Numbers in a row that reaches the step."""
        return self.maps[-1].entries_per_row if self.maps else self.d

    @property
    def itemsize(self) -> int:
        """Bytes of a number that reaches the step."""
        return working_dtype(self.X.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that one sweep reads."""
        X = self.stored
        return int(self.n * stored_row_bytes(X) if blocks_are_csr(X) else X.nbytes)

    def segments(self, reduction: Any) -> int:
        """The number of segments of a pass: each reads some stored blocks, or several read the same one."""
        first, stored = (np.cumsum([0, *array.chunks[0][:-1]]) for array in (self.X, self.stored))
        edges = np.flatnonzero(np.isin(first, stored)).tolist()
        shared = stored_pieces(self.stored) is not None
        return len(pass_segments(reduction, [self.X], edges, held=is_held(self.stored), shared=shared))

    def passes(self, count: int, reduction: Any) -> Phase:
        """So many passes; a stored block is read by each segment that shares it."""
        segments = self.segments(reduction)
        again = 0.0 if is_held(self.stored) else max(1.0, segments / self.stored.numblocks[0])
        return replace(Phase.of_passes(count, segments), sweeps=count * again)

    def pass_memory(self, reduction: Any, sent: int = 0) -> PassMemory:
        """The memory of a pass; `sent` are the bytes of arrays that each worker gets in addition."""
        memory = pass_memory(reduction, [self.X], self.segments(reduction), self.workers)
        targets = 8 * self.block_rows * self.labelled
        return replace(memory, block=memory.block + targets, weights=memory.weights + sent)

    def costs_of(self, reduction: Any) -> Costs:
        """The costs of one pass with this reduction."""
        return Costs((self.passes(1, reduction),), memory=self.pass_memory(reduction))

    def sample_costs(self, size: int, *notes: str, blocks: int = 0) -> Costs:
        """The costs of reading a sample of so many rows: of the blocks that hold some; 0 blocks are those that are stored."""
        groups = -(-min(size, self.n) // neighbours(self.n))
        stored = blocks or self.stored.numblocks[0]
        share = 1.0 - (1.0 - 1.0 / stored) ** groups
        segments = min(count_segments(self.n, TakeReduction()), round(share * stored))
        return Costs((Phase.of_passes(1, max(segments, 1), share),), notes=notes)
