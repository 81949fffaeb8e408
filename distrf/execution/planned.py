"""How a plan asks each step for its costs: `PlannedRows` describe the rows that reach it, `Costs` are its answer.

Nothing is read: all of it follows from metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dask.base import is_dask_collection

from ..errors import InputError
from ..maps import FeatureMap, working_dtype
from ..projections.cache import cached_bytes
from .graph import csr_row_bytes, stored_row_bytes
from .memory import PassMemory, Workers, reading_scratch, reduction_scratch
from .passes import count_segments, held_segments
from .row_blocks import blocks_are_csr, rows_per_block, split_chunk, target_block_bytes
from .sampling import TakeReduction, neighbours
from .segments import is_held
from .stored_blocks import map_flops, shared_segments


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
    """The rows that reach a step of a pipeline, known from metadata.

    Attributes
    ----------
    n, d : int
        Rows and columns as stored.
    itemsize : int
        Bytes of a number that reaches the step.
    read_itemsize : int
        Bytes of a number as it is read.
    stored_rows : int
        Rows of a stored block.
    nbytes : int
        Bytes that one sweep reads.
    workers : Workers
    sparse : bool
        Whether the stored rows are CSR.
    outputs : int
        Columns of the encoded target, see `distrf.targets.Targets`.
    labelled : bool
        Whether there is a target.
    maps : tuple of FeatureMap
        The maps of the steps before, in order.
    held : bool
        Whether the rows are in the memory of the cluster.
    """

    n: int
    d: int
    itemsize: int
    read_itemsize: int
    stored_rows: int
    nbytes: int
    workers: Workers
    sparse: bool = False
    outputs: int = 1
    labelled: bool = False
    maps: tuple[FeatureMap, ...] = ()
    held: bool = False

    @classmethod
    def of(cls, X: Any, workers: Workers, labelled: bool = False) -> PlannedRows:
        """The rows of a Dask array, an array or a CSR matrix, before any step."""
        n, d = X.shape
        if not n:
            raise InputError(f"X: Found array with 0 sample(s), at least 1 is required; got shape {(n, d)}")
        lazy, sparse, size = is_dask_collection(X), blocks_are_csr(X), working_dtype(X.dtype).itemsize
        block = max(X.chunks[0]) if lazy else min(n, rows_per_block(X.dtype.itemsize * d))
        nbytes = int(n * stored_row_bytes(X)) if sparse else X.nbytes
        return cls(
            n, d, size, size, block, nbytes, workers, sparse, labelled=labelled, held=lazy and is_held(X)
        )

    def after(self, map_: FeatureMap) -> PlannedRows:
        """The rows that the next step gets: the features that `map_` makes of these."""
        itemsize = map_.out_dtype(np.dtype(f"f{self.itemsize}")).itemsize
        return replace(self, maps=(*self.maps, map_), itemsize=itemsize)

    @property
    def read_bytes(self) -> int:
        """Bytes of a row as it is read."""
        stored = self.nbytes / self.n if self.sparse and self.n else 0.0
        return csr_row_bytes(stored, self.d * self.read_itemsize)

    @property
    def width(self) -> int:
        """Columns that reach the step."""
        return self.maps[-1].n_components if self.maps else self.d

    @property
    def entries(self) -> int:
        """Numbers in a row that reaches the step."""
        return self.maps[-1].entries_per_row if self.maps else self.d

    @property
    def widening(self) -> list[FeatureMap]:
        return [map_ for map_ in self.maps if not map_.same_columns]

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes in all its forms together: as it is read, after each map that widens it, and scaled."""
        made = sum(map_.entries_per_row for map_ in self.widening)
        if self.read_itemsize != self.itemsize:  # scaled rows are no longer those that were read
            made += max((map_.entries_per_row for map_ in self.maps if map_.same_columns), default=0)
        return self.read_bytes + made * self.itemsize

    @property
    def weights(self) -> float:
        """Bytes of the weights of the maps, as the cache counts them: in float32."""
        return sum(map_.work()[1] for map_ in self.maps)

    @property
    def cached(self) -> int:
        return cached_bytes(self.weights, self.itemsize)

    @property
    def block_rows(self) -> int:
        """Rows of a block that keep the widest form of the block near Dask's chunk size."""
        made = (map_.entries_per_row * self.itemsize for map_ in self.maps)
        limit = max(1, target_block_bytes() // max(self.d * self.read_itemsize, *made, 0))
        return self.stored_rows if self.stored_rows <= limit else split_chunk(self.stored_rows, limit)

    @property
    def uncut_rows(self) -> int:
        """Rows of a block for a step that makes its own features tile by tile, so that blocks need not be cut for it."""
        return self.block_rows if self.widening else self.stored_rows

    @property
    def batched_rows(self) -> int:
        """Rows of a block that batches take rows from; see `row_blocks.uncut_rows`."""
        fits = self.stored_rows * self.read_bytes <= target_block_bytes()
        return self.stored_rows if fits else self.block_rows

    @property
    def blocks(self) -> int:
        return -(-self.n // self.block_rows)

    @property
    def stored_blocks(self) -> int:
        return -(-self.n // self.stored_rows)

    @property
    def source_bytes(self) -> int:
        """Bytes of the stored block from which smaller blocks are cut; 0 if blocks are not cut."""
        return self.stored_rows * self.read_bytes if self.stored_rows != self.block_rows else 0

    @property
    def block_bytes(self) -> int:
        row = self.row_bytes if self.widening else 2 * self.read_bytes
        return self.block_rows * row + self.source_bytes

    @property
    def reading(self) -> int:
        """Bytes of scratch that reading a block takes."""
        stored = self.source_bytes or self.block_rows * self.read_bytes
        return reading_scratch(stored, self.block_bytes)

    def segments(self, reduction: Any) -> int:
        """The number of segments of a pass: each reads some stored blocks, or several read the same one."""
        wanted = count_segments(self.n, reduction)
        if self.held:
            nbytes = self.n * (self.entries * self.itemsize + 8 * self.outputs)
            return min(held_segments(reduction, nbytes, wanted), self.stored_blocks)
        largest, flops = self.stored_rows * self.read_bytes, reduction.flops_per_row + map_flops(self.maps)
        shared = shared_segments(self.stored_blocks, largest, self.n, flops, wanted)
        if self.blocks > self.stored_blocks and shared:
            return min(shared, self.blocks)
        return min(wanted, self.stored_blocks)

    def passes(self, count: int, reduction: Any) -> Phase:
        """So many passes; a stored block is read by each segment that shares it."""
        segments = self.segments(reduction)
        again = 0.0 if self.held else max(1.0, segments / self.stored_blocks)
        return replace(Phase.of_passes(count, segments), sweeps=count * again)

    def pass_memory(self, reduction: Any, sent: int = 0) -> PassMemory:
        """The memory of a pass; `sent` are the bytes of arrays that each worker gets in addition."""
        csr = bool(self.maps) and self.maps[-1].sparse_output
        scratch = max(reduction_scratch(reduction, self.block_rows, csr), self.reading)
        segments, threads = self.segments(reduction), self.workers.threads
        return PassMemory(self.block_bytes, scratch, reduction.nbytes, self.cached + sent, segments, threads)

    def costs_of(self, reduction: Any) -> Costs:
        """The costs of one pass with this reduction."""
        return Costs((self.passes(1, reduction),), memory=self.pass_memory(reduction))

    def sample_costs(self, size: int, *notes: str, blocks: int = 0) -> Costs:
        """The costs of reading a sample of so many rows: of the blocks that hold some; 0 blocks are those that are stored."""
        groups = -(-min(size, self.n) // neighbours(self.n))
        stored = blocks or self.stored_blocks
        share = 1.0 - (1.0 - 1.0 / stored) ** groups
        segments = min(count_segments(self.n, TakeReduction()), round(share * stored))
        return Costs((Phase.of_passes(1, max(segments, 1), share),), notes=notes)

    def with_held(self, memory: PassMemory) -> PassMemory:
        """The memory with the learned arrays and the scratch of the maps added."""
        return replace(
            memory,
            weights=memory.weights + sum(map_.held_bytes(self.itemsize) for map_ in self.maps),
            scratch=memory.scratch + sum(map_.scratch_bytes(self.itemsize) for map_ in self.maps),
        )
