import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from distrf import RandomFourierFeatures, StreamingRidge, StreamingSGDClassifier, TableEncoder, save_model
from distrf.errors import InputError
from distrf.plot import (
    AlphaDisplay,
    KernelErrorDisplay,
    KernelScatterDisplay,
    LearningCurveDisplay,
    MemoryDisplay,
    MemoryTrace,
    SpectrumDisplay,
    TrainingCurveDisplay,
    plot_training,
    tracing_memory,
)
from distrf.tuning import Trial, Tuned, read_sample


def table():
    rng = np.random.default_rng(0)
    return [
        {"map": name, "n_components": D, "error": factor / np.sqrt(D) * rng.uniform(0.9, 1.1)}
        for name, factor in (("dense", 1.0), ("orthogonal", 0.8))
        for D in (256, 512, 1024, 2048)
        for _ in range(5)
    ]


def test_kernel_error__one_line_a_map_with_means(ax):
    assert KernelErrorDisplay.from_table(table(), ax=ax).ax_ is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["dense", "orthogonal"]
    line = ax.containers[0].lines[0]
    wanted = [np.mean([r["error"] for r in table() if r["map"] == "dense" and r["n_components"] == D])
              for D in (256, 512, 1024, 2048)]  # fmt: skip
    np.testing.assert_allclose(np.asarray(line.get_ydata(), dtype=float), wanted)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["256", "512", "1,024", "2,048"]


def test_kernel_error__single_rows_have_no_spread(ax):
    KernelErrorDisplay.from_table([{"map": "dense", "n_components": 64, "error": 0.1}], ax=ax)
    assert len(ax.containers) == 1


@pytest.mark.parametrize("rows", [[], [{"map": "dense", "error": 1.0}]])
def test_kernel_error__refuses_tables_without_the_columns(rows):
    with pytest.raises(InputError, match="table"):
        KernelErrorDisplay.from_table(rows)


@pytest.mark.parametrize("alphas", [(1e-6, 1e-4, 1e-2), (1.0, 0.0, 1e-3)])
def test_alphas__marks_the_chosen_one(ax, alphas):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = make_pipeline(
        RandomFourierFeatures(length_scale=2.0, n_components=32, random_state=0), StreamingRidge(alphas)
    ).fit(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=200))
    AlphaDisplay.from_estimator(model, ax=ax)
    curve, mark = ax.lines
    assert mark.get_xdata()[0] == model[-1].alpha_
    assert mark.get_ydata()[0] == min(curve.get_ydata())


def test_alphas__of_wide_errors_and_ends(ax):
    """A huge error does not press the others flat, and an end of the list is said to be one."""
    alphas, errors = np.array([1e-4, 1e-2, 1.0]), np.array([1.0, 2.0, 30.0])
    AlphaDisplay(alphas=alphas, errors=errors, chosen=1e-4).plot(ax)
    assert ax.get_yscale() == "log"
    assert ax.get_legend().get_texts()[0].get_text() == "chosen: 0.0001, the smallest tried"
    ax.clear()
    AlphaDisplay(alphas=alphas, errors=errors.clip(max=9.0), chosen=1e-2).plot(ax)
    assert ax.get_yscale() == "linear"
    assert ax.get_legend().get_texts()[0].get_text() == "chosen: 0.01"


def test_alphas__refuses_a_model_without_cross_validation():
    model = StreamingRidge(1e-3).fit(np.eye(4), np.arange(4.0))
    with pytest.raises(InputError, match="several alphas"):
        AlphaDisplay.from_estimator(model)


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
def test_training_curve__loss_and_score_on_their_axes(ax, learned, x):
    assert TrainingCurveDisplay.from_estimator(make_pipeline(learned[0]), ax=ax, x=x).ax_ is ax
    (right,) = (other for other in ax.figure.axes if other is not ax)
    history = learned[0].history_
    where = [1, 2, 3, 4] if x == "epochs" else np.cumsum([e["seconds"] for e in history])
    for axes, key in ((ax, "loss"), (right, "validation_score")):
        (line,) = axes.lines
        np.testing.assert_allclose(line.get_xdata(), where)
        np.testing.assert_array_equal(line.get_ydata(), [e[key] for e in history])
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["loss", "validation score"]


