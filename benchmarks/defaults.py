"""What a first run gives: our defaults beside common peers on 25 data sets that nobody tuned for.

    python benchmarks/defaults.py DATA --json RECORDS           # run what is missing (hours)
    python benchmarks/defaults.py DATA --json RECORDS --only peer "bare ridge" --sets wine digits --seeds 1
    python benchmarks/defaults.py --json RECORDS --table        # verdicts and tables
    python benchmarks/defaults.py --json RECORDS --page docs/guide/defaults.md   # the same, into the page below its mark

RECORDS is benchmarks/defaults.jsonl for those that are kept.
DATA is the folder of the .npz archives. Every fit runs in a process of its own, so that a crash, a time limit or
lack of memory is one record and not the end. Records are appended as lines of JSON; what is in the file is not run
again. Seconds are CPU seconds of all threads, children included, of `fit` and of predicting the test rows.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import json
import multiprocessing
import os
import platform
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from defaults_data import SETS, SVM_ROWS, Problem, load
from defaults_table import paged, report
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

#: Columns of CSR rows at most that a peer may make dense.
DENSE_COLUMNS = 1_000

Build = Callable[[Problem, int], Any]


class SkippedError(Exception):
    """A method that does not apply to a set; says why."""


@dataclass(frozen=True)
class Method:
    """Makers of an estimator from (problem, seed), for labels and for numbers; None: not for such targets."""

    classes: Build | None
    numbers: Build | None
    rows: int | None = None

    def build(self, problem: Problem) -> Build | None:
        return self.classes if problem.task == "classification" else self.numbers


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


def cpu_seconds() -> float:
    """Of all threads of this process, and of its children that have ended."""
    return time.process_time() + sum(os.times()[2:4])


def measure(problem: Problem, method: Method, seed: int, rows: int | None) -> dict[str, Any]:
    """One record: fit, predict, score; what was raised and warned."""
    X, y = problem.first(min(r for r in (rows, method.rows, len(problem.y)) if r is not None))
    record: dict[str, Any] = {"n": len(y), "d": X.shape[1], "n_test": len(problem.t)}
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            build = method.build(problem)
            assert build is not None
            began, wall = cpu_seconds(), time.perf_counter()
            model = build(problem, seed).fit(X, y)
            record |= {"fit": cpu_seconds() - began, "wall": time.perf_counter() - wall}
            began = cpu_seconds()
            predicted = np.asarray(model.predict(problem.T))
            record["predict"] = cpu_seconds() - began
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


def isolated(limit: int, *given: Any) -> dict[str, Any]:
    """`measure` in a process of its own, ended after `limit` CPU seconds, or ten times that by the clock.

    This process runs no threaded code before it forks, so that the child may start its own.
    """
    here, there = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        there.send(measure(*given))

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    there.close()
    try:
        if here.poll(10 * limit):
            return here.recv()
        return {"error": f"not done after {10 * limit} seconds"}
    except EOFError:
        child.join()
        if child.exitcode == -signal.SIGXCPU:
            return {"error": f"not done after {limit} CPU seconds"}
        return {"error": f"the process ended with exit code {child.exitcode}"}
    finally:
        child.kill()
        child.join()


def machine() -> dict[str, str]:
    """Versions and the processor, kept with each record."""
    names = ("numpy", "scipy", "scikit-learn", "dask", "distributed", "numba")
    versions = {name: importlib.metadata.version(name) for name in names}
    versions |= {"distrf": distrf.__version__, "python": platform.python_version()}
    processor = platform.processor()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        processor = next(
            (line.split(":")[1].strip() for line in lines if line.startswith("model name")), processor
        )
    return versions | {"processor": processor, "threads": os.environ["OMP_NUM_THREADS"]}


def read(path: str) -> list[dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError), open(path) as lines:
        return [json.loads(line) for line in lines]
    return []


def wanted(only: list[str] | None) -> list[str]:
    """Names of methods: those given, or whole groups by their first word."""
    names = [
        m for m in METHODS if only is None or m in only or m.split()[0] in (o for o in only if " " not in o)
    ]
    if not hasattr(distrf, "train") and any(m.split()[0] == "train" for m in names):
        print("this distrf has no train(): its methods are left out", file=sys.stderr)
        names = [m for m in names if m.split()[0] != "train"]
    return names


def run(args: argparse.Namespace) -> None:
    done = {(r["set"], r["method"], r["seed"]) for r in read(args.json)}
    told, methods = machine(), wanted(args.only)
    for name in args.sets or SETS:
        for seed in range(args.seeds):
            keys = [(name, method, seed) for method in methods]
            if all(key in done for key in keys):
                continue
            problem = load(name, args.data, seed)
            for key in keys:
                method = METHODS[key[1]]
                if key in done or method.build(problem) is None:
                    continue
                record = dict(zip(("set", "method", "seed"), key, strict=True)) | {"task": problem.task}
                record |= isolated(args.limit, problem, method, seed, args.rows) | {"machine": told}
                with open(args.json, "a") as file:
                    file.write(json.dumps(record) + "\n")
                shown = {
                    k: record.get(k) for k in ("score", "fit", "warned", "error", "skipped") if k in record
                }
                print(*key, shown, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", help="folder of the .npz archives")
    parser.add_argument("--json", required=True, help="file of the records, one a line")
    parser.add_argument(
        "--only", nargs="+", metavar="METHOD", help="train, bare, peer, or one of: " + ", ".join(METHODS)
    )
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), metavar="SET", help=", ".join(SETS))
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0, 1, ... of split and method")
    parser.add_argument("--limit", type=int, default=1800, help="CPU seconds for one fit")
    parser.add_argument("--rows", type=int, help="training rows at most, for a quick look")
    parser.add_argument("--table", action="store_true", help="print the tables of what is in the file")
    parser.add_argument("--page", metavar="FILE", help="write them into this page, below the line that says so")
    args = parser.parse_args()
    if args.table or args.page:
        made = report(read(args.json), list(SETS), list(METHODS))
        if args.page:
            Path(args.page).write_text(paged(Path(args.page).read_text(), made))
        else:
            print(made)
    elif args.data is None:
        parser.error("DATA, the folder of the .npz archives, is needed to run")
    else:
        run(args)


if __name__ == "__main__":
    main()
