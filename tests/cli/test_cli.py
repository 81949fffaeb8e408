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
import zarr
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import log_loss
from stored_arrays import open_array

import distrf
from distrf import ingest
from distrf.datasets import load_digits_split
from distrf.errors import StoreError
from distrf.execution.open_rows import open_rows
from distrf.store import describe

TRAIN_X, TRAIN_Y, TEST_X, TEST_Y = load_digits_split(0)
GREY, TEST_GREY = (np.rint(16 * x).astype(np.uint8) for x in (TRAIN_X, TEST_X))
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
GAMMA = ["--set", "map__gamma=0.5", "--scale", "divide", "--set", "scale__divisor=16"]
SMALL = ["-D", 128, *GAMMA, "--alpha", "1e-6", "--raw-columns", "no"]
PIXELS = ",".join(f"p{j}" for j in range(64))


def table(grey, labels):
    columns = {f"p{j}": grey[:, j].astype(np.float32) for j in range(64)}
    return pa.table(columns | {"label": NAMES[labels], "id": [f"r{i}" for i in range(len(labels))]})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The digits in every format, and stores of them."""
    folder = tmp_path_factory.mktemp("cli")
    np.savez(folder / "digits.npz", X_train=GREY, y_train=TRAIN_Y, X_test=TEST_GREY, y_test=TEST_Y)
    np.save(folder / "digits.npy", np.c_[GREY, TRAIN_Y].astype(np.float32))
    pq.write_table(table(GREY, TRAIN_Y), folder / "train.parquet", row_group_size=400)
    pq.write_table(table(TEST_GREY, TEST_Y), folder / "test.parquet", row_group_size=100)
    dump_svmlight_file(
        GREY[:200].astype(float), TRAIN_Y[:200].astype(float), str(folder / "digits.svmlight"), zero_based=False
    )
    lines = [PIXELS + ",label"]
    lines += [",".join(map(str, row)) + f",{NAMES[k]}" for row, k in zip(GREY[:300], TRAIN_Y, strict=False)]
    (folder / "digits.csv").write_text("\n".join(lines) + "\n")
    for split in ("train", "test"):
        ingest(folder / "digits.npz", folder / f"{split}.zarr", split=split, block_rows=200)
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
    "npy": (["digits.npy", "--target", "64"], 1437, GREY),
    "npz": (["digits.npz", "--split", "train"], 1437, GREY),
    "npz-float32": (["digits.npz", "--split", "test", "--dtype", "float32"], 360, TEST_GREY),
    "svmlight": (["digits.svmlight", "--sparse", "dense", "--zero-based", "no"], 200, GREY),
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


def test_ingest_shuffles(cli, files, tmp_path):
    for seed in (1, 2):
        words = [
            files / "digits.npz",
            tmp_path / f"{seed}.zarr",
            "--split",
            "train",
            "--shuffle",
            "--seed",
            seed,
        ]
        cli("ingest", *words)
    one, two = (open_rows(tmp_path / f"{seed}.zarr")[0].compute(scheduler="sync") for seed in (1, 2))
    assert (one != two).any()
    np.testing.assert_array_equal(one[np.lexsort(one.T)], two[np.lexsort(two.T)])


@pytest.mark.parametrize("more", [(), ("--featurize",)])
def test_plan_runs_nothing(cli, files, more, monkeypatch):
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    before = set(files.iterdir())
    result = json.loads(cli("plan", files / "train.zarr", "-D", 512, *more, "--json").out)
    assert (result["job"], result["rows"], result["fits"]) == ("featurize" if more else "train", 1437, True)
    assert {
        "tasks",
        "passes",
        "bytes_read",
        "peak_bytes_per_worker",
        "peak_parts",
        "workers",
        "notes",
    } <= result.keys()
    assert set(files.iterdir()) == before
    assert "peak per worker" in cli("plan", files / "train.zarr", "--map", "none").out


def test_plan_that_does_not_fit(cli, files):
    words = ["plan", files / "train.zarr", "-D", 65536, "--json", "--memory-limit"]
    printed = cli(*words, "512MiB", code=1)
    assert json.loads(printed.out)["fits"] is False
    matches(r"error: train was refused: it needs .*512.00 MiB.*Remedy: ", printed.err)
    notes = json.loads(cli(*words, "4GiB").out)["notes"]
    assert any("solver 'cg': the Gram matrix of 65536 features needs" in note for note in notes)


def test_train_and_evaluate(cli, files, model):
    scored = json.loads(cli("evaluate", model, files / "test.zarr", "--json", cluster=True).out)
    assert {
        "score",
        "accuracy",
        "classes",
        "model",
        "rows",
        "seconds",
        "peak_bytes_per_worker",
    } <= scored.keys()
    assert "slices" not in scored
    assert scored["rows"] == 360
    pipeline = distrf.load_model(model)
    assert [name for name, _ in pipeline.steps] == ["scale", "map", "model"]
    assert scored["accuracy"] == np.mean(pipeline.predict(TEST_GREY) == TEST_Y) > 0.9


@pytest.mark.slow
def test_evaluate_prints_the_first_score_first_and_slices(cli, tmp_path):
    """Average precision of a rare class, then the others; a table by class, and one by the values of a column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=1200) > 2, "odd", "usual")
    region = pa.array([None if i % 5 == 0 else ["north", "south"][i % 2] for i in range(1200)])
    columns = {f"x{j}": X[:, j] for j in range(3)} | {"label": y, "region": region}
    pq.write_table(pa.table(columns), tmp_path / "r.parquet", row_group_size=500)
    words = ["--target", "label", "--columns", "x0,x1,x2", "-D", 64, "--quiet"]
    cli("train", tmp_path / "r.parquet", tmp_path / "m", *words, cluster=True)
    asked = ["evaluate", tmp_path / "m", tmp_path / "r.parquet", "--by", "region"]
    found = json.loads(cli(*asked, "--json", cluster=True).out)
    assert (found["score"], found["positive"], found["by"]) == ("average_precision", "odd", "region")
    assert {s["value"]: s["rows"] for s in found["slices"]} == {"north": 480, "south": 480, "missing": 240}
    said = cli(*asked, cluster=True).out
    places = [
        said.index(word)
        for word in ["average precision", "accuracy", "by class", "usual", "by region", "north"]
    ]
    assert places == sorted(places)
    important = cli("evaluate", tmp_path / "m", tmp_path / "r.parquet", "--importance", "--n-rows", 200).out
    assert important.splitlines()[2].startswith("x0")


