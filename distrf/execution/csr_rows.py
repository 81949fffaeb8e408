"""Bytes of lazy CSR rows: their store knows how many entries they have, a Dask array does not."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

#: Blocks of CSR rows may have so many times the bytes of an average block.
_UNEVEN = 2.0


def csr_row_bytes(stored: float, dense: float) -> int:
    """Bytes to count for a CSR row.

    Parameters
    ----------
    stored : float
        Mean bytes of a row in its store; 0 where they are not known.
    dense : float
        Bytes of all its columns.
    """
    return int(min(_UNEVEN * stored, dense)) or int(dense)


def stored_row_bytes(X: Any) -> float:
    """Mean bytes in memory of a CSR row, of a lazy one as its store says; 0 for rows that are not from a store, or have other columns."""
    if sp.issparse(X):
        return (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / max(1, X.shape[0])
    deps = [dep for layer in X.dask.layers.values() for dep in getattr(layer, "io_deps", {}).values()]
    found = [dep for dep in deps if getattr(dep, "csr_nbytes", None) is not None]
    if not found or any(dep.shape[1] != X.shape[1] for dep in found):
        return 0.0
    return sum(dep.csr_nbytes for dep in found) / max(1, sum(dep.shape[0] for dep in found))
