"""What a first run gives: our defaults beside common peers on data sets that nobody tuned for."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier, SGDRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

import distrf
from benchmarks.benchmark import Benchmark, Part, Record, Run, where
from benchmarks.peers.job import cpu
from benchmarks.tables.defaults_data import SETS, SVM_ROWS, TEST_ROWS, TRAIN_ROWS, Problem, load
from benchmarks.tables.defaults_table import claims, report

#: Columns of CSR rows at most that a peer may make dense.
DENSE_COLUMNS = 1_000
#: CPU seconds of one fit, after which it is late.
LIMIT = 600

Build = Callable[[Problem, int], Any]


class SkippedError(Exception):
    """A method that does not apply to a set; says why."""


@dataclass(frozen=True)
class Method:
    """Makers of an estimator from (problem, seed), for labels and for numbers; None: not for such targets."""

    classes: Build | None
    numbers: Build | None
    rows: int | None = None

    def build(self, task: str) -> Build | None:
        return self.classes if task == "classification" else self.numbers


class Trained:
    """`distrf.train` with no option but the family, as an estimator."""

    def __init__(self, **family: Any):
        self.family = family

    def fit(self, X: Any, y: Any) -> Trained:
        self.model = distrf.train(X, y, **self.family)
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)


def train(**family: Any) -> Build:
    return lambda problem, seed: Trained(random_state=seed, **family)


def scaled(problem: Problem, *steps: Any) -> Any:
    """The steps behind scikit-learn's scaler, which leaves zeros of CSR rows alone."""
    return make_pipeline(StandardScaler(with_mean=not problem.sparse), *steps)


def suited(problem: Problem, *steps: Any) -> Any:
    """The steps behind what suits the columns: standard units for tables, nothing for grey values and counts."""
    return scaled(problem, *steps) if problem.kind == "table" else make_pipeline(*steps)


def fourier(seed: int) -> Any:
    return distrf.RandomFourierFeatures(random_state=seed)


def bare(model: Callable[..., Any], *given: Any, features: Callable[[int], Any] | None = fourier) -> Build:
    """One of our models with default options, behind features with default options unless it learns its own."""

    def build(problem: Problem, seed: int) -> Any:
        before = [] if features is None else [features(seed)]
        return scaled(problem, *before, model(*given, random_state=seed))

    return build


def tefm(seed: int) -> Any:
    return distrf.TEFM(fourier(seed), random_state=seed)


def boosting(maker: Callable[..., Any]) -> Build:
    def build(problem: Problem, seed: int) -> Any:
        if not problem.sparse:
            return maker(random_state=seed)
        if problem.X.shape[1] > DENSE_COLUMNS:
            raise SkippedError(f"takes no CSR rows, and {problem.X.shape[1]} columns are too many to be dense")
        return make_pipeline(
            FunctionTransformer(sp.csr_matrix.toarray, accept_sparse=True), maker(random_state=seed)
        )

    return build


def svc(problem: Problem, seed: int) -> Any:
    if problem.kind == "text":  # more accurate there than SVC with an RBF kernel, in a hundredth of its time
        return make_pipeline(TfidfTransformer(), LinearSVC(random_state=seed))
    return suited(problem, SVC())


def in_units(model: Any) -> Any:
    """A regressor that sees targets in standard units."""
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def sampler(seed: int) -> Any:
    return RBFSampler(gamma="scale", n_components=1024, random_state=seed)


RC, R = distrf.StreamingRidgeClassifier, distrf.StreamingRidge
SC, S = distrf.StreamingSGDClassifier, distrf.StreamingSGDRegressor
CC, C = distrf.CompactNonlinearClassifier, distrf.CompactNonlinearRegressor
METHODS = {
    "train": Method(train(), train()),
    "train ridge": Method(train(model="ridge-classifier"), train(model="ridge")),
    "train sgd": Method(train(model="sgd-classifier"), train(model="sgd-regressor")),
    "train svm": Method(train(model="svm"), None),
    "train logistic": Method(train(model="logistic"), None),
    "train huber": Method(None, train(model=distrf.StreamingSGDRegressor("huber"))),
    "train tefm": Method(train(map="tefm"), train(map="tefm")),
    "train cnm": Method(train(map="cnm"), train(map="cnm")),
    "bare ridge": Method(bare(RC), bare(R)),
    "bare squared": Method(bare(SC, "squared"), bare(S)),
    "bare hinge": Method(bare(SC), None),
    "bare squared_hinge": Method(bare(SC, "squared_hinge"), None),
    "bare logistic": Method(bare(SC, "logistic"), None),
    "bare multinomial": Method(bare(SC, "multinomial"), None),
    "bare huber": Method(None, bare(S, "huber")),
    "bare epsilon": Method(None, bare(S, "epsilon_insensitive")),
    "bare tefm": Method(bare(RC, features=tefm), bare(R, features=tefm)),
    "bare cnm": Method(bare(CC, features=None), bare(C, features=None)),
    "peer dummy": Method(lambda p, s: DummyClassifier(), lambda p, s: DummyRegressor()),
    "peer linear": Method(
        lambda p, s: suited(p, LogisticRegression(max_iter=300)), lambda p, s: suited(p, Ridge())
    ),
    "peer rbfsampler": Method(
        lambda p, s: suited(p, sampler(s), SGDClassifier(random_state=s)),
        lambda p, s: in_units(suited(p, sampler(s), SGDRegressor(random_state=s))),
    ),
    "peer boosting": Method(boosting(HistGradientBoostingClassifier), boosting(HistGradientBoostingRegressor)),
    "peer svm": Method(svc, lambda p, s: in_units(suited(p, SVR())), SVM_ROWS),
}


