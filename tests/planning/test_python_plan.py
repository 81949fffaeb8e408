"""`distrf.plan` says what `distrf plan` says, and it says so of lazy rows and of rows in memory too."""

from __future__ import annotations

import json

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from peaks import cluster_file
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import distrf
from distrf.errors import InputError, MemoryPlanError
from distrf.execution.memory import Workers
from distrf.execution.planned import PlannedRows
from distrf.pipeline.evaluating import empty_sums
from distrf.planning.job import plan_job
from distrf.sgd.batch_sizes import most_rows


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Ten classes, 1,000 classes, numbers, CSR rows; a cluster of four threads."""
    path, rng = tmp_path_factory.mktemp("planned"), np.random.default_rng(0)
    X = rng.normal(size=(4000, 8)).astype(np.float32)
    for name, y in (("ten", np.arange(4000) % 10), ("many", np.arange(4000) % 1000), ("numbers", X[:, 0])):
        np.savez(path / f"{name}.npz", X=X, y=y)
        distrf.ingest(path / f"{name}.npz", path / f"{name}.zarr", block_rows=1024)
    csr = sp.random(3000, 50, 0.1, format="csr", random_state=0)
    dump_svmlight_file(csr, np.arange(3000) % 2, str(path / "csr.svmlight"))
    distrf.ingest(path / "csr.svmlight", path / "csr.zarr", block_rows=1024)
    cluster_file(path / "c.json", workers=2, threads=2)
    return path


def fourier(D=64):
    return distrf.RandomFourierFeatures(n_components=D, random_state=0)


#: Models that are made by name calibrate.
CLASSIFIER, NUMBERS = distrf.StreamingRidgeClassifier(calibrate=True), distrf.StreamingRidge(calibrate=True)
SGD = distrf.StreamingSGDClassifier("hinge", calibrate=True)
CG = distrf.StreamingRidgeClassifier(solver="cg", calibrate=True)
FOURIER = ["-D", 64, "--map", "fourier"]
#: Rows, options of the command, steps.
TRAINED = {
    "ridge": ("ten", FOURIER, [fourier(), CLASSIFIER]),
    "numbers": ("numbers", FOURIER, [fourier(), NUMBERS]),
    "sgd": ("ten", [*FOURIER, "--model", "svm"], [fourier(), SGD]),
    "cg": ("ten", [*FOURIER, "--solver", "cg"], [fourier(), CG]),
    "tefm": ("ten", ["-D", 16, "--map", "tefm"], [distrf.TEFM(fourier(), 16), CLASSIFIER]),
    "cnm": (
        "ten",
        ["-D", "16", "--map", "cnm", "--objective", "kernel"],
        [distrf.CompactNonlinearMap(16), CLASSIFIER],
    ),
    "learned": ("ten", ["-D", 16, "--map", "cnm"], [distrf.CompactNonlinearMap(16, "multinomial"), CLASSIFIER]),
    "scaled": ("ten", [*FOURIER, "--scale", "standard"], [distrf.StreamingScaler(), fourier(), CLASSIFIER]),
    "csr": ("csr", FOURIER, [fourier(), CLASSIFIER]),
    "many": ("many", [*FOURIER, "--classes", 1000], [fourier(), CLASSIFIER]),
    "columns": ("ten", ["--map", "none"], [CLASSIFIER]),
    "featurize": ("ten", [*FOURIER, "--job", "featurize"], [fourier()]),
    "featurize by tefm": (
        "ten",
        ["-D", "16", "--map", "tefm", "--job", "featurize"],
        [distrf.TEFM(fourier(), 16)],
    ),
}


def facts(plan):
    """The plan without the seconds that the command took."""
    plan = plan if isinstance(plan, dict) else plan.to_dict()
    return {key: value for key, value in plan.items() if key != "seconds"}


@pytest.mark.parametrize("case", TRAINED)
def test_planned_as_by_the_command_line(cli, files, case):
    name, words, steps = TRAINED[case]
    store, cluster = files / f"{name}.zarr", files / "c.json"
    said = json.loads(cli("plan", store, *words, "--cluster", cluster, "--json").out)
    options = {"cluster": cluster, "job": "featurize" if "featurize" in case else "train"}
    options |= {"classes": 1000} if case == "many" else {}
    pipeline = make_pipeline(*steps) if len(steps) > 1 else steps[0]
    assert facts(distrf.plan(pipeline, store, **options)) == facts(said)
    X, y = distrf.open_rows(store)
    assert facts(distrf.plan(pipeline, X, *([] if "featurize" in case else [y]), **options)) == facts(said)


def test_predicting_is_planned_as_by_the_command_line(cli, files, tmp_path, monkeypatch):
    """The command plans the same steps of the same model, and says nothing where they fit."""
    X, y = distrf.open_rows(files / "ten.zarr")
    model = make_pipeline(distrf.StreamingScaler(), fourier(), distrf.StreamingRidgeClassifier(1e-3)).fit(X, y)
    distrf.save_model(model, tmp_path / "m")
    seen = []

    def kept(*arguments):
        seen.append(plan_job(*arguments))
        raise MemoryPlanError("too big")

    monkeypatch.setattr("distrf.planning.job.plan_job", kept)
    words = [tmp_path / "m", files / "ten.zarr", tmp_path / "p.zarr", "--cluster", files / "c.json"]
    cli("predict", *words, code=1)
    monkeypatch.undo()
    made = distrf.plan(model, files / "ten.zarr", cluster=files / "c.json")
    assert (made.job, made.passes, made.bytes_written) == ("predict", 1, 8 * 4000)
    assert facts(made) == facts(seen[0])


def test_a_fit_is_less_than_a_training(files):
    """`distrf.train` reads samples, and fits a linear model beside; the estimator alone does not."""
    pipeline = make_pipeline(fourier(), CLASSIFIER)
    fit, train = (distrf.plan(pipeline, files / "ten.zarr", job=job) for job in (None, "train"))
    assert fit.job == "fit"
    assert fit.passes + 2 == train.passes
    assert fit.bytes_read < train.bytes_read


def test_every_step_has_its_share(files):
    X, y = distrf.open_rows(files / "ten.zarr")

    def planned(*steps):
        return distrf.plan(make_pipeline(*steps), X, y)

    plain, scaled = planned(fourier(), CLASSIFIER), planned(distrf.StreamingScaler(), fourier(), CLASSIFIER)
    assert (scaled.passes, scaled.bytes_read) == (plain.passes + 1, plain.bytes_read + X.nbytes)
    tefm = distrf.TEFM(fourier(), 16)
    assert planned(tefm, CLASSIFIER).passes > plain.passes
    fitted = tefm.fit(X[:1024].compute())  # what is there is not found again
    given = distrf.RandomFourierFeatures(gamma=1.0, n_components=64)
    assert planned(fitted, CLASSIFIER).passes == planned(given, CLASSIFIER).passes
    learned = planned(distrf.CompactNonlinearClassifier(16))
    assert learned.passes > 10
    assert any("features learned first" in note for note in learned.notes)


def test_rows_in_memory(rng):
    X, y = rng.normal(size=(500, 6)), np.arange(500) % 3
    made = distrf.plan(make_pipeline(fourier(), CLASSIFIER), X, y)
    # All of them are the samples of the length scale and of calibration.
    assert (made.rows, made.bytes_read, made.workers.count) == (500, 3 * X.nbytes, 1)
    assert made.bytes_written == 8 * 64 * 3
    assert made.notes[0] == "classes: at least 3, in 500 sampled rows"


def test_it_prints_and_refuses(files):
    pipeline = make_pipeline(fourier(40_000), distrf.StreamingRidge(solver="gram"))
    made = distrf.plan(pipeline, files / "numbers.zarr", cluster=files / "c.json", memory_limit="1GiB")
    text = str(made)
    assert text.startswith("plan: fit\n")
    assert "peak per worker" in text
    assert "4,000 in 8 blocks of up to 512" in text
    with pytest.raises(MemoryPlanError, match="fit was refused: it needs"):
        made.check()


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (make_pipeline(StandardScaler(), distrf.StreamingRidge()), {}, "of distrf, got StandardScaler; wrap"),
        (LogisticRegression(), {}, "of distrf, got LogisticRegression"),
        (fourier(), {"job": "fit"}, "of transformers alone it is 'featurize'"),
        (distrf.StreamingRidge(), {"job": "featurize"}, "the last step is a model"),
        (distrf.StreamingRidge(), {"job": "cook"}, "train, fit, featurize, predict, evaluate, got 'cook'"),
        (distrf.StreamingRidge(), {"job": "evaluate"}, "'evaluate' is of a fitted model"),
        (fourier(7), {}, "even"),
        (distrf.StreamingRidge(alpha=-1.0), {}, "alpha must be"),
    ],
)
def test_what_cannot_be_planned_is_refused(estimator, options, message):
    with pytest.raises(InputError, match=message):
        distrf.plan(estimator, np.zeros((50, 4)), np.zeros(50), **options)


def test_the_plan_of_an_evaluation_holds_the_sums_of_its_scores(rng):
    """Bins of decision values for each class: what a state holds, not what the rows are."""
    X = rng.normal(size=(3000, 4))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = distrf.StreamingRidgeClassifier(alpha=1.0).fit(X, y)
    sums = empty_sums(model, ("decisions",), 3000, None)
    held = {job: distrf.plan(model, X, y, job=job).memory.partial for job in ("predict", "evaluate")}
    assert held == {"predict": 0, "evaluate": sums.nbytes}
    assert 3 * 32 * 3000 < sums.nbytes < 3 * 32 * 3000 + 10_000
    assert empty_sums(model, ("decisions",), 10**9, None).nbytes < 8.1 * 2**20
    regressor = distrf.StreamingRidge(alpha=1.0).fit(X, X[:, 0])
    assert distrf.plan(regressor, X, X[:, 0], job="evaluate").memory.partial < 200_000


def test_the_scores_of_many_classes_take_memory():
    X = np.random.default_rng(0).normal(size=(1200, 3)).astype(np.float32)
    models = (distrf.StreamingRidgeClassifier(1.0).fit(X, np.arange(1200) % classes) for classes in (2, 600))
    two, many = (distrf.plan(model, X, job="predict").memory.scratch for model in models)
    assert many - two >= 1200 * 599 * 4


# ---- the rows that reach a step, and the batches that SGD makes of them -----------------------------


def test_features_of_a_float64_table_are_float32():
    X = pd.DataFrame({"a": np.arange(50.0), "b": ["x", "y"] * 25})
    encoder = distrf.TableEncoder().fit(X)
    rows = PlannedRows(1000, 2, 8, 8, 100, 16_000, Workers(1, 1, 0)).after(encoder.map_)
    assert (rows.itemsize, rows.read_itemsize) == (4, 8)
    assert rows.row_bytes == 2 * 8 + encoder.map_.entries_per_row * 4
    scaled = rows.after(distrf.StreamingScaler().fit(encoder.transform(X)).map_)
    assert scaled.row_bytes == rows.row_bytes + encoder.map_.entries_per_row * 4  # the scaled copy


def test_batches_are_planned_by_the_usual_and_by_the_largest():
    X = da.zeros((200_000, 8), chunks=(4096, 8), dtype=np.float32)
    y = da.zeros(200_000, chunks=4096, dtype=int)
    options = {"alpha": 1e-6, "n_epochs": 1, "tol": None}
    given = distrf.RandomFourierFeatures(gamma=0.1, n_components=512, random_state=0)
    auto, largest = (
        distrf.plan(make_pipeline(given, distrf.StreamingSGDClassifier("hinge", **options, **more)), X, y)
        for more in ({}, {"batch_size": 4096})
    )
    assert "batches of 1,000 rows (4,096 at most)" in " ".join(auto.notes)
    assert auto.memory.parts["features"] == largest.memory.parts["features"]


@pytest.mark.parametrize(
    ("n", "D", "rows"),
    [(10**6, 512, 4096), (10**6, 65_536, 1024), (10**6, 10**6, 256), (8000, 512, 500), (1000, 512, 1000),
     (1000, 10**6, 256), (200, 10**6, 200)],
)  # fmt: skip
def test_the_most_rows_of_a_batch(n, D, rows):
    assert most_rows("auto", n, D) == rows
    assert most_rows(300, n, D) == min(n, 300)
