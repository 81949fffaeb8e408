"""The pictures of the documentation, each by one function, from runs on scikit-learn's digits or on made data.

python docs/pictures/draw.py                  # all of them, in a few minutes
python docs/pictures/draw.py cnm --png DIR    # some, and as PNG too, to look at them
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import distrf
from distrf.kernels import Gaussian, get_kernel
from distrf.projections import PROJECTIONS

HERE = Path(__file__).parent
BLUE, ORANGE, GREEN, RED, GREY = "#1f77b4", "#e07b00", "#2a9d4a", "#c23b4b", "#8a8a8a"
STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.prop_cycle": matplotlib.cycler(color=[BLUE, ORANGE, GREEN, RED, GREY]),
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "legend.frameon": False,
    "svg.hashsalt": "distrf",
}
rng = np.random.default_rng


def digits():
    """Rows of 64 grey values in [0, 1], split once into training and test rows."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16, y, test_size=600, random_state=0, stratify=y)


def bent(n, seed):
    """Two classes of points in the plane that no straight line tells apart."""
    random = rng(seed)
    angle, label = random.uniform(0, np.pi, n), random.integers(0, 2, n)
    x = np.where(label, 1 - np.cos(angle), np.cos(angle)) + 0.2 * random.normal(size=n)
    y = np.where(label, 0.4 - np.sin(angle), np.sin(angle)) + 0.2 * random.normal(size=n)
    return np.column_stack([x, y]), label


def kernel_error(exact, features):
    """|K - Z Z'| / |K| in the Frobenius norm."""
    return np.linalg.norm(exact - features @ features.T) / np.linalg.norm(exact)


def plain_ticks(ax, D, y=True):
    """Sizes and errors as plain numbers."""
    ax.set_xticks(D[::2], [f"{size:,}" for size in D[::2]])
    ax.minorticks_off()
    if y:
        low, high = ax.get_ylim()
        marks = [m * 10.0**e for e in range(-4, 2) for m in (1, 2, 5)]
        marks = [mark for mark in marks if low < mark < high]
        ax.set_yticks(marks, [f"{mark:g}" for mark in marks])


def mean_error(make, X, exact, seeds=5):
    """The mean error of the kernel matrix over seeds."""
    return np.mean([kernel_error(exact, make(seed).fit_transform(X)) for seed in range(seeds)])


def machine():
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.3), sharey=True)
    X, y = bent(600, 0)
    X_test, y_test = bent(2000, 1)
    grid = np.stack(np.meshgrid(np.linspace(-1.7, 2.7, 150), np.linspace(-1.3, 1.7, 120)), axis=-1)
    models = {
        "linear model": make_pipeline(distrf.StreamingRidgeClassifier()),
        "linear model on 256 random features": make_pipeline(
            distrf.RandomFourierFeatures(n_components=256, random_state=0), distrf.StreamingRidgeClassifier()
        ),
    }
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        model.fit(X, y)
        regions = model.predict(grid.reshape(-1, 2)).reshape(grid.shape[:2])
        ax.contourf(grid[..., 0], grid[..., 1], regions, levels=[-0.5, 0.5, 1.5], colors=["#cfe3f3", "#fbe0c0"])
        for label, color in ((0, BLUE), (1, ORANGE)):
            ax.scatter(*X[y == label][:150].T, s=9, color=color, linewidth=0)
        ax.set_title(f"{name}\n{model.score(X_test, y_test):.1%} of new rows right", fontsize=10)
        ax.set(xticks=[], yticks=[])
    return figure


def kernels():
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.1))
    distance = np.linspace(-4, 4, 401)[:, None]
    x = np.linspace(0, 10, 300)[:, None]
    for name, kernel in {
        "gaussian": get_kernel("gaussian"),
        "matern, nu = 1.5": get_kernel("matern"),
        "laplacian": get_kernel("laplacian"),
        "cauchy": get_kernel("cauchy"),
    }.items():
        axes[0].plot(distance, kernel(distance, np.zeros((1, 1))), label=name)
        values, vectors = np.linalg.eigh(kernel(x) + 1e-10 * np.eye(len(x)))
        draw = vectors @ (np.sqrt(np.maximum(values, 0)) * rng(3).normal(size=len(x)))
        axes[1].plot(x, draw - 4 * len(axes[1].lines))
    axes[0].set(xlabel="difference of two rows, in length scales", ylabel="kernel")
    axes[0].legend(fontsize=8, loc="upper right")
    axes[1].set(xlabel="column, in length scales", yticks=[], title="a random function of each kernel")
    axes[1].title.set_fontsize(10)
    axes[1].spines["left"].set_visible(False)
    return figure


