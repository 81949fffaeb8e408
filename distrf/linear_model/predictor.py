"""The frozen linear model: scores, labels or values of one block of features."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..losses import Loss
from ..maps import check_rows, working_dtype
from ..maps.base import ArraysApart, arrays_fingerprint

#: The scores of features within [-1, 1] are at most the sum of |coef|. An intercept of this many times that sum must
#: cancel scores of larger features.
_FAR = 64.0


@dataclass(frozen=True)
class LinearPredictor(ArraysApart):
    """z -> z @ coef.T + intercept, and the label of the largest score where classes are given.

    coef : shape (C, D); intercept : shape (C,); classes : shape (c,) or None
    loss : class of the loss that the model was fitted with, which turns scores into probabilities
    """

    n_features_in: int
    output: str  # "value" of a target | "score" | "label" | "probability"
    coef: np.ndarray | None = field(default=None, compare=False, repr=False)
    intercept: np.ndarray | None = field(default=None, compare=False, repr=False)
    classes: np.ndarray | None = field(default=None, compare=False, repr=False)
    loss: type[Loss] | None = None

    label: ClassVar[str] = "predict"

    def __call__(self, Z: Any) -> np.ndarray:
        assert self.coef is not None
        assert self.intercept is not None
        Z = check_rows(Z, self.n_features_in)
        dtype = working_dtype(Z.dtype)
        exact = np.float64 if self._cancels else dtype
        with np.errstate(
            invalid="ignore"
        ):  # seen of finite scores, once in thousands of runs: the scores themselves tell
            scores = np.asarray(Z.astype(exact, copy=False) @ self.coef.T.astype(exact))
            # In float32 a target whose offset is large beside its spread would have a few values.
            scores = scores + self.intercept.astype(np.float64 if self.output == "value" else exact)
        if np.isnan(scores).any():
            warnings.warn("scores are NaN: weights or rows leave their dtype", RuntimeWarning, stacklevel=2)
        if self.output == "value":
            return scores
        scores = scores.astype(dtype, copy=False)
        if self.output == "label":
            assert self.classes is not None
            best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
            return self.classes[best]
        if self.output == "probability":
            assert self.loss is not None
            return self.loss().probabilities(scores)
        return scores

    def dtype(self, dtype: np.dtype) -> np.dtype:
        """Of scores, values or probabilities of features of a dtype."""
        return np.dtype(np.float64) if self.output == "value" else working_dtype(dtype)

    @property
    def columns(self) -> int:
        """How many scores or probabilities a row gets."""
        assert self.coef is not None
        return max(2, len(self.coef)) if self.output == "probability" else len(self.coef)

    @property
    def _cancels(self) -> bool:
        """Whether an intercept is so large that the products with the features must nearly cancel it.

        Float32 products would then lose the significant digits, so scores are computed in float64. The answer depends on
        the model alone, so that it is the same for all blocks.
        """
        assert self.coef is not None
        assert self.intercept is not None
        return bool((np.abs(self.intercept) > _FAR * np.abs(self.coef).sum(axis=1)).any())

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return ("distrf-linear", self.n_features_in, self.output, self.loss, arrays_fingerprint(self.arrays))
