"""Names for the types that public signatures share.

They are text at run time, so that importing them costs nothing; type checkers and editors read them in full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import dask.array as da
    import numpy as np
    import scipy.sparse as sp

__all__ = ["Alphas", "ArrayLike", "ClassWeight", "Folder", "RandomState", "Rows"]

#: Rows in memory: a NumPy array or a CSR matrix.
Rows: TypeAlias = "np.ndarray | sp.csr_array | sp.csr_matrix"
#: Rows, targets or weights that an estimator takes or gives: in memory, or a lazy Dask array.
ArrayLike: TypeAlias = "np.ndarray | sp.csr_array | sp.csr_matrix | da.Array"
#: What scikit-learn calls `random_state`: a seed, a generator, or None for a seed that is drawn once.
RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | None"
#: Factor on the weight of the rows of each class.
ClassWeight: TypeAlias = "str | Mapping[object, float] | None"
#: One penalty, several, or the name of a rule.
Alphas: TypeAlias = "float | str | Sequence[float | str] | np.ndarray"
#: A folder or URL.
Folder: TypeAlias = "str | os.PathLike[str]"