def sizes():
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.2))
    X, X_test, y, y_test = digits()
    scale = distrf.RandomFourierFeatures(n_components=2, random_state=0).fit(X).length_scale_
    exact, D = Gaussian()(X, length_scale=scale), 2 ** np.arange(5, 13)
    for projection in ("dense", "fastfood", "orthogonal", "quasi"):

        def make(seed, D, projection=projection):
            return distrf.RandomFourierFeatures(
                length_scale=scale, n_components=int(D), projection=projection, random_state=seed
            )

        errors = [mean_error(lambda seed, D=D: make(seed, D), X, exact, 3) for D in D]
        axes[0].loglog(D, errors, "o-", markersize=3, label=projection)
        if projection == "dense":
            axes[0].loglog(D, errors[0] * np.sqrt(D[0] / D), color="black", linewidth=0.8, linestyle=":")
            axes[0].text(34, 0.05, r"dotted: $\propto 1/\sqrt{D}$", fontsize=9)
            scores = []
            for size in D:
                model = make_pipeline(make(0, size), distrf.StreamingRidgeClassifier())
                scores.append(100 * (1 - model.fit(X, y).score(X_test, y_test)))
            axes[1].semilogx(D, scores, "o-", markersize=3)
    axes[0].set(xlabel="D, features", ylabel="error of the kernel matrix")
    axes[0].legend(fontsize=8)
    axes[1].set(xlabel="D, features", ylabel="wrong labels of test rows, %", ylim=0)
    plain_ticks(axes[0], D)
    plain_ticks(axes[1], D, y=False)
    return figure


def length_scales():
    figure, ax = plt.subplots(figsize=(5.4, 3.2))
    X, X_test, y, y_test = digits()
    rule = distrf.RandomFourierFeatures(n_components=2, random_state=0).fit(X).length_scale_
    factors = 2.0 ** np.arange(-3, 4.5, 0.5)
    for rows in (X, X_test):
        labels = y if rows is X else y_test
        scores = []
        for factor in factors:
            model = make_pipeline(
                distrf.RandomFourierFeatures(length_scale=factor * rule, n_components=1024, random_state=0),
                distrf.StreamingRidgeClassifier(),
            )
            scores.append(100 * model.fit(X, y).score(rows, labels))
        ax.semilogx(factors, scores, "o-", markersize=3, label="training rows" if rows is X else "test rows")
    ax.axvline(1, color="black", linewidth=0.8, linestyle=":")
    ax.text(1.05, 60, "the rule “knn”")
    ax.set(xlabel="length scale, as a multiple of the rule's", ylabel="accuracy, %", ylim=(0, 103))
    ax.set_xticks([0.125, 0.25, 0.5, 1, 2, 4, 8, 16], ["1/8", "1/4", "1/2", "1", "2", "4", "8", "16"])
    ax.minorticks_off()
    ax.legend(loc="lower right")
    return figure


def estimates(axes, exact, features, names):
    """Estimates of the kernel over its exact values, a panel for each size."""
    pairs = np.triu_indices(len(exact), 1)
    chosen = rng(0).choice(len(pairs[0]), 500, replace=False)
    rows, columns = pairs[0][chosen], pairs[1][chosen]
    for ax, Z, name in zip(axes, features, names, strict=True):
        ax.plot([0, 1], [0, 1], color="black", linewidth=0.8)
        ax.scatter(exact[rows, columns], (Z[rows] * Z[columns]).sum(axis=1), s=4, linewidth=0)
        ax.set_title(name, fontsize=10)
        ax.set(xlabel="exact kernel")
    axes[0].set(ylabel="estimate")


def fourier():
    figure, axes = plt.subplots(1, 3, figsize=(7.6, 2.9), sharey=True)
    X = digits()[0][:200]
    sizes_ = (32, 256, 4096)
    maps = [distrf.RandomFourierFeatures(n_components=D, random_state=0).fit(X) for D in sizes_]
    exact = Gaussian()(X, length_scale=maps[0].length_scale_)
    estimates(axes, exact, [m.transform(X) for m in maps], [f"D = {D:,}" for D in sizes_])
    return figure


