"""Scaling, length scale, number of features, columns beside them: each decided on the sample, each with its reason."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..execution.memory import PROCESS_BYTES, Workers
from ..execution.scheduler import current_client
from ..features import StreamingScaler
from ..features.with_columns import column_scale
from ..parameters import check_parameters
from ..record import Choice
from ..targets import Targets
from .sample import Sample
from .search import (
    COMPONENTS,
    SCOUT_COMPONENTS,
    Verdict,
    judge_columns,
    judge_map,
    rule_length_scale,
    search_length_scale,
)

#: Columns up to which a linear model takes the solver that it takes, and what conjugate gradients get beyond.
_GRAM_COLUMNS, _WIDE_DIRECTIONS, _WIDE_TOL = 4096, 16, 1e-2
#: Columns up to which scalings are tried on all rows of a sample, and ridge on columns compares penalties of its own;
#: rows that such a trial is trained on beyond: time grows with the cube of either.
_NARROW, _TRIAL_ROWS = 1024, 1000


@dataclass
class Decisions:
    """What they are made on, and those made so far.

    n : rows of the data; targets : None where the sample cannot judge
    """

    n: int
    sample: Sample
    targets: Targets | None
    seed: int
    choices: list[Choice] = field(default_factory=list)

    def note(self, what: str, value: Any, why: str) -> None:
        """Add a choice, in place of an earlier one of the same thing."""
        self.choices = [*(c for c in self.choices if c.what != what), Choice(what, value, why)]

    @property
    def rows(self) -> str:
        return f"on {self.sample.judged:,} held-out rows"


def all_equal(X: Any) -> bool:
    """Whether all rows are the same."""
    return X.nnz == 0 if sp.issparse(X) else bool((X[:1] == X).all())


def scaler(decisions: Decisions, asked: Any, map_: Any, optional: bool = False) -> StreamingScaler | None:
    """The unfitted scaler, or None: as asked, else the candidate that does best with `map_`.

    map_ : None for the columns alone; optional : whether these may be taken in its place
    """
    if isinstance(asked, StreamingScaler):
        decisions.note("scale", asked.method, "as given")
        return clone(asked)
    if asked is None or asked == "none":
        decisions.note("scale", "none", "as asked")
        return None
    if asked != "auto":
        made = StreamingScaler(asked)
        check_parameters(made)
        decisions.note("scale", asked, "as asked")
        return made
    sample, targets = decisions.sample, decisions.targets
    methods, why = _scalings(sample.X, map_)
    if methods and targets is None:
        methods, why = _by_ranges(sample.X)
    elif methods:
        methods, why = _by_trials(decisions, methods, map_, optional)
    decisions.note("scale", methods[0] if methods else "none", why)
    return StreamingScaler(methods[0]) if methods else None


def _scalings(X: Any, map_: Any) -> tuple[list[str], str]:
    """The scalings that these rows and the map can have, and why there is none."""
    if all_equal(X):
        return [], "all sampled rows are equal"
    if sp.issparse(X):  # those that keep zeros
        alike = (
            X.nnz and (X.data == X.data[0]).all()
        )  # as all entries are where columns stand for levels or words
        return ["l2-rows"] if alike else ["robust-zeros", "l2-rows"], ""
    if map_ is not None and map_.__sklearn_tags__().input_tags.positive_only:
        return [], "the map is for rows without negative entries"
    return ["robust"], ""


def _by_ranges(X: Any) -> tuple[list[str], str]:
    """Scale columns of unlike ranges, where there is nothing to judge by."""
    high, low = X.max(axis=0), X.min(axis=0)
    if sp.issparse(X):
        high, low = high.toarray().ravel(), low.toarray().ravel()
    spread = high.astype(np.float64) - low
    unlike = spread.max() > 10 * spread[spread > 0].min()
    method = "robust-zeros" if sp.issparse(X) else "robust"
    return [method] if unlike else [], "by the ranges of the columns, since the sample cannot judge"


def _by_trials(decisions: Decisions, methods: list[str], map_: Any, optional: bool) -> tuple[list[str], str]:
    """The best of none and `methods` by held-out rows."""
    assert decisions.targets is not None
    best: list[str] = []
    leader, scores = None, []
    sample = decisions.sample
    if sample.X.shape[1] > _NARROW:  # seconds for each candidate and split
        sample = replace(
            sample,
            splits=tuple((train[:: 1 + len(train) // _TRIAL_ROWS], held) for train, held in sample.splits[:1]),
        )
    for method in ["none", *methods]:
        rows = sample if method == "none" else sample.scaled(StreamingScaler(method))
        found = _try_rows(decisions, rows, map_, optional)
        scores.append(f"{found} with {method}")
        if leader is None or found.better(leader):
            leader, best = found, [] if method == "none" else [method]
    return best, f"{', '.join(scores)}, on {sample.judged:,} held-out rows"


def _try_rows(decisions: Decisions, rows: Sample, map_: Any, optional: bool) -> Verdict:
    """Features of the map; of sparse rows, which are often best as they are, or else the columns."""
    assert decisions.targets is not None
    columns = map_ is None or (optional and sp.issparse(rows.X))
    linear = judge_columns(rows, decisions.targets, decisions.seed) if columns else None
    if map_ is None:
        assert linear is not None
        return linear
    found = judge_map(rows, decisions.targets, map_.trial_map(SCOUT_COMPONENTS, decisions.seed))
    return linear if linear is not None and linear.better(found) else found


def length_scale(decisions: Decisions, map_: Any) -> None:
    """Set the length scale of a map that has a rule for it to the best multiple of what the rule gives."""
    name = map_.scale_parameter()
    if name is None or isinstance(map_.get_params()[name], numbers.Real):
        return
    trial = map_.trial_map(SCOUT_COMPONENTS, decisions.seed)
    own = trial.scale_parameter()
    rule = map_.get_params()[name]
    if own is None:
        return
    if all_equal(decisions.sample.X):
        map_.set_params(**{name: 1.0})
        decisions.note("length_scale", 1.0, "all sampled rows are equal")
        return
    middle = rule_length_scale(rule, trial.get_params(), decisions.sample, decisions.seed)
    if middle is None:
        return
    if decisions.targets is None:
        map_.set_params(**{name: middle})
        decisions.note("length_scale", middle, f"the rule {rule!r}, since the sample cannot judge")
        return

    def at(multiple: float) -> Verdict:
        assert decisions.targets is not None
        return judge_map(
            decisions.sample, decisions.targets, clone(trial).set_params(**{own: multiple * middle})
        )

    multiple = search_length_scale(at, at(1.0))
    value = float(f"{multiple * middle:.6g}")
    map_.set_params(**{name: value})
    decisions.note("length_scale", value, f"{multiple:g} times the rule {rule!r}: judged {decisions.rows}")


def auto_components(n: int, memory: int) -> int:
    """D: 4,096 from 20,000 rows on, 2,048 from 5,000, else 1,024; at most twice the rows, and as memory allows.

    memory : bytes of a worker, 0 for unknown
    """
    wanted = 4096 if n >= 20_000 else 2048 if n >= 5000 else 1024
    while wanted > 256 and wanted > 2 * n:
        wanted //= 2

    def states(D: int) -> int:
        """Half a float64 Gram matrix for each fold, of which some six meet on a worker."""
        return 6 * (5 if D <= 2048 else 2) * 4 * D**2

    while memory and wanted > 256 and states(wanted) > max(memory - PROCESS_BYTES, memory // 4):
        wanted //= 2
    return wanted


def components(decisions: Decisions, map_: Any) -> None:
    """Set the number of features of a map that has one."""
    if "n_components" not in map_.parameter_rules:
        return
    map_.take_size(auto_components(decisions.n, Workers.of_client(current_client()).memory_limit))
    rows, d = decisions.n, decisions.sample.X.shape[1]
    decisions.note(
        "n_components", map_.n_components, f"for {rows:,} rows of {d:,} columns, and the memory of a worker"
    )


def features(
    decisions: Decisions, map_: Any, linear: Verdict | None, optional: bool, asked: bool | str
) -> tuple[bool, bool, Verdict | None]:
    """(whether the map is kept, whether the columns join its features, the verdict on what is kept).

    asked : of `raw_columns`, True, False or "auto"; optional : whether the map may be left out
    """
    sample, targets, seed = decisions.sample, decisions.targets, decisions.seed
    if targets is None or linear is None:
        return True, asked is True, None
    D = int(getattr(map_, "n_components", None) or COMPONENTS)
    trial = map_.trial_map(min(D, COMPONENTS), seed)
    own, name = trial.scale_parameter(), map_.scale_parameter()
    if own is not None and name is not None:
        trial.set_params(**{own: map_.get_params()[name]})
    machine = judge_map(sample, targets, trial)
    scores = f"{linear} of the columns, {machine} of features"
    joined = asked is True
    if asked is not False and map_.joins_columns and (joined or 2 * sample.X.shape[1] <= max(D, COMPONENTS)):
        both = judge_map(sample, targets, trial, True, seed)
        scores += f", {both} of both"
        # They cost little and save what is nearly linear: left out only where they do harm.
        joined = joined or not machine.beats(both)
        machine = both if joined else machine
    kept = not optional or machine.beats(linear)
    value = "columns" if not kept else "columns and map" if joined else "map"
    decisions.note("features", value, f"{scores}, {decisions.rows}")
    return kept, joined, machine if kept else linear


def penalty(decisions: Decisions, learner: Any, verdict: Verdict | None, kept: bool) -> None:
    """Give ridge with alpha="auto" the sample's penalty where its own cross-validation would err, or cost minutes.

    kept : whether there is a map before it. Where many columns stand alone, conjugate gradients fit them: without, the
    Gram matrix of d columns is factorised for every penalty and fold, minutes from d = 5,000 on
    """
    X = decisions.sample.X
    wide = not kept and X.shape[1] > _GRAM_COLUMNS
    if wide:
        learner.set_params(solver="cg", n_directions=_WIDE_DIRECTIONS, tol=_WIDE_TOL)
    if verdict is None:
        return
    copies = decisions.sample.copies > 0
    if copies or verdict.misled:
        why = (
            "copies of rows would hide the need of one"
            if copies
            else "squared errors would be those of few rows"
        )
    elif not kept and X.shape[1] > _NARROW:
        why = "conjugate gradients" if wide else "more of them would cost seconds each"
    else:
        return
    unit = 1.0 if kept else column_scale(X, decisions.seed) ** 2
    alpha = float(f"{verdict.alpha * unit:.3g}")
    around = [alpha / 10, alpha] if wide else [alpha / 10, alpha, 10 * alpha]
    alphas = [alpha] if copies or verdict.misled else around
    learner.set_params(alpha=alphas)
    decisions.note("alpha", alphas, f"best {decisions.rows}; {why}")
