"""How many rows a batch and a microbatch have, and how many epochs there are. Number code."""

from __future__ import annotations

from .preconditioner import Preconditioner
from .rows import Rows
from .schedules import MICROBATCH_ROWS, Schedule

#: Fewest and most rows of a batch. A smaller one would not pay for its 10 ms of messages; the critical batches of 13 tables
#: (D = 1,024 and 2,048) had at most 2,560 rows.
BATCH_SIZES = (256, 4_096)
#: The most numbers in the features of a batch, of which workers hold several: 256 MiB of float32. More only where the fewest
#: rows have more, or where the caller gives the size.
_BATCH_VALUES = 2**26
#: The rows of a batch that a plan of time counts. Critical batches of those tables had 740 to 2,560 rows, of normal rows 689.
#: Where messages bound the job, its time goes as 1 / rows: then a plan may be 0.7 to 2.5 times the true one.
USUAL_BATCH = 1_000
_STREAM_BATCH = 32
#: An epoch has at least this many batches, unless they would have fewer than `BATCH_SIZES[0]` rows.
BATCHES_PER_EPOCH = 16
#: Rows of a batch, as a multiple of the critical batch. MNIST with D = 4,096 in batches of 903, 1,807 (critical) and 3,615
#: rows: 96.64, 96.63, 96.31 % after one pass. Half of the critical batch learns a little more from a pass (R^2 of kin40k
#: 0.9504 in place of 0.9488), but the costs of each batch count twice: a third more time than the bare loop.
_OVER_CRITICAL = 1.0
#: Up to this many rows, all of them are one batch, if its features are not too many: its gradient is exact.
WHOLE_UP_TO = 1_024
#: n_epochs="auto" is this many epochs, or as many more as make this many batches.
_FEWEST = (40, 600)


def count_epochs(n_epochs: int | str, per_epoch: int, fewest: tuple[int, int] = _FEWEST) -> int:
    """The most passes over the rows.

    Parameters
    ----------
    n_epochs : int, or "auto", which is the fewest epochs that are allowed and make enough batches
    per_epoch : int, batches of an epoch
    fewest : (int, int), the fewest epochs and the fewest batches of "auto"
    """
    return max(fewest[0], -(-fewest[1] // max(per_epoch, 1))) if n_epochs == "auto" else int(n_epochs)


def patience(n_iter_no_change: int, n_epochs: int | str, most: int) -> int:
    """Epochs without a gain after which training stops. With n_epochs="auto" it grows in proportion to the epochs.

    Parameters
    ----------
    n_iter_no_change : int, of the estimator, meant for 40 epochs
    n_epochs : int or "auto", of the estimator
    most : int, the result of `count_epochs`
    """
    return n_iter_no_change * most // _FEWEST[0] if n_epochs == "auto" else n_iter_no_change


def most_rows(size: int | str, n: int, n_features: int) -> int:
    """The most rows that a batch may have.

    "auto" goes by D, not by the entries of sparse features, so that rows in memory and lazy ones get the same batches.

    Parameters
    ----------
    size : int or "auto"
    n : int, number of training rows
    n_features : int, D
    """
    if size != "auto":
        return min(n, int(size))
    if _takes_all(n, n_features):
        return n
    low, high = BATCH_SIZES
    return min(n, max(low, min(high, n // BATCHES_PER_EPOCH, _BATCH_VALUES // n_features)))


def _takes_all(n: int, n_features: int) -> bool:
    """Whether all rows are one batch of "auto"."""
    return n <= WHOLE_UP_TO and n * n_features <= _BATCH_VALUES


def choose_batch_size(
    size: int | str, n: int, n_features: int, preconditioner: Preconditioner, stream: bool = False
) -> int:
    """Rows of a batch of a linear model. "auto" is all rows if they are few and fit, else the critical batch within the bounds of this file.

    Parameters
    ----------
    size : int, which is returned as it is, or "auto"
    n : int, number of training rows
    n_features : int, D
    preconditioner : Preconditioner, which knows the critical batch
    stream : bool, whether the rows are seen only once (`partial_fit`): then the critical batch, of which no row is wasted
    """
    if size != "auto":
        return int(size)
    if stream:
        return int(min(max(preconditioner.critical_rows, _STREAM_BATCH), BATCH_SIZES[1], n))
    if _takes_all(n, n_features):
        return n
    rows = max(_OVER_CRITICAL * preconditioner.critical_rows, BATCH_SIZES[0])
    return int(min(rows, most_rows(size, n, n_features)))


def make_schedule(
    rows: Rows,
    trained: tuple[int, ...],
    batch_size: int,
    shuffle: bool,
    seed: int,
    microbatch_rows: int = MICROBATCH_ROWS,
) -> Schedule:
    """Batches over the rows that are not held out.

    Parameters
    ----------
    rows : Rows
    trained : tuple of int, the rows of each block that are not held out
    batch_size : int, rows of a batch
    shuffle : bool, whether blocks and rows are permuted anew in each epoch
    seed : int, of the permutations
    microbatch_rows : int, rows of a microbatch at most
    """
    return Schedule(trained, max(1, batch_size), rows.block_bytes, seed, shuffle, microbatch_rows)
