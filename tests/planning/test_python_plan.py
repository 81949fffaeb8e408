"""`distrf.plan` says what `distrf plan` says, and it says so of lazy rows and of rows in memory too."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from peaks import cluster_file
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import distrf
from distrf import (
    TEFM,
    CompactNonlinearClassifier,
    CompactNonlinearMap,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    StreamingSGDClassifier,
    ingest,
    open_rows,
)
from distrf.errors import InputError, MemoryPlanError
from distrf.pipeline.evaluating import empty_sums
from distrf.planning.job import plan_job


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Ten classes, 1,000 classes, numbers, CSR rows; a cluster of four threads."""
    path, rng = tmp_path_factory.mktemp("planned"), np.random.default_rng(0)
    X = rng.normal(size=(4000, 8)).astype(np.float32)
    for name, y in (("ten", np.arange(4000) % 10), ("many", np.arange(4000) % 1000), ("numbers", X[:, 0])):
        np.savez(path / f"{name}.npz", X=X, y=y)
        ingest(path / f"{name}.npz", path / f"{name}.zarr", block_rows=1024)
    csr = sp.random(3000, 50, 0.1, format="csr", random_state=0)
    dump_svmlight_file(csr, np.arange(3000) % 2, str(path / "csr.svmlight"))
    ingest(path / "csr.svmlight", path / "csr.zarr", block_rows=1024)
    cluster_file(path / "c.json", workers=2, threads=2)
    return path


def fourier(D=64):
    return RandomFourierFeatures(n_components=D, random_state=0)


#: Models that are made by name calibrate.
CLASSIFIER, SGD = StreamingRidgeClassifier(calibrate=True), StreamingSGDClassifier("hinge", calibrate=True)
TRAINED = {
    "ridge": ("ten", ["-D", 64, "--map", "fourier"], make_pipeline(fourier(), CLASSIFIER)),
    "numbers": (
        "numbers",
        ["-D", 64, "--map", "fourier"],
        make_pipeline(fourier(), StreamingRidge(calibrate=True)),
    ),
    "sgd": ("ten", ["-D", 64, "--map", "fourier", "--model", "svm"], make_pipeline(fourier(), SGD)),
    "cg": (
        "ten",
        ["-D", 64, "--map", "fourier", "--solver", "cg"],
        make_pipeline(fourier(), StreamingRidgeClassifier(solver="cg", calibrate=True)),
    ),
    "tefm": ("ten", ["-D", 16, "--map", "tefm"], make_pipeline(TEFM(fourier(), 16), CLASSIFIER)),
    "cnm": (
        "ten",
        ["-D", 16, "--map", "cnm", "--objective", "kernel"],
        make_pipeline(CompactNonlinearMap(16), CLASSIFIER),
    ),
    "learned": (
        "ten",
        ["-D", 16, "--map", "cnm"],
        make_pipeline(CompactNonlinearMap(16, "multinomial"), CLASSIFIER),
    ),
    "scaled": (
        "ten",
        ["-D", 64, "--map", "fourier", "--scale", "standard"],
        make_pipeline(StreamingScaler(), fourier(), CLASSIFIER),
    ),
    "csr": ("csr", ["-D", 64, "--map", "fourier"], make_pipeline(fourier(), CLASSIFIER)),
    "many": ("many", ["-D", 64, "--map", "fourier", "--classes", 1000], make_pipeline(fourier(), CLASSIFIER)),
    "columns": ("ten", ["--map", "none"], CLASSIFIER),
}


def facts(plan):
    """The plan without the seconds that the command took."""
    plan = plan if isinstance(plan, dict) else plan.to_dict()
    return {key: value for key, value in plan.items() if key != "seconds"}


@pytest.mark.parametrize("case", TRAINED)
def test_training_is_planned_as_by_the_command_line(cli, files, case):
    name, words, pipeline = TRAINED[case]
    store, cluster = files / f"{name}.zarr", files / "c.json"
    said = json.loads(cli("plan", store, *words, "--cluster", cluster, "--json").out)
    known = 1000 if case == "many" else None
    made = distrf.plan(pipeline, store, job="train", classes=known, cluster=cluster)
    assert facts(made) == facts(said)
    X, y = open_rows(store)
    assert facts(distrf.plan(pipeline, X, y, job="train", classes=known, cluster=cluster)) == facts(said)


def test_featurizing_is_planned_as_by_the_command_line(cli, files):
    store, cluster = files / "ten.zarr", files / "c.json"
    for words, estimator in ((["fourier", "-D", 64], fourier()), (["tefm", "-D", 16], TEFM(fourier(), 16))):
        said = json.loads(
            cli("plan", store, "--map", *words, "--job", "featurize", "--cluster", cluster, "--json").out
        )
        assert facts(distrf.plan(estimator, store, cluster=cluster)) == facts(said)
        assert facts(distrf.plan(estimator, open_rows(store)[0], cluster=cluster)) == facts(said)