def test_training_curve__several_models_are_named(ax, learned):
    TrainingCurveDisplay.from_estimator({"held out": learned[0], "all rows": learned[1]}, ax=ax)
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["held out: loss", "held out: validation score", "all rows: loss"]
    assert len({line.get_color() for line in ax.lines}) == 2


def test_training_curve__one_loss_needs_no_legend(ax, learned):
    TrainingCurveDisplay.from_estimator(learned[1], ax=ax)
    assert ax.get_legend() is None
    assert len(ax.figure.axes) == 1


def test_training_curve__many_epochs_have_few_markers(ax):
    curve = [{"epoch": i, "loss": 1 / i, "validation_score": None, "seconds": 1.0} for i in range(1, 751)]
    TrainingCurveDisplay(histories={"": curve}).plot(ax)
    (line,) = ax.lines
    assert len(line.get_xdata()) == 750
    assert 30 <= 750 / line.get_markevery() <= 50


def test_training_curve__refusals(learned):
    with pytest.raises(InputError, match="this StreamingRidge has no history_"):
        TrainingCurveDisplay.from_estimator(StreamingRidge(1e-3).fit(np.eye(4), np.arange(4.0)))
    with pytest.raises(InputError, match="x is 'epochs' or 'seconds', got 'rows'"):
        TrainingCurveDisplay.from_estimator(learned[0], x="rows")
    with pytest.raises(InputError, match="at least one model"):
        TrainingCurveDisplay.from_estimator({})


def test_missing_matplotlib__names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "distrf\[plot\]"'):
        KernelErrorDisplay.from_table(table())


@pytest.mark.slow
def test_import__does_not_load_matplotlib():
    import subprocess

    code = "import sys, distrf.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kernel_estimates__are_those_of_the_map(ax):
    X = np.random.default_rng(0).uniform(size=(30, 5))
    features = RandomFourierFeatures(length_scale=2.0, n_components=64, random_state=0).fit(X)
    assert KernelScatterDisplay.from_estimator(features, X, ax=ax).ax_ is ax
    points, diagonal = ax.lines
    Z, pairs = features.transform(X), np.triu_indices(30, 1)
    np.testing.assert_allclose(points.get_xdata(), features.map_.exact_kernel(X)[pairs])
    np.testing.assert_allclose(points.get_ydata(), (Z @ Z.T)[pairs])
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())


def test_kernel_estimates__refusals():
    X = np.zeros((1, 5))
    with pytest.raises(InputError, match="pairs of rows, got 1"):
        KernelScatterDisplay.from_estimator(RandomFourierFeatures(length_scale=2.0, random_state=0).fit(X), X)
    with pytest.raises(InputError, match="call fit first"):
        KernelScatterDisplay.from_estimator(RandomFourierFeatures(), X)


def test_kernel_scatter__of_matrices(ax):
    K = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.1], [0.2, 0.1, 1.0]])
    display = KernelScatterDisplay.from_predictions(K, K + 0.1, ax=ax)
    np.testing.assert_array_equal(display.points_.get_xdata(), [0.5, 0.2, 0.1])
    np.testing.assert_allclose(display.points_.get_ydata(), [0.6, 0.3, 0.2])
    with pytest.raises(InputError, match=r"got \(3, 3\) and \(2, 2\)"):
        KernelScatterDisplay.from_predictions(K, K[:2, :2])


def test_kernel_error__over_seconds(ax):
    rows = [row | {"seconds": row["n_components"] / 1e5} for row in table()]
    display = KernelErrorDisplay.from_table(rows, x="seconds", ax=ax)
    line = display.lines_["dense"].lines[0]
    np.testing.assert_allclose(
        np.asarray(line.get_xdata(), dtype=float), np.array([256, 512, 1024, 2048]) / 1e5
    )
    with pytest.raises(InputError, match="lacks \\['seconds'\\]"):
        KernelErrorDisplay.from_table(table(), x="seconds")
    with pytest.raises(InputError, match="x is 'n_components' or 'seconds', got 'rows'"):
        KernelErrorDisplay.from_table(table(), x="rows")


def test_kernel_error__of_an_estimator(ax):
    X = np.random.default_rng(0).normal(size=(60, 4))
    features = RandomFourierFeatures(length_scale=2.0, random_state=0)
    options = {"n_components": (16, 64), "projections": ("dense", "orthogonal"), "n_draws": 2, "n_rows": 50}
    display = KernelErrorDisplay.from_estimator(features, X, x="seconds", ax=ax, **options)
    assert list(display.lines_) == ["dense", "orthogonal"]
    assert {row["n_components"] for row in display.table} == {16, 64}


