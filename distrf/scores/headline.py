"""Which score is named first: accuracy, unless a class is rare. Number code."""

from __future__ import annotations

import numpy as np

#: A class is rare if it has less than this share of what it would have if all classes had as many rows.
_RARE = 0.1


def rare_class(shares: np.ndarray) -> int | None:
    """The rarest class, if it is rare: it has fewer than a tenth of the rows that an even share would be.

    Of two classes that is fewer than 5 %: a constant has an accuracy above 95 %, a useful model hardly more. Of c classes it
    is fewer than 0.1 / c, and a model that never predicts such a class loses no more accuracy than that.

    Parameters
    ----------
    shares : array of shape (c,), share or weight of the rows of each class. Classes without rows are left out

    Returns
    -------
    int or None
        The number of the class; None if none is rare, or there are fewer than two.
    """
    there = np.flatnonzero(shares > 0)
    if len(there) < 2:
        return None
    rarest = there[np.argmin(shares[there])]
    return int(rarest) if shares[rarest] * len(there) < _RARE * shares.sum() else None


def headline(shares: np.ndarray) -> str:
    """The score that says most: "accuracy"; where a class is rare "average_precision" of two, "balanced_accuracy" of more.

    Parameters
    ----------
    shares : array of shape (c,), as of `rare_class`; c counts the classes of the model
    """
    if rare_class(shares) is None:
        return "accuracy"
    return "average_precision" if len(shares) == 2 else "balanced_accuracy"
