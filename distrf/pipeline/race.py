"""The race: candidates for a pipeline, judged on one sample, the worst dropped as rows and features grow.

One BLAS thread: hundreds of small systems, whose threads would wait for each other; and the choice is the same on any number
of cores.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..errors import InputError
from ..execution.scheduler import ONE_BLAS_THREAD
from ..kernels.base import get_kernel
from ..kernels.shift_invariant import KERNELS, Kernel
from ..learned.metric import average_outer_product, metric_root
from ..maps.base import dense
from ..maps.fourier import RandomFourierFeatures
from ..maps.rules import resolve_length_scale
from ..maps.with_columns import WithColumnsMap, column_scale
from ..randomness import permutation
from .judge import (
    Judged,
    Ridge,
    best_of,
    calibrated_losses,
    law_losses,
    number_losses,
    ridge,
    softmax_losses,
    softmax_scores,
)
from .sample import Sample

#: What the length scale of a rule is multiplied by, and that in a learned metric while it gains.
MULTIPLES, _NEAR = (0.35, 0.6, 1.0, 1.7, 2.8, 4.6), (0.6, 0.35, 0.2)
#: Of each rung: rows and features of a candidate, and how many go on. Fewer than 1,024 in the last prefer long length scales: ijcnn1
#: lost two points.
RUNGS = ((1000, 256, 8), (2000, 512, 3), (4500, 1024, 1))
#: Penalties of the first rung; the others have those around the best.
ALPHAS = (1e-7, 1e-5, 1e-3, 1e-1)
#: Columns up to which CSR rows are made dense, and columns join the features: half of D.
_NARROW = 1024
#: Penalties of multinomial regression; the share of the rarer of two classes, and classes, up to which it is tried.
_PASS_ALPHAS, _RARE, _FEW_CLASSES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7), 0.12, 10
#: Metrics that are learned one after the other; where nothing beats a constant twice as many, with penalties around this one at first.
_ROUNDS, _UNTOLD = 4, 1e-4
#: Rows from which metrics are learned, and rows whose distances stay as they are.
_METRIC_ROWS, _MEASURED = 1000, 200
#: Columns up to which a metric is a matrix, and a diagonal.
_FULL, _DIAGONAL = 256, 2048
#: Features with which metrics are tried; by how much the loss must fall with twice as many features for twice as many again, and for
#: four times as many, which cost so many times as much.
_REFINED, _WORTH = 512, (0.001, 0.012)


@dataclass(frozen=True, eq=False)
class Candidate:
    """units : of the columns; mapped, joined : whether there are features, and columns beside them

    length, multiple : the length scale, and how many times that of the rule; None leaves that of the map
    metrics : learned from the training rows of each split, matrices or diagonals; none is that of the map
    rounds, near : how many were learned one after the other, times the length scale in the last
    """

    units: str
    mapped: bool = False
    joined: bool = False
    length: float | None = None
    multiple: float | None = None
    metrics: tuple[np.ndarray, ...] = ()
    rounds: int = 0
    near: float = 1.0

    def settings(self, name: str, split: int | None = None) -> dict[str, Any]:
        """Parameters of a map, whose length scale has that name, in the metric of one split, or the mean of all."""
        if self.length is None or not self.metrics:
            return {} if self.length is None else {name: self.length}
        metric = np.mean(self.metrics, axis=0) if split is None else self.metrics[split]
        length = self.near * self.length
        return {name: length / np.sqrt(metric)} if metric.ndim == 1 else {name: length, "metric": metric}

    def in_metrics(self, judged: Judged) -> list[Candidate]:
        """The candidates in the metrics of its gradients, of the kind of its own if it has one."""
        kinds = [each for each in judged.metrics if not self.metrics or each[0].ndim == self.metrics[0].ndim]
        return [replace(self, metrics=each, rounds=self.rounds + 1) for each in kinds]

    def __str__(self) -> str:
        features = ["columns"] * (self.joined or not self.mapped)
        if self.mapped:
            times = "" if self.multiple is None else f" at {self.multiple:g} x the rule"
            features.append("features" + " in a learned metric" * bool(self.metrics) + times)
        return f"{' and '.join(features)} in units {self.units!r}"


#: Of each units the best candidate with features, and its penalty.
Leaders = dict[str, tuple[Candidate, float]]


@dataclass(frozen=True)
class Outcome:
    """best : the candidate that is delivered; None is the constant. found, linear, constant : what was judged of each

    table : every candidate of the last rung with its loss, the best first
    components : features with which the best is fitted
    passes : what was judged of it as multinomial regression, which takes passes; None where ridge is as good
    """

    best: Candidate | None
    found: Judged
    linear: Judged
    constant: Judged
    table: list[tuple[str, float]]
    components: int
    passes: Judged | None = None


class Race:
    """Candidates on a sample.

    Parameters
    ----------
    sample : Sample, which can judge
    labels : bool, whether its targets are labels
    units : dict of name to unfitted scaler or encoder, or None
    map_ : unfitted map; None for none
    search : bool, whether multiples of the rule for its length scale are tried
    joined : whether columns may stand beside the features, where they are few
    components : int, features that were asked for: no candidate has more; None leaves them to the race
    alphas : penalties that were asked for; None leaves them to the race
    """

    def __init__(
        self, sample: Sample, labels: bool, seed: int, units: dict[str, Any], map_: Any, search: bool = True,
        joined: bool = True, components: int | None = None, alphas: Sequence[float] | None = None,
    ):  # fmt: skip
        self.sample, self.seed, self.map_, self.labels = sample, seed, map_, labels
        self.search, self.joined, self.asked, self.alphas = search, joined, components, alphas
        self.rungs = [(rows, min(D, components or D), go_on) for rows, D, go_on in RUNGS]
        self.fewer = min(_REFINED, self.rungs[-1][1])  # features with which metrics are tried
        y = sample.y if sample.y.ndim > 1 else sample.y[:, None]
        if labels:
            self.classes, self.codes = np.unique(sample.y, return_inverse=True)
            one_hot = np.where(self.codes[:, None] == np.arange(len(self.classes)), 1.0, -1.0)
            self.Y = one_hot[:, 1:] if len(self.classes) == 2 else one_hot
        else:  # each of several targets counts in its own units
            spread = y.std(axis=0)
            varies = spread > 1e-12 * np.abs(y).max(axis=0)
            self.unit, self.middle = np.where(varies, spread, 1.0), y.mean(axis=0)
            self.Y = (y - self.middle) / self.unit
        coded = {name: sample.X if scaler is None else sample.scaled(scaler) for name, scaler in units.items()}
        made = {name: _single(X) for name, X in coded.items()}
        self.units = {n: X for n, X in made.items() if np.isfinite(X.data if sp.issparse(X) else X).all()}
        self.scales = {name: column_scale(X, seed) for name, X in self.units.items()}

    def candidates(self, multiples: Sequence[float] = MULTIPLES) -> list[Candidate]:
        """All, in each units the columns alone too."""
        every = []
        for name, X in self.units.items():
            every.append(Candidate(name))
            if self.map_ is not None:
                joined = self.joined and self.map_.joins_columns and 2 * X.shape[1] <= _NARROW
                every += [Candidate(name, True, joined, *each) for each in self._lengths(X, multiples)]
        return every

    def _lengths(self, X: Any, multiples: Sequence[float]) -> list[tuple[float | None, float | None]]:
        """Length scales that are tried in some units, with the multiples that they are."""
        trial, name = self.map_.trial_map(64, self.seed), self.map_.scale_parameter()
        known = trial.get_params()
        kernel, value = known.get("kernel", "gaussian"), name and self.map_.get_params()[name]
        named = isinstance(kernel, Kernel) or kernel in KERNELS
        if not (self.search and named and name and trial.scale_parameter()) or isinstance(value, numbers.Real):
            return [(None, None)]
        try:
            rule = resolve_length_scale(get_kernel(kernel, Kernel, known), value, None, X, self.seed)
        except InputError:  # all rows are equal in these units
            return []
        return [(multiple * rule, multiple) for multiple in multiples]

    def features(
        self, candidate: Candidate, D: int | None, rows: np.ndarray, learn: int | None = None, split: int = 0
    ) -> tuple[Any, Any]:
        """The features of some rows, float32, and the fitted map.

        D : None takes the map itself, which is then fitted to the first rows, so many as `learn`, and their targets
        """
        X = self.units[candidate.units][rows]
        if not candidate.mapped:
            return X * np.float32(1.0 / self.scales[candidate.units]), None
        trial = clone(self.map_) if D is None else self.map_.trial_map(D, self.seed)
        trial.set_params(**dict.fromkeys({"checkpoint"} & trial.get_params().keys()))
        trial.set_params(**candidate.settings(trial.scale_parameter(), split))
        trial.fit(X[:learn], self.sample.y[rows[:learn]]) if D is None else trial.fit(X)
        map_ = WithColumnsMap.over(trial.map_, self.scales[candidate.units]) if candidate.joined else trial.map_
        return dense(map_(X)).astype(np.float32, copy=False), trial.map_

    def judge(
        self, candidate: Candidate, rows: int, D: int | None, alphas: Sequence[float], splits: int = 5, learns: bool = False
    ) -> Judged:  # fmt: skip
        """Ridge on so many training rows of each split; the rows that it holds out judge.

        D : as of `features`; learns : whether the metrics of its gradients are made, where they can be
        """
        fits: list[tuple[Ridge, Any, Any]] = []

        def scores(part: np.ndarray, learned: Any, judged: Any, map_: Any) -> np.ndarray:
            fit = ridge(learned, self.Y[part], self.sample.weights_of(part), alphas)
            if learns and self._learns(candidate):
                fits.append((fit, learned, map_))
            return fit.scores(judged)

        F, held, w, groups = self._held(candidate, rows, D, splits, scores)
        clipped = np.clip(F, -1.0, 1.0) if self.labels else F  # no label far out decides
        squares = ((clipped - self.Y[held]) ** 2).mean(axis=2)
        best = best_of(squares, w)
        losses = calibrated_losses(F[best], self.codes[held], w) if self.labels else squares[best]
        metrics = zip(*(self._gradients(candidate, best, k, *fit) for k, fit in enumerate(fits)), strict=True)
        return Judged(losses * w, alphas[best], F[best], groups, 1.0 - self.sample.copies, tuple(metrics))

    def _learns(self, candidate: Candidate) -> bool:
        """Whether a metric can be learned from the gradients of a candidate."""
        map_, X = self.map_, self.units[candidate.units]
        if type(map_) is not RandomFourierFeatures or sp.issparse(X) or len(X) < _METRIC_ROWS:
            return False
        plain = map_.phase == "paired" and map_.metric is None and map_.order is None
        return plain and candidate.length is not None and 1 < X.shape[1] <= _DIAGONAL

    def judge_passes(self, candidate: Candidate, rows: int, D: int) -> Judged:
        """As `judge`, of multinomial regression: its own log loss, not calibrated."""
        count = len(self.classes)

        def scores(part: np.ndarray, learned: Any, judged: Any, map_: Any) -> np.ndarray:
            weight = self.sample.weights_of(part)
            return softmax_scores(learned, judged, self.codes[part], count, weight, _PASS_ALPHAS)

        F, held, w, groups = self._held(candidate, rows, D, 5, scores)
        losses = softmax_losses(F, self.codes[held])
        best = best_of(losses, w)
        scores_of = F[best][:, 1:] - F[best][:, :1] if count == 2 else F[best]
        return Judged(losses[best] * w, _PASS_ALPHAS[best], scores_of, groups, 1.0 - self.sample.copies)

    def _held(
        self, candidate: Candidate, rows: int, D: int | None, splits: int, scores: Callable[..., np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """For each penalty the scores of the rows that some splits hold out, and these rows, their weights, and groups.

        scores : function of the training rows of a split, their features, those of the rows held out, and the map
        """
        taken, found = self.sample.splits[:splits], []
        every = None
        if D is not None and len(taken) > 1 and not candidate.metrics:
            every, map_ = self.features(candidate, D, np.arange(len(self.sample.y)))
        for k, (train, held) in enumerate(taken):
            part = train[permutation(self.seed, "race rows", 0, len(train))[:rows]]
            if every is not None:
                found.append(scores(part, every[part], every[held], map_))
                continue
            Z, map_ = self.features(candidate, D, np.concatenate([part, held]), len(part), k)
            found.append(scores(part, Z[: len(part)], Z[len(part) :], map_))
        return np.concatenate(found, axis=1), *self.sample.held(splits)

    def constant(self) -> Judged:
        """The mean of the training rows; of labels, their shares."""
        sample, (held, w, groups) = self.sample, self.sample.held()
        F = np.concatenate([
            np.tile(np.average(self.Y[train], axis=0, weights=sample.weights_of(train)), (len(part), 1))
            for train, part in sample.splits
        ])  # fmt: skip
        squares = ((F - self.Y[held]) ** 2).mean(axis=1)
        losses = calibrated_losses(0.0 * F, self.codes[held], w) if self.labels else squares
        return Judged(losses * w, 0.0, F, groups, 1.0 - sample.copies)

    @ONE_BLAS_THREAD
    def run(
        self, optional: bool, constant: bool, most: int, plenty: bool = False, passes_allowed: bool = False,
        as_asked: bool = False,
    ) -> Outcome:  # fmt: skip
        """Drop candidates rung by rung. The simpler one is delivered unless it is beaten by a standard error.

        optional, constant : whether the columns alone, or also a constant, may be delivered
        most : features at most
        plenty : whether rows are some times those of the sample: they are worth more to features than to columns, which then
            need no standard error to be delivered
        passes_allowed : whether a fit by passes may take the place of ridge
        as_asked : whether the best is judged by the map itself, with as many features as were asked for
        """
        (found, leaders), mean, components = self._climb(self.candidates()), self.constant(), 0
        errors = 0.0 if plenty else 1.0
        linear = best = min((c for c in found if not c.mapped), key=lambda c: found[c].loss)
        mapped = sorted((c for c in found if c.mapped), key=lambda c: found[c].loss)
        if mapped:
            best, judged = mapped[0], found[mapped[0]]
            other, with_metric, few = self._in_metrics(best, judged.alpha, leaders, judged.beats(mean))
            found.setdefault(other, with_metric)
            if other is not best and with_metric.beats(few, errors):
                best, few, judged = other, with_metric, self._tried(other, with_metric.alpha)
            components, found[best] = self._components(few, judged, most, plenty), judged
            if as_asked:
                if self.asked is None:
                    self.map_ = clone(self.map_)
                    self.map_.take_size(components)
                penalties = self._penalties(best, found[best].alpha)
                found[best] = self.judge(best, self.rungs[-1][0], None, penalties)
            best = best if not optional or found[best].beats(found[linear], errors) else linear
        passes = None
        if passes_allowed and (finished := self._finished(best, found[best], plenty, optional)):
            best, passes = finished
            if best not in found:
                found[best] = self._tried(best, passes.alpha)
        table = sorted(((str(c), judged.loss) for c, judged in found.items()), key=lambda one: one[1])
        table.append(("constant", mean.loss))
        constant = optional and constant and not (passes or found[best]).beats(mean)
        best, passes = (linear, None) if constant else (best, passes)
        delivered = None if constant and not found[best].beats(mean) else best
        return Outcome(delivered, found[best], found[linear], mean, table, components, passes)

    def _finished(
        self, best: Candidate, found: Judged, plenty: bool, optional: bool
    ) -> tuple[Candidate, Judged] | None:
        """Multinomial regression on the best candidate, where it gains on calibrated ridge.

        Of features it is tried for two classes alone, one of them rare: there calibrated ridge is behind, and any gain counts. Where rows
        are plenty it is a standard error: ridge learns more from these than the sample shows. The columns in all units are tried of a
        rare class too: ridge puts them in another order.

        optional : whether the columns alone may be delivered
        """
        counts = np.bincount(self.codes)
        rare = len(counts) == 2 and counts.min() < _RARE * counts.sum()
        few = not best.mapped and len(counts) <= _FEW_CLASSES
        tried = [best] if rare or few else []
        tried += [c for c in map(Candidate, self.units) if rare and optional and c != best]
        judged = {
            c: self.judge_passes(c, *self.rungs[-1][:2]) for c in tried if not sp.issparse(self.units[c.units])
        }
        first = min(judged, key=lambda c: judged[c].loss, default=None)
        if first is None:
            return None
        errors = 0.0 if not first.mapped or (rare and not plenty) else 1.0
        return (first, judged[first]) if judged[first].beats(found, errors) else None

    def _climb(self, candidates: list[Candidate]) -> tuple[dict[Candidate, Judged], Leaders]:
        """What the last rung says of those that reached it; and of each units the best with features, and its penalty."""
        tried = {c: self._penalties(c) for c in candidates}
        found, leaders = dict[Candidate, Judged](), Leaders()
        for i, (rows, D, most) in enumerate(self.rungs):
            last = i + 1 == len(self.rungs)
            if not last and len(tried) <= self.rungs[i + 1][2]:
                continue
            splits = 5 if last else 3 if len(self.sample.y) <= 500 else 1
            found = {c: self.judge(c, rows, D, alphas, splits) for c, alphas in tried.items()}
            order = sorted(found, key=lambda c: found[c].loss)
            leaders |= {c.units: (c, found[c].alpha) for c in reversed(order) if c.mapped}
            if not last:
                going = _of_each_units(order, most)
                for mapped in (False, True):  # the best columns and the best features, whatever is better
                    going += [c for c in order if c.mapped is mapped][:1]
                tried = {c: self._penalties(c, found[c].alpha) for c in going}
        return found, leaders

    def _tried(self, candidate: Candidate, alpha: float, D: int | None = None, learns: bool = False) -> Judged:
        """What a candidate is worth on the rows of the last rung, with its features or others; `learns` as of `judge`."""
        rows, features, _ = self.rungs[-1]
        return self.judge(candidate, rows, D or features, self._penalties(candidate, alpha, 0.01), 5, learns)

    def _penalties(self, candidate: Candidate, near: float | None = None, least: float = 0.1) -> list[float]:
        """Those that were asked for, in the units of what is judged; else those around one, or all."""
        if self.alphas is not None:
            unit = 1.0 if candidate.mapped else self.scales[candidate.units] ** 2
            return [alpha / unit for alpha in self.alphas]
        around = [times * (near or 0.0) for times in (0.01, 0.1, 1.0, 10.0) if times >= least]
        return list(ALPHAS) if near is None else [alpha for alpha in around if alpha > 5e-9]

    def _in_metrics(
        self, best: Candidate, alpha: float, leaders: Leaders, told: bool
    ) -> tuple[Candidate, Judged, Judged]:
        """The best candidate in the last of its learned metrics that did better, itself where none did.

        The best one in the units of fewest columns is tried too: there few columns that count are found among many.

        told : whether the best one beats a constant; else its length scale says nothing, and that of the rule is tried too. Nearly
            interpolated rows show the columns that count, where the best penalty leaves nothing of them

        Returns
        -------
        The candidate, what was judged of it with few features, and of the plain one.
        """
        narrow, own = min(leaders.values(), key=lambda one: self.units[one[0].units].shape[1])
        starts = {best: alpha} | ({narrow: own} if narrow.units != best.units and self._learns(narrow) else {})
        if not told:
            mapped = [(c, c.length / c.multiple) for c in starts if c.length and c.multiple]
            starts |= {replace(c, length=length, multiple=1.0): _UNTOLD for c, length in mapped}
        going = {start: self._tried(start, near, self.fewer, True) for start, near in starts.items()}
        plain = found = going[best]
        for _ in range(_ROUNDS if told else 2 * _ROUNDS):
            going = {
                candidate: self._tried(candidate, judged.alpha, self.fewer, True)
                for start, judged in going.items()
                for candidate in start.in_metrics(judged)
            }
            first = min(going, key=lambda c: going[c].loss, default=None)
            if first is None or going[first].loss >= found.loss:
                break
            best, found = first, going[first]
            going = {best: found}
        for near in _NEAR if best.metrics else ():
            other = replace(best, near=near)
            judged = self._tried(other, found.alpha, self.fewer)
            if judged.loss >= found.loss:
                break
            best, found = other, judged
        return best, found, plain

    def _gradients(
        self, candidate: Candidate, best: int, split: int, fit: Ridge, A: np.ndarray, map_: Any
    ) -> list[np.ndarray]:
        """The metrics of the average outer product of the gradients of a fit: its diagonal, and where columns are few the matrix.

        The median distance of rows stays as it is.

        best : which of its penalties; A : its centred features
        """
        X, scale = self.units[candidate.units], self.scales[candidate.units]
        d = X.shape[1] if candidate.joined else 0
        W, mean = fit.weights[best].astype(np.float64), fit.mean[d:].astype(np.float64)
        S = (A.T @ A if fit.moments is None else fit.moments)[d:, d:] + np.outer(mean, mean)
        linear, full = W[:d] / scale if d else 0.0, X.shape[1] <= _FULL
        M = average_outer_product(S, mean, W[d:], map_.frequencies(), linear, diagonal=not full)
        rows = X[self.sample.splits[split][0][:_MEASURED]].astype(np.float64)
        roots = [metric_root(each, rows, None, "euclidean") for each in ([np.diag(M), M] if full else [M])]
        return [root**2 if root.ndim == 1 else root @ root.T for root in roots]

    def _components(self, before: Judged, found: Judged, most: int, plenty: bool) -> int:
        """Features: those of the last rung, or twice as many where these gained, by a standard error too unless rows are plenty.

        Four times as many where these gained more.

        before, found : the best with fewer features, and with those of the last rung
        """
        doubled = sum(before.loss - found.loss > worth for worth in _WORTH)
        return min(most, self.rungs[-1][1] * 2 ** (doubled if plenty or found.beats(before) else 0))

    @ONE_BLAS_THREAD
    def nats(self) -> float:
        """Log loss of whole numbers, as labels or as numbers, by a short race at one length scale in each units."""
        rows, D = RUNGS[1][0], self.fewer
        each = [self.judge(c, rows, D, ALPHAS) for c in self.candidates((1.0, 2.8))]
        best = min(each, key=lambda judged: judged.loss)
        if self.labels:
            return best.loss
        held, w, _ = self.sample.held()
        scores, y = best.scores[:, 0] * self.unit + self.middle, self.sample.y[held]
        return min(float(np.mean(law(scores, y, w) * w)) for law in (number_losses, law_losses))


def _of_each_units(order: list[Candidate], most: int) -> list[Candidate]:
    """The best, of each units no more than half: what few rows cannot tell apart, more rows may."""
    units = [c.units for c in order]
    return [c for i, c in enumerate(order) if units[:i].count(c.units) < -(-most // 2)][:most]


def _single(X: Any) -> Any:
    """Coded rows in float32, dense where there are few columns."""
    X = X.toarray() if sp.issparse(X) and X.shape[1] <= _NARROW else X
    with np.errstate(over="ignore"):
        return X.astype(np.float32)
