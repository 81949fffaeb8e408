"""`distrf.train` without options on arrays and tables, beside gradient boosting, linear models and exact kernel machines."""

from __future__ import annotations

import contextlib
import io
import math
import multiprocessing
import resource
import signal
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from operator import methodcaller
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

import distrf
from benchmarks import results
from benchmarks.benchmark import MIB, Part, Record, Run, markdown, pm, spread, where
from benchmarks.peers.job import cpu, peak
from benchmarks.tables.arrays import SETS, TEST_ROWS, Problem, load
from benchmarks.tables.frames import TABLES, table

METHODS = {
    "distrf": "distrf train",
    "boosting": "gradient boosting",
    "linear": "linear, one-hot",
    "svm": "RBF SVM",
}
#: Maps of the same features in metrics that are learned or not.
METRICS: dict[str, Any] = {
    "none": {"n_rounds": 0}, "diagonal": {"metric": "diagonal"}, "full": {"metric": "full"}, "order 2": {}, "order 3": {},
}  # fmt: skip
#: Features from which metrics are learned at most.
METRIC_FEATURES = 1024
#: Sets in the order in which they are measured: ten that other papers have, then the others in random order, so that a part of them is a
#: fair sample.
METRIC_SETS = [f"array {name}" for name in (
    "kin40k", "letter", "kin8nm", "cpu_act", "covtype", "census_house", "protein", "magic04", "airline", "ijcnn1",
)]  # fmt: skip
_OTHERS = [f"array {n}" for n, of in SETS.items() if of.kind != "text"] + [f"table {n}" for n in TABLES]
METRIC_SETS += sorted({*_OTHERS} - {*METRIC_SETS}, key=lambda name: crc32(name.encode()))
#: {number of features: (training rows at most, methods, sets)}
METRIC_RUNS: dict[int, Any] = {
    4096: (8_000, METRICS, METRIC_SETS),
    3072: (50_000, ("none", "full"), ("array kin40k", "array letter")),
    1024: (8_000, (*METRICS, "boosting"), METRIC_SETS),
}
#: Rows of an SVM at most, columns of CSR rows that boosting may make dense, splits, CPU seconds after which a fit is late.
SVM_ROWS, DENSE_COLUMNS, SPLITS, LIMIT = 10_000, 1_000, 3, 600
#: Tables whose rarer class is so rare that a constant gets this accuracy: they go by the area under the curve.
RARE = ("churn",)
#: The guard: rows at most, and fewer training rows where columns are many; all 144 fits take less than an hour of processor time.
GUARD_ROWS = 10_000
FEW_ROWS = {"array sector": 2_000, "array newsgroups": 4_000} | dict.fromkeys(
    ("array mnist", "array ujiindoorloc", "array blogfeedback"), 5_000
)


# ---- methods ------------------------------------------------------------------------------------------


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Dates as days, weekdays and hours; booleans as numbers; what is a number stays; text as categories."""
    made: dict[str, Any] = {}
    for name, values in frame.items():
        if pd.api.types.is_datetime64_any_dtype(values):
            made[f"{name} days"] = (values - pd.Timestamp("2020-01-01")) / pd.Timedelta("1D")
            made |= {f"{name} {what}": getattr(values.dt, what).astype(float) for what in ("weekday", "hour")}
        elif pd.api.types.is_bool_dtype(values):
            made[name] = values.astype(float)
        else:
            numbers = pd.api.types.is_numeric_dtype(values)
            made[name] = values if numbers else values.astype("str").fillna("null")
    return pd.DataFrame(made)


def is_text(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]


class Levels:
    """Text as categories: beyond 255 levels the most frequent ones, which is what HistGradientBoosting takes."""

    def fit(self, X: pd.DataFrame, y: Any = None) -> Levels:
        self.levels_ = {name: X[name].value_counts().index[:254].tolist() for name in is_text(X)}
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        made = {n: pd.Categorical(X[n].where(X[n].isin(of)), categories=of) for n, of in self.levels_.items()}
        return X.assign(**made)


def one_hot() -> Any:
    """scikit-learn's way from columns to numbers."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    levels = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5, max_categories=2000)
    return ColumnTransformer(
        [("numbers", numbers, lambda X: [n for n in X if n not in is_text(X)]), ("levels", levels, is_text)]
    )


