"""One random 64-bit word for every global row index, whatever the blocks."""

from __future__ import annotations

import numpy as np


def row_words(seed: int, start: int, stop: int) -> np.ndarray:
    """Raw Philox words of rows: word i is the i-th of the stream of the seed, whatever the blocks.

    Parameters
    ----------
    seed : int
    start, stop : int
        First row, and the row after the last.

    Returns
    -------
    uint64 array of shape (stop - start,)
    """
    # One step of the counter gives four words.
    stream = np.random.Philox(key=seed)
    stream.advance(start // 4)
    skip = start % 4
    return stream.random_raw(stop - start + skip)[skip:]
