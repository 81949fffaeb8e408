"""How many rows a batch and a microbatch have, and how many epochs there are. Number code."""

from __future__ import annotations

from .preconditioner import Preconditioner
from .rows import Rows
from .schedules import MICROBATCH_ROWS, Holdout, Schedule

#: Rows of a batch: no fewer, since a batch costs some 10 ms of messages; no more, by measurement (D = 4,096).
BATCH_SIZES = (256, 8_192)
_STREAM_BATCH = 32
#: Batches of an epoch at least, where rows are few.
BATCHES_PER_EPOCH = 16
#: Rows of a batch over the critical batch. MNIST with D = 4,096 in batches of 903, 1,807 (critical) and 3,615 rows:
#: 96.64, 96.63, 96.31 % after one pass. Half of it learns a little more from a pass (R^2 of kin40k 0.9504 for 0.9488),
#: which then takes a third longer than the bare loop: what is done for each batch counts twice.
_OVER_CRITICAL = 1.0
#: Features of a microbatch, and its rows: 16 MiB of float32.
_MICROBATCH_VALUES = 2**22
_ROWS = (256, 8_192)
#: Up to here a batch is all rows: exact gradients.
WHOLE_UP_TO = 1_024
#: Epochs, and batches that there are at least where rows are few.
_EPOCHS, _LEAST_BATCHES = 40, 600


def epochs(wanted: int | str, per_epoch: int) -> int:
    """Passes over the rows, at most.

    Parameters
    ----------
    wanted : int, or "auto": 40, or as many as make 600 batches
    per_epoch : int, batches of an epoch
    """
    return max(_EPOCHS, -(-_LEAST_BATCHES // max(per_epoch, 1))) if wanted == "auto" else int(wanted)


def patience(wanted: int, n_epochs: int | str, most: int) -> int:
    """Epochs without a gain after which training stops: as many more as "auto" takes more than 40 of few batches.

    Parameters
    ----------
    wanted : int, epochs without a gain among 40
    n_epochs : int or "auto", as the estimator has it
    most : int, what `epochs` made of it
    """
    return wanted * most // _EPOCHS if n_epochs == "auto" else wanted


def choose_batch_size(wanted: int | str, n: int, preconditioner: Preconditioner, stream: bool = False) -> int:
    """Rows of a batch: the critical batch in bounds, at least 16 batches an epoch; all where rows are few.

    Parameters
    ----------
    wanted : int, which is taken as it is, or "auto"
    n : int, rows to train on
    preconditioner : Preconditioner, which knows the critical batch
    stream : bool, whether these rows are seen once: the critical batch, which wastes none of them
    """
    if wanted != "auto":
        return int(wanted)
    if stream:
        return int(min(max(preconditioner.critical_rows, _STREAM_BATCH), BATCH_SIZES[1], n))
    if n <= WHOLE_UP_TO:
        return n
    low, high = BATCH_SIZES
    most = max(low, n // BATCHES_PER_EPOCH)
    return int(min(max(_OVER_CRITICAL * preconditioner.critical_rows, low), high, most))


def microbatch_rows(n_features: int) -> int:
    """Rows of a microbatch, at most: those whose features are the work of one task.

    Parameters
    ----------
    n_features : int, D
    """
    low, high = _ROWS
    return min(max(_MICROBATCH_VALUES // n_features, low), high)


def make_schedule(
    rows: Rows,
    holdout: Holdout,
    batch_size: int,
    shuffle: bool,
    seed: int,
    whole_blocks: bool = False,
    microbatch_rows: int = MICROBATCH_ROWS,
) -> Schedule:
    """Batches over the rows that are not held out.

    Parameters
    ----------
    rows : Rows
    holdout : Holdout, the rows left out
    batch_size : int, rows of a batch
    shuffle : bool, whether blocks and rows are permuted anew in each epoch
    seed : int, of the permutations
    whole_blocks : bool, whether each microbatch is a whole block, as local SGD has it
    microbatch_rows : int, rows of a microbatch at most
    """
    usable = tuple(holdout.usable(i, r) for i, r in enumerate(rows.blocks))
    return Schedule(usable, max(1, batch_size), rows.block_bytes, seed, shuffle, whole_blocks, microbatch_rows)
