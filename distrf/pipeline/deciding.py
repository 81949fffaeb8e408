"""Scaling, length scale, number of features, columns beside them: each decided on the sample, each with its reason."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..execution.memory import PROCESS_BYTES, Workers
from ..execution.scheduler import current_client
from ..features import StreamingScaler
from ..features.base import positive_only
from ..features.with_columns import column_scale
from ..parameters import check_parameters
from ..record import Choice
from ..ridge.path import is_short
from ..tables.encoder import TableEncoder
from ..targets import Targets
from .sample import Sample
from .search import (
    COMPONENTS,
    FINE_COMPONENTS,
    SCOUT_COMPONENTS,
    Verdict,
    judge_columns,
    judge_map,
    rule_length_scale,
    search_length_scale,
    shorten_multiple,
)

#: Columns up to which a linear model takes the solver that it takes, and what conjugate gradients get beyond.
_GRAM_COLUMNS, _WIDE_DIRECTIONS, _WIDE_TOL = 4096, 16, 1e-2
#: Columns up to which scalings are tried on all rows of a sample, and ridge on columns compares penalties of its own;
#: rows that such a trial is trained on beyond: time grows with the cube of either.
_NARROW, _TRIAL_ROWS = 1024, 1000

#: Encodings of numbers that are compared, the simplest first. Not "common": tried with these it gained three points on covtype, but
#: was taken by chance on one split of airline and of blogfeedback, heavy tails both, where R^2 fell by 0.05 and 0.11.
NUMBERS_TRIED = ("robust", "standard", "quantile", "piecewise", "both")
#: Length scales with which each is tried, in those of the rule.
_MULTIPLES_TRIED = (1.0, 2.8)

#: By which a length scale is multiplied if the data have so many times the rows that a trial is trained on.
_SHORTER, _MANY_ROWS = 0.6, 3


@dataclass
class Decisions:
    """The choices made so far, and what the next ones are made on.

    Attributes
    ----------
    n : int, rows of the data
    sample : Sample, the rows on which candidates are judged, in the units chosen so far
    targets : Targets, the encoding of the sample's targets; None if the sample cannot judge
    seed : int, of all draws
    shortened : bool, whether more features took a shorter length scale than the first trials
    choices : list of Choice, in the order in which they were made
    """

    n: int
    sample: Sample
    targets: Targets | None
    seed: int
    shortened: bool = False
    choices: list[Choice] = field(default_factory=list)

    def note(self, what: str, value: Any, why: str) -> None:
        """Add a choice, in place of an earlier one of the same thing."""
        self.choices = list(({c.what: c for c in self.choices} | {what: Choice(what, value, why)}).values())

    @property
    def rows(self) -> str:
        return f"on {self.sample.judged:,} held-out rows"


def all_equal(X: Any) -> bool:
    """Whether all rows are the same."""
    return X.nnz == 0 if sp.issparse(X) else bool((X[:1] == X).all())


def choose_scaler(
    decisions: Decisions, requested: Any, map_: Any, optional: bool = False
) -> StreamingScaler | TableEncoder | None:
    """The scaling of the columns: the one requested, else the candidate that does best on the sample.

    Parameters
    ----------
    decisions : Decisions
    requested : the option `scale`: "auto", None or "none", a method, or an unfitted StreamingScaler; or the unfitted
        TableEncoder of coded rows, whose numbers are chosen if they are "auto"
    map_ : unfitted map that will follow; None if the columns stand alone
    optional : bool, whether the columns may be taken in place of the map

    Returns
    -------
    StreamingScaler, TableEncoder or None
        Unfitted; None for no scaling.
    """
    if isinstance(requested, TableEncoder):
        return _choose_numbers(decisions, requested, map_, optional)
    if not (isinstance(requested, str) and requested == "auto"):
        scaler = asked_scaler(requested)
        why = "as given" if isinstance(requested, StreamingScaler) else "as asked"
        decisions.note("scale", "none" if scaler is None else scaler.method, why)
        return scaler
    methods, why = _possible_scalings(decisions.sample.X, map_)
    if methods and decisions.targets is None:
        methods, why = _scaling_by_ranges(decisions.sample.X)
    elif methods:
        methods, why = _scaling_by_trials(decisions, methods, map_, optional)
    decisions.note("scale", methods[0] if methods else "none", why)
    return StreamingScaler(methods[0]) if methods else None


def asked_scaler(requested: Any) -> StreamingScaler | None:
    """The unfitted scaler that the option `scale` names; None for none, and where "auto" chooses it later."""
    if requested is None or (isinstance(requested, str) and requested in ("none", "auto")):
        return None
    scaler = clone(requested) if isinstance(requested, StreamingScaler) else StreamingScaler(requested)
    check_parameters(scaler)
    return scaler


def _choose_numbers(decisions: Decisions, encoder: TableEncoder, map_: Any, optional: bool) -> TableEncoder:
    """The encoder with the encoding of numbers that does best on the sample, unless it names one."""
    encoder = clone(encoder)
    labels = decisions.targets is not None and decisions.targets.classes is not None
    if encoder.target_type == "auto" and decisions.targets is not None:
        encoder.set_params(target_type="labels" if labels else "numbers")
    if (
        encoder.numbers != "auto"
        or decisions.targets is None
        or (encoder.schema is not None and "number" not in (encoder.columns or {}).values())
    ):
        value, why = ("robust", "the usual") if encoder.numbers == "auto" else (encoder.numbers, "as given")
        encoder.set_params(numbers=value)
        decisions.note("numbers", value, why)
        return encoder
    verdicts = {}
    best = ""
    for name in NUMBERS_TRIED:
        candidate = clone(encoder).set_params(numbers=name)
        verdicts[name] = _judge_encoded(decisions, decisions.sample.scaled(candidate), map_)
        if not best or verdicts[name].better(verdicts[best]):
            best = name
    scores = ", ".join(f"{verdict} with {name}" for name, verdict in verdicts.items())
    decisions.note("numbers", best, f"{scores}, {decisions.rows}")
    return encoder.set_params(numbers=best)


def _judge_encoded(decisions: Decisions, sample: Sample, map_: Any) -> Verdict:
    """The verdict on the columns and the features of the map beside them, with the better of two length scales.

    Encodings differ in what a linear model makes of their columns, and in the length scale that suits them.
    """
    assert decisions.targets is not None
    targets, seed = decisions.targets, decisions.seed
    if map_ is None or not map_.joins_columns or sp.issparse(sample.X):
        return _judge_units(decisions, sample, map_, map_ is not None)
    trial = map_.trial_map(SCOUT_COMPONENTS, seed)
    name = trial.scale_parameter()
    known = trial.get_params()
    middle = None if name is None else rule_length_scale(known[name], known, sample, seed)
    if middle is None or isinstance(known[name], numbers.Real):
        return judge_map(sample, targets, trial, True, seed)
    near, far = (
        judge_map(sample, targets, clone(trial).set_params(**{name: multiple * middle}), True, seed)
        for multiple in _MULTIPLES_TRIED
    )
    return far if far.better(near) else near


def _possible_scalings(X: Any, map_: Any) -> tuple[list[str], str]:
    """The methods that suit these rows and the map; if there is none, the reason."""
    if all_equal(X):
        return [], "all sampled rows are equal"
    if sp.issparse(X):  # those that keep zeros
        alike = X.nnz and (X.data == X.data[0]).all()  # as if columns stood for levels or words
        return ["l2-rows"] if alike else ["robust-zeros", "l2-rows"], ""
    if positive_only(map_):
        return [], "the map is for rows without negative entries"
    return ["robust"], ""


def _scaling_by_ranges(X: Any) -> tuple[list[str], str]:
    """Scaling for columns of unlike ranges, else none. It serves samples that cannot judge."""
    high, low = X.max(axis=0), X.min(axis=0)
    if sp.issparse(X):
        high, low = high.toarray().ravel(), low.toarray().ravel()
    spread = high.astype(np.float64) - low
    unlike = spread.max() > 10 * spread[spread > 0].min()
    method = "robust-zeros" if sp.issparse(X) else "robust"
    return [method] if unlike else [], "by the ranges of the columns, since the sample cannot judge"


def _scaling_by_trials(
    decisions: Decisions, methods: list[str], map_: Any, optional: bool
) -> tuple[list[str], str]:
    """The best of "none" and `methods` by held-out rows; an empty list is "none"."""
    sample = decisions.sample
    if sample.X.shape[1] > _NARROW:  # seconds for each candidate and split
        train, held = sample.splits[0]
        sample = replace(sample, splits=((train[:: 1 + len(train) // _TRIAL_ROWS], held),))
    verdicts = {"none": _judge_units(decisions, sample, map_, optional)}
    best = "none"
    for method in methods:
        scaled = sample.scaled(StreamingScaler(method))
        verdicts[method] = _judge_units(decisions, scaled, map_, optional)
        if verdicts[method].better(verdicts[best]):
            best = method
    scores = ", ".join(f"{verdict} with {method}" for method, verdict in verdicts.items())
    return [] if best == "none" else [best], f"{scores}, on {sample.judged:,} held-out rows"


def _judge_units(decisions: Decisions, sample: Sample, map_: Any, optional: bool) -> Verdict:
    """The verdict on the features of the map in the units of the sample, or on the columns if there is no map.

    Sparse rows are often best as they are: if the map is optional, the better of features and columns.
    """
    assert decisions.targets is not None
    if map_ is None:
        return judge_columns(sample, decisions.targets, decisions.seed)
    features = judge_map(sample, decisions.targets, map_.trial_map(SCOUT_COMPONENTS, decisions.seed))
    if not (optional and sp.issparse(sample.X)):
        return features
    columns = judge_columns(sample, decisions.targets, decisions.seed)
    return columns if columns.better(features) else features


def set_length_scale(decisions: Decisions, map_: Any) -> None:
    """Set the length scale of a map that has a rule for it: the best multiple of the number that the rule gives.

    A map without a length scale, or with a number for it, is left as it is.

    Parameters
    ----------
    decisions : Decisions
    map_ : unfitted map, which is changed
    """
    name = map_.scale_parameter()
    if name is None or isinstance(map_.get_params()[name], numbers.Real):
        return
    trial = map_.trial_map(SCOUT_COMPONENTS, decisions.seed)
    trial_name, rule = trial.scale_parameter(), map_.get_params()[name]
    if trial_name is None:
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
    targets = decisions.targets

    def judge_with(trial: Any, multiple: float) -> Verdict:
        candidate = clone(trial).set_params(**{trial_name: multiple * middle})
        return judge_map(decisions.sample, targets, candidate)

    first = multiple = search_length_scale(partial(judge_with, trial))
    size = min(FINE_COMPONENTS, getattr(map_, "n_components", FINE_COMPONENTS))
    if first > 1 and size > SCOUT_COMPONENTS:
        fine = map_.trial_map(size, decisions.seed)
        multiple = shorten_multiple(first, partial(judge_with, fine))
    decisions.shortened = multiple < first
    value = float(f"{multiple * middle:.6g}")
    map_.set_params(**{name: value})
    decisions.note("length_scale", value, f"{multiple:g} times the rule {rule!r}: judged {decisions.rows}")


def shorten_length_scale(decisions: Decisions, map_: Any) -> None:
    """Take a shorter length scale than the trials chose, if the data have many more rows than a trial.

    Not where more features have shortened it already: twice may be far too short.

    More rows tell apart what lies closer together, and the map has more features than a trial has: the best length scale
    falls with both. docs/guide/choices_rules.md has the figures.

    Parameters
    ----------
    decisions : Decisions, whose choice of a length scale is replaced
    map_ : unfitted map, which is changed
    """
    chosen = next((choice for choice in decisions.choices if choice.what == "length_scale"), None)
    if chosen is None or decisions.shortened or decisions.targets is None or all_equal(decisions.sample.X):
        return
    if decisions.n >= _MANY_ROWS * len(decisions.sample.splits[0][0]):
        value = float(f"{_SHORTER * chosen.value:.6g}")
        map_.set_params(**{map_.scale_parameter(): value})
        why = (
            f"{_SHORTER:g} times {chosen.value:g}, since {decisions.n:,} rows tell finer; that is {chosen.why}"
        )
        decisions.note("length_scale", value, why)


def auto_components(n: int, memory: int) -> int:
    """D: 4,096 from 20,000 rows on, 2,048 from 5,000, else 1,024; at most twice the rows, and as memory allows.

    Parameters
    ----------
    n : int, rows of the data
    memory : int, bytes of a worker; 0 if they are unknown

    Returns
    -------
    int
        A power of two, at least 256.
    """
    components = 4096 if n >= 20_000 else 2048 if n >= 5000 else 1024
    while components > max(256, 2 * n):
        components //= 2
    room = max(memory - PROCESS_BYTES, memory // 4)
    while memory and components > 256 and _gram_states(components) > room:
        components //= 2
    return components


def _gram_states(D: int) -> int:
    """Bytes of half a float64 Gram matrix for each fold, of which some six meet on a worker."""
    return 6 * (5 if D <= 2048 else 2) * 4 * D**2


def set_components(decisions: Decisions, map_: Any) -> None:
    """Set the number of features of a map that has one.

    Parameters
    ----------
    decisions : Decisions
    map_ : unfitted map, which is changed
    """
    if "n_components" not in map_.parameter_rules:
        return
    map_.take_size(auto_components(decisions.n, Workers.of_client(current_client()).memory_limit))
    rows, d = decisions.n, decisions.sample.X.shape[1]
    decisions.note(
        "n_components", map_.n_components, f"for {rows:,} rows of {d:,} columns, and the memory of a worker"
    )


def choose_features(
    decisions: Decisions, map_: Any, linear: Verdict | None, optional: bool, raw_columns: bool | str
) -> tuple[str, Verdict | None]:
    """Whether the linear model gets the features of the map, the columns, or both.

    Parameters
    ----------
    decisions : Decisions
    map_ : unfitted map, whose length scale and size are set
    linear : Verdict on the columns; None if the sample cannot judge
    optional : bool, whether the map may be left out
    raw_columns : whether the columns join the features: True, False or "auto"

    Returns
    -------
    features : str, "map", "columns" or "columns and map"
    verdict : Verdict on these, or None
    """
    sample, targets, seed = decisions.sample, decisions.targets, decisions.seed
    joined = raw_columns is True
    if targets is None or linear is None:
        return "columns and map" if joined else "map", None
    D = int(getattr(map_, "n_components", None) or COMPONENTS)
    trial = map_.trial_map(min(D, COMPONENTS), seed)
    trial_name, name = trial.scale_parameter(), map_.scale_parameter()
    if trial_name is not None and name is not None:
        trial.set_params(**{trial_name: map_.get_params()[name]})
    machine = judge_map(sample, targets, trial)
    scores = f"{linear} of the columns, {machine} of features"
    few_columns = 2 * sample.X.shape[1] <= max(D, COMPONENTS)
    if map_.joins_columns and (joined or (raw_columns is not False and few_columns)):
        both = judge_map(sample, targets, trial, True, seed)
        scores += f", {both} of both"
        # They cost little and save what is nearly linear: left out only where they do harm.
        joined = joined or not machine.beats(both)
        machine = both if joined else machine
    features = "columns and map" if joined else "map"
    if optional and not machine.beats(linear):
        features, machine = "columns", linear
    decisions.note("features", features, f"{scores}, {decisions.rows}")
    return features, machine


def set_penalty(decisions: Decisions, learner: Any, verdict: Verdict | None, mapped: bool) -> None:
    """Give ridge with alpha="auto" the sample's penalty if its own cross-validation would err, or cost minutes.

    Many columns without a map are fitted by conjugate gradients: the Gram matrix of d columns would be factorised for
    every penalty and fold, which takes minutes from d = 5,000 on. Not if its sums are to be kept for more rows.

    Parameters
    ----------
    decisions : Decisions
    learner : unfitted ridge, which is changed
    verdict : Verdict on what the learner gets; None if the sample cannot judge
    mapped : bool, whether there is a map before the learner
    """
    X, copies = decisions.sample.X, decisions.sample.copies > 0 and learner.keep_state
    columns = 0 if mapped or is_short(decisions.n, X.shape[1]) else X.shape[1]  # of the systems
    wide = columns > _GRAM_COLUMNS
    if wide and not learner.keep_state:
        learner.set_params(solver="cg", n_directions=_WIDE_DIRECTIONS, tol=_WIDE_TOL)
    if verdict is None:
        return
    if copies:
        why = "copies of rows would hide the need of one"
    elif verdict.misled:
        why = "squared errors would be those of few rows"
    elif columns > _NARROW:
        why = "conjugate gradients" if wide else "more of them would cost seconds each"
    else:
        return
    unit = 1.0 if mapped else column_scale(X, decisions.seed) ** 2
    alpha = float(f"{verdict.alpha * unit:.3g}")
    around = [alpha / 10, alpha] if wide else [alpha / 10, alpha, 10 * alpha]
    alphas = [alpha] if copies or verdict.misled else around
    learner.set_params(alpha=alphas)
    decisions.note("alpha", alphas, f"best {decisions.rows}; {why}")