@pytest.mark.slow
def test_train_prints(cli, files, tmp_path):
    words = ["--map", "fourier", "-D", 64, "--alpha", "1e-6,1e-4"]
    printed = cli("train", files / "train.zarr", tmp_path / "m", *words, cluster=True)
    for word in (
        "rows per second",
        "length scale",
        "peak memory per worker",
        "10 distinct values",
        "times the rule 'knn'",
    ):
        assert word in printed.out
    assert "(cross-validation): machine 0.7" in printed.out
    assert "2 workers, dashboard http" in printed.err
    result = cli("train", files / "train.zarr", tmp_path / "j", *words, "--json", cluster=True)
    assert result.err == ""
    found = json.loads(result.out)
    assert {
        "alphas",
        "solver",
        "cv_errors",
        "projection",
        "rows",
        "seconds",
        "peak_bytes_per_worker",
    } <= found.keys()
    stored = distrf.load_model(tmp_path / "j").training_.to_dict()
    assert stored == {name: found[name] for name in ("choices", "baseline", "warnings")}
    one, two = (distrf.load_model(tmp_path / name)["model"].coef_ for name in "mj")
    np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_quiet_prints_nothing(cli, files, model, tmp_path):
    for words in (
        ("ingest", files / "digits.npz", tmp_path / "a.zarr", "--split", "test"),
        ("plan", files / "train.zarr"),
        ("featurize", files / "test.zarr", tmp_path / "f.zarr", "-D", 16),
        ("train", files / "train.zarr", tmp_path / "m", "-D", 16),
        ("evaluate", model, files / "test.zarr"),
        ("predict", model, files / "test.zarr", tmp_path / "p.zarr"),
    ):
        assert tuple(cli(*words, "--quiet", cluster=words[0] not in ("ingest", "plan"))) == ("", "")


