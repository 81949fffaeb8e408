"""`distrf.train` without options on tables, beside gradient boosting, linear models with one-hot columns and exact kernel machines."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks.benchmark import Benchmark, Part, Record, Run
from benchmarks.tables.tables_data import TABLES, TRAIN_ROWS, TableProblem, table
from benchmarks.tables.tables_report import METHODS, claims, report

SVM_ROWS = 10_000


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Dates as days; booleans as numbers; what is a number stays; text as categories."""
    made = {}
    for name, values in frame.items():
        if pd.api.types.is_datetime64_any_dtype(values):
            made[f"{name} days"] = (values - pd.Timestamp("2020-01-01")) / pd.Timedelta("1D")
            made[f"{name} weekday"], made[f"{name} hour"] = (
                values.dt.weekday.astype(float),
                values.dt.hour.astype(float),
            )
        elif pd.api.types.is_bool_dtype(values):
            made[name] = values.astype(float)
        else:
            made[name] = (
                values if pd.api.types.is_numeric_dtype(values) else values.astype("str").fillna("null")
            )
    return pd.DataFrame(made)


def one_hot(frame: pd.DataFrame) -> Any:
    """scikit-learn's way to columns of numbers."""
    text = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
    rest = [name for name in frame if name not in text]
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    levels = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5, max_categories=2000)
    return ColumnTransformer([("numbers", numbers, rest), ("levels", levels, text)])


class Distrf:
    """Ours: no option."""

    def fit(self, X: Any, y: Any) -> Distrf:
        import distrf

        self.model = distrf.train(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)

    def decision_function(self, X: Any) -> Any:
        return self.model.decision_function(X)


class Boosting:
    """HistGradientBoosting; categories beyond 255 levels keep the most frequent ones."""

    def __init__(self, labels: bool):
        kind = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
        self.model = kind(categorical_features="from_dtype", random_state=0)

    def _frame(self, X: Any) -> pd.DataFrame:
        made = plain(X)
        for name, levels in self.levels.items():
            made[name] = pd.Categorical(made[name].where(made[name].isin(levels)), categories=levels)
        return made

    def fit(self, X: Any, y: Any) -> Boosting:
        made = plain(X)
        text = [name for name in made if not pd.api.types.is_numeric_dtype(made[name])]
        self.levels = {name: made[name].value_counts().index[:254].tolist() for name in text}
        self.model.fit(self._frame(X), y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict(self._frame(X))

    def decision_function(self, X: Any) -> Any:
        return self.model.predict_proba(self._frame(X))[:, 1]


class Piped:
    """A model behind one-hot columns."""

    def __init__(self, model: Any, rows: int | None = None):
        self.model, self.rows = model, rows

    def fit(self, X: Any, y: Any) -> Piped:
        X, y = plain(X[: self.rows]), y[: self.rows]
        self.pipe = make_pipeline(one_hot(X), self.model).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.pipe.predict(plain(X))

    def decision_function(self, X: Any) -> Any:
        return self.pipe.decision_function(plain(X))


def method(name: str, labels: bool) -> Any:
    if name == "distrf":
        return Distrf()
    if name == "boosting":
        return Boosting(labels)
    if name == "linear":
        return Piped(LogisticRegression(max_iter=500) if labels else RidgeCV(np.logspace(-2, 4, 7)))
    return Piped(SVC() if labels else _Scaled(), SVM_ROWS)


class _Scaled(SVR):
    """SVR on targets of unit variance."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.middle_, self.spread_ = float(np.mean(y)), float(np.std(y)) or 1.0
        return super().fit(X, (y - self.middle_) / self.spread_)

    def predict(self, X: Any) -> Any:
        return super().predict(X) * self.spread_ + self.middle_


def fitted(problem: TableProblem, name: str) -> Record:
    """One record."""
    record: Record = {
        "table": problem.name,
        "made": problem.made,
        "method": name,
        "labels": problem.labels,
        "rows": len(problem.y),
    }
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = method(name, problem.labels).fit(problem.X, problem.y)
            predicted = model.predict(problem.T)
        except Exception as error:
            return record | {"error": f"{type(error).__name__}: {error}"[:300]}
        record["seconds"] = round(time.process_time() - started, 1)
        score = accuracy_score if problem.labels else r2_score
        record["score"], record["tested"] = float(score(problem.t, predicted)), len(problem.t)
        if problem.labels and len(np.unique(problem.y)) == 2:
            record["auc"] = float(
                roc_auc_score(problem.t == np.unique(problem.y)[1], model.decision_function(problem.T))
            )
    if name == "distrf":
        record["choices"] = {choice.what: choice.value for choice in model.model.training_.choices}
    return record


def fits(run: Run) -> Iterator[Record]:
    """One fit a record: a method on a table with a seed of the split. Those that the file has are not run again."""
    for seed in range(run.pick(SEEDS, 1)):
        for name in run.pick(TABLES, ("diabetes",)):
            wanted = [m for m in METHODS if not run.has(table=name, method=m, seed=seed)]
            problem = table(name, run.data, seed) if wanted else None
            for who in wanted:
                yield fitted(problem, who) | {"seed": seed}


SEEDS = 3

ABOUT = f"""
`distrf.train(X, y)` without any option, on tables that nobody prepared for it, beside the usual ways to learn from tables. All
methods get the same rows: `HistGradientBoosting` with its categories as such; linear models and SVC or SVR behind scikit-learn's
imputation, units and one-hot columns. At most {TRAIN_ROWS:,} rows train, {SVM_ROWS:,} of them the SVM. [Tables beside other
methods](../guide/tables_results.md) says where distrf is behind, and why.

Scores are percent: the mean over {SEEDS} splits, and `±` its standard error. Without a `±` there is one split: the method failed on
the others, or these have not been run. In brackets are processor seconds of fit and predict, the mean over the same splits. *Better*
than boosting is by more than half a point and two standard errors, *level* is half a point or two standard errors.
"""

BENCHMARK = Benchmark(
    "tables", "Tables beside other methods", ABOUT,
    (Part("fits", fits, report, resumes=True),),
    lambda found: claims(found.get("fits", [])),
)  # fmt: skip