def method(name: str, p: Problem, seed: int, D: int = 1024) -> Any:
    """An estimator of scikit-learn, not fitted. Arrays go in standard units, but grey values and counts, which stay as they are."""
    frame, sparse, before = p.kind == "frame", sp.issparse(p.X), []
    if name in METRICS:
        order = int(name[-1]) if name.startswith("order") else None
        D = min(D, 2 * len(p.y))
        base = distrf.RandomFourierFeatures(
            n_components=min(D, METRIC_FEATURES), order=order, random_state=seed
        )
        learned = distrf.LearnedMetric(
            base, n_components=D, labels=p.labels, random_state=seed, **METRICS[name]
        )
        made = (
            distrf.StreamingRidgeClassifier(cv="holdout") if p.labels else distrf.StreamingRidge(cv="holdout")
        )
        scaler = distrf.StreamingScaler("maxabs" if sparse else "standard")
        coded = [distrf.TableEncoder()] if frame else [scaler]
        coded = [] if p.kind == "image" else coded
        single = FunctionTransformer(methodcaller("astype", np.float32), accept_sparse=True)
        return make_pipeline(*coded, single, distrf.WithColumns(learned, random_state=seed), made)
    if name == "boosting":
        kind = HistGradientBoostingClassifier if p.labels else HistGradientBoostingRegressor
        made: Any = kind(random_state=seed, categorical_features="from_dtype")
        if sparse and p.X.shape[1] > DENSE_COLUMNS:
            raise ValueError(f"takes no CSR rows, and {p.X.shape[1]} columns are too many to be dense")
        dense = FunctionTransformer(sp.csr_matrix.toarray, accept_sparse=True)
        before = [dense] if sparse else [Levels()] if frame else []
    else:
        before = [one_hot()] if frame else [StandardScaler(with_mean=not sparse)] if p.kind == "table" else []
        if name == "linear":
            made = LogisticRegression(max_iter=500) if p.labels else RidgeCV(np.logspace(-2, 4, 7))
        elif p.kind == "text":  # more accurate there than SVC with an RBF kernel, in a hundredth of its time
            before, made = [TfidfTransformer()], LinearSVC(random_state=seed)
        else:
            made = SVC() if p.labels else TransformedTargetRegressor(SVR(), transformer=StandardScaler())
    return make_pipeline(*([FunctionTransformer(plain)] if frame else []), *before, made)


# ---- one fit ------------------------------------------------------------------------------------------


def error_of(losses: np.ndarray) -> float:
    return float(np.std(losses) / math.sqrt(len(losses)))