def test_regression(cli, files, tmp_path):
    y = TRAIN_X[:500, 20].astype(float) * 3 + 1
    np.savez(tmp_path / "r.npz", X=TRAIN_X[:500, :5], y=y)
    cli("ingest", tmp_path / "r.npz", tmp_path / "r.zarr")
    words = ["--model", "ridge", "-D", 32, "--set", "model__cv=holdout"]
    cli("train", tmp_path / "r.zarr", tmp_path / "m", *words, cluster=True)
    scored = json.loads(cli("evaluate", tmp_path / "m", tmp_path / "r.zarr", "--json", cluster=True).out)
    error = distrf.load_model(tmp_path / "m").predict(TRAIN_X[:500, :5]) - y
    assert scored["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
    assert {"rmse", "relative_rmse", "r2"} < scored.keys()


def test_predict_zarr(cli, files, model, tmp_path):
    arguments = ["predict", model, files / "test.zarr", tmp_path / "p.zarr", "--json"]
    result = json.loads(cli(*arguments, cluster=True).out)
    assert (result["rows"], result["blocks"], result["blocks_computed"]) == (360, 2, 2)
    pipeline, blocks = distrf.load_model(model), [TEST_GREY[:200], TEST_GREY[200:]]
    got = open_array(tmp_path / "p.zarr", "prediction").compute(scheduler="sync")
    np.testing.assert_array_equal(got, np.concatenate([pipeline.predict(b) for b in blocks]))
    assert json.loads(cli(*arguments, cluster=True).out)["blocks_computed"] == 0
    np.savez(tmp_path / "o.npz", X=TEST_GREY[::-1])
    cli("ingest", tmp_path / "o.npz", tmp_path / "o.zarr", "--block-rows", 200)
    other = ["predict", model, tmp_path / "o.zarr", tmp_path / "p.zarr"]  # never taken for finished work
    assert "spec.input.data" in cli(*other, code=1, cluster=True).err
    cli(*other, "--overwrite", cluster=True)


@pytest.mark.slow
def test_probabilities_and_intervals(cli, files, model, tmp_path):
    """Models of `train` have them, without an option."""
    out = tmp_path / "p.zarr"
    cli("predict", model, files / "test.zarr", out, "--probabilities", "yes", cluster=True)
    p = open_array(out, "probability").compute(scheduler="sync")
    np.testing.assert_allclose(p, distrf.load_model(model).predict_proba(TEST_GREY), atol=1e-5)
    assert log_loss(TEST_Y, p, labels=range(10)) < 0.4
    X, y = TRAIN_X[:1000, :20], TRAIN_X[:1000, 20].astype(float)
    np.savez(tmp_path / "n.npz", X=X, y=y)
    cli("ingest", tmp_path / "n.npz", tmp_path / "n.zarr")
    cli("train", tmp_path / "n.zarr", tmp_path / "r", "-D", 64, "--map", "fourier", cluster=True)
    arguments = ["predict", tmp_path / "r", tmp_path / "n.zarr", tmp_path / "i.parquet", "--interval"]
    cli(*arguments, 0.8, cluster=True)
    got = pq.read_table(tmp_path / "i.parquet").to_pydict()
    assert list(got) == ["prediction", "low", "high"]
    found, low, high = (np.array(got[name]) for name in got)
    np.testing.assert_allclose(found, (low + high) / 2, rtol=1e-4)
    assert 0.75 < np.mean((low <= y) & (y <= high)) < 1
    assert "spec.interval" in cli(*arguments, 0.9, code=1, cluster=True).err
    assert "take a smaller coverage" in cli(*arguments, 0.99999, "--overwrite", code=1, cluster=True).err


@pytest.mark.slow
def test_text_labels_and_keys(cli, files, tmp_path):
    """Parquet in, Parquet out: classes by name, keys beside the predictions."""
    m, out = tmp_path / "m", tmp_path / "p.parquet"
    cli("train", files / "train.parquet", m, "--target", "label", "--columns", PIXELS, *SMALL[:2], cluster=True)
    scored = json.loads(cli("evaluate", m, files / "test.parquet", "--json", cluster=True).out)
    assert scored["accuracy"] > 0.9
    cli("predict", m, files / "test.parquet", out, "--keys", "id,label", cluster=True)
    got = pq.read_table(out).to_pydict()
    named = [f"p_{name}" for name in sorted(NAMES)]
    assert list(got) == ["id", "label", "prediction", *named]
    p = np.array([got[name] for name in named])
    np.testing.assert_allclose(p.sum(axis=0), 1, rtol=1e-5)
    assert got["id"] == [f"r{i}" for i in range(360)]
    assert got["label"] == NAMES[TEST_Y].tolist()
    assert np.mean(np.array(got["prediction"]) == NAMES[TEST_Y]) == scored["accuracy"]
    wrong = ["predict", m, files / "test.parquet", tmp_path / "q.parquet", "--keys", "nokey"]
    assert "nokey" in cli(*wrong, code=1, cluster=True).err
    assert not (tmp_path / "q.parquet").exists()


def test_features(cli, files, tmp_path):
    out = tmp_path / "f.zarr"
    arguments = [
        "featurize",
        files / "test.zarr",
        out,
        "-D",
        32,
        "--length-scale",
        "knn",
        "--seed",
        7,
        "--json",
    ]
    result = json.loads(cli(*arguments, cluster=True).out)
    assert (result["kind"], result["blocks_computed"], result["arrays"]["X"]["shape"]) == (
        "features",
        2,
        [360, 32],
    )
    X, y = open_rows(out)
    expected = distrf.RandomFourierFeatures(n_components=32, random_state=7).fit_transform(TEST_GREY)
    np.testing.assert_allclose(X.compute(scheduler="sync"), expected, atol=2e-5)
    np.testing.assert_array_equal(y.compute(scheduler="sync"), TEST_Y)
    assert json.loads(cli(*arguments, cluster=True).out)["blocks_computed"] == 0
    before = whole(out)
    matches(
        "spec.map.seed: 7 -> 8.*choose another path",
        cli(*arguments[:3], "-D", 32, "--seed", 8, code=1, cluster=True).err,
    )
    assert whole(out) == before


def test_features_of_parquet(cli, files, tmp_path):
    """Row groups of one size, files of another: the blocks that are written are equal all the same."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, part in enumerate((slice(0, 150), slice(150, 360))):
        rows = table(TEST_GREY, TEST_Y).slice(part.start, part.stop - part.start)
        pq.write_table(rows, folder / f"part-{number}.parquet", row_group_size=70)
    words = ["--columns", PIXELS, "--target", "label", "-D", 32, "--length-scale", 20, "--json"]
    result = json.loads(cli("featurize", folder, tmp_path / "f.zarr", *words, cluster=True).out)
    assert result["rows"] == 360
    Z, y = open_rows(tmp_path / "f.zarr")
    expected = distrf.RandomFourierFeatures(length_scale=20.0, n_components=32, random_state=0)
    np.testing.assert_allclose(
        Z.compute(scheduler="sync"), expected.fit_transform(TEST_GREY.astype(np.float32)), atol=2e-5
    )
    np.testing.assert_array_equal(y.compute(scheduler="sync"), NAMES[TEST_Y])


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
        np.testing.assert_allclose(open_array(written, "X").compute(), fitted.transform(rows), atol=1e-4)
    np.testing.assert_array_equal(open_array(test, "y").compute(), TEST_Y)


def test_inspect(cli, files, model, tmp_path):
    cli("featurize", files / "test.zarr", tmp_path / "f.zarr", "-D", 16, cluster=True)
    cli("predict", model, files / "test.zarr", tmp_path / "p.zarr", cluster=True)
    for path, kind, words in (
        (files / "train.zarr", "rows", ["1,437 in 8 blocks of 200 (complete)"]),
        (tmp_path / "f.zarr", "features", ["length_scale", "checksum"]),
        (tmp_path / "p.zarr", "predictions", ["prediction", "provenance", str(model)]),
        (model, "model", ["RandomFourierFeatures", "train.zarr", "(10, 128) <f8"]),
        (files / "test.parquet", "parquet", ["row_groups", "label: "]),
    ):
        assert json.loads(cli("inspect", path, "--json").out)["kind"] == kind
        shown = " ".join(cli("inspect", path).out.split())
        assert [word for word in words if word not in shown] == []
    foreign = zarr.open_group(tmp_path / "other.zarr", mode="w")
    foreign.create_array("X", shape=(5, 3), dtype="f4")
    assert json.loads(cli("inspect", tmp_path / "other.zarr", "--json").out)["n"] == 5


# ---- reading the rows -------------------------------------------------------------------------------


def test_models_of_python_get_the_rows_of_python(cli, files, tmp_path, client):
    """A model trained on what `open_rows` gives is given the same by the commands."""
    X, y = open_rows(files / "train.zarr")
    distrf.save_model(distrf.StreamingRidgeClassifier(1e-4).fit(X, y), tmp_path / "m")
    scored = json.loads(cli("evaluate", tmp_path / "m", files / "test.zarr", "--json", cluster=True).out)
    X, y = open_rows(files / "test.zarr")
    assert scored["accuracy"] == distrf.load_model(tmp_path / "m").score(X, y)
    distrf.save_model(distrf.StreamingScaler().fit(X), tmp_path / "s")
    assert "ends in a StreamingScaler" in cli("evaluate", tmp_path / "s", files / "test.zarr", code=1).err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "zarr", "scaled", "unnamed"])
def test_columns_are_chosen_and_ordered(cli, files, tmp_path, kind):
    columns, source, target = "p44,p20,p37", files / "train.parquet", ["--target", "label"]
    rows = GREY[:, [44, 20, 37]].astype(np.float32)
    if kind == "unnamed":
        columns, source, target = "44,20,37", files / "train.zarr", []
    elif kind != "parquet":
        cli("ingest", source, tmp_path / "a.zarr", *target, "--columns", PIXELS)
        source, target = tmp_path / "a.zarr", []
    words = [*target, "--columns", columns, "--map", "none", "--alpha", "1e-6"]
    words += ["--scale", "standard" if kind == "scaled" else "none"]
    cli("train", source, tmp_path / "m", *words, cluster=True)
    labels = TRAIN_Y if kind == "unnamed" else NAMES[TRAIN_Y]
    if kind == "scaled":
        rows = (rows - rows.mean(axis=0, dtype=float)) / rows.std(axis=0, dtype=float)
    expected = distrf.StreamingRidgeClassifier(1e-6).fit(rows, labels)
    got = distrf.load_model(tmp_path / "m")
    np.testing.assert_allclose(got["model"].coef_, expected.coef_, rtol=1e-3, atol=1e-6)
    scored = json.loads(cli("evaluate", tmp_path / "m", source, "--json", cluster=True).out)
    assert scored["accuracy"] == pytest.approx(expected.score(rows, labels), abs=0.002)


@pytest.mark.slow
def test_the_training_mean_fills_test_rows(cli, tmp_path):
    """A null in a test row is replaced by the mean of the training rows, whichever way those were read."""
    x, train = np.arange(60.0), tmp_path / "train.parquet"
    pq.write_table(pa.table({"a": pa.array([None, *x[1:]]), "b": x % 7, "t": x % 2}), train)
    pq.write_table(pa.table({"a": pa.array([None, 1000.0]), "b": [1.0, 2.0]}), tmp_path / "test.parquet")
    plain = ["--map", "none", "--model", "ridge"]
    cli("train", train, tmp_path / "direct", "--target", "t", "--impute", "mean", *plain, cluster=True)
    cli("ingest", train, tmp_path / "a.zarr", "--target", "t", "--impute", "mean")
    cli("train", tmp_path / "a.zarr", tmp_path / "ingested", *plain, cluster=True)
    for name in ("direct", "ingested"):
        cli("predict", tmp_path / name, tmp_path / "test.parquet", tmp_path / f"{name}.parquet", cluster=True)
        got = pq.read_table(tmp_path / f"{name}.parquet").column("prediction").to_numpy()
        filled = np.array([[x[1:].mean(), 1], [1000, 2]])
        np.testing.assert_allclose(got, distrf.load_model(tmp_path / name).predict(filled), rtol=1e-12)
    # Columns that are scaled are numbers; encoded ones may have nulls.
    matches(
        "column 'a' has nulls in row group 0.*impute",
        cli("train", train, tmp_path / "m", "--target", "t", "--scale", "standard", code=1).err,
    )


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
    words = ["--target", "f2", "--exclude", "f1", "--map", "none", "-q", "--cluster", "none"]
    cli("train", tmp_path / "a.data", tmp_path / "m", *words, *csv)
    scores = json.loads(cli("evaluate", tmp_path / "m", tmp_path / "a.data", "--json", *csv).out)
    assert scores["accuracy"] > 0.95
    out = tmp_path / "out.parquet"
    cli("predict", tmp_path / "m", tmp_path / "a.data", out, "--keys", "f1", "-q")  # as the model was trained
    assert pq.read_table(out).column("f1").to_pylist() == list(range(200))
    lines = [f"{x:.3f},{k % 3},{x:.3f}" for k, x in enumerate(rng.normal(size=90))]
    (tmp_path / "b.csv").write_text("\n".join(['"size, mm"," id",y', *lines]) + "\n")
    cli(
        "ingest",
        tmp_path / "b.csv",
        tmp_path / "b.zarr",
        "--target",
        "y",
        "--columns",
        '"size, mm"," id"',
        "-q",
    )
    assert describe(tmp_path / "b.zarr").columns == ["size, mm", " id"]


# ---- refusals ---------------------------------------------------------------------------------------


def foreign(path, X, y=None):
    """A Zarr store of somebody else."""
    group = zarr.open_group(path, mode="w")
    group.create_array("X", data=X, chunks=(50, X.shape[1]))
    if y is not None:
        group.create_array("y", data=y, chunks=(50,))
    return path


def spoiled(value, row=133):
    X = TRAIN_X[:300].copy()
    X[row, 7] = value
    return X


FINITE = r"X must be finite, but row 133( of the block)?, column 7 is "


@pytest.mark.parametrize("command", ["train", "featurize"])
@pytest.mark.parametrize(
    ("X", "n", "message"),
    [
        (spoiled(np.nan), 300, FINITE + "(NaN.*from row 0 on|nan; impute)"),
        (spoiled(np.inf), 300, FINITE + "(infinity.*from row 0 on|inf; impute)"),
        (TRAIN_X[:300], 200, r"X and y must have the same rows: X has shape \(300, 64\), 'y' .*\(200,\)"),
        (TRAIN_X[:300].astype("U8"), 300, r"X is a 2-D numeric array; .*dtype"),
        (TRAIN_X[:300].astype("c8"), 300, r"X is a 2-D numeric array; .*complex64"),
    ],
    ids=["nan", "inf", "y", "text", "complex"],
)
@pytest.mark.filterwarnings("ignore:The data type .* does not have a Zarr V3 specification")
def test_bad_rows(cli, tmp_path, command, X, n, message):
    foreign(tmp_path / "bad.zarr", X, TRAIN_Y[:n])
    words = [tmp_path / "bad.zarr", tmp_path / "out", "-D", 32, "--length-scale", 2]
    printed = cli(command, *words, code=1, cluster=True)
    assert printed.out == ""
    matches(message, printed.err)
    assert not reads_as_whole(tmp_path / "out")


def test_bad_rows_at_ingest(cli, tmp_path):
    np.savez(tmp_path / "short.npz", X=TRAIN_X[:30], y=TRAIN_Y[:20])
    np.savez(tmp_path / "objects.npz", X=np.array([[1, None], [2, 3]], dtype=object), y=[0, 1])
    np.savez(tmp_path / "nan.npz", X=spoiled(np.nan), y=TRAIN_Y[:300])
    for name, message in (
        ("short.npz", r"X has shape \(30, 64\), the target has shape \(20,\)"),
        ("objects.npz", "without running code"),
        ("nan.npz", "row 133, column 7 is nan.*impute"),
    ):
        matches(message, cli("ingest", tmp_path / name, tmp_path / "out", "--block-rows", 50, code=1).err)
        assert not reads_as_whole(tmp_path / "out")
    assert "0 of 6 blocks finished" in " ".join(cli("inspect", tmp_path / "out").out.split())


def test_bad_targets(cli, tmp_path):
    y = TRAIN_Y[:300].astype(float)
    for name, values, message in (
        ("nan", np.where(np.arange(300) == 9, np.nan, y), "y must be finite"),
        ("half", y + 0.5, "is a classifier, but the target is not whole numbers: 10 distinct values"),
        ("one", np.ones(300, "i4"), "at least 2 classes, but the target is one number in 300 rows"),
        ("none", None, "needs a target: .*none.zarr.* has none; give target="),
    ):
        foreign(tmp_path / f"{name}.zarr", TRAIN_X[:300], values)
        words = [*SMALL, "--model", "ridge-classifier"]
        matches(
            message, cli("train", tmp_path / f"{name}.zarr", tmp_path / "m", *words, code=1, cluster=True).err
        )
    assert not (tmp_path / "m").exists()


def test_wrong_width(cli, model, tmp_path):
    foreign(tmp_path / "narrow.zarr", TEST_X[:, :60])
    for words in (
        ["predict", model, tmp_path / "narrow.zarr", tmp_path / "p.zarr"],
        ["evaluate", model, tmp_path / "narrow.zarr"],
    ):
        matches("has 60 features, but the model .* trained on 64 features", cli(*words, code=1).err)
    assert not (tmp_path / "p.zarr").exists()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_corrupt_chunk(cli, files, model, tmp_path, damage):
    ingest(files / "digits.npz", tmp_path / "a.zarr", split="train", block_rows=200)
    chunk = tmp_path / "a.zarr/X/c/3/0"
    data = bytearray(chunk.read_bytes())
    data[40] ^= 4
    chunk.unlink() if damage == "remove" else chunk.write_bytes(data[:100] if damage == "cut" else data)
    lost = (
        "is missing though the store is complete" if damage == "remove" else "600:800.*damaged or out of reach"
    )
    for words in (
        ["train", tmp_path / "a.zarr", tmp_path / "m", *SMALL],
        ["featurize", tmp_path / "a.zarr", tmp_path / "f.zarr", "-D", 16, "--set", "map__gamma=1"],
        ["predict", model, tmp_path / "a.zarr", tmp_path / "p.zarr"],
        ["predict", model, tmp_path / "a.zarr", tmp_path / "p.parquet"],
    ):
        printed = cli(*words, code=1, cluster=True)
        matches(f"{lost}.*restore the file, or remove the store and make it again", printed.err)
    assert not any(reads_as_whole(tmp_path / name) for name in ("m", "f.zarr", "p.zarr", "p.parquet"))


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
        ["train", files / "train.zarr", out, "-D", 8192],
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


def test_a_cluster_that_is_too_small(cli, files, tmp_path, two_worker_cluster, monkeypatch):
    """A running cluster is asked: the pass is refused before it starts."""
    from distrf.execution import memory

    small = memory.PROCESS_BYTES + 20 * 2**20
    monkeypatch.setattr(memory.Workers, "of_client", classmethod(lambda cls, client: cls(2, 1, small)))
    for more in ([], ["--model", "sgd-classifier"]):
        words = ["train", files / "train.zarr", tmp_path / "m", "-D", 4096, *more]
        matches("was refused: it needs", cli(*words, code=1, cluster=True).err)
    assert not (tmp_path / "m").exists()


def test_clusters_that_are_not_there(cli, files, tmp_path, monkeypatch):
    import distrf.cluster

    connect = distrf.cluster.connect
    monkeypatch.setattr(distrf.cluster, "connect", lambda cluster, **k: connect(cluster, **k, timeout=0.5))
    (tmp_path / "bad.yaml").write_text("classs: distributed.LocalCluster\n")
    for cluster, said in (
        (
            "tcp://127.0.0.1:9",
            "no Dask scheduler answered at 'tcp://127.0.0.1:9' within 0.5 s.*check the address",
        ),
        (tmp_path / "bad.yaml", "bad.yaml' is neither: it has 'class' and may have .*got {'classs'"),
    ):
        words = ["train", files / "train.zarr", tmp_path / "m", *SMALL, "--cluster", cluster]
        matches(said, cli(*words, code=1).err)
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_a_default_cluster(files, tmp_path):
    """With a memory limit alone: a cluster of its own, in a process of its own; nothing is left behind."""
    words = ["train", "train.zarr", tmp_path / "m", "-D", "64", "--memory-limit", "1GiB"]
    done = subprocess.run([sys.executable, "-m", "distrf", *words], cwd=files, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "workers, dashboard http://127.0.0.1" in done.stderr
    assert "rows per second" in done.stdout
    assert [word for word in ("Traceback", "arning") if word in done.stderr] == []
