"""The commands: what they write and print, and what they leave alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file
from stored_arrays import stored_array

import distrf
from distrf import ingest
from distrf.datasets import load_digits_split
from distrf.errors import StoreError
from distrf.execution.open_rows import open_rows
from distrf.store import Selection, open_source

TRAIN_X, TRAIN_Y, TEST_X, TEST_Y = load_digits_split(0)
GREY, TEST_GREY = (np.rint(16 * x).astype(np.uint8) for x in (TRAIN_X, TEST_X))
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
GAMMA = ["--set", "map__gamma=0.5", "--scale", "divide", "--set", "scale__divisor=16"]
SMALL = ["-D", 128, *GAMMA, "--alpha", "1e-6"]
PIXELS = ",".join(f"p{j}" for j in range(64))


def table(grey, labels):
    columns = {f"p{j}": grey[:, j].astype(np.float32) for j in range(64)}
    return pa.table(columns | {"label": NAMES[labels], "id": [f"r{i}" for i in range(len(labels))]})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The digits in every format, and stores of them."""
    folder = tmp_path_factory.mktemp("cli")
    for name, rows, labels in (("train", GREY, TRAIN_Y), ("test", TEST_GREY, TEST_Y)):
        np.savez(folder / f"{name}.npz", X=rows, y=labels)
    pq.write_table(table(GREY, TRAIN_Y), folder / "train.parquet", row_group_size=400)
    pq.write_table(table(TEST_GREY, TEST_Y), folder / "test.parquet", row_group_size=100)
    dump_svmlight_file(
        GREY[:200].astype(float), TRAIN_Y[:200].astype(float), str(folder / "digits.svmlight"), zero_based=False
    )
    lines = [PIXELS + ",label"]
    lines += [",".join(map(str, row)) + f",{NAMES[k]}" for row, k in zip(GREY[:300], TRAIN_Y, strict=False)]
    (folder / "digits.csv").write_text("\n".join(lines) + "\n")
    for split in ("train", "test"):
        ingest(folder / f"{split}.npz", folder / f"{split}.zarr", block_rows=200)
    return folder