def fitted(p: Problem, name: str, seed: int, D: int | None = None) -> Record:
    """Score, log loss, their standard errors by test rows, processor seconds of fit and predictions, bytes of the process.

    D : features of a learned metric, whose held-out error is told then, and the loss of each test row. A fifth of the rows is held out,
        that metrics do not learn from either.
    """
    few = p.first(SVM_ROWS, len(p.t)) if name == "svm" else p
    record: Record = {"rows": len(few.y), "tested": len(p.t)}
    fit = (
        partial(distrf.train, random_state=seed) if name == "distrf" else None
    )  # imports what it needs, untimed
    began = cpu()
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        try:
            model = None if fit else method(name, p, seed, D or 0)
            folds = np.random.default_rng(seed).integers(5, size=len(few.y))
            given = {f"{step}__folds": folds for step, _ in model.steps[-2:]} if name in METRICS else {}
            model = (fit or model.fit)(few.X, few.y, **given)
            predicted = np.asarray(model.predict(p.T))
            proba = (
                np.asarray(model.predict_proba(p.T), np.float64) if hasattr(model, "predict_proba") else None
            )
            decided = proba if proba is not None or not p.labels else model.decision_function(p.T)
        except Exception as error:
            return record | {"error": f"{type(error).__name__}: {error}"[:300]}
    record |= {"seconds": cpu() - began, "peak": peak()}
    if D:
        record["losses"] = (p.t - predicted) ** 2 / np.var(p.t) if not p.labels else (predicted != p.t) * 1.0
    if name in METRICS:
        record["held"] = float(model[-1].cv_errors_.min())
    if not p.labels:
        squares, spread_ = (p.t - predicted) ** 2, np.var(p.t)
        score = float(1 - squares.mean() / spread_)
        error = error_of((squares - (1 - score) * (p.t - p.t.mean()) ** 2) / spread_)
        return record | {"score": score, "score_error": error}
    n, right = len(p.t), int(np.sum(predicted == p.t))
    share = (right + 2) / (n + 4)
    record |= {"score": right / n, "score_error": math.sqrt(share * (1 - share) / (n + 4))}
    if len(model.classes_) == 2:
        record["auc"] = float(
            roc_auc_score(p.t == model.classes_[1], decided if decided.ndim == 1 else decided[:, 1])
        )
    if proba is not None:
        seen = np.isin(p.t, model.classes_)
        losses = -np.log(
            np.clip(proba[seen, np.searchsorted(model.classes_, p.t[seen])], np.finfo(float).eps, 1)
        )
        record |= {"log_loss": float(losses.mean()), "log_loss_error": error_of(losses)}
    return record


def work(there: Any, call: Callable[..., Record], *given: Any) -> None:
    """The call with a limit of CPU seconds, and what it found sent there."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    there.send(call(*given))


def isolated(call: Callable[..., Record], *given: Any) -> Record:
    """The call in a process of its own, ended after so many CPU seconds, or ten times that by the clock.

    A crash, a time limit or lack of memory is one record and not the end. The process is forked from one that has imported
    this module and run nothing, so that it may start threads of its own.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(there, call, *given))
    child.start()
    there.close()
    try:
        return here.recv() if here.poll(10 * LIMIT) else {"error": f"not done after {10 * LIMIT} seconds"}
    except EOFError:
        child.join()
        late = child.exitcode == -signal.SIGXCPU
        ended = f"the process ended with exit code {child.exitcode}"
        return {"error": f"not done after {LIMIT} CPU seconds" if late else ended}
    finally:
        here.close()
        child.kill()
        child.join()
        child.close()


# ---- beside others ------------------------------------------------------------------------------------


def fits(run: Run, read: Callable[..., Problem], names: Sequence[str]) -> Iterator[Record]:
    """One fit a record: a method on a set with a seed of the split. Those that the file has are not run again."""
    for name in names:
        for seed in range(run.pick(SPLITS, 1)):
            missing = [m for m in METHODS if not run.has(set=name, method=m, seed=seed)]
            problem = read(name, run.data, seed) if missing else None
            for who in missing:
                about = {"set": name, "method": who, "seed": seed, "labels": problem.labels}
                yield about | isolated(fitted, problem, who, seed)


def arrays(run: Run) -> Iterator[Record]:
    """Arrays of numbers: accuracy or $R^2$ in percent on test rows, the mean over splits; in brackets CPU seconds of fit and predictions, the
    mean over the same splits. At most 50,000 rows train, of an SVM fewer.
    """
    yield from fits(run, load, run.pick(SETS, ("wine",)))


def frames(run: Run) -> Iterator[Record]:
    """Data frames: score in percent, three splits, ± one standard error; without it there was one. In brackets CPU seconds of fit and
    predictions. At most 30,000 rows train, 10,000 of them the SVM; categories of boosting are categories, of others one-hot columns.
    """
    yield from fits(run, table, run.pick(TABLES, ("diabetes",)))


def score_name(r: Record) -> str:
    return "AUC" if r["set"] in RARE else "accuracy" if r["labels"] else "R²"