@pytest.fixture(scope="module")
def curve_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=300)


def machine(D=32):
    return make_pipeline(
        RandomFourierFeatures(length_scale=1.0, n_components=D, random_state=0), StreamingRidge(1e-3)
    )


def test_learning_curve__over_features_is_that_of_scikit_learn(ax, curve_rows):
    X, y = curve_rows
    display = LearningCurveDisplay.from_estimator(
        machine(), X, y, over="n_components", sizes=(8, 64), cv=3, ax=ax
    )
    sample = read_sample(X, y, 10_000, 0)
    rows, targets = np.concatenate([sample.X, sample.Xv]), np.concatenate([sample.y, sample.yv])
    for D, scores in zip((8, 64), display.test_scores, strict=True):
        np.testing.assert_allclose(scores, cross_val_score(machine(D), rows, targets, cv=3), rtol=1e-12)
    gain, error = display.gain
    steps = display.test_scores[1] - display.test_scores[0]
    assert gain == pytest.approx(steps.mean())
    assert error == pytest.approx(steps.std(ddof=1) / np.sqrt(3))
    drawn = np.asarray(display.lines_[0].lines[0].get_ydata(), dtype=float)
    np.testing.assert_allclose(drawn, display.test_scores.mean(axis=1))
    assert ax.get_xlabel() == "features D"
    assert [t.get_text() for t in ax.get_xticklabels()] == ["8", "64"]


def test_learning_curve__over_rows_doubles_up_to_all(ax, curve_rows):
    display = LearningCurveDisplay.from_estimator(machine(), *curve_rows, cv=3, ax=ax)
    assert display.sizes.tolist() == [6, 12, 25, 50, 100, 200]
    assert display.train_scores.shape == display.test_scores.shape == (6, 3)
    assert display.test_scores[-1].mean() > display.test_scores[0].mean()


def test_learning_curve__refusals(curve_rows):
    with pytest.raises(InputError, match="'length' is none of them"):
        LearningCurveDisplay.from_estimator(machine(), *curve_rows, over="length")
    with pytest.raises(InputError, match="at most the 240 training rows of a fold, got 500"):
        LearningCurveDisplay.from_estimator(machine(), *curve_rows, sizes=(10, 500))
    with pytest.raises(InputError, match="cv must be"):
        LearningCurveDisplay.from_estimator(machine(), *curve_rows, cv=1)