def projections():
    figure, ax = plt.subplots(figsize=(6.6, 3.0))
    d, seeds = 256, 400
    differences = {
        "random": rng(0).normal(size=d),
        "smooth": np.cos(np.linspace(0, 2 * np.pi, d, endpoint=False)) + 2,
        "constant": np.ones(d),
    }
    names = []
    for name in ("circulant", "alternating_circulant"):
        printed = f"{name}-paper"  # without signs, as signs on the result change nothing
        PROJECTIONS[printed] = type("AsPrinted", (PROJECTIONS[name],), {"name": printed, "signed": False})
        names += [printed, name]
    places = np.arange(len(names))
    for i, (kind, v) in enumerate(differences.items()):
        rows = np.stack([np.zeros(d), v / np.linalg.norm(v)])
        ratios = {}
        for name in ["dense", *names]:
            found = []
            for seed in range(seeds):
                features = distrf.RandomFourierFeatures(
                    length_scale=1.0, n_components=2 * d, projection=name, random_state=seed, n_jobs=1
                ).fit_transform(rows)
                found.append(features[0] @ features[1])
            ratios[name] = np.var(found)
        ax.bar(
            places + 0.27 * (i - 1), [ratios[n] / ratios["dense"] for n in names], 0.25, label=f"{kind} x - y"
        )
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set_yscale("log")
    ax.set_xticks(places, [n.replace("-paper", "\nas printed").replace("_", " ") for n in names], fontsize=8)
    ax.set(ylabel="variance over that of dense")
    ax.legend(fontsize=8)
    return figure


def laplace():
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.1))
    X = digits()[0][:200]
    X = X / X.sum(axis=1, keepdims=True)
    parts = {"dense": {}, "alternating, log2 d": {"projection": "alternating_circulant-log2"}}
    parts |= {
        "alternating, 2": {"projection": "alternating_circulant"},
        "circulant": {"projection": "circulant"},
    }
    one = distrf.RandomLaplaceFeatures(n_components=1024, random_state=0).fit(X)
    exact = one.kernel_(X)
    pairs = np.triu_indices(len(X), 1)
    chosen = rng(0).choice(len(pairs[0]), 400, replace=False)
    i, j = pairs[0][chosen], pairs[1][chosen]
    for D, color in ((64, ORANGE), (1024, BLUE)):
        Z = distrf.RandomLaplaceFeatures(n_components=D, random_state=1).fit_transform(X)
        axes[0].scatter(
            exact[i, j], (Z[i] * Z[j]).sum(axis=1), s=4, linewidth=0, color=color, label=f"D = {D:,}"
        )
    ends = [exact[i, j].min(), exact[i, j].max()]
    axes[0].plot(ends, ends, color="black", linewidth=0.8)
    axes[0].set(xlabel="exact kernel of two histograms", ylabel="estimate")
    axes[0].legend(fontsize=8, markerscale=3)
    D = 2 ** np.arange(6, 12)
    for name, options in parts.items():

        def make(seed, size, options=options):
            return distrf.RandomLaplaceFeatures(
                beta=one.kernel_.beta, n_components=int(size), random_state=seed, **options
            )

        errors = [mean_error(lambda s, size=size: make(s, size), X, exact, 20) for size in D]
        axes[1].loglog(D, errors, "o-", markersize=3, label=name)
    axes[1].set(xlabel="D, features", ylabel="error of the kernel matrix")
    plain_ticks(axes[1], D)
    axes[1].legend(fontsize=8)
    return figure


def binning():
    figure, ax = plt.subplots(figsize=(6.6, 3.1))
    random = rng(0)
    x = np.sort(random.uniform(0, 10, 400))[:, None]

    def truth(x):
        return np.select([x < 2, x < 3, x < 6.5], [0.0, 1.0, 0.3], 0.8)[:, 0]

    y = truth(x) + 0.1 * random.normal(size=len(x))
    grid = np.linspace(0, 10, 1000)[:, None]
    ax.scatter(x[::2], y[::2], s=5, color=GREY, linewidth=0, label="rows")
    ax.plot(grid, truth(grid), color="black", linewidth=0.8, linestyle=":")
    for name, features in {
        "binning, 128 grids": distrf.RandomBinningFeatures(
            n_grids=128, n_components=4096, length_scale=1.0, random_state=0
        ),
        "Gaussian Fourier features, D = 128": distrf.RandomFourierFeatures(
            length_scale=1.0, n_components=128, random_state=0
        ),
    }.items():
        model = make_pipeline(features, distrf.StreamingRidge()).fit(x, y)
        ax.plot(grid, model.predict(grid), linewidth=1.4, label=name)
    ax.set(xlabel="a column", ylabel="target")
    ax.legend(fontsize=8)
    return figure