def cell(mine: list[Record]) -> str:
    made = [r for r in mine if "score" in r]
    if not made:
        return "failed" if mine else ""
    scores = spread([r["auc" if r["set"] in RARE else "score"] for r in made])
    return f"{pm(1, times=100)(scores)} ({statistics.mean(r['seconds'] for r in made):.0f} s)"


def costs(mine: list[Record]) -> str:
    """Log loss and peak, as far as they were measured."""
    losses, peaks = ([r[key] for r in mine if key in r] for key in ("log_loss", "peak"))
    texts = [f"{statistics.mean(losses):.3f}"] if losses else []
    return ", ".join([*texts, *([f"{statistics.median(peaks) / MIB:.0f} MiB"] if peaks else [])])


def show(records: list[Record]) -> str:
    """Scores and seconds; below them log losses and peaks."""
    of = {name: where(records, set=name) for name in dict.fromkeys(r["set"] for r in records)}
    head = ["table", "score", "rows", *METHODS.values()]
    rows = []
    for name, mine in of.items():
        about = [name, score_name(mine[0]), f"{max(r.get('rows', 0) for r in mine):,}"]
        rows.append(about + [cell(where(mine, method=m)) for m in METHODS])
    more = [[name, *(costs(where(mine, method=m)) for m in METHODS)] for name, mine in of.items()]
    more = [row for row in more if any(row[1:])]
    below = markdown(["log loss, and the largest size of the process", *METHODS.values()], more)
    return markdown(head, rows) + (f"\n\n{below}" if more else "")


# ---- the guard ----------------------------------------------------------------------------------------


def guarded(run: Run, name: str, split: int) -> Record:
    kind, _, which = name.partition(" ")
    found = (load if kind == "array" else table)(which, run.data, split)
    return fitted(found.first(FEW_ROWS.get(name, GUARD_ROWS), GUARD_ROWS), "distrf", split)


def guard(run: Run) -> Iterator[Record]:
    """`train` beside commit aea275b, whose figures are never measured anew: three splits of at most 10,000 rows. A change is of the mean over
    splits; a guard is three standard errors of the frozen run, the larger of that over splits and that by test rows. s are CPU seconds.
    """
    every = [f"array {name}" for name in SETS] + [f"table {name}" for name in TABLES]
    names = run.pick(every, ("array wine", "table diabetes"))
    wanted = [{"set": name, "split": split} for split in range(run.pick(SPLITS, 1)) for name in names]
    missing = [what for what in wanted if not run.has(**what)]
    with ThreadPool(2) as pool:
        yield from pool.imap_unordered(lambda what: what | isolated(guarded, run, *what.values()), missing)


def change(before: list[Record], after: list[Record], key: str) -> tuple[float, float, float] | None:
    """The frozen mean over the splits that both have, the change, and the guard."""
    have, now = ({r["split"]: r[key] for r in records if key in r} for records in (before, after))
    both = have.keys() & now.keys()
    if not both:
        return None
    old, new = (statistics.fmean(values[s] for s in both) for values in (have, now))
    tested = math.sqrt(statistics.fmean(r[f"{key}_error"] ** 2 for r in before if key in r) / len(have))
    return old, new - old, 3 * max(tested, spread([*have.values()])["standard_error"] or 0.0)


def show_guard(records: list[Record]) -> str:
    """Each set as frozen and as measured, and whether it is worse; the mean change last."""
    frozen, rows, points = results.read(results.FOLDER / "frozen.json")["parts"]["quality"]["records"], [], []
    for name in dict.fromkeys(r["set"] for r in records):
        before, after = where(frozen, set=name), where(records, set=name)
        found = {key: change(before, after, key) for key in ("score", "log_loss")}
        points += [100 * found["score"][1]] if found["score"] else []
        worse = any("error" in r for r in after) or any(
            f and (f[1] if key == "log_loss" else -f[1]) > f[2] for key, f in found.items()
        )
        cells = [f"{x:.4f}" for f in found.values() for x in f or ()] + [""] * 3 * (found["log_loss"] is None)
        seconds = (f"{sum(r.get('seconds', 0) for r in run) / len(run):.1f}" for run in (before, after))
        rows.append([name, *cells, *seconds, "WORSE" if worse else ""])
    head = ["set", "score", "change", "guard", "log loss", "change", "guard", "s", "s now", ""]
    mean = f"{statistics.fmean(points):+.3f} points; to be at least -0.1" if points else "-"
    return f"{markdown(head, rows)}\n\nMean change of scores: {mean}."


