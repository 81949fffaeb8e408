"""The rows of a job, in .npy files of a folder: X and y to fit, T and t to test.

This file is run by the Python of each peer: it knows NumPy, and Dask where a peer has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

#: Rows of a block, for all who read in blocks.
BLOCK = 16_384


class Rows:
    """Rows of the files of a folder; of each file the first `most` at most."""

    def __init__(self, folder: str, most: int | None = None):
        self.folder, self.most = folder, most

    def _file(self, name: str) -> np.ndarray:
        return np.load(Path(self.folder) / f"{name}.npy", mmap_mode="r")[: self.most]

    def __len__(self) -> int:
        return len(self._file("X"))

    def array(self, name: str) -> np.ndarray:
        """All rows of a file."""
        return np.array(self._file(name))

    def block(self, name: str, first: int, last: int) -> np.ndarray:
        """Some rows. The file is closed after: pages of an open one would count as memory of the process."""
        return np.array(self._file(name)[first:last])

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """X and y, block by block."""
        for first in range(0, len(self), BLOCK):
            yield self.block("X", first, first + BLOCK), self.block("y", first, first + BLOCK)

    def lazy(self, name: str) -> Any:
        """A Dask array whose tasks read a block each."""
        import dask.array as da

        file = self._file(name)
        n = len(file)
        sizes = tuple(min(BLOCK, n - first) for first in range(0, n, BLOCK))
        chunks = (sizes, *((width,) for width in file.shape[1:]))
        meta = np.empty((0,) * file.ndim, file.dtype)
        return da.map_blocks(_read, self, name, chunks=chunks, dtype=file.dtype, meta=meta)


def _read(rows: Rows, name: str, block_info: Any = None) -> np.ndarray:
    first, last = block_info[None]["array-location"][0]
    return rows.block(name, first, last)
