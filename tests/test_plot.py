import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from distrf import RandomFourierFeatures, StreamingRidge, StreamingSGDClassifier
from distrf.errors import InputError
from distrf.plot import plot_alphas, plot_kernel_error, plot_kernel_estimates, plot_learning_curve


@pytest.fixture
def ax():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(layout="constrained")
    yield axes
    figure.canvas.draw()
    pyplot.close(figure)


def table():
    rng = np.random.default_rng(0)
    return [
        {"map": name, "n_components": D, "error": factor / np.sqrt(D) * rng.uniform(0.9, 1.1)}
        for name, factor in (("dense", 1.0), ("orthogonal", 0.8))
        for D in (256, 512, 1024, 2048)
        for _ in range(5)
    ]


def test_kernel_error__one_line_a_map_with_means(ax):
    assert plot_kernel_error(table(), ax) is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["dense", "orthogonal"]
    line = ax.containers[0].lines[0]
    wanted = [np.mean([r["error"] for r in table() if r["map"] == "dense" and r["n_components"] == D])
              for D in (256, 512, 1024, 2048)]  # fmt: skip
    np.testing.assert_allclose(np.asarray(line.get_ydata(), dtype=float), wanted)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["256", "512", "1,024", "2,048"]


def test_kernel_error__single_rows_have_no_spread(ax):
    plot_kernel_error([{"map": "dense", "n_components": 64, "error": 0.1}], ax)
    assert len(ax.containers) == 1


@pytest.mark.parametrize("rows", [[], [{"map": "dense", "error": 1.0}]])
def test_kernel_error__refuses_tables_without_the_columns(rows):
    with pytest.raises(InputError, match="table"):
        plot_kernel_error(rows)


@pytest.mark.parametrize("alphas", [(1e-6, 1e-4, 1e-2), (1.0, 0.0, 1e-3)])
def test_alphas__marks_the_chosen_one(ax, alphas):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = make_pipeline(
        RandomFourierFeatures(length_scale=2.0, n_components=32, random_state=0), StreamingRidge(alphas)
    ).fit(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=200))
    plot_alphas(model, ax)
    curve, mark = ax.lines
    assert mark.get_xdata()[0] == model[-1].alpha_
    assert mark.get_ydata()[0] == min(curve.get_ydata())


def test_alphas__refuses_a_model_without_cross_validation():
    model = StreamingRidge(1e-3).fit(np.eye(4), np.arange(4.0))
    with pytest.raises(InputError, match="several alphas"):
        plot_alphas(model)


@pytest.fixture(scope="module")
def learned():
    """Models with and without held-out rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 6))
    y = (X[:, 0] + 0.3 * rng.normal(size=1200) > 0).astype(int)
    settings = {"n_epochs": 4, "tol": None, "batch_size": 100}
    with pytest.warns(ConvergenceWarning, match="still falls"):  # four epochs are few
        return [StreamingSGDClassifier(early_stopping=held, **settings).fit(X, y) for held in (True, False)]


@pytest.mark.parametrize("x", ["epochs", "seconds"])
def test_learning_curve__loss_and_score_on_their_axes(ax, learned, x):
    assert plot_learning_curve(make_pipeline(learned[0]), ax, x=x) is ax
    (right,) = (other for other in ax.figure.axes if other is not ax)
    history = learned[0].history_
    where = [1, 2, 3, 4] if x == "epochs" else np.cumsum([e["seconds"] for e in history])
    for axes, key in ((ax, "loss"), (right, "validation_score")):
        (line,) = axes.lines
        np.testing.assert_allclose(line.get_xdata(), where)
        np.testing.assert_array_equal(line.get_ydata(), [e[key] for e in history])
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["loss", "validation score"]


def test_learning_curve__several_models_are_named(ax, learned):
    plot_learning_curve({"held out": learned[0], "all rows": learned[1]}, ax)
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["held out: loss", "held out: validation score", "all rows: loss"]
    assert len({line.get_color() for line in ax.lines}) == 2


def test_learning_curve__one_loss_needs_no_legend(ax, learned):
    plot_learning_curve(learned[1], ax)
    assert ax.get_legend() is None
    assert len(ax.figure.axes) == 1


def test_learning_curve__refusals(learned):
    with pytest.raises(InputError, match="this StreamingRidge has no history_"):
        plot_learning_curve(StreamingRidge(1e-3).fit(np.eye(4), np.arange(4.0)))
    with pytest.raises(InputError, match="x is 'epochs' or 'seconds', got 'rows'"):
        plot_learning_curve(learned[0], x="rows")
    with pytest.raises(InputError, match="at least one model"):
        plot_learning_curve({})


def test_missing_matplotlib__names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "distrf\[plot\]"'):
        plot_kernel_error(table())


def test_import__does_not_load_matplotlib():
    import subprocess

    code = "import sys, distrf.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kernel_estimates__are_those_of_the_map(ax):
    X = np.random.default_rng(0).uniform(size=(30, 5))
    features = RandomFourierFeatures(length_scale=2.0, n_components=64, random_state=0).fit(X)
    assert plot_kernel_estimates(features, X, ax) is ax
    points, diagonal = ax.lines
    Z, pairs = features.transform(X), np.triu_indices(30, 1)
    np.testing.assert_allclose(points.get_xdata(), features.map_.exact_kernel(X)[pairs])
    np.testing.assert_allclose(points.get_ydata(), (Z @ Z.T)[pairs])
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())


def test_kernel_estimates__refusals():
    X = np.zeros((1, 5))
    with pytest.raises(InputError, match="pairs of rows, got 1"):
        plot_kernel_estimates(RandomFourierFeatures(length_scale=2.0, random_state=0).fit(X), X)
    with pytest.raises(InputError, match="call fit first"):
        plot_kernel_estimates(RandomFourierFeatures(), X)
