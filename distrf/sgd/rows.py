"""The training rows of a fit: blocks, samples, weights, the choice between LocalBatches and DaskBatches, and a checkpoint that knows them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection
from dask.utils import parse_bytes

from ..checkpoint import COMPARED_ROWS, COMPARED_TARGETS, Checkpoint
from ..errors import InputError
from ..execution.passes import run_pass
from ..execution.row_blocks import (
    align_rows,
    blocks_are_csr,
    mapped_from,
    row_bytes,
    rows_per_block,
)
from ..execution.sampling import sampled_rows, take_aligned, take_rows
from ..execution.scheduler import SMALL_ROWS, current_client
from ..execution.stored_blocks import map_flops
from ..folds import GivenFolds, drawn_folds
from ..maps import working_dtype
from ..targets import Targets
from .batch_work import BatchWork, LocalBatches, LossReduction, memory_loader
from .dask_batches import DaskBatches, lazy_loader

#: Operations of an epoch up to which small rows are trained in the process of the client: a few seconds there, where batches of a
#: client cost 20 ms each in messages.
_SMALL_FLOPS = 2.0**37
#: Bytes of rows in memory that are scored at a time.
_BLOCK_BYTES = 2**25


@dataclass(frozen=True)
class Rows:
    """The training rows: features of shape (n, D) are `maps` applied to the blocks of `arrays[0]`.

    Attributes
    ----------
    arrays : (X, y) or (X, y, weight), all in memory (NumPy, CSR) or all Dask arrays
    maps : functions on a block, applied one after the other
    blocks : number of rows of each block
    n_features : int, D
    block_bytes : int, bytes of the largest block with all its columns, from which shuffle windows follow
    folds : GivenFolds with the blocks of these rows, or None
    given : (features, y), (features, y, weight), and last folds if there are any, as they were given
    """

    arrays: tuple[Any, ...]
    maps: tuple[Any, ...]
    blocks: tuple[int, ...]
    n_features: int
    block_bytes: int
    folds: GivenFolds | None = None
    given: tuple[Any, ...] = ()

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any, folds: GivenFolds | None = None) -> Rows:
        """The rows of features X, targets y and weights, which may be None.

        The blocks of a Dask array are its chunks, tiny ones merged. If it was made by maps, blocks of the rows before the maps are held,
        and each batch makes its features anew. An array in memory is cut into views.

        Parameters
        ----------
        X : array, CSR matrix or Dask array of shape (n, D)
        y : array or Dask array of shape (n,) or (n, C)
        weight : array or Dask array of shape (n,), or None
        folds : GivenFolds, or None
        """
        rest = (y,) if weight is None else (y, weight)
        given, D = (X, *rest), X.shape[1]
        if is_dask_collection(X):
            source, maps = mapped_from(X)
            y = align_rows(source, y, "y") if is_dask_collection(y) else y
            weight = align_rows(source, weight, "weight") if is_dask_collection(weight) else weight
            rest = (y,) if weight is None else (y, weight)
            rows = tuple(int(r) for r in source.chunks[0])
            width = source.shape[1] * source.dtype.itemsize
            return cls((source, *rest), tuple(maps), rows, D, max(rows) * width, given=given)._folded(folds)
        step = rows_per_block(X.dtype.itemsize * D)
        rows = tuple(min(step, X.shape[0] - a) for a in range(0, X.shape[0], step))
        # Blocks are views of what is in memory anyway.
        return cls((X, *rest), (), rows, D, max(rows) * D * X.dtype.itemsize, given=given)._folded(folds)

    def _folded(self, folds: GivenFolds | None) -> Rows:
        """These rows with folds, which have the rows of `given`; None for none."""
        given = self.given[: len(self.arrays)]
        if folds is None:
            return replace(self, folds=None, given=given)
        values = align_rows(self.arrays[0], folds.values, "folds") if self.lazy else folds.values
        return replace(self, folds=replace(folds, values=values), given=(*given, folds.values))

    def holding_out(self, share: float, seed: int) -> Rows:
        """These rows, of which fold 0 is not trained on: of the folds that they have, or a share drawn; of a share of 0 all are."""
        if not share:
            return self._folded(None)
        return self if self.folds is not None else self._folded(drawn_folds(self.given[0], share, seed))

    @property
    def sparse(self) -> bool:
        """Whether features are CSR rows."""
        csr = blocks_are_csr(self.arrays[0])
        for function in self.maps:
            csr = function.makes_csr(csr)
        return csr

    @property
    def longest(self) -> float:
        """A bound of |z|^2 that holds for every row."""
        return float(self.maps[-1].longest) if self.maps else np.inf

    @property
    def row_bytes(self) -> float:
        """Bytes of a row as workers hold it: with its targets, its weight and its fold."""
        return sum(row_bytes(a) for a in (*self.arrays, *([] if self.folds is None else [self.folds.values])))

    @property
    def lazy(self) -> bool:
        return is_dask_collection(self.arrays[0])

    def workers_client(self) -> Any:
        """The client whose workers train, or None: there is none, or the rows are so small that its messages would take longest."""
        n, outputs = self.arrays[1].shape[0], math.prod(self.arrays[1].shape[1:])
        epoch = n * (map_flops(self.maps) + 4 * self.n_features * outputs)
        limit = parse_bytes(dask.config.get("distrf.small-rows", SMALL_ROWS))
        return None if n * self.row_bytes <= limit and epoch <= _SMALL_FLOPS else current_client()

    @property
    def trained(self) -> tuple[int, ...]:
        """The number of training rows of each block, those that are not in fold 0."""
        return self.blocks if self.folds is None else self.folds.trained(self.blocks)

    def loss(self, work: BatchWork, weights: np.ndarray, held: bool) -> float:
        """The mean loss at these weights of the rows that are held out, or of the training rows, by one pass."""
        reduction = LossReduction(work, weights, held, self.folds is not None)
        block_rows = max(1, int(_BLOCK_BYTES / row_bytes(self.given[0])))
        label = "validation" if held else "objective"
        weight, loss = run_pass(reduction, self.given, label=label, block_rows=block_rows)
        return float(loss / max(weight, np.finfo(float).tiny))

    def sample(self, size: int, seed: int) -> tuple[Any, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """A seeded sample of the rows. Rows with NaN or infinity are left out; training refuses them later, by number.

        Parameters
        ----------
        size : int, rows wanted, about
        seed : int

        Returns
        -------
        Z : array of shape (s, D), float32 or float64
        y : array of shape (s,) or (s, C)
        weight, folds : arrays of shape (s,), or None

        Raises
        ------
        InputError : no sampled row is finite
        """
        indices = sampled_rows(sum(self.blocks), size, seed, "sgd sample")
        Z, y, weight, finite = self.take(indices)
        Z = Z.toarray() if sp.issparse(Z) else Z  # type: ignore[attr-defined]
        return Z, y, weight, None if self.folds is None else self.folds.take(indices)[finite]

    def take(self, indices: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray | None, np.ndarray]:
        """The features, targets and weights, or None, of the rows with these ascending numbers; and which of the rows are finite.

        Others are left out: training refuses them later, by number. Raises InputError where no row is finite.
        """
        taken = take_aligned([two_dimensional(a) for a in self.arrays], indices, sparse=True)
        Z, y = taken[0], taken[1]
        finite = np.isfinite(np.asarray(Z.sum(axis=1, dtype=np.float64)).ravel())
        Z, y = Z[finite], y[finite]
        weight = taken[2][finite, 0] if len(taken) > 2 else None
        for function in self.maps:
            Z = function(Z)
        if not Z.shape[0]:
            raise InputError("X must be finite, but no sampled row is; impute or drop such rows")
        Z = Z.astype(working_dtype(Z.dtype), copy=False)
        return Z, y if self.arrays[1].ndim == 2 else y[:, 0], weight, finite

    def batches(self, work: BatchWork) -> Any:
        """The source of gradients: DaskBatches for lazy rows if there is a cluster and they are not small, else LocalBatches.

        work : BatchWork, what is done with a microbatch
        """
        folded = self.folds is not None
        arrays = self.arrays if self.folds is None else (*self.arrays, self.folds.values)
        if not self.lazy:
            return LocalBatches(memory_loader(arrays, self.blocks, folded), (), work)
        if (client := self.workers_client()) is None:
            load = lazy_loader(arrays, folded, at_once=current_client() is not None)
            return LocalBatches(load, self.maps, work)
        itemsize, outputs = working_dtype(self.arrays[0].dtype).itemsize, self.arrays[1].shape[1:] or (1,)
        entries = self.maps[-1].entries_per_row if self.maps else self.n_features
        row_bytes = entries * itemsize + 16 * outputs[0]
        return DaskBatches(client, arrays, self.maps, work, row_bytes, folded)


def two_dimensional(a: Any) -> Any:
    """A one-dimensional array as a single column."""
    return a[:, None] if a.ndim == 1 else a


def open_checkpoint(
    path: str | os.PathLike[str] | None,
    options: Callable[[], dict[str, Any]],
    rows: Rows,
    targets: Targets,
    seed: int,
) -> Checkpoint:
    """Open the checkpoint of a fit to these rows, and check that what it holds belongs to this fit.

    Parameters
    ----------
    path : str or PathLike, the folder or URL; None keeps nothing
    options : function that returns all options that determine the numbers, as JSON; called only if there is a path
    rows, targets : Rows and Targets of the fit
    seed : int, of the rows that are compared

    Returns
    -------
    Checkpoint.

    Raises
    ------
    SpecMismatchError : the folder holds the state of another job, or of other rows
    """
    if path is None:
        return Checkpoint(None, {})
    job = {
        "state": 4,  # counts the forms that the arrays of a step have had
        "blocks": list(rows.blocks),
        "columns": int(rows.arrays[0].shape[1]),
        "dtype": np.dtype(rows.arrays[0].dtype).name,
        "weighted": len(rows.arrays) > 2,
        "maps": [function.spec() for function in rows.maps],
        "classes": None if targets.classes is None else targets.classes.tolist(),
        "class_weight": None if targets.class_weight is None else targets.class_weight.tolist(),
        "seed": seed,
    }
    if rows.folds is not None:
        job["folds"] = [*rows.folds.counts, rows.folds.never]
    checkpoint = Checkpoint(path, options() | job)
    n = sum(rows.blocks)
    some = sampled_rows(n, min(COMPARED_ROWS, n), seed, "identity")
    checkpoint.check_rows(take_rows(rows.arrays[0], some))
    some = sampled_rows(n, min(COMPARED_TARGETS, n), seed, "targets")
    y, *weight = (take_rows(two_dimensional(a), some) for a in rows.arrays[1:])
    checkpoint.check_rows(targets.encode(y if rows.arrays[1].ndim == 2 else y[:, 0], None)[0], "targets")
    for w in weight:
        checkpoint.check_rows(w, "sample_weight")
    if rows.folds is not None:
        checkpoint.check_rows(rows.folds.take(some), "folds")
    return checkpoint
