"""python job.py JOB METHOD FOLDER OPTIONS: one method, of distrf or of a peer, does one job; prints a line of JSON.

Run by the Python of a peer, which has neither distrf nor this package: a peer is imported only inside the functions that use it. JOB and METHOD are names of `JOBS`, FOLDER
holds the rows, OPTIONS are JSON. A first go on few rows imports, compiles and starts what there is to start: `start`. `fit`
and `predict` are processor seconds of all threads after that; `peak` is the largest resident size in bytes, of all; `error` is
that of the kernel matrix.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

#: Features and rows of the first go.
FIRST, FIRST_ROWS = 64, 600
#: Rows on which a kernel is compared with that of its features.
KERNEL_ROWS = 500
#: Rows of a block, for all who read in blocks.
BLOCK = 16_384


class Rows:
    """Rows of the files of a folder; of each file the first `most` at most."""

    def __init__(self, folder: str, most: int | None = None):
        self.folder, self.most = folder, most

    def _file(self, name: str) -> np.ndarray:
        return np.load(Path(self.folder) / f"{name}.npy", mmap_mode="r")[: self.most]

    def __len__(self) -> int:
        return len(self._file("X"))

    def array(self, name: str, first: int | None = None, last: int | None = None) -> np.ndarray:
        """All rows of a file, or some. The file is closed after: pages of an open one would count as memory of the process."""
        return np.array(self._file(name)[first:last])

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """X and y, block by block."""
        for first in range(0, len(self), BLOCK):
            yield self.array("X", first, first + BLOCK), self.array("y", first, first + BLOCK)

    def lazy(self, name: str) -> Any:
        """A Dask array whose tasks read a block each."""
        import dask.array as da

        file = self._file(name)
        n = len(file)
        sizes = tuple(min(BLOCK, n - first) for first in range(0, n, BLOCK))
        chunks = (sizes, *((width,) for width in file.shape[1:]))
        meta = np.empty((0,) * file.ndim, file.dtype)
        return da.map_blocks(_read, self, name, chunks=chunks, dtype=file.dtype, meta=meta)


def _read(rows: Rows, name: str, block_info: Any = None) -> np.ndarray:
    first, last = block_info[None]["array-location"][0]
    return rows.array(name, first, last)


def cpu() -> float:
    """Processor seconds of this process, and of its children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def peak() -> int:
    """Bytes. Not ru_maxrss, which starts at the size of the parent."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


#: D features, gamma of the Gaussian kernel exp(-gamma |v|^2), alpha of the mean loss + alpha / 2 |w|^2, seed.
Options = Any
Call = Callable[[Rows, Options], Any]
#: Epochs of all who do not go on until the loss falls no more.
EPOCHS = 3


@dataclass(frozen=True)
class Method:
    """One way to do a job.

    peer : a name of `peers.PEERS`
    call : the function of the job
    most : rows with which it is tried at most: its time or memory grows with their square, or it holds all features at once
    """

    peer: str
    call: Call
    most: int = 1_000_000


def new(path: str, *steps: Any, **options: Any) -> Any:
    """An object of a peer, by "module:name"."""
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)(*steps, **options)


def pipeline(*steps: Any) -> Any:
    return new("sklearn.pipeline:make_pipeline", *steps)


# ---- features: the mean of each column, and the map ---------------------------------------------------


def sampler(o: Options, path: str = "sklearn.kernel_approximation:RBFSampler", **more: Any) -> Any:
    return new(path, gamma=o.gamma, n_components=o.D, random_state=o.seed, **more)


def fourier(o: Options, projection: str = "dense") -> Any:
    return sampler(o, "distrf:RandomFourierFeatures", projection=projection, n_jobs=1)


def nystroem(o: Options) -> Any:
    return sampler(o, "sklearn.kernel_approximation:Nystroem")


def in_memory(path: str | Callable[[Options], Any], **more: Any) -> Call:
    """All rows, and all their features, at once: a transformer as it is meant to be used."""

    def means(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
        X = rows.array("X")
        made = (sampler(o, path, **more) if isinstance(path, str) else path(o)).fit(X)
        return made.transform(X).mean(axis=0), made.transform

    return means


def in_blocks(make: Callable[[Options], Any]) -> Call:
    """Of a Dask array."""

    def means(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
        made = make(o).fit(rows.array("X", 0, 2))
        return made.transform(rows.lazy("X")).mean(axis=0).compute(), made.transform

    return means


def sampler_loop(rows: Rows, o: Options) -> tuple[np.ndarray, Any]:
    """Block by block, by hand."""
    made = sampler(o).fit(rows.array("X", 0, 2))
    total = sum(made.transform(X).sum(axis=0, dtype=np.float64) for X, _ in rows.blocks())
    return total / len(rows), made.transform


FEW = 100_000
#: Of the maps that hold all features at once, the plain one of distrf and of scikit-learn show what becomes of a million rows.
FEATURES = {
    "distrf Fourier": Method("distrf", in_memory(fourier)),
    "distrf Fourier, blocks": Method("distrf", in_blocks(fourier)),
    "distrf Fastfood": Method("distrf", in_memory(lambda o: fourier(o, "fastfood")), FEW),
    "distrf Nystroem": Method("distrf", in_memory("distrf:NystroemFeatures", n_jobs=1), FEW),
    "distrf TensorSketch": Method("distrf", in_memory("distrf:TensorSketchFeatures", degree=2, coef0=1.0, n_jobs=1), FEW),
    "RBFSampler": Method("scikit-learn", in_memory(sampler)),
    "RBFSampler, loop over blocks": Method("scikit-learn", sampler_loop),
    "Nystroem": Method("scikit-learn", in_memory(nystroem), FEW),
    "PolynomialCountSketch": Method("scikit-learn", in_memory("sklearn.kernel_approximation:PolynomialCountSketch", degree=2, coef0=1), FEW),
    "ParallelPostFit(RBFSampler)": Method("dask-ml", in_blocks(lambda o: new("dask_ml.wrappers:ParallelPostFit", sampler(o)))),
}  # fmt: skip


# ---- models: what predicts ----------------------------------------------------------------------------


def on_arrays(make: Callable[[Options, int], Any]) -> Call:
    """A model of all rows at once."""
    return lambda rows, o: make(o, len(rows)).fit(rows.array("X"), rows.array("y")).predict


def on_blocks(path: str, **options: Any) -> Call:
    """A model of distrf behind Fourier features, of Dask arrays."""

    def fit(rows: Rows, o: Options) -> Any:
        model = pipeline(fourier(o), new(path, alpha=o.alpha, random_state=o.seed, **options))
        return model.fit(rows.lazy("X"), rows.lazy("y")).predict

    return fit


def ridge(make: Callable[[Options], Any]) -> Call:
    """alpha is of the sum of squares, not the mean."""
    return on_arrays(
        lambda o, n: pipeline(make(o), new("sklearn.linear_model:RidgeClassifier", alpha=n * o.alpha))
    )


def sgd(o: Options, average: bool = False) -> Any:
    return new("sklearn.linear_model:SGDClassifier", alpha=o.alpha, average=average, random_state=o.seed)


def sgd_loop(average: bool) -> Call:
    """Epochs of blocks, by hand: what scikit-learn has for rows beyond memory.

    average : whether the weights are the mean over the steps, scikit-learn's remedy for their noise
    """

    def fit(rows: Rows, o: Options) -> Any:
        made, model = sampler(o).fit(rows.array("X", 0, 2)), sgd(o, average)
        for _ in range(EPOCHS):
            for X, y in rows.blocks():
                model.partial_fit(made.transform(X), y, classes=[0, 1])
        return lambda T: model.predict(made.transform(T))

    return fit


def dask_ml_sgd(rows: Rows, o: Options) -> Any:
    """ParallelPostFit says nothing of the number of features: a sum or product that asks for it fails."""
    made, X = sampler(o).fit(rows.array("X", 0, 2)), rows.lazy("X")
    Z = X.map_blocks(made.transform, chunks=(X.chunks[0], (o.D,)), dtype=X.dtype)
    model = new("dask_ml.wrappers:Incremental", sgd(o), random_state=o.seed)
    model.fit(Z, rows.lazy("y"), classes=[0, 1])
    return lambda T: model.predict(made.transform(T))


def exact_ridge(rows: Rows, o: Options) -> Any:
    X, y = rows.array("X"), 2 * rows.array("y") - 1
    model = new("sklearn.kernel_ridge:KernelRidge", alpha=len(X) * o.alpha, kernel="rbf", gamma=o.gamma).fit(
        X, y
    )
    return lambda T: (model.predict(T) > 0).astype(int)


def snapml(o: Options, n: int) -> Any:
    options = {"kernel": "rbf", "regularizer": n * o.alpha, "n_jobs": 1}
    return sampler(o, "snapml:SupportVectorMachine", **options)


STREAMING_SGD = "distrf:StreamingSGDClassifier"
MODELS = {
    "distrf Fourier + ridge": Method("distrf", on_blocks("distrf:StreamingRidgeClassifier")),
    "distrf Fourier + SGD": Method("distrf", on_blocks(STREAMING_SGD)),
    "distrf Fourier + SGD, three epochs": Method("distrf", on_blocks(STREAMING_SGD, n_epochs=EPOCHS, tol=None)),
    "RBFSampler + RidgeClassifier": Method("scikit-learn", ridge(sampler)),
    "Nystroem + RidgeClassifier": Method("scikit-learn", ridge(nystroem)),
    "RBFSampler + SGDClassifier": Method("scikit-learn", on_arrays(lambda o, n: pipeline(sampler(o), sgd(o)))),
    "RBFSampler + SGDClassifier, loop over blocks": Method("scikit-learn", sgd_loop(False)),
    "RBFSampler + SGDClassifier(average=True), loop over blocks": Method("scikit-learn", sgd_loop(True)),
    "RBFSampler + LinearSVC": Method("scikit-learn", on_arrays(lambda o, n: pipeline(sampler(o), new("sklearn.svm:LinearSVC", random_state=o.seed)))),
    "Incremental(SGDClassifier)": Method("dask-ml", dask_ml_sgd),
    "SupportVectorMachine(kernel='rbf')": Method("snapml", on_arrays(snapml)),
    "SVC": Method("scikit-learn", on_arrays(lambda o, n: new("sklearn.svm:SVC", gamma=o.gamma)), FEW),
    "KernelRidge": Method("scikit-learn", exact_ridge, FEW),
    "thundersvm.SVC": Method("thundersvm", on_arrays(lambda o, n: new("thundersvm:SVC", gamma=o.gamma, n_jobs=1)), FEW),
}  # fmt: skip


def learned_metric(rows: Rows, o: Options) -> Any:
    """Ridge on features of a metric, and the columns: at the penalty of the best round, or a tenth of it."""
    X, y, seeded = rows.array("X"), rows.array("y"), {"random_state": o.seed}
    folds = np.random.default_rng(o.seed).integers(5, size=len(y))
    base = new("distrf:RandomFourierFeatures", n_components=min(o.D, 1024), **seeded)
    learned = new("distrf:LearnedMetric", base, n_components=o.D, labels=o.labels, n_jobs=1, **seeded)
    made = new("distrf:WithColumns", learned, **seeded).fit(X, y, folds=folds)
    alpha = next(found["alpha"] for found in made.base_.rounds_ if found["best"])
    name = "StreamingRidgeClassifier" if o.labels else "StreamingRidge"
    model = new(f"distrf:{name}", alpha=[alpha, alpha / 10], cv="holdout")
    model.fit(made.transform(X), y, folds=folds)
    return lambda T: model.predict(made.transform(T))


def xrfm(rows: Rows, o: Options) -> Any:
    """With its defaults: a fifth of the rows stops its rounds."""
    held = np.random.default_rng(o.seed).integers(5, size=len(rows)) == 0
    X, y = rows.array("X"), rows.array("y")
    y = y if o.labels else y.astype(np.float32)
    model = new("xrfm:xRFM", random_state=o.seed, verbose=False, n_threads=1)
    return model.fit(X[~held], y[~held], X[held], y[held]).predict


def boosting(o: Options, n: int) -> Any:
    return new(
        f"sklearn.ensemble:HistGradientBoosting{'Classifier' if o.labels else 'Regressor'}", random_state=o.seed
    )


TABLES = {
    "distrf LearnedMetric + ridge": Method("distrf", learned_metric),
    "xRFM": Method("xrfm", xrfm),
    "HistGradientBoosting": Method("scikit-learn", on_arrays(boosting)),
}

JOBS: dict[str, dict[str, Method]] = {"features": FEATURES, "ridge": MODELS, "tables": TABLES}


# ---- one of them --------------------------------------------------------------------------------------


def kernel_error(method: str, transform: Any, rows: Rows, o: Options) -> float:
    """|K - Z Z'| / |K|, Frobenius."""
    X = rows.array("X", 0, KERNEL_ROWS)
    Z = np.asarray(transform(X), dtype=np.float64)
    X = X.astype(np.float64)
    name, more = ("polynomial", {"degree": 2, "coef0": 1}) if "Sketch" in method else ("rbf", {})
    K = new(f"sklearn.metrics.pairwise:{name}_kernel", X, gamma=o.gamma, **more)
    return float(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K))