def test_predicting_is_planned_as_by_the_command_line(cli, files, tmp_path, monkeypatch):
    """The command plans the same steps of the same model, and says nothing where they fit."""
    X, y = open_rows(files / "ten.zarr")
    model = make_pipeline(StreamingScaler(), fourier(), StreamingRidgeClassifier(1e-3)).fit(X, y)
    distrf.save_model(model, tmp_path / "m")
    seen = []

    def kept(*arguments):
        seen.append(plan_job(*arguments))
        raise MemoryPlanError("too big")

    monkeypatch.setattr("distrf.planning.job.plan_job", kept)
    cli(
        "predict",
        tmp_path / "m",
        files / "ten.zarr",
        tmp_path / "p.zarr",
        "--cluster",
        files / "c.json",
        code=1,
    )
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
    X, y = open_rows(files / "ten.zarr")
    plain = distrf.plan(make_pipeline(fourier(), CLASSIFIER), X, y)
    scaled = distrf.plan(make_pipeline(StreamingScaler(), fourier(), CLASSIFIER), X, y)
    assert (scaled.passes, scaled.bytes_read) == (plain.passes + 1, plain.bytes_read + X.nbytes)
    tefm = TEFM(fourier(), 16)
    assert distrf.plan(make_pipeline(tefm, CLASSIFIER), X, y).passes > plain.passes
    fitted = tefm.fit(X[:1024].compute())  # what is there is not found again
    given = make_pipeline(RandomFourierFeatures(gamma=1.0, n_components=64), CLASSIFIER)
    assert distrf.plan(make_pipeline(fitted, CLASSIFIER), X, y).passes == distrf.plan(given, X, y).passes
    learned = distrf.plan(CompactNonlinearClassifier(16), X, y)
    assert learned.passes > 10
    assert any("features learned first" in note for note in learned.notes)


def test_rows_in_memory(rng):
    X, y = rng.normal(size=(500, 6)), np.arange(500) % 3
    made = distrf.plan(make_pipeline(fourier(), CLASSIFIER), X, y)
    assert (made.rows, made.bytes_read, made.workers.count) == (
        500,
        3 * X.nbytes,
        1,
    )  # all of them are the samples of the length scale and of calibration
    assert made.bytes_written == 8 * 64 * 3
    assert made.notes[0] == "classes: at least 3, in 500 sampled rows"


def test_it_prints_and_refuses(files):
    made = distrf.plan(make_pipeline(fourier(40_000), StreamingRidge(solver="gram")), files / "numbers.zarr",
                       cluster=files / "c.json", memory_limit="1GiB")  # fmt: skip
    text = str(made)
    assert text.startswith("plan: fit\n")
    assert "peak per worker" in text
    assert "4,000 in 8 blocks of up to 512" in text
    with pytest.raises(MemoryPlanError, match="fit was refused: it needs"):
        made.check()


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (make_pipeline(StandardScaler(), StreamingRidge()), {}, "of distrf, got StandardScaler; wrap"),
        (LogisticRegression(), {}, "of distrf, got LogisticRegression"),
        (fourier(), {"job": "fit"}, "of transformers alone it is 'featurize'"),
        (StreamingRidge(), {"job": "featurize"}, "the last step is a model"),
        (
            StreamingRidge(),
            {"job": "cook"},
            "job is one of train, fit, featurize, predict, evaluate, got 'cook'",
        ),
        (fourier(7), {}, "even"),
        (StreamingRidge(alpha=-1.0), {}, "alpha must be"),
    ],
)
def test_what_cannot_be_planned_is_refused(estimator, options, message):
    with pytest.raises(InputError, match=message):
        distrf.plan(estimator, np.zeros((50, 4)), np.zeros(50), **options)


def test_the_plan_of_an_evaluation_holds_the_sums_of_its_scores(rng):
    """Bins of decision values for each class: what a state holds, not what the rows are."""
    X = rng.normal(size=(3000, 4))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = StreamingRidgeClassifier(alpha=1.0).fit(X, y)
    sums = empty_sums(model, ("decisions",), 3000, None)
    held = {job: distrf.plan(model, X, y, job=job).memory.partial for job in ("predict", "evaluate")}
    assert held == {"predict": 0, "evaluate": sums.nbytes}
    assert 3 * 32 * 3000 < sums.nbytes < 3 * 32 * 3000 + 10_000
    assert empty_sums(model, ("decisions",), 10**9, None).nbytes < 8.1 * 2**20
    regressor = StreamingRidge(alpha=1.0).fit(X, X[:, 0])
    assert distrf.plan(regressor, X, X[:, 0], job="evaluate").memory.partial < 200_000


def test_evaluate_is_planned_for_a_fitted_model():
    X, y = np.zeros((10, 3), np.float32), np.arange(10) % 2
    with pytest.raises(InputError, match="'evaluate' is of a fitted model"):
        distrf.plan(StreamingRidgeClassifier(1.0), X, y, job="evaluate")


def test_the_scores_of_many_classes_take_memory():
    X = np.random.default_rng(0).normal(size=(1200, 3)).astype(np.float32)
    two, many = (StreamingRidgeClassifier(1.0).fit(X, np.arange(1200) % classes) for classes in (2, 600))
    more = (
        distrf.plan(many, X, job="predict").memory.scratch - distrf.plan(two, X, job="predict").memory.scratch
    )
    assert more >= 1200 * 599 * 4