def errors_by_size(ax, X, lines, D, seeds=10):
    """Errors of the kernel matrix over D for several maps: {name: (exact matrix, estimator of seed and D)}."""
    for name, (exact, make) in lines.items():
        ax.loglog(
            D,
            [
                mean_error(lambda seed, size=size, make=make: make(seed, int(size)), X, exact, seeds)
                for size in D
            ],
            "o-",
            markersize=3,
            label=name,
        )
    ax.set(xlabel="D, features", ylabel="error of the kernel matrix")
    plain_ticks(ax, D)
    ax.legend(fontsize=8)


def polynomial_kernel(X, degree):
    """(gamma x.y + 1)^degree with the default gamma."""
    return (X @ X.T / np.mean((X**2).sum(axis=1)) + 1) ** degree


def tensor_sketch():
    figure, ax = plt.subplots(figsize=(5.4, 3.2))
    X = digits()[0][:300]
    gamma = 1 / np.mean((X**2).sum(axis=1))

    def line(degree):
        return polynomial_kernel(X, degree), lambda seed, D: distrf.TensorSketchFeatures(
            degree=degree, gamma=gamma, n_components=D, random_state=seed
        )

    errors_by_size(ax, X, {f"degree {p}": line(p) for p in (2, 3, 5)}, 2 ** np.arange(6, 13))
    return figure


def nystroem():
    figure, axes = plt.subplots(1, 3, figsize=(7.6, 2.9), sharex=True, sharey=True)
    random = rng(1)
    X = np.concatenate(
        [random.normal(c, s, (n, 2)) for c, s, n in (((0, 0), 0.5, 700), ((4, 1), 0.9, 250), ((1, 4), 0.4, 50))]
    )
    for ax, rule in zip(axes, ("uniform", "k-means++", "kmeans"), strict=True):
        features = distrf.NystroemFeatures(
            length_scale=1.0, n_components=24, landmarks=rule, random_state=0
        ).fit(X)
        error = kernel_error(Gaussian()(X, length_scale=1.0), features.transform(X))
        ax.scatter(*X.T, s=3, color="#c9c9c9", linewidth=0)
        ax.scatter(*features.map_.landmarks.T, s=22, color=RED, linewidth=0)
        ax.set_title(f"{rule}: error {error:.3f}", fontsize=10)
        ax.set(xticks=[], yticks=[])
    return figure


def tefm():
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.1))
    X = digits()[0]
    base = distrf.RandomFourierFeatures(n_components=1024, random_state=0)
    fitted = distrf.TEFM(base, n_components=256, random_state=0).fit(X)
    left = np.maximum(1 - np.cumsum(fitted.explained_energy_), 1e-8)
    axes[0].plot(np.maximum(fitted.explained_energy_, 1e-12), label="along direction l")
    axes[0].plot(left, label="beyond the first l")
    axes[0].set(xlabel="direction l", ylabel="share of the energy |F|²", yscale="log")
    axes[0].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    scale = base.fit(X).length_scale_
    exact = Gaussian()(X, length_scale=scale)

    def plain(seed, width):
        return distrf.RandomFourierFeatures(length_scale=scale, n_components=width, random_state=seed)

    def kept(seed, width):
        return distrf.TEFM(plain(None, 4 * width), n_components=width, random_state=seed)

    errors_by_size(
        axes[1],
        X,
        {"drawn features": (exact, plain), "TEFM out of 4 l": (exact, kept)},
        2 ** np.arange(4, 10),
        3,
    )
    axes[1].set(xlabel="l, features")
    return figure