def fitted(problem: Problem, name: str, seed: int) -> Record:
    """Fit, predict, score; what was raised and warned."""
    method = METHODS[name]
    X, y = problem.first(min(len(problem.y), method.rows or len(problem.y)))
    record: Record = {"n": len(y), "d": X.shape[1], "n_test": len(problem.t)}
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            build = method.build(problem.task)
            assert build is not None
            began, wall = cpu(), time.perf_counter()
            model = build(problem, seed).fit(X, y)
            record |= {"fit": cpu() - began, "wall": time.perf_counter() - wall}
            began = cpu()
            predicted = np.asarray(model.predict(problem.T))
            record["predict"] = cpu() - began
            score = accuracy_score if problem.task == "classification" else r2_score
            record["score"] = float(score(problem.t, predicted))
        except SkippedError as reason:
            record["skipped"] = str(reason)
        except Exception as error:
            record["error"] = f"{type(error).__name__}: {error}"[:500]
    # Deprecations are for who maintains a package, not for who fits a model.
    told = [w for w in caught if not issubclass(w.category, (DeprecationWarning, FutureWarning))]
    record["warned"] = len(told)
    record["warnings"] = sorted({f"{w.category.__name__}: {w.message}"[:200] for w in told})[:5]
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
        if here.poll(10 * LIMIT):
            return here.recv()
        return {"error": f"not done after {10 * LIMIT} seconds"}
    except EOFError:
        child.join()
        if child.exitcode == -signal.SIGXCPU:
            return {"error": f"not done after {LIMIT} CPU seconds"}
        return {"error": f"the process ended with exit code {child.exitcode}"}
    finally:
        here.close()
        child.kill()
        child.join()
        child.close()


def fits(run: Run) -> Iterator[Record]:
    """One fit a record: a method on a set with a seed of split and method. Those that the file has are not run again."""
    for name in run.pick(SETS, ("wine",)):
        task, seeds = SETS[name].task, SETS[name].seeds
        for seed in range(run.pick(max(seeds), 1)):
            names = [
                m for m in suitable(task, run.pick(METHODS, SMALL)) if seed < seeds[not m.startswith("train")]
            ]
            names = [m for m in names if not run.has(set=name, method=m, seed=seed)]
            problem = load(name, run.data, seed) if names else None
            for method in names:
                record = {"set": name, "method": method, "seed": seed, "task": task}
                yield record | isolated(fitted, problem, method, seed)


def suitable(task: str, methods: Iterable[str]) -> list[str]:
    """The methods for such targets."""
    return [m for m in methods if METHODS[m].build(task)]


#: Methods of a small run.
SMALL = ("train", "peer dummy", "peer linear")

ABOUT = f"""
How good is distrf if you choose nothing? Each method runs with its defaults, on the raw columns, and all on the same split:
at most {TRAIN_ROWS:,} training rows, {SVM_ROWS:,} for the SVM, and {TEST_ROWS:,} test rows. `benchmarks/tables/defaults_data.py` lists the sets
and where they come from, `benchmarks/tables/defaults.py` the methods. [What a first run gives](../guide/defaults.md) says what
follows, and why some sets fall short. Every fit has a process of its own and {LIMIT} CPU seconds at most.

A table has the mean over all seeds of a method. A verdict compares two methods by the seeds that both have, which may be fewer: its figure
of a method may differ from that of the table.
"""


def show(records: list[Record]) -> str:
    """Verdicts and tables, and what was left out."""
    made = report(records, list(SETS), list(METHODS))
    left = {
        name: [m for m in suitable(SETS[name].task, METHODS) if not where(records, set=name, method=m)]
        for name in SETS
    }
    said = "; ".join(
        f"on {name}: {', '.join(f'`{m}`' for m in methods)}" for name, methods in left.items() if methods
    )
    return made + (f"\n\nNot measured, {said}." if said else "")


BENCHMARK = Benchmark(
    "defaults", f"Defaults on {len(SETS)} sets", ABOUT,
    (Part("fits", fits, show, resumes=True),),
    lambda found: claims(found.get("fits", []), list(SETS), list(METHODS)),
)  # fmt: skip
