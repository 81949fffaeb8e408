"""How alpha="auto" of SGD is chosen: by the loss itself on held-out rows of a sample, extrapolated to all rows. Number code.

The model of the loss is fitted to the rows that are not held out for a path of alphas, each ten times weaker than the one
before and started from its weights, until the held-out loss rises; then, beside the best alpha, to half of them. L-BFGS
works in the principal axes of the features, each in units of the root of L lambda_i + alpha, the largest curvature that a
loss of smoothness L may have there.

With more rows the best penalty is weaker. Ridge with penalty alpha on n rows is the most probable model if the prior variance
of the weights is tau^2 and the noise of the targets sigma^2: alpha = sigma^2 / (n tau^2), which falls like 1 / n. But
whatever the model cannot resolve with few rows acts as noise too. With more rows that part shrinks for smooth targets and
grows for heavy-tailed ones. The two numbers of rows give an exponent e, bounded by 1/2 and 3/2, and alpha is extrapolated
like n^-e. Against e = 1, on 18 data sets, held-out R^2 of SGD rose on kin40k, airline, protein, census_house, blogfeedback
(by .04), letter, covtype and magic04, and fell by at most .0015, on usps.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg
from scipy.optimize import minimize

from ..errors import InputError
from ..losses import Loss, Squared
from ..randomness import permutation

#: The most rows that are fitted if there are more than `_MANY_FEATURES` features or several outputs, and of one output.
_MOST_ROWS, _MOST_OF_ONE = 2_000, 6_000
_MANY_FEATURES = 1_536
#: Up to `_FEW_ROWS` rows are held out in this many folds. Of more rows one third is held out, once.
_FOLDS = 5
_FEW_ROWS = 1_000
#: The first and the last alpha of the path, as powers of ten times the mean squared norm of a row times the smoothness.
_FIRST, _LAST = 1, -10
#: The path ends where the held-out loss is above the least by this share, or this many alphas after it.
_ROSE, _PAST = 0.02, 2
#: Columns are in unlike units if the size of the smallest is less than this share of that of the largest. Less than the second
#: share is rounding.
_APART, _LEAST_APART = 1e-2, 1e-12
#: Powers of ten beside the best alpha of the path that are compared with every row and with every second one.
_NEAR = {1: np.array([0.5, 0.0, -0.5]), 2: np.array([1.0, 0.5, 0.0, -0.5])}
#: Eigenvalues this far below the largest are rounding.
_ROUNDING = 1e-14
#: Bounds of e, because an estimate from two samples is noisy.
_POWERS = 0.5, 1.5
#: Most iterations of L-BFGS for an alpha, and the share of the objective at their start that each must gain.
_ITERATIONS, _GAIN = 50, 1e-4


def sample_alpha(
    Z: np.ndarray,
    Y: np.ndarray,
    weight: np.ndarray | None,
    n: int,
    seed: int,
    folds: np.ndarray | None = None,
    loss: Loss = Squared(),  # noqa: B008
    smoothness: float = 1.0,
    apart: float = 1.0,
) -> float:
    """The alpha of least loss on held-out rows of the sample, extrapolated to n rows and rounded to two digits.

    Parameters
    ----------
    Z : array of shape (s, D), features of the sample
    Y : array of shape (s, C), encoded targets
    weight : array of shape (s,), or None
    n : int, number of all rows
    seed : int, of the folds
    folds : array of shape (s,), given folds of the rows; None cuts some
    loss : Loss
    smoothness : float, its largest curvature, see `Loss.curvature`
    apart : float, the size of the smallest column over that of the largest. Where they are in unlike units, small columns need an
        alpha smaller by its square, and until then losses may not fall: the path goes on downwards by as much

    Returns
    -------
    float.

    Raises
    ------
    InputError : of given folds, fold 0 has all rows of the sample or none
    """
    s = len(Z)
    size = float(np.einsum("ij,ij->", Z, Z, dtype=np.float64)) / s * smoothness
    if s < 4 or not size > 0:
        return _rounded(max(size, np.finfo(np.float64).tiny) / n) if size > 0 else 1.0
    w = np.ones(s) if weight is None else weight
    if folds is None:
        order = permutation(seed, "sgd penalty", 0, s)
        count = _FOLDS if s <= _FEW_ROWS else 3
        fold = np.empty(s, dtype=np.int64)
        fold[order] = np.arange(s) % count
    else:
        fold, count = folds, int(folds.max()) + 1
        if not (fold == 0).any() or (fold == 0).all():
            raise InputError(
                f"alpha is chosen on {s:,} sampled rows of which fold 0 is held out, and it has {'all' if (fold == 0).any() else 'none'} of "
                "them; give alpha, or larger folds"
            )
    most = fitted_rows(Z.shape[1], Y.shape[1])
    parts = []
    for f in range(count if s <= _FEW_ROWS else 1):
        held, train = (np.flatnonzero(chosen & (w > 0)) for chosen in (fold == f, fold != f))
        # Some of them are taken at equal steps, here and for halves: in the order of given rows, labels may come in cycles.
        train = train if folds is None else train[permutation(seed, "sgd penalty rows", f, len(train))]
        train = train[:: max(1, -(-len(train) // most))]
        if len(held) and len(train) > 2:
            parts.append(_Fold(Z, Y, w, train, held, loss, smoothness))
    below = int(-2.0 * np.log10(max(apart, _LEAST_APART))) if apart < _APART else 0
    best = _best(parts, size, below) if parts else None
    if best is None:  # all targets are equal
        return _rounded(size / n)
    power, exponent = best
    fitted = np.mean([len(part.Y) for part in parts])
    return _rounded(float(size * 10.0**power * (fitted / n) ** exponent))


def fitted_rows(n_features: int, outputs: int) -> int:
    """The most rows of a sample that are fitted."""
    return max(_MOST_ROWS, 0 if n_features > _MANY_FEATURES else _MOST_OF_ONE // outputs)


def _best(parts: list[_Fold], size: float, below: int) -> tuple[float, float] | None:
    """(the power of ten times `size` that is the best alpha for the fitted rows, e); None if all losses are 0.

    below : decades by which the path is longer, because columns are in unlike units
    """
    weights, path, losses = [part.constant for part in parts], [], []
    for power in range(_FIRST, _LAST - below - 1, -1):
        weights = [part.fit(size * 10.0**power, W) for part, W in zip(parts, weights, strict=True)]
        path.append(weights)
        losses.append(sum(part.held_out(W) for part, W in zip(parts, weights, strict=True)))
        k = int(np.argmin(losses))
        rose = losses[-1] > (1.0 + _ROSE) * losses[k] or len(losses) > k + _PAST
        if rose and len(losses) > k + below:
            break
    if not any(losses):
        return None
    lowest = []
    for step, near in _NEAR.items():
        weights, beside = path[max(k - step + 1, 0)], []
        for power in near:
            if step > 1 or power:  # else it is of the path
                alpha = size * 10.0 ** (_FIRST - k + power)
                weights = [part.fit(alpha, W, step) for part, W in zip(parts, weights, strict=True)]
            else:
                weights = path[k]
            beside.append(sum(part.held_out(W) for part, W in zip(parts, weights, strict=True)))
        lowest.append(_lowest(_FIRST - k + near, beside))
    if k == len(path) - 1:  # the minimum may be beyond
        return lowest[0], 1.0
    return lowest[0], float(np.clip((lowest[1] - lowest[0]) / np.log10(2.0), *_POWERS))


class _Fold:
    """Fitted and held-out rows of the sample, both in the principal axes of the fitted ones.

    Z, Y, w : as in `sample_alpha`; train, held : row numbers
    """

    def __init__(
        self, Z: np.ndarray, Y: np.ndarray, w: np.ndarray, train: np.ndarray, held: np.ndarray, loss: Loss,
        smoothness: float,
    ):  # fmt: skip
        self.loss, self.Y, self.w = loss, Y[train], w[train] / w[train].mean()
        self.held_Y, self.held_w = Y[held], w[held]
        root = np.sqrt(self.w / len(train))[:, None]
        mean = root[:, 0] ** 2 @ Z[train].astype(np.float64)
        R = (Z[train] - mean) * root
        if len(R) < R.shape[1]:
            values, axes = linalg.eigh(R @ R.T, check_finite=False)
        else:
            values, axes = linalg.eigh(R.T @ R, check_finite=False)
        clear = values > _ROUNDING * len(values) * values.max(initial=0.0)
        values, axes = values[clear], axes[:, clear]
        if len(axes) < R.shape[1]:
            axes = R.T @ (axes / np.sqrt(values))
        axes = axes.astype(Z.dtype)
        self.F = (R / root).astype(Z.dtype) @ axes
        self.H = (Z[held] - mean).astype(Z.dtype) @ axes
        self.curvature = smoothness * np.append(values, 1.0)[:, None]  # of the last row, the intercept
        self.constant = np.zeros((len(values) + 1, Y.shape[1]))
        self.constant[-1] = self.w @ self.Y / len(train)

    def fit(self, alpha: float, W: np.ndarray, step: int = 1) -> np.ndarray:
        """Weights along the axes, and last the intercept, shape (r + 1, C), fitted to every `step`-th row; W : where to start."""
        F, Y, w = self.F[::step], self.Y[::step], self.w[::step] / self.w[::step].sum()
        strength = np.append(np.full(len(W) - 1, alpha), 0.0)[:, None]
        scale = np.sqrt(self.curvature + strength)

        def objective(scaled: np.ndarray) -> tuple[float, np.ndarray]:
            U = scaled.reshape(W.shape) / scale
            value, slope = self.loss(self._scores(F, U), Y)
            slope = slope * w[:, None]
            G = np.vstack([F.T @ slope.astype(F.dtype), slope.sum(axis=0)]) + strength * U
            return float(w @ value) + 0.5 * float((strength * U * U).sum()), (G / scale).ravel()

        start = (W * scale).ravel()
        unit = objective(start)[0] or 1.0
        options = {"maxiter": _ITERATIONS, "ftol": _GAIN, "gtol": 0.0}
        found = minimize(
            lambda x: tuple(part / unit for part in objective(x)),
            start,
            jac=True,
            method="L-BFGS-B",
            options=options,
        )
        return found.x.reshape(W.shape) / scale

    def held_out(self, W: np.ndarray) -> float:
        """The loss on the held-out rows, summed."""
        return float(self.held_w @ self.loss(self._scores(self.H, W), self.held_Y)[0])

    @staticmethod
    def _scores(F: np.ndarray, W: np.ndarray) -> np.ndarray:
        return F @ W[:-1].astype(F.dtype) + W[-1]


def _lowest(powers: np.ndarray, losses: list[float]) -> float:
    """The power of the lowest loss, interpolated by a parabola through logarithms; powers are equally spaced."""
    k = int(np.argmin(losses))
    if not 0 < k < len(losses) - 1 or not losses[k] > 0:
        return float(powers[k])
    left, here, right = np.log(losses[k - 1 : k + 2])
    bend = left - 2.0 * here + right
    return float(powers[k] + (powers[k + 1] - powers[k]) * (0.5 * (left - right) / bend if bend > 0 else 0.0))


def _rounded(alpha: float) -> float:
    return float(f"{alpha:.1e}")