def cnm():
    figure, ax = plt.subplots(figsize=(5.4, 3.2))
    X, X_test, y, y_test = digits()
    k = 2 ** np.arange(1, 10)

    def score(size, learned):
        if learned:
            return distrf.CompactNonlinearClassifier(int(size), random_state=0).fit(X, y).score(X_test, y_test)
        features = distrf.RandomFourierFeatures(n_components=int(size), phase="offset", random_state=0)
        return make_pipeline(features, distrf.StreamingRidgeClassifier()).fit(X, y).score(X_test, y_test)

    ax.semilogx(k[:7], [100 * score(size, True) for size in k[:7]], "o-", markersize=3, label="learned")
    ax.semilogx(k, [100 * score(size, False) for size in k], "o-", markersize=3, label="drawn")
    ax.axhline(
        100 * distrf.StreamingRidgeClassifier().fit(X, y).score(X_test, y_test),
        color="black",
        linewidth=0.8,
        linestyle=":",
    )
    ax.text(80, 88, "linear model on the columns", fontsize=8)
    ax.set(xlabel="features", ylabel="accuracy on test rows, %", ylim=(0, 102))
    ax.set_xticks(k, k)
    ax.minorticks_off()
    ax.legend(loc="lower right")
    return figure


def learned_metric():
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.8))
    X = rng(0).normal(size=(3000, 20))
    y = np.sin(2 * X[:, 3]) + X[:, 8] * X[:, 14] + 0.05 * rng(1).normal(size=len(X))
    base = distrf.RandomFourierFeatures(n_components=256, random_state=0)
    for color, metric in ((BLUE, "full"), (ORANGE, "diagonal")):
        learned = distrf.LearnedMetric(base, metric=metric, n_rounds=5).fit(X, y)
        left.bar(np.arange(20) + (0.2 if metric == "full" else -0.2), learned.columns_, 0.4, color=color)
        losses = [one["loss"] / y.var() for one in learned.rounds_]
        right.semilogy(losses, "o-", markersize=3, color=color, label=metric)
    left.set(xlabel="column", ylabel="importance")
    left.set_xticks([3, 8, 14])
    right.set(xlabel="round", ylabel="error over variance")
    right.legend()
    return figure


def blockwise():
    figure, ax = plt.subplots(figsize=(5.4, 3.0))
    y = np.geomspace(0.01, 20, 300)[:, None]
    ax.semilogx(y, 2 * y / (1 + y), color="black", linewidth=2.5, alpha=0.3, label="exact")
    for steps in (1, 2, 3):
        features = distrf.Blockwise(AdditiveChi2Sampler(sample_steps=steps)).fit(y)
        estimate = features.transform(y) @ features.transform(np.ones((1, 1)))[0]
        ax.semilogx(
            y, estimate, linewidth=1.2, label=f"{2 * steps - 1} feature{'s' if steps > 1 else ''} a column"
        )
    ax.set(xlabel="y", ylabel=r"$\chi^2$ kernel of x = 1 and y")
    ax.legend(fontsize=8)
    return figure


def ridge():
    figure, ax = plt.subplots(figsize=(5.4, 3.2))
    X, _, y, _ = digits()
    features = distrf.RandomFourierFeatures(n_components=512, random_state=0)
    model = make_pipeline(features, distrf.StreamingRidgeClassifier()).fit(X, y)
    alphas, errors = np.array(model[-1].alphas_), np.array(model[-1].cv_errors_)
    ax.loglog(alphas, errors, ".-", label="errors")
    ax.plot(model[-1].alpha_, errors[alphas == model[-1].alpha_], "o", label=f"chosen: {model[-1].alpha_:g}")
    ax.set(xlabel="alpha", ylabel="mean squared error, held-out rows")
    ax.legend(fontsize="small")
    return figure


def sgd():
    figure, ax = plt.subplots(figsize=(5.4, 3.2))
    X, X_test, y, y_test = digits()
    features = distrf.RandomFourierFeatures(n_components=1024, random_state=0).fit(X)
    Z, Z_test = features.transform(X), features.transform(X_test)
    best = distrf.StreamingRidgeClassifier().fit(Z, y)
    epochs = [1, 2, 3, 5, 8, 12, 20]
    for name, directions in {"preconditioned": None, "plain": 0}.items():
        scores = []
        for count in epochs:
            model = distrf.StreamingSGDClassifier(
                "squared",
                alpha=best.alpha_,
                n_epochs=count,
                tol=None,
                n_directions=directions,
            )
            scores.append(100 * model.fit(Z, y).score(Z_test, y_test))
        ax.plot(epochs, scores, "o-", markersize=3, label=name)
    ax.axhline(100 * best.score(Z_test, y_test), color="black", linewidth=0.8, linestyle=":")
    ax.text(12, 100 * best.score(Z_test, y_test) + 0.3, "ridge", fontsize=9)
    ax.set(xlabel="epochs", ylabel="accuracy on test rows, %", xticks=epochs)
    ax.legend(loc="lower right")
    return figure