# ---- learned metrics ----------------------------------------------------------------------------------


def metrics(run: Run) -> Iterator[Record]:
    """Fourier features and the columns: accuracy or $R^2$ in percent, ± the standard error of the test rows; in brackets CPU seconds of fit
    and predictions. The gain over none is of the one whose held-out rows are best, with the standard error of the difference row by row.
    Shown are ten sets, and those that lose; means are of all, arrays and tables.
    """
    for D, (rows, methods, sets) in run.pick(METRIC_RUNS, {64: (100, METRICS, ("array wine",))}).items():
        for name in sets:
            if run.has(set=name, D=D):
                continue
            kind, _, which = name.partition(" ")
            problem = (load if kind == "array" else table)(which, run.data, 0).first(rows, TEST_ROWS)
            about = {"set": name, "D": D, "labels": problem.labels}
            found = {how: isolated(fitted, problem, how, 0, D) for how in methods}
            plain = found["none"].get("losses")
            for how, record in found.items():
                mine = record.pop("losses", None)
                yield about | {"metric": how} | record | (gain(problem, plain, mine) if how != "none" else {})


def gain(p: Problem, plain: Any, mine: Any) -> Record:
    """By how much a score is higher, and its standard error, from the losses of the test rows."""
    if plain is None or mine is None:
        return {}
    less = plain - mine
    share = (
        0.0 if p.labels else (p.t - p.t.mean()) ** 2 / np.var(p.t)
    )  # the variance of the test rows is estimated too
    return {"gain": float(less.mean()), "gain_error": error_of(less - less.mean() * share)}


def metric_cell(mine: list[Record], how: str) -> str:
    if not (found := where(mine, metric=how)):
        return ""
    if "error" in (r := found[0]):
        return "failed"
    return f"{100 * r['score']:.1f} ± {100 * r['score_error']:.1f} ({r['seconds']:.0f} s)"


def show_metrics(records: list[Record]) -> str:
    """A table for each number of features, of ten sets and those that lose more than two standard errors; below it the mean gain of all."""
    shown = []
    for D in dict.fromkeys(r["D"] for r in records):
        rows, gains, worse = [], {True: [], False: []}, []
        methods = dict.fromkeys(r["metric"] for r in where(records, D=D))
        for name in dict.fromkeys(r["set"] for r in where(records, D=D)):
            mine = where(records, D=D, set=name)
            best = min((r for r in mine if "held" in r), key=lambda r: r["held"])
            more, error = best.get("gain", 0.0), best.get("gain_error", 0.0)
            gains[best["labels"]].append(more)
            worse += [name] if more < -2 * error else []
            chosen = f"{best['metric']} {100 * more:+.1f} ± {100 * error:.1f}"
            if name in METRIC_SETS[:10] or more < -2 * error:
                rows.append([name, *(metric_cell(mine, how) for how in methods), chosen])
        means = [
            f"{100 * statistics.fmean(of):+.2f} points of {'accuracy' if labels else 'R²'} over {len(of)} sets"
            for labels, of in gains.items()
            if of
        ]
        table_ = markdown([f"{D:,} features", *methods, "chosen by held-out rows: gain"], rows)
        shown.append(
            f"{table_}\n\nMean gain: {', '.join(means)}. Worse by two standard errors: {', '.join(worse) or 'none'}."
        )
    return "\n\n".join(shown)


PARTS = (
    Part(arrays, show, resumes=True), Part(frames, show, resumes=True), Part(guard, show_guard, resumes=True),
    Part(metrics, show_metrics, resumes=True),
)  # fmt: skip
