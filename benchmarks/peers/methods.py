"""What each peer does with the same rows.

This file is run by the Python of each peer: it knows NumPy and `rows`, and a peer only inside the functions that use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Rows = Any
#: D features, gamma of the Gaussian kernel exp(-gamma |v|^2), alpha of the mean loss + alpha / 2 |w|^2, k directions, seed.
Options = Any


@dataclass(frozen=True)
class Method:
    """One way to do a job.

    peer : a name of `environments.PEERS`
    call : the function of the job, see `job.py`
    streams : it reads block by block, so its memory does not grow with n
    most : rows with which it is tried at most: its time or memory grows with their square, or it holds all features at once
    """

    peer: str
    call: Callable[[Rows, Options], Any]
    streams: bool = False
    most: int = 1_000_000


# ---- features: the mean of each column, and the map ---------------------------------------------------


def in_memory(make: Callable[[Options], Any]) -> Callable[[Rows, Options], Any]:
    """All rows, and all their features, at once: a transformer as it is meant to be used."""

    def means(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
        X = rows.array("X")
        made = make(o).fit(X)
        return made.transform(X).mean(axis=0), made.transform

    return means


def distrf_fourier(o: Options, projection: str = "dense") -> Any:
    from distrf import RandomFourierFeatures

    return RandomFourierFeatures(
        gamma=o.gamma, n_components=o.D, projection=projection, random_state=o.seed, n_jobs=1
    )


def distrf_nystroem(o: Options) -> Any:
    from distrf import NystroemFeatures

    return NystroemFeatures(gamma=o.gamma, n_components=o.D, random_state=o.seed, n_jobs=1)


def distrf_polynomial(o: Options) -> Any:
    from distrf import TensorSketchFeatures

    return TensorSketchFeatures(2, gamma=o.gamma, coef0=1.0, n_components=o.D, random_state=o.seed, n_jobs=1)


def distrf_blocks(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
    X = rows.lazy("X")
    made = distrf_fourier(o).fit(X)
    return made.transform(X).mean(axis=0).compute(), made.transform


def rbf_sampler(o: Options) -> Any:
    from sklearn.kernel_approximation import RBFSampler

    return RBFSampler(gamma=o.gamma, n_components=o.D, random_state=o.seed)


def sklearn_nystroem(o: Options) -> Any:
    from sklearn.kernel_approximation import Nystroem

    return Nystroem(gamma=o.gamma, n_components=o.D, random_state=o.seed)


def sklearn_polynomial(o: Options) -> Any:
    from sklearn.kernel_approximation import PolynomialCountSketch

    return PolynomialCountSketch(gamma=o.gamma, degree=2, coef0=1, n_components=o.D, random_state=o.seed)


def sampler_loop(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
    """Block by block, by hand."""
    made = None
    total = np.zeros(o.D)
    for X, _ in rows.blocks():
        made = made or rbf_sampler(o).fit(X)
        total += made.transform(X).sum(axis=0, dtype=np.float64)
    return total / len(rows), made.transform


def extra_fastfood(o: Options) -> Any:
    """With D columns: it makes a cosine and a sine of each component."""
    from sklearn_extra.kernel_approximation import Fastfood

    return Fastfood(sigma=(2 * o.gamma) ** -0.5, n_components=o.D // 2, random_state=o.seed)


def dask_ml_features(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
    from dask_ml.wrappers import ParallelPostFit

    made = ParallelPostFit(rbf_sampler(o)).fit(rows.block("X", 0, 2))
    return made.transform(rows.lazy("X")).mean(axis=0).compute(), made.transform


#: Of the maps that hold all features at once, the plain one of distrf and of scikit-learn show what becomes of a million rows.
FEATURES = {
    "distrf Fourier": Method("distrf", in_memory(distrf_fourier)),
    "distrf Fourier, blocks": Method("distrf", distrf_blocks, streams=True),
    "distrf Fastfood": Method("distrf", in_memory(lambda o: distrf_fourier(o, "fastfood")), most=100_000),
    "distrf Nystroem": Method("distrf", in_memory(distrf_nystroem), most=100_000),
    "distrf TensorSketch": Method("distrf", in_memory(distrf_polynomial), most=100_000),
    "RBFSampler": Method("scikit-learn", in_memory(rbf_sampler)),
    "RBFSampler, loop over blocks": Method("scikit-learn", sampler_loop, streams=True),
    "Nystroem": Method("scikit-learn", in_memory(sklearn_nystroem), most=100_000),
    "PolynomialCountSketch": Method("scikit-learn", in_memory(sklearn_polynomial), most=100_000),
    "Fastfood(D / 2)": Method("scikit-learn-extra", in_memory(extra_fastfood), most=100_000),
    "ParallelPostFit(RBFSampler)": Method("dask-ml", dask_ml_features, streams=True),
}


# ---- models: what predicts ----------------------------------------------------------------------------


def pipeline(*steps: Any) -> Any:
    from sklearn.pipeline import make_pipeline

    return make_pipeline(*steps)


def on_arrays(make: Callable[[Options, int], Any]) -> Callable[[Rows, Options], Any]:
    """A model of all rows at once."""
    return lambda rows, o: make(o, len(rows)).fit(rows.array("X"), rows.array("y")).predict


def distrf_ridge(rows: Rows, o: Options) -> Any:
    from distrf import StreamingRidgeClassifier

    model = pipeline(distrf_fourier(o), StreamingRidgeClassifier(o.alpha))
    return model.fit(rows.lazy("X"), rows.lazy("y")).predict


#: Epochs of all who do not go on until the loss falls no more.
EPOCHS = 3


def distrf_sgd(**epochs: Any) -> Callable[[Rows, Options], Any]:
    def fit(rows: Rows, o: Options) -> Any:
        from distrf import StreamingSGDClassifier

        model = StreamingSGDClassifier(alpha=o.alpha, random_state=o.seed, **epochs)
        return pipeline(distrf_fourier(o), model).fit(rows.lazy("X"), rows.lazy("y")).predict

    return fit


def sampler_ridge(o: Options, n: int, make: Callable[[Options], Any] = rbf_sampler) -> Any:
    from sklearn.linear_model import RidgeClassifier

    return pipeline(make(o), RidgeClassifier(alpha=n * o.alpha))  # of the sum of squares, not the mean


def sampler_sgd(o: Options, n: int) -> Any:
    from sklearn.linear_model import SGDClassifier

    return pipeline(rbf_sampler(o), SGDClassifier(alpha=o.alpha, random_state=o.seed))


def sampler_liblinear(o: Options, n: int) -> Any:
    from sklearn.svm import LinearSVC

    return pipeline(rbf_sampler(o), LinearSVC(C=1.0, random_state=o.seed))


def sgd_loop(average: bool) -> Callable[[Rows, Options], Any]:
    """Epochs of blocks, by hand: what scikit-learn has for rows beyond memory.

    average : whether the weights are the mean over the steps, scikit-learn's remedy for their noise
    """

    def fit(rows: Rows, o: Options) -> Any:
        from sklearn.linear_model import SGDClassifier

        made, model = None, SGDClassifier(alpha=o.alpha, average=average, random_state=o.seed)
        for _ in range(EPOCHS):
            for X, y in rows.blocks():
                made = made or rbf_sampler(o).fit(X)
                model.partial_fit(made.transform(X), y, classes=[0, 1])
        return lambda T: model.predict(made.transform(T))

    return fit


def sampler_blocks(rows: Rows, o: Options) -> tuple[Any, Any]:
    """Features as a Dask array. ParallelPostFit says nothing of their number: a sum or product that asks for it fails."""
    made, X = rbf_sampler(o).fit(rows.block("X", 0, 2)), rows.lazy("X")
    return X.map_blocks(made.transform, chunks=(X.chunks[0], (o.D,)), dtype=X.dtype), made.transform


def dask_ml_sgd(rows: Rows, o: Options) -> Any:
    from dask_ml.wrappers import Incremental
    from sklearn.linear_model import SGDClassifier

    Z, transform = sampler_blocks(rows, o)
    model = Incremental(SGDClassifier(alpha=o.alpha, random_state=o.seed), random_state=o.seed)
    model.fit(Z, rows.lazy("y"), classes=[0, 1])
    return lambda T: model.predict(transform(T))


def exact_svc(o: Options, n: int) -> Any:
    from sklearn.svm import SVC

    return SVC(gamma=o.gamma)


def exact_ridge(rows: Rows, o: Options) -> Any:
    from sklearn.kernel_ridge import KernelRidge

    X, y = rows.array("X"), 2 * rows.array("y") - 1
    model = KernelRidge(alpha=len(X) * o.alpha, kernel="rbf", gamma=o.gamma).fit(X, y)
    return lambda T: (model.predict(T) > 0).astype(int)


def thunder_svc(o: Options, n: int) -> Any:
    from thundersvm import SVC

    return SVC(gamma=o.gamma, n_jobs=1)


def snapml_svm(o: Options, n: int) -> Any:
    from snapml import SupportVectorMachine

    return SupportVectorMachine(
        kernel="rbf", gamma=o.gamma, n_components=o.D, regularizer=n * o.alpha, n_jobs=1, random_state=o.seed
    )


MODELS = {
    "distrf Fourier + ridge": Method("distrf", distrf_ridge, streams=True),
    "distrf Fourier + SGD": Method("distrf", distrf_sgd(), streams=True),
    "distrf Fourier + SGD, three epochs": Method("distrf", distrf_sgd(n_epochs=EPOCHS, tol=None), streams=True),
    "RBFSampler + RidgeClassifier": Method("scikit-learn", on_arrays(sampler_ridge)),
    "Nystroem + RidgeClassifier": Method(
        "scikit-learn", on_arrays(lambda o, n: sampler_ridge(o, n, sklearn_nystroem))
    ),
    "RBFSampler + SGDClassifier": Method("scikit-learn", on_arrays(sampler_sgd)),
    "RBFSampler + SGDClassifier, loop over blocks": Method("scikit-learn", sgd_loop(False), streams=True),
    "RBFSampler + SGDClassifier(average=True), loop over blocks": Method(
        "scikit-learn", sgd_loop(True), streams=True
    ),
    "RBFSampler + LinearSVC": Method("scikit-learn", on_arrays(sampler_liblinear)),
    "Fastfood(D / 2) + RidgeClassifier": Method(
        "scikit-learn-extra", on_arrays(lambda o, n: sampler_ridge(o, n, extra_fastfood))
    ),
    "Incremental(SGDClassifier)": Method("dask-ml", dask_ml_sgd, streams=True),
    "SupportVectorMachine(kernel='rbf')": Method("snapml", on_arrays(snapml_svm)),
    "SVC": Method("scikit-learn", on_arrays(exact_svc), most=100_000),
    "KernelRidge": Method("scikit-learn", exact_ridge, most=100_000),
    "thundersvm.SVC": Method("thundersvm", on_arrays(thunder_svc), most=100_000),
}


# ---- tables: what predicts, with its default options --------------------------------------------------


def distrf_train(rows: Rows, o: Options) -> Any:
    import distrf

    return distrf.train(rows.array("X"), rows.array("y")).predict


def sklearn_boosting(o: Options, n: int) -> Any:
    from sklearn import ensemble

    kind = ensemble.HistGradientBoostingClassifier if o.labels else ensemble.HistGradientBoostingRegressor
    return kind(random_state=o.seed)


def xgboost_boosting(o: Options, n: int) -> Any:
    import xgboost

    kind = xgboost.XGBClassifier if o.labels else xgboost.XGBRegressor
    return kind(n_jobs=1, random_state=o.seed)


def lightgbm_boosting(o: Options, n: int) -> Any:
    import lightgbm

    kind = lightgbm.LGBMClassifier if o.labels else lightgbm.LGBMRegressor
    return kind(n_jobs=1, random_state=o.seed, verbose=-1)


def one_worker() -> Any:
    """A Dask cluster of one thread in this process."""
    from distributed import Client

    return Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")


def xgboost_dask(rows: Rows, o: Options) -> Any:
    from xgboost import dask as xd

    client = one_worker()
    kind = xd.DaskXGBClassifier if o.labels else xd.DaskXGBRegressor
    model = kind(random_state=o.seed)
    model.client = client
    model.fit(rows.lazy("X"), rows.lazy("y"))
    booster = model.get_booster()

    def predict(T: np.ndarray) -> np.ndarray:
        values = booster.inplace_predict(T)
        if not o.labels:
            return values
        return values.argmax(axis=1) if values.ndim > 1 else (values > 0.5).astype(int)

    return predict


def lightgbm_dask(rows: Rows, o: Options) -> Any:
    import lightgbm

    client = one_worker()
    kind = lightgbm.DaskLGBMClassifier if o.labels else lightgbm.DaskLGBMRegressor
    model = kind(client=client, random_state=o.seed, verbose=-1, n_jobs=1)
    return model.fit(rows.lazy("X"), rows.lazy("y")).to_local().predict


def snapml_boosting(o: Options, n: int) -> Any:
    import snapml

    kind = snapml.BoostingMachineClassifier if o.labels else snapml.BoostingMachineRegressor
    return kind(n_jobs=1, random_state=o.seed)


TABLES = {
    "distrf.train": Method("distrf", distrf_train),
    "HistGradientBoosting": Method("scikit-learn", on_arrays(sklearn_boosting)),
    "xgboost": Method("xgboost", on_arrays(xgboost_boosting)),
    "xgboost.dask": Method("xgboost", xgboost_dask),
    "lightgbm": Method("lightgbm", on_arrays(lightgbm_boosting)),
    "lightgbm.dask": Method("lightgbm", lightgbm_dask),
    "snapml.BoostingMachine": Method("snapml", on_arrays(snapml_boosting)),
}


# ---- subspaces: the largest singular values of the features, and the map ------------------------------


def distrf_subspace(solver: str) -> Callable[[Rows, Options], Any]:
    def find(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
        from distrf import TEFM

        base = distrf_fourier(o)
        found = TEFM(base, o.k, solver=solver, n_iter=o.n_iter, random_state=o.seed).fit(rows.lazy("X"))
        return found.singular_values_, found.base_.transform

    return find


def sklearn_svd(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
    from sklearn.decomposition import TruncatedSVD

    made = rbf_sampler(o).fit(rows.block("X", 0, 2))
    svd = TruncatedSVD(o.k, n_iter=o.n_iter, random_state=o.seed)
    return svd.fit(made.transform(rows.array("X"))).singular_values_, made.transform


def dask_ml_svd(algorithm: str) -> Callable[[Rows, Options], Any]:
    def find(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
        from dask_ml.decomposition import TruncatedSVD

        Z, transform = sampler_blocks(rows, o)
        svd = TruncatedSVD(o.k, algorithm=algorithm, n_iter=o.n_iter, random_state=o.seed)
        return svd.fit(Z).singular_values_, transform

    return find


SUBSPACES = {
    "distrf TEFM, finder": Method("distrf", distrf_subspace("finder"), streams=True),
    "distrf TEFM, gram": Method("distrf", distrf_subspace("gram"), streams=True),
    "sklearn TruncatedSVD": Method("scikit-learn", sklearn_svd),
    "dask-ml TruncatedSVD, randomized": Method("dask-ml", dask_ml_svd("randomized"), streams=True),
    "dask-ml TruncatedSVD, tsqr": Method("dask-ml", dask_ml_svd("tsqr"), streams=True),
}

JOBS: dict[str, dict[str, Method]] = {
    "features": FEATURES,
    "ridge": MODELS,
    "tables": TABLES,
    "subspace": SUBSPACES,
}