def test_learning_curve__of_a_data_frame_with_text(tmp_path):
    """A model of a table takes its rows as `distrf.evaluate` does; one that is not fitted takes numbers and y."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.uniform(20, 200, 300), "town": rng.choice(["Ulm", "Bonn"], 300)})
    price = 3 * frame["size"] + 50 * (frame.town == "Ulm") + rng.normal(0, 9, 300)
    frame.loc[3, "size"], frame.loc[7, "town"] = np.nan, None
    table = frame.assign(price=price)
    model = make_pipeline(TableEncoder(random_state=0), StreamingRidge(1e-3)).fit(frame, table.price)
    given = {"sizes": (50, 100), "cv": 2}
    scores = LearningCurveDisplay.from_estimator(model, table, target="price", **given).test_scores
    assert scores.min() > 0.9
    same = LearningCurveDisplay.from_estimator(model, frame, table.price, **given).test_scores
    np.testing.assert_array_equal(same, scores)
    save_model(model, tmp_path / "m")
    same = LearningCurveDisplay.from_estimator(tmp_path / "m", frame, table.price, **given).test_scores
    np.testing.assert_array_equal(same, scores)
    numbers = frame[["size"]].fillna(0.0)
    assert LearningCurveDisplay.from_estimator(StreamingRidge(), numbers, table.price, **given).gain
    with pytest.raises(InputError, match="columns town are not: encode"):
        LearningCurveDisplay.from_estimator(StreamingRidge(), frame, table.price, **given)
    with pytest.raises(InputError, match="is not fitted: give arrays"):
        LearningCurveDisplay.from_estimator(StreamingRidge(), tmp_path / "rows.parquet", **given)
    with pytest.raises(InputError, match="needs a target"):
        LearningCurveDisplay.from_estimator(model, frame, **given)


def trial(level, rows, D, score):
    return Trial(level, rows, {"n_components": D}, 1e-3, score, 1 - score, (score,), 0.1)


def test_learning_curve__of_a_search(ax):
    trials = [
        trial(0, 100, 64, 0.5),
        trial(0, 100, 128, 0.6),
        trial(0, 100, 128, 0.55),
        trial(1, 300, 128, 0.8),
    ]
    tuned = Tuned(trials[-1], trials, [1e-3], 50, "R²", {"n_components": [64, 128]})
    display = LearningCurveDisplay.from_tuned(tuned, ax=ax)
    assert dict(zip(display.sizes.tolist(), display.test_scores[:, 0].tolist(), strict=True)) == {
        64: 0.5,
        128: 0.6,
    }
    rows = LearningCurveDisplay.from_tuned(tuned, over="rows")
    assert dict(zip(rows.sizes.tolist(), rows.test_scores[:, 0].tolist(), strict=True)) == {100: 0.6, 300: 0.8}
    with pytest.raises(InputError, match="compares 0 value"):
        LearningCurveDisplay.from_tuned(tuned, over="length_scale")


def test_spectrum__shares_and_what_is_left(ax):
    display = SpectrumDisplay(explained_energy=np.array([0.5, 0.3, 0.2])).plot(ax)
    np.testing.assert_allclose(display.lines_[0].get_ydata(), [0.5, 0.3, 0.2])
    np.testing.assert_allclose(display.lines_[1].get_ydata(), [0.5, 0.2, 1e-8])


def test_memory__lines_in_mib_and_levels(ax):
    trace = MemoryTrace({"a": [0.0, 1.0], "b": [0.9]}, {"a": [2**20, 3 * 2**20], "b": [2**21]})
    display = MemoryDisplay.from_trace(trace, planned=2**22, limit=2**23, ax=ax)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), [1, 3])
    np.testing.assert_array_equal(display.lines_[1].get_xydata(), [[0.9, 2]])
    assert display.planned_.get_ydata()[0] == 4
    assert display.limit_.get_ydata()[0] == 8
    assert trace.peaks == {"a": 3 * 2**20, "b": 2**21}
    far = MemoryDisplay(trace=trace, planned=2**22, limit=2**40)
    assert far.plot().limit_ is None  # else all else would lie on the axis


def test_memory__refuses_an_empty_trace():
    with pytest.raises(InputError, match="the trace is empty"):
        MemoryDisplay.from_trace(MemoryTrace())


def test_tracing_memory__of_this_process(monkeypatch):
    monkeypatch.setattr("distrf.execution.memory_trace._EVERY", 0.01)
    with tracing_memory() as trace:
        held = np.ones(2**23)  # 64 MiB
        time.sleep(0.1)
    assert len(trace.seconds["this process"]) >= 2
    assert trace.peaks["this process"] > held.nbytes


@pytest.mark.slow
def test_tracing_memory__of_workers(client):
    """By their own clocks and records, even if the job fails; not of what they did before."""
    client.submit(time.sleep, 1.2).result()
    with pytest.raises(ZeroDivisionError), tracing_memory(client) as trace:
        client.submit(lambda: time.sleep(1.6) or 1 / 0).result()
    assert trace.processes.keys() == set(client.scheduler_info()["workers"])
    for name, seconds in trace.seconds.items():
        assert 3 <= len(seconds) == len(trace.processes[name]) <= 8
        assert seconds == sorted(seconds)
        assert 0 <= seconds[0] < 1 < seconds[-1] < 5
    assert min(trace.peaks.values()) > 2**24


def test_tracing_memory__a_lost_scheduler_is_no_error():
    class Lost:
        def run(self, *_, **__):
            raise OSError

    with tracing_memory(Lost()) as trace:
        pass
    assert trace == MemoryTrace()


def test_plot_training__refuses_what_leaves_nothing():
    model = make_pipeline(StreamingRidge(1e-3).fit(np.eye(4), np.arange(4.0)))
    with pytest.raises(InputError, match="ridge with one alpha"):
        plot_training(model)


def test_displays__can_be_drawn_again(ax, learned):
    display = TrainingCurveDisplay.from_estimator(learned[0])
    assert display.plot(ax, x="seconds") is display
    assert display.ax_ is ax