@pytest.fixture(scope="module")
def model(files, two_worker_cluster):
    """A model trained by the command, in a process of its own."""
    command = [sys.executable, "-m", "distrf", "train", "train.zarr", "model", *map(str, SMALL), "--json"]
    command += ["--cluster", two_worker_cluster.scheduler_address]
    done = subprocess.run(command, cwd=files, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["model"] == "model"
    return files / "model"


def whole(path):
    """{relative name: bytes} of all files."""
    return {str(p.relative_to(path)): p.read_bytes() for p in Path(path).rglob("*") if p.is_file()}


def reads_as_whole(path):
    """Whether a complete store or a model can be opened there."""
    try:
        distrf.load_model(path) if (path / "model.json").exists() else open_rows(path)
    except (StoreError, FileNotFoundError):
        return False
    return True


def matches(pattern, text):
    assert re.search(pattern, " ".join(text.split())), text


# ---- what the commands do ---------------------------------------------------------------------------

INGESTS = {
    "parquet": (["train.parquet", "--target", "label", "--columns", PIXELS], 1437, GREY),
    "csv": (["digits.csv", "--target", "label"], 300, GREY),
    "npz-float32": (["test.npz", "--dtype", "float32"], 360, TEST_GREY),
    "svmlight": (["digits.svmlight", "--zero-based", "no"], 200, GREY),
}


@pytest.mark.parametrize("kind", INGESTS)
def test_ingest(cli, files, tmp_path, kind):
    (source, *options), n, expected = INGESTS[kind]
    result = json.loads(cli("ingest", files / source, tmp_path / "a.zarr", *options, "--json").out)
    keys = {"path", "block_rows", "blocks", "blocks_pending", "arrays", "bytes", "seconds"}
    assert keys <= result.keys()
    assert (result["kind"], result["rows"], result["complete"]) == ("rows", n, True)
    X, y = open_rows(tmp_path / "a.zarr")
    np.testing.assert_array_equal(X.compute(scheduler="sync"), expected[:n])
    labels = (TEST_Y if n == 360 else TRAIN_Y)[:n]
    labels = NAMES[labels] if kind in ("parquet", "csv") else labels
    np.testing.assert_array_equal(y.compute(scheduler="sync"), labels)
    assert "complete" in cli("ingest", files / source, tmp_path / "a.zarr", *options).out  # again


def test_plan_runs_nothing(cli, files, monkeypatch):
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    before = set(files.iterdir())
    result = json.loads(cli("plan", files / "train.zarr", "-D", 512, "--json").out)
    assert (result["job"], result["rows"], result["fits"]) == ("train", 1437, True)
    wanted = {"tasks", "passes", "bytes_read", "peak_bytes_per_worker", "peak_parts", "workers", "notes"}
    assert wanted <= result.keys()
    assert set(files.iterdir()) == before
    assert "peak per worker" in cli("plan", files / "train.zarr", "--map", "none").out


def test_plan_that_does_not_fit(cli, files):
    words = ["plan", files / "train.zarr", "-D", 65536, "--json", "--memory-limit"]
    printed = cli(*words, "400MiB", code=1)
    assert json.loads(printed.out)["fits"] is False
    matches(r"error: train was refused: it needs .*400.00 MiB.*Remedy: ", printed.err)
    notes = json.loads(cli(*words, "4GiB").out)["notes"]
    assert any("solver 'passes': the Gram matrix of 65536 features needs" in note for note in notes)


def test_train_and_evaluate(cli, files, model):
    scored = json.loads(cli("evaluate", model, files / "test.zarr", "--json", cluster=True).out)
    wanted = {"score", "accuracy", "classes", "model", "rows", "seconds", "peak_bytes_per_worker"}
    assert wanted <= scored.keys()
    assert scored["rows"] == 360
    pipeline = distrf.load_model(model)
    assert [name for name, _ in pipeline.steps] == ["scale", "map", "model"]
    assert scored["accuracy"] == np.mean(pipeline.predict(TEST_GREY) == TEST_Y) > 0.9


def test_predict_zarr(cli, files, model, tmp_path):
    arguments = ["predict", model, files / "test.zarr", tmp_path / "p.zarr", "--json"]
    result = json.loads(cli(*arguments, cluster=True).out)
    assert (result["rows"], result["blocks"], result["blocks_computed"]) == (360, 2, 2)
    pipeline, blocks = distrf.load_model(model), [TEST_GREY[:200], TEST_GREY[200:]]
    got = stored_array(tmp_path / "p.zarr", "prediction")
    np.testing.assert_array_equal(got, np.concatenate([pipeline.predict(b) for b in blocks]))
    assert json.loads(cli(*arguments, cluster=True).out)["blocks_computed"] == 0
    np.savez(tmp_path / "o.npz", X=TEST_GREY[::-1])
    cli("ingest", tmp_path / "o.npz", tmp_path / "o.zarr", "--block-rows", 200)
    other = ["predict", model, tmp_path / "o.zarr", tmp_path / "p.zarr"]  # never taken for finished work
    assert "spec.input.data" in cli(*other, code=1, cluster=True).err
    cli(*other, "--overwrite", cluster=True)


@pytest.mark.parametrize(
    "words", [["--map", "fourier"], ["--map", "nystroem", "--set", "map__landmarks=kmeans"]]
)
def test_test_rows_get_the_map_of_the_training_rows(cli, files, tmp_path, words):
    train, test, map_ = (tmp_path / name for name in ("train.zarr", "test.zarr", "map"))
    words = [*words, "-D", 32, "--scale", "standard", "--save-map", map_]
    cli("featurize", files / "train.zarr", train, *words, cluster=True)
    cli("featurize", files / "test.zarr", test, "--like", map_, cluster=True)
    fitted = distrf.load_model(map_)
    for written, rows in ((train, GREY), (test, TEST_GREY)):
        np.testing.assert_allclose(stored_array(written, "X"), fitted.transform(rows), atol=1e-4)
    np.testing.assert_array_equal(stored_array(test, "y"), TEST_Y)


def test_inspect(cli, files, model, tmp_path):
    cli("featurize", files / "test.zarr", tmp_path / "f.zarr", "-D", 16, cluster=True)
    cli("predict", model, files / "test.zarr", tmp_path / "p.zarr", cluster=True)
    for path, kind, words in (
        (files / "train.zarr", "rows", ["1,437 in 8 blocks of 200 (complete)"]),
        (tmp_path / "f.zarr", "features", ["length_scale", "checksum"]),
        (tmp_path / "p.zarr", "predictions", ["prediction", "provenance", str(model)]),
        (model, "model", ["RandomFourierFeatures", "train.zarr", "<f8", "model: StreamingRidgeClassifier ("]),
    ):
        assert json.loads(cli("inspect", path, "--json").out)["kind"] == kind
        shown = " ".join(cli("inspect", path).out.split())
        assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("command", ["train", "tune"])
def test_rows_that_were_left_out_are_left_out_of_an_evaluation(cli, tmp_path, command):
    x = np.random.default_rng(0).normal(size=100)
    y = pa.array(np.sin(2 * x), mask=np.arange(100) % 10 == 0)
    pq.write_table(pa.table({"x": x, "y": y}), tmp_path / "a.parquet")
    grid = ["--grid", "n_components=8,16"] if command == "tune" else ["-D", 8]
    words = [tmp_path / "a.parquet", tmp_path / "m", "--target", "y", "--drop-missing-target", *grid]
    assert "\nfeatures: " in cli(command, *words).out
    assert json.loads(cli("evaluate", tmp_path / "m", tmp_path / "a.parquet", "--json").out)["rows"] == 90


def test_a_search_trains_its_winner(cli, files, tmp_path):
    """On all rows; the same command finds the same again; the end of a list is said; few rows need no workers."""
    options = "--map fourier --seed 3 --set model__fit_intercept=true --scale divide --set scale__divisor=16 --cluster none --json"
    options += " --grid n_components=32,128 --grid alpha=1e-3,9 --grid map__length_scale=1,30"
    words = ["tune", files / "train.zarr", tmp_path / "m", *options.split()]
    found = json.loads(cli(*words).out)
    best = found["best"]
    assert best["score"] == max(t["score"] for t in found["trials"]) > -0.3
    model = distrf.load_model(tmp_path / "m")
    made = (model["map"].base.n_components, model["map"].base.length_scale, model["model"].alpha_)
    assert made == tuple(best["parameters"][name] for name in ("n_components", "map__length_scale", "alpha"))
    assert model["model"].coef_.shape == (10, 128 + 64)
    assert "holds a model already" in cli(*words, code=1).err
    again = json.loads(cli(*words, "--overwrite").out)
    assert [t["score"] for t in again["trials"]] == [t["score"] for t in found["trials"]]


@pytest.mark.slow
def test_demo(tmp_path):
    command = [sys.executable, "-m", "distrf", "demo", "--rows", "6000", "-D", "256", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["rows"], report["n_components"], report["test_rows"]) == (6000, 256, 360)
    assert report["accuracy_kernel"] > report["accuracy_linear"] + 0.01 > 0.89
    assert all(40 * 2**20 < size < 2**30 for size in report["peak_bytes_per_worker"].values())
    assert distrf.load_model(tmp_path / "distrf-demo/model").score(TEST_X, TEST_Y) == report["accuracy_kernel"]
    assert {p.name for p in tmp_path.iterdir()} == {"distrf-demo"}


# ---- reading the rows -------------------------------------------------------------------------------


def test_csv_is_read_as_it_is_said_by_every_command(cli, tmp_path):
    """One file without names, with `|`, decimal commas and a class NA; and columns whose names have commas."""
    rng = np.random.default_rng(0)
    rows = [
        f"{x:.3f}|{k}|{'NA' if x > 0 else 'EU'}".replace(".", ",") for k, x in enumerate(rng.normal(size=200))
    ]
    (tmp_path / "a.data").write_text("\n".join(rows))
    csv = [
        word
        for pair in ("sep=|", "decimal=,", "header=no", "keep_default_na=false")
        for word in ("--csv", pair)
    ]
    words = ["--target", "f2", "--kind", "f1=drop", "--map", "none", "-q", "--cluster", "none"]
    cli("train", tmp_path / "a.data", tmp_path / "m", *words, *csv)
    scores = json.loads(cli("evaluate", tmp_path / "m", tmp_path / "a.data", "--json", *csv).out)
    assert scores["accuracy"] > 0.95
    out = tmp_path / "out.parquet"
    cli("predict", tmp_path / "m", tmp_path / "a.data", out, "--keys", "f1", "-q")  # as the model was trained
    assert pq.read_table(out).column("f1").to_pylist() == list(range(200))
    lines = [f"{x:.3f},{k % 3},{x:.3f}" for k, x in enumerate(rng.normal(size=90))]
    (tmp_path / "b.csv").write_text("\n".join(['"size, mm"," id",y', *lines]) + "\n")
    words = [tmp_path / "b.csv", tmp_path / "b.zarr", "--target", "y", "--columns", '"size, mm"," id"', "-q"]
    cli("ingest", *words)
    assert open_source(tmp_path / "b.zarr", Selection()).columns == ["size, mm", " id"]


# ---- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["train", "featurize"])
@pytest.mark.parametrize(
    ("n", "message"),
    [
        (
            300,
            "X must be finite, but row 133( of the block)?, column 7 is (infinity.*from row 0 on|inf; impute)",
        ),
        (200, r"X and y must have the same rows.*X has 300 rows, the target has shape \(200,\)"),
    ],
)
def test_bad_rows(cli, tmp_path, command, n, message):
    X = TRAIN_X[:300].copy()
    X[133, 7] = np.inf
    np.savez(tmp_path / "bad.npz", X=X, y=TRAIN_Y[:n])
    words = [tmp_path / "bad.npz", tmp_path / "out", "-D", 32, "--set", "map__length_scale=2"]
    printed = cli(command, *words, code=1, cluster=True)
    assert printed.out == ""
    matches(message, printed.err)
    assert not reads_as_whole(tmp_path / "out")


@pytest.mark.parametrize("where", ["default", "spec"])
def test_not_enough_memory(cli, files, model, tmp_path, where, monkeypatch):
    """Refused with the numbers before a single worker process exists."""
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    limit = ["--memory-limit", "400MiB"]
    if where == "spec":
        (tmp_path / "c.yaml").write_text("class: distributed.LocalCluster\narguments: {memory_limit: 400MiB}\n")
        limit = ["--cluster", tmp_path / "c.yaml"]
    out = tmp_path / "out"
    for words in (
        ["train", files / "train.zarr", out, "-D", 65536],
        ["featurize", files / "train.zarr", out, "-D", 65536],
    ):
        printed = cli(*words, *limit, code=1)
        matches(
            r"was refused: it needs .*(GiB|MiB) on each worker, which has 400.00 MiB \(process .*Remedy: ",
            printed.err,
        )
    for words in (["predict", model, files / "test.zarr", out], ["evaluate", model, files / "test.zarr"]):
        matches("was refused: it needs", cli(*words, "--memory-limit", "200MiB", code=1).err)
    assert not out.exists()