def run(job: str, method: str, folder: str, given: dict[str, Any]) -> dict[str, Any]:
    """What `python job.py` prints."""
    warnings.simplefilter("ignore")
    o, call = SimpleNamespace(**given), JOBS[job][method].call
    first = SimpleNamespace(**given | {"D": FIRST})
    call(Rows(folder, FIRST_ROWS), first)
    rows = Rows(folder)
    found: dict[str, Any] = {"start": cpu()}
    began, wall = cpu(), time.perf_counter()
    made = call(rows, o)
    found["fit"] = cpu() - began
    if job != "features":
        T, t = rows.array("T"), rows.array("t")
        began = cpu()
        predicted = made(T)
        found["predict"] = cpu() - began
    found |= {"wall": time.perf_counter() - wall, "peak": peak()}
    if job == "features":
        found["error"] = kernel_error(method, made[1], rows, o)
    else:
        predicted = np.asarray(predicted).ravel()
        labels = given.get("labels", True)
        losses = predicted != t if labels else (predicted - t) ** 2 / np.var(t)
        found |= {"score": 1 - float(losses.mean()), "score_error": float(losses.std() / len(t) ** 0.5)}
    return found


def main() -> None:
    job, method, folder, options = sys.argv[1:]
    print(json.dumps(run(job, method, folder, json.loads(options))), flush=True)


if __name__ == "__main__":
    main()
