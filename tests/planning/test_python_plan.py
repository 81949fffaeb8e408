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
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import distrf
from distrf.errors import InputError, MemoryPlanError
from distrf.execution.memory import Workers, machine_memory
from distrf.execution.passes import RowCount
from distrf.execution.planned import PlannedRows
from distrf.pipeline.evaluating import empty_sums
from distrf.planning import planned_workers


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


def fourier(D=64, **options):
    return distrf.RandomFourierFeatures(n_components=D, random_state=0, **options)


#: Models that are made by name calibrate; of ridge `train` compares two penalties on a fifth of the rows.
RACED = {"alpha": [1e-6, 1e-5], "cv": "holdout", "calibrate": True}
CLASSIFIER, NUMBERS = distrf.StreamingRidgeClassifier(**RACED), distrf.StreamingRidge(**RACED)
SGD = distrf.StreamingSGDClassifier("hinge", calibrate=True)
PASSES = distrf.StreamingRidgeClassifier(solver="passes", **RACED)
LEARNED = distrf.CompactNonlinearMap(16, "multinomial")
FOURIER = "-D 64 --map fourier"
#: Rows, options of the command, steps.
PLANNED = {
    "ridge": ("ten", FOURIER, [fourier(), CLASSIFIER]),
    "numbers": ("numbers", FOURIER, [fourier(), NUMBERS]),
    "sgd": ("ten", f"{FOURIER} --model sgd-classifier", [fourier(), SGD]),
    "passes": ("ten", f"{FOURIER} --set model__solver=passes", [fourier(), PASSES]),
    "tefm": ("ten", "-D 16 --map tefm", [distrf.TEFM(fourier(), 16), CLASSIFIER]),
    "learned": ("ten", "-D 16 --map cnm", [LEARNED, CLASSIFIER]),
    "scaled": ("ten", f"{FOURIER} --scale standard", [distrf.StreamingScaler(), fourier(), CLASSIFIER]),
    "csr": ("csr", FOURIER, [fourier(), CLASSIFIER]),
    "many": ("many", f"{FOURIER} --classes 1000", [fourier(), CLASSIFIER]),
    "columns": ("ten", "--map none", [CLASSIFIER]),
}


def facts(plan):
    """The plan without the seconds that the command took."""
    plan = plan if isinstance(plan, dict) else plan.to_dict()
    return {key: value for key, value in plan.items() if key != "seconds"}


@pytest.mark.parametrize("case", PLANNED)
def test_planned_as_by_the_command_line(cli, files, case):
    name, words, steps = PLANNED[case]
    store, cluster = files / f"{name}.zarr", files / "c.json"
    said = facts(json.loads(cli("plan", store, *words.split(), "--cluster", cluster, "--json").out))
    options = {"cluster": cluster, "job": "train"}
    options |= {"classes": 1000} if case == "many" else {}
    for rows in ([store], distrf.open_rows(store)):
        assert facts(distrf.plan(make_pipeline(*steps), *rows, **options)) == said