def table_encoder():
    figure, axes = plt.subplots(1, 4, figsize=(7.8, 2.5))
    x = np.sort(rng(0).lognormal(0, 1.5, 2000))[:, None]
    for ax, numbers in zip(axes, ("standard", "robust", "quantile", "piecewise"), strict=True):
        encoder = distrf.TableEncoder(numbers=numbers)
        Z = np.asarray(encoder.fit_transform(x))
        shown = Z[:, ::4] if Z.shape[1] > 4 else Z
        for j in range(shown.shape[1]):
            ax.plot(x[:, 0], shown[:, j], linewidth=1.3)
        ax.set_xscale("log")
        ax.set_title(numbers, fontsize=10)
        ax.set(xlabel="value of the column", xticks=[0.01, 1, 100])
        ax.minorticks_off()
    axes[0].set(ylabel="features")
    return figure


def calibration():
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.1))
    random = rng(0)
    X = random.normal(size=(12_000, 2))
    y = random.uniform(size=len(X)) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1] * X[:, 0]))
    features = distrf.RandomFourierFeatures(n_components=128, random_state=0)
    ridge_model = make_pipeline(features, distrf.StreamingRidgeClassifier(calibrate=True)).fit(
        X[:6000], y[:6000]
    )
    scores = ridge_model.decision_function(X[6000:])
    for name, p in {
        "sigmoid of the score": 1 / (1 + np.exp(-scores)),
        "calibrated probabilities": ridge_model.predict_proba(X[6000:])[:, 1],
    }.items():
        bins = np.clip((p * 10).astype(int), 0, 9)
        there = [b for b in range(10) if (bins == b).sum() > 20]
        axes[0].plot(
            [p[bins == b].mean() for b in there],
            [y[6000:][bins == b].mean() for b in there],
            "o-",
            markersize=3,
            label=name,
        )
    axes[0].plot([0, 1], [0, 1], color="black", linewidth=0.8)
    axes[0].set(xlabel="probability, as said", ylabel="share of rows of the class")
    axes[0].legend(fontsize=8)
    x = random.uniform(0, 6, 12_000)[:, None]
    t = np.sin(2 * x[:, 0]) + 0.3 * random.normal(size=len(x))
    regressor = make_pipeline(
        distrf.RandomFourierFeatures(length_scale=1.0, n_components=64, random_state=0),
        distrf.StreamingRidge(calibrate=True),
    ).fit(x[:4000], t[:4000])
    grid = np.linspace(0, 6, 200)[:, None]
    ends = distrf.predict(regressor, grid, interval=0.9)
    inside = distrf.predict(regressor, x[4000:], interval=0.9)
    share = np.mean((inside[:, 0] <= t[4000:]) & (t[4000:] <= inside[:, 1]))
    axes[1].fill_between(grid[:, 0], ends[:, 0], ends[:, 1], alpha=0.25, linewidth=0)
    axes[1].scatter(x[4000:4400], t[4000:4400], s=4, color=GREY, linewidth=0)
    axes[1].plot(grid, regressor.predict(grid))
    axes[1].set_title(f"for 90 %: {share:.1%} of new rows inside", fontsize=10)
    axes[1].set(xlabel="a column", ylabel="target")
    return figure


HELPERS = {digits, bent, kernel_error, mean_error, plain_ticks, estimates, errors_by_size, polynomial_kernel}


def main() -> None:
    functions = {
        name: thing
        for name, thing in vars(sys.modules[__name__]).items()
        if inspect.isfunction(thing)
        and thing.__module__ == __name__
        and thing not in HELPERS
        and name != "main"
    }
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*functions, []], default=[])
    parser.add_argument("--png", type=Path, help="a folder for the pictures as PNG")
    given = parser.parse_args()
    for name in given.names or functions:
        with plt.rc_context(STYLE), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of so few rows
            figure = functions[name]()
            for ax in figure.axes:  # many points would make a large file
                for points in ax.collections:
                    points.set_rasterized(True)
            figure.savefig(HERE / f"{name}.svg", dpi=160, metadata={"Date": None, "Creator": None})
            if given.png:
                figure.savefig(given.png / f"{name}.png", dpi=90)
            plt.close(figure)
        print(name, f"{(HERE / f'{name}.svg').stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    matplotlib.use("svg")
    main()
