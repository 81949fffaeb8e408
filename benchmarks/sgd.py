"""Streaming SGD beside exact ridge, scikit-learn's solvers and the bare loop.

    python benchmarks/sgd.py mnist DATA     # accuracy by passes, and time to scikit-learn's accuracy
    python benchmarks/sgd.py solvers DATA   # hinge and logistic against LinearSVC and LogisticRegression
    python benchmarks/sgd.py speed DATA     # a pass against the bare loop; two workers against one

DATA is the folder of the .npz archives. Times of one command are taken in turn; on a busy machine only their
ratios mean anything.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

from distrf import RandomFourierFeatures, StreamingRidgeClassifier, StreamingSGDClassifier
from distrf.datasets import load_npz

ALPHA = 1e-6


def mnist(folder: str, components: int) -> tuple[Any, ...]:
    def grey(part: str) -> tuple[np.ndarray, np.ndarray]:
        X, y = load_npz(os.path.join(folder, "mnist.npz"), part)
        return X.astype(np.float32) / np.float32(255), y

    (X, y), (T, t) = grey("train"), grey("test")
    features = RandomFourierFeatures(gamma=0.01, n_components=components, n_jobs=1, random_state=7).fit(X[:9])
    return X, y, T, t, features


def accuracy(folder: str, components: int) -> None:
    X, y, T, t, features = mnist(folder, components)
    started = time.perf_counter()
    Z, Zt = features.transform(X), features.transform(T)
    made = time.perf_counter() - started
    exact = StreamingRidgeClassifier(ALPHA).fit(Z, y).score(Zt, t)
    print(f"exact ridge {exact:.4f}; features {made:.1f} s")
    best = 0.0
    for name, given in (("preconditioned", {}), ("plain", {"preconditioner": None})):
        for passes in (1, 3):
            started = time.perf_counter()
            model = StreamingSGDClassifier("squared", alpha=ALPHA, n_epochs=passes, tol=None, **given).fit(Z, y)
            seconds, score = time.perf_counter() - started, model.score(Zt, t)
            print(f"{name:>15} {passes} passes {score:.4f} in {seconds:.1f} s", flush=True)
            if name == "preconditioned" and passes == 1:
                ours, best = seconds + made, score
    peer = SGDClassifier(alpha=ALPHA, random_state=0)
    started, features_again = time.perf_counter(), 0.0
    for epoch in range(10):
        for a in np.random.default_rng(epoch).permutation(range(0, len(Z), 4096)):
            rows = np.random.default_rng([epoch, a]).permutation(np.arange(a, min(a + 4096, len(Z))))
            peer.partial_fit(Z[rows], y[rows], classes=np.arange(10))
        features_again += made
        seconds, score = time.perf_counter() - started + features_again, peer.score(Zt, t)
        print(f"SGDClassifier after {epoch + 1}: {score:.4f} in {seconds:.1f} s, ours {ours:.1f} s", flush=True)
        if score >= best or seconds > 4 * ours:
            break
    print(f"ratio {'at least ' if score < best else ''}{seconds / ours:.1f} (bar 3)")


def solvers(folder: str, components: int) -> None:
    for name in ("a9a", "ijcnn1", "usps"):
        (X, y), (T, t) = (load_npz(os.path.join(folder, f"{name}.npz"), part) for part in ("train", "test"))
        X, T = ((A.toarray() if sp.issparse(A) else A).astype(np.float32) for A in (X, T))
        features = RandomFourierFeatures(length_scale="knn", n_components=components, random_state=7).fit(X)
        Z, Zt = features.transform(X), features.transform(T)
        alpha = 1.0 / len(Z)
        peers = {
            "squared_hinge": LinearSVC(C=1.0, dual=False, tol=1e-3),
            "hinge": LinearSVC(C=1.0, loss="hinge", max_iter=3000),
            "multinomial": LogisticRegression(C=1.0, max_iter=300),
        }
        for loss, peer in peers.items():
            expected = peer.fit(Z, y).score(Zt, t)
            ours = StreamingSGDClassifier(loss, alpha=alpha, n_epochs=5, tol=None).fit(Z, y).score(Zt, t)
            verdict = "ok" if ours >= expected - 0.003 else "SHORT"
            print(f"{name:>8} {loss:>13}: peer {expected:.4f}, ours {ours:.4f} {verdict}", flush=True)


def speed(folder: str, components: int) -> None:
    from distributed import Client, LocalCluster

    X, y, _, _, features = mnist(folder, components)
    Z = features.transform(da.from_array(X, chunks=(4096, X.shape[1])))
    W = np.zeros((components, 10), np.float32)
    bare, here, passes, bits = [], [], {1: [], 2: []}, []  # type: ignore[var-annotated]

    def fit() -> float:
        """Seconds of a pass; the first of a fit, which sends the rows that are in memory here, does not count."""
        # Four passes, however much the loss still falls.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = StreamingSGDClassifier("squared", alpha=ALPHA, n_epochs=4, tol=None).fit(Z, y)
        bits.append(model.coef_)
        return statistics.mean(h["seconds"] for h in model.history_[1:])

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as one,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as two,
    ):
        for _ in range(3):
            started = time.perf_counter()
            for a in range(0, len(X), 1024):
                F = features.map_(X[a : a + 1024])
                W -= 1e-9 * (F.T @ (F @ W))
            bare.append(time.perf_counter() - started)
            with dask.config.set(scheduler="sync"):
                here.append(fit())
            for workers, cluster in ((1, one), (2, two)):
                with Client(cluster):
                    passes[workers].append(fit())
            last = f"one {passes[1][-1]:.2f} s, two {passes[2][-1]:.2f} s"
            print(f"bare {bare[-1]:.2f} s, here {here[-1]:.2f} s, {last}", flush=True)
    b, h, p, q = (statistics.median(v) for v in (bare, here, passes[1], passes[2]))
    same = all(np.array_equal(bits[0], c) for c in bits)
    print(f"in this process {h / b:.2f} of bare (bar 1.1), on one worker {p / b:.2f} (bar 1.4)")
    print(f"one / two {p / q:.2f} (bar 1.6); same bits: {same}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("mnist", "solvers", "speed"))
    parser.add_argument("data", help="folder of the .npz archives")
    parser.add_argument("-D", "--components", type=int)
    args = parser.parse_args()
    run = {"mnist": (accuracy, 4096), "solvers": (solvers, 1024), "speed": (speed, 4096)}[args.part]
    run[0](args.data, args.components or run[1])


if __name__ == "__main__":
    main()