def test_a_projection_is_not_named_while_encodings_are_open(cli, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    pd.DataFrame(X, columns=list("aby")).to_parquet(tmp_path / "a.parquet")
    words = ["plan", tmp_path / "a.parquet", "--target", "y", "--cluster", "none", "--json"]
    for options, named in (([], False), (["--set", "table__numbers=standard"], True)):
        notes = json.loads(cli(*words, *options).out)["notes"]
        assert any(note.startswith("projection 'auto' takes") for note in notes) == named


def test_it_prints_and_refuses(files):
    pipeline = make_pipeline(fourier(40_000), distrf.StreamingRidge(solver="gram"))
    made = distrf.plan(pipeline, files / "numbers.zarr", memory_limit="1GiB")
    text = str(made)
    assert text.startswith("plan: fit\n")
    assert "peak per worker" in text
    assert "4,000 in 8 blocks of up to 512" in text
    with pytest.raises(MemoryPlanError, match="fit was refused: it needs"):
        made.check()


RIDGE = distrf.StreamingRidge()


@pytest.mark.parametrize(
    ("estimator", "job", "message"),
    [
        (make_pipeline(StandardScaler(), RIDGE), None, "of distrf, got StandardScaler; wrap"),
        (LogisticRegression(), None, "of distrf, got LogisticRegression"),
        (fourier(), "fit", "'featurize' is of transformers alone.* got job='fit' and RandomFourierFeatures"),
        (RIDGE, "featurize", "'featurize' is of transformers alone.* and StreamingRidge as the last step"),
        (RIDGE, "cook", "job must be 'train', 'fit', .*'evaluate'.* got 'cook'"),
        (RIDGE, "evaluate", "not fitted"),
        (distrf.StreamingRidge(alpha=-1.0), None, "alpha must be"),
        (RIDGE, "rows", r"Found array with 0 sample\(s\)"),
    ],
)
def test_what_cannot_be_planned_is_refused(estimator, job, message):
    n, job = (0, None) if job == "rows" else (50, job)
    with pytest.raises((InputError, NotFittedError), match=message):
        distrf.plan(estimator, da.zeros((n, 4)), np.zeros(n), job=job, cluster="none")


def test_scores_take_memory(rng):
    """Bins of decision values for each class while they are summed up, and decision values of all classes in a block."""
    X = rng.normal(size=(3000, 4)).astype(np.float32)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model, numbers = distrf.StreamingRidgeClassifier(1.0).fit(X, y), distrf.StreamingRidge(1.0).fit(X, X[:, 0])
    sums = empty_sums(model, 3000)
    held = {job: distrf.plan(model, X, y, job=job).memory.partial for job in ("predict", "evaluate")}
    assert held == {"predict": 0, "evaluate": sums.nbytes}
    assert 3 * 32 * 3000 < sums.nbytes < 3 * 32 * 3000 + 10_000
    assert empty_sums(model, 10**9).nbytes < 8.1 * 2**20
    assert distrf.plan(numbers, X, X[:, 0], job="evaluate").memory.partial < 200_000
    models = (distrf.StreamingRidgeClassifier(1.0).fit(X, np.arange(3000) % classes) for classes in (2, 600))
    two, many = (distrf.plan(model, X, job="predict").memory.scratch for model in models)
    assert many - two >= 3000 * 599 * 4


# ---- the rows that reach a step, and the batches that SGD makes of them -----------------------------


def test_the_rows_of_a_plan_are_those_that_transform_makes(files):
    """Codes of a table are float64 numbers, its features float32; each form of a row takes memory."""
    X = pd.DataFrame({"a": np.arange(50.0), "b": ["x", "y"] * 25})
    encoder = distrf.TableEncoder().fit(X)
    maps = [encoder, distrf.StreamingScaler().fit(encoder.transform(X)), fourier(gamma=1.0)]
    maps[2].fit(maps[1].transform(encoder.transform(X)))
    rows, peaks = PlannedRows.of(da.zeros((1000, 2), chunks=100), Workers(1, 1, 0)), [0]
    for map_ in maps:
        rows = rows.after(map_.map_)
        peaks.append(rows.pass_memory(RowCount()).block)
    assert (rows.itemsize, rows.width, rows.blocks) == (4, 64, 10)
    entries = encoder.map_.entries_per_row
    # The codes with the encoded rows, their scaled copy, the features.
    grown = [100 * (2 * 8 + 4 * entries), 100 * 4 * entries, 100 * 4 * 64]
    assert np.diff(peaks).tolist() == grown


def test_batches_are_planned_by_the_usual_and_by_the_largest():
    X, y = (da.zeros((200_000, *tail), chunks=(4096, *tail), dtype=np.float32) for tail in ((8,), ()))
    options = {"alpha": 1e-6, "n_epochs": 1, "tol": None}
    auto, largest = (
        distrf.plan(make_pipeline(fourier(512, gamma=0.1), distrf.StreamingSGDClassifier("hinge", **options, **more)), X, y)
        for more in ({}, {"batch_size": 4096})
    )  # fmt: skip
    assert "batches of 1,000 rows (4,096 at most)" in " ".join(auto.notes)
    assert auto.memory.parts == largest.memory.parts


def test_a_plan_tells_what_is_still_to_be_chosen(files):
    encoder, told = distrf.TableEncoder(), ["50 passes of the logistic loss", "encodings of numbers"]
    for steps, rows in (([fourier(), CLASSIFIER], "ten"), ([encoder, fourier(), NUMBERS], "numbers")):
        made = distrf.plan(make_pipeline(*steps), files / f"{rows}.zarr", job="train")
        assert [any(text in note for note in made.notes) for text in told] == [rows == "ten", rows != "ten"]
    assert distrf.StreamingLinearClassifier().max_passes == 50


def test_a_memory_limit_that_is_a_share_of_the_machine(tmp_path):
    """To Dask a number up to 1 is one; 0 bytes would be no limit, and nothing be refused."""
    (tmp_path / "c.yaml").write_text("class: distributed.LocalCluster\narguments: {memory_limit: 0.5}\n")
    assert planned_workers(tmp_path / "c.yaml", None).memory_limit == machine_memory() // 2
