"""Which score is named first: accuracy, unless a class is rare. Number code."""

from __future__ import annotations

import numpy as np

#: A class is rare if it has less than this share of what it would have if all classes had as many rows.
_RARE = 0.1


def rare_class(shares: np.ndarray) -> int | None:
    """The rarest class, if it is rare: it has fewer than a tenth of the rows that an even share would be.

    Of two classes that is fewer than 5 %, so a constant has an accuracy above 95 %. Of c classes it is 10 / c %: a model that never predicts
    such a class loses less accuracy by it than a tenth of what another class is worth on average.

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
    """The score that says most: "accuracy", or if a class is rare "average_precision" of two classes, else "balanced_accuracy".

    Parameters
    ----------
    shares : array of shape (c,), as of `rare_class`; c counts the classes of the model
    """
    if rare_class(shares) is None:
        return "accuracy"
    return "average_precision" if len(shares) == 2 else "balanced_accuracy"
