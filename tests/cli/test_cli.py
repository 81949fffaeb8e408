"""The commands: what they write, print and refuse, and with which exit code."""

from __future__ import annotations

import json
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

import distrf
from distrf import ingest
from distrf.datasets import load_digits_split
from distrf.errors import StoreError
from distrf.execution.open_rows import open_array, open_rows
from distrf.store import describe

TRAIN_X, TRAIN_Y, TEST_X, TEST_Y = load_digits_split(0)
GREY, TEST_GREY = (np.rint(16 * x).astype(np.uint8) for x in (TRAIN_X, TEST_X))
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
GAMMA = ["--gamma", 0.5, "--divisor", 16]
SMALL = ["-D", 128, *GAMMA, "--alpha", "1e-6", "--raw-columns", "no"]


def table(grey, labels, text=True, **more):
    columns = {f"p{j}": grey[:, j].astype(np.float32) for j in range(64)}
    columns |= {"label": NAMES[labels] if text else labels, "id": [f"r{i}" for i in range(len(labels))]}
    return pa.table(columns | more)


PIXELS = ",".join(f"p{j}" for j in range(64))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The digits in every format, stores of them and a trained model."""
    folder = tmp_path_factory.mktemp("cli")
    np.savez(folder / "digits.npz", X_train=GREY, y_train=TRAIN_Y, X_test=TEST_GREY, y_test=TEST_Y)
    np.save(folder / "digits.npy", np.c_[GREY, TRAIN_Y].astype(np.float32))
    pq.write_table(table(GREY, TRAIN_Y), folder / "train.parquet", row_group_size=400)
    pq.write_table(table(TEST_GREY, TEST_Y), folder / "test.parquet", row_group_size=100)
    dump_svmlight_file(
        GREY[:200].astype(float), TRAIN_Y[:200].astype(float), str(folder / "digits.svmlight"), zero_based=False
    )
    lines = [",".join(f"p{j}" for j in range(64)) + ",label"]
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
        if (path / "model.json").exists():
            distrf.load_model(path)
        else:
            open_rows(path)
    except (StoreError, FileNotFoundError):
        return False
    return True


# ---- what the commands do ---------------------------------------------------------------------------


def test_version_and_help(cli):
    assert cli("--version").out.strip() == distrf.__version__
    assert "featurize" in cli("--help").out
    assert "--length-scale" in cli("train", "--help").out


INGESTS = {
    "parquet": (["train.parquet", "--target", "label", "--columns", PIXELS], 1437, GREY),
    "csv": (["digits.csv", "--target", "label"], 300, GREY),
    "npy": (["digits.npy", "--target", "64"], 1437, GREY),
    "npz": (["digits.npz", "--split", "train"], 1437, GREY),
    "npz-float32": (["digits.npz", "--split", "test", "--dtype", "float32"], 360, TEST_GREY),
    "svmlight": (["digits.svmlight", "--sparse", "dense"], 200, GREY),
}


@pytest.mark.parametrize("kind", INGESTS)
def test_ingest(cli, files, tmp_path, kind):
    arguments, n, expected = INGESTS[kind]
    source, *options = arguments
    result = json.loads(cli("ingest", files / source, tmp_path / "a.zarr", *options, "--json").out)
    keys = {
        "kind",
        "path",
        "rows",
        "block_rows",
        "blocks",
        "blocks_pending",
        "complete",
        "arrays",
        "bytes",
        "seconds",
    }
    assert keys <= result.keys()
    assert (result["kind"], result["rows"], result["complete"]) == ("rows", n, True)
    X, y = open_rows(tmp_path / "a.zarr")
    np.testing.assert_array_equal(X.compute(scheduler="sync"), expected[:n])
    labels = (TEST_Y if n == 360 else TRAIN_Y)[:n]
    if kind in ("parquet", "csv"):
        assert result["classes"] == sorted(NAMES)
        labels = NAMES[labels]
    np.testing.assert_array_equal(y.compute(scheduler="sync"), labels)


def test_ingest_shuffles(cli, files, tmp_path):
    for seed in (1, 2):
        cli(
            "ingest",
            files / "digits.npz",
            tmp_path / f"{seed}.zarr",
            "--split",
            "train",
            "--shuffle",
            "--seed",
            seed,
        )
    one, two = (open_rows(tmp_path / f"{seed}.zarr")[0].compute(scheduler="sync") for seed in (1, 2))
    assert (one != two).any()
    np.testing.assert_array_equal(one[np.lexsort(one.T)], two[np.lexsort(two.T)])


PLAN_KEYS = {
    "job", "rows", "blocks", "block_rows", "passes", "tasks", "bytes_read", "bytes_written", "peak_bytes_per_worker",
    "peak_parts", "peak_bytes_client", "memory_limit_per_worker", "fits", "workers", "threads_per_worker",
    "tasks_at_once", "seconds_measured", "notes", "seconds",
}  # fmt: skip


@pytest.mark.parametrize("job", ["train", "featurize"])
def test_plan_runs_nothing(cli, files, job, monkeypatch):
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    before = set(files.iterdir())
    result = json.loads(cli("plan", files / "train.zarr", "-D", 512, "--job", job, "--json").out)
    assert result.keys() == PLAN_KEYS
    assert (result["job"], result["rows"], result["fits"]) == (job, 1437, True)
    assert set(files.iterdir()) == before
    shown = cli("plan", files / "train.zarr", "--map", "none").out
    assert "peak per worker" in shown


def test_plan_that_does_not_fit(cli, files):
    printed = cli("plan", files / "train.zarr", "-D", 65536, "--memory-limit", "512MiB", "--json", code=1)
    assert json.loads(printed.out)["fits"] is False
    assert "train was refused: it needs" in printed.err
    assert "512.00 MiB" in printed.err
    assert "Remedy: " in printed.err


def test_plan_takes_conjugate_gradients_where_the_gram_matrix_does_not_fit(cli, files):
    printed = cli("plan", files / "train.zarr", "-D", 65536, "--memory-limit", "4GiB", "--json")
    result = json.loads(printed.out)
    assert result["fits"] is True
    assert any("solver 'cg': the Gram matrix of 65536 features needs" in note for note in result["notes"])


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
    assert scored["accuracy"] == np.mean(pipeline.predict(TEST_GREY) == TEST_Y)
    assert scored["accuracy"] > 0.9


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
    order = ["average precision of 'odd'", "accuracy", "by class", "usual", "by region", "north", "missing"]
    places = [said.index(word) for word in order]
    assert places == sorted(places)
    assert "log loss" in said  # of probabilities that ridge learned from held-out rows


@pytest.mark.slow
def test_auto_says_which_projection_it_took(cli, files, tmp_path):
    auto = ["-D", 512, "--gamma", 0.5, "--projection", "auto", "--json"]
    took = distrf.RandomFourierFeatures(gamma=0.5, n_components=512, projection="auto", random_state=0).fit(
        TRAIN_X
    )
    planned = json.loads(cli("plan", files / "train.zarr", *auto).out)
    assert f"projection 'auto' takes '{took.projection_}' for 64 columns" in planned["notes"]
    words = [*auto, "--raw-columns", "no"]
    trained = json.loads(cli("train", files / "train.zarr", tmp_path / "m", *words, cluster=True).out)
    assert trained["projection"] == took.projection_
    assert distrf.load_model(tmp_path / "m")["map"].map_.projection == took.projection_
    words = ["--map", "fourier", *auto, "--kernel", "laplacian"]
    written = json.loads(cli("featurize", files / "test.zarr", tmp_path / "f.zarr", *words, cluster=True).out)
    assert written["spec"]["map"]["projection"] == "quasi"


@pytest.mark.slow
def test_train_prints(cli, files, tmp_path):
    words = ["--map", "fourier", "-D", 64, "--alpha", "1e-6,1e-4"]
    printed = cli("train", files / "train.zarr", tmp_path / "m", *words, cluster=True)
    for word in ("rows per second", "alpha", "length scale", "peak bytes per worker"):
        assert word in printed.out
    shown = " ".join(printed.out.replace("│", " ").split())
    for word in ("StreamingRidgeClassifier", "whole numbers with 10 distinct values", "times the rule 'knn'"):
        assert word in shown
    assert "(cross-validation): machine 0.7" in shown
    assert "2 workers, dashboard http" in printed.err
    result = cli("train", files / "train.zarr", tmp_path / "j", *words, "--json", cluster=True)
    assert result.err == ""
    keys = {
        "rows_per_second",
        "alpha",
        "alphas",
        "solver",
        "cv_errors",
        "length_scale",
        "projection",
        "model",
        "rows",
        "seconds",
        "peak_bytes_per_worker",
        "choices",
        "baseline",
        "warnings",
    }
    found = json.loads(result.out)
    assert found.keys() == keys
    stored = distrf.load_model(tmp_path / "j").training_.to_dict()
    assert stored == {name: found[name] for name in ("choices", "baseline", "warnings")}
    np.testing.assert_array_equal(
        distrf.load_model(tmp_path / "m")["model"].coef_, distrf.load_model(tmp_path / "j")["model"].coef_
    )


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
        printed = cli(*words, "--quiet", cluster=words[0] not in ("ingest", "plan"))
        assert tuple(printed) == ("", "")
    assert distrf.load_model(tmp_path / "m")


def test_regression(cli, files, tmp_path):
    np.savez(tmp_path / "r.npz", X=TRAIN_X[:500, :5], y=TRAIN_X[:500, 20].astype(float) * 3 + 1)
    cli("ingest", tmp_path / "r.npz", tmp_path / "r.zarr")
    cli(
        "train",
        tmp_path / "r.zarr",
        tmp_path / "m",
        "--model",
        "ridge",
        "-D",
        32,
        "--cv",
        "holdout",
        cluster=True,
    )
    scored = json.loads(cli("evaluate", tmp_path / "m", tmp_path / "r.zarr", "--json", cluster=True).out)
    predicted = distrf.load_model(tmp_path / "m").predict(TRAIN_X[:500, :5])
    error = predicted - (TRAIN_X[:500, 20].astype(float) * 3 + 1)
    assert scored["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
    assert {"rmse", "relative_rmse", "r2"} < scored.keys()
    printed = cli(
        "predict", tmp_path / "m", tmp_path / "r.zarr", tmp_path / "p.zarr", "--scores", code=1, cluster=True
    )
    assert "--scores writes decision values of a classifier" in printed.err


def test_predict_zarr(cli, files, model, tmp_path):
    arguments = ["predict", model, files / "test.zarr", tmp_path / "p.zarr", "--scores", "--json"]
    result = json.loads(cli(*arguments, cluster=True).out)
    assert (result["rows"], result["blocks"], result["blocks_computed"]) == (360, 2, 2)
    pipeline = distrf.load_model(model)
    blocks = [TEST_GREY[:200], TEST_GREY[200:]]
    for name, function in (("prediction", pipeline.predict), ("decision", pipeline.decision_function)):
        got = open_array(tmp_path / "p.zarr", name).compute(scheduler="sync")
        np.testing.assert_array_equal(got.shape[0], 360)
        if name == "prediction":
            np.testing.assert_array_equal(got, np.concatenate([function(b) for b in blocks]))
        else:
            np.testing.assert_allclose(got, np.concatenate([function(b) for b in blocks]), rtol=1e-4, atol=1e-5)
    assert json.loads(cli(*arguments, cluster=True).out)["blocks_computed"] == 0


@pytest.mark.slow
def test_probabilities_and_intervals(cli, files, model, tmp_path):
    """Models of `train` have them, without an option."""
    out = tmp_path / "p.zarr"
    cli("predict", model, files / "test.zarr", out, "--probabilities", "yes", cluster=True)
    p = open_array(out, "probability").compute(scheduler="sync")
    pipeline = distrf.load_model(model)
    np.testing.assert_allclose(p, pipeline.predict_proba(TEST_GREY), atol=1e-5)
    assert log_loss(TEST_Y, p, labels=range(10)) < 0.4
    printed = cli(
        "predict", model, files / "test.zarr", tmp_path / "q.zarr", "--interval", 0.9, code=1, cluster=True
    )
    assert "--interval needs a regressor that was calibrated" in printed.err
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
    assert "interval must be a finite number > 0 and < 1" in cli(*arguments, 90, code=2, cluster=True).err
    assert "take a smaller coverage" in cli(*arguments, 0.99999, "--overwrite", code=1, cluster=True).err
    plain = ["-D", 64, "--map", "fourier", "--no-calibrate"]
    cli("train", tmp_path / "n.zarr", tmp_path / "s", *plain, cluster=True)
    refused = cli(
        "predict", tmp_path / "s", tmp_path / "n.zarr", tmp_path / "j.zarr", "--interval", 0.9, code=1
    )
    assert "train a regressor with --calibrate" in refused.err


def test_predictions_of_other_rows_do_not_count_as_done(cli, files, model, tmp_path):
    """Same model, same shape, other rows: never taken for finished work."""
    np.savez(tmp_path / "o.npz", X=TEST_GREY[::-1])
    cli("ingest", tmp_path / "o.npz", tmp_path / "o.zarr", "--block-rows", 200)
    cli("predict", model, files / "test.zarr", tmp_path / "p.zarr", cluster=True)
    printed = cli("predict", model, tmp_path / "o.zarr", tmp_path / "p.zarr", code=1, cluster=True)
    assert "spec.input.data" in printed.err
    cli("predict", model, tmp_path / "o.zarr", tmp_path / "p.zarr", "--overwrite", cluster=True)
    features = ["-D", 16, "--gamma", 1]
    cli("featurize", files / "test.zarr", tmp_path / "f.zarr", *features, cluster=True)
    printed = cli("featurize", tmp_path / "o.zarr", tmp_path / "f.zarr", *features, code=1, cluster=True)
    assert "spec.input.data" in printed.err


@pytest.mark.slow
def test_text_labels_and_keys(cli, files, tmp_path):
    """Parquet in, Parquet out: classes by name, keys beside the predictions."""
    m = tmp_path / "m"
    cli("train", files / "train.parquet", m, "--target", "label", "--columns", PIXELS, *SMALL[:2], cluster=True)
    scored = json.loads(cli("evaluate", m, files / "test.parquet", "--json", cluster=True).out)
    assert scored["accuracy"] > 0.9
    out = tmp_path / "p.parquet"
    cli("predict", m, files / "test.parquet", out, "--keys", "id,label", "--scores", cluster=True)
    got = pq.read_table(out).to_pydict()
    named = [f"p_{name}" for name in sorted(NAMES)]
    assert list(got) == ["id", "label", "prediction", *named, *(f"decision_{i}" for i in range(10))]
    p = np.array([got[name] for name in named])
    np.testing.assert_allclose(p.sum(axis=0), 1, rtol=1e-5)
    assert np.mean(np.array(sorted(NAMES))[p.argmax(axis=0)] == NAMES[TEST_Y]) > 0.9
    assert got["id"] == [f"r{i}" for i in range(360)]
    assert got["label"] == NAMES[TEST_Y].tolist()
    assert np.mean(np.array(got["prediction"]) == NAMES[TEST_Y]) == scored["accuracy"]
    best = np.argmax([got[f"decision_{i}"] for i in range(10)], axis=0)
    assert np.array(sorted(NAMES))[best].tolist() == got["prediction"]
    cli("predict", m, files / "test.parquet", tmp_path / "p.zarr", cluster=True)
    stored = open_array(tmp_path / "p.zarr", "prediction").compute(scheduler="sync")
    assert stored.tolist() == got["prediction"]
    printed = cli(
        "predict", m, files / "test.parquet", tmp_path / "q.zarr", "--keys", "id", code=1, cluster=True
    )
    assert "--keys goes with a .parquet output" in printed.err
    printed = cli(
        "predict", m, files / "test.parquet", tmp_path / "q.parquet", "--keys", "nokey", code=1, cluster=True
    )
    assert "nokey" in printed.err
    assert not (tmp_path / "q.zarr").exists()
    assert not (tmp_path / "q.parquet").exists()


@pytest.mark.slow
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
    printed = cli(*arguments[:3], "-D", 32, "--seed", 8, code=1, cluster=True)
    assert "Spec mismatch" in printed.err
    assert "spec.map.seed: 7 -> 8" in printed.err
    assert "choose another path" in printed.err
    assert whole(out) == before
    cli("train", out, tmp_path / "m", "--map", "none", cluster=True)  # features are rows like any others
    assert cli("evaluate", tmp_path / "m", out, "--json", cluster=True)


def test_features_of_parquet(cli, files, tmp_path):
    """Row groups of one size, files of another: the blocks that are written are equal all the same."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, part in enumerate((slice(0, 150), slice(150, 360))):
        whole = table(TEST_GREY, TEST_Y).slice(part.start, part.stop - part.start)
        pq.write_table(whole, folder / f"part-{number}.parquet", row_group_size=70)
    words = ["--columns", PIXELS, "--target", "label", "-D", 32, "--length-scale", 20, "--json"]
    result = json.loads(cli("featurize", folder, tmp_path / "f.zarr", *words, cluster=True).out)
    assert result["rows"] == 360
    Z, y = open_rows(tmp_path / "f.zarr")
    expected = distrf.RandomFourierFeatures(length_scale=20.0, n_components=32, random_state=0)
    expected = expected.fit_transform(TEST_GREY.astype(np.float32))
    np.testing.assert_allclose(Z.compute(scheduler="sync"), expected, atol=2e-5)
    np.testing.assert_array_equal(y.compute(scheduler="sync"), NAMES[TEST_Y])


def test_inspect(cli, files, model, tmp_path):
    cli("featurize", files / "test.zarr", tmp_path / "f.zarr", "-D", 16, cluster=True)
    cli("predict", model, files / "test.zarr", tmp_path / "p.zarr", cluster=True)
    for path, kind, words in (
        (files / "train.zarr", "rows", ["1,437 in 8 blocks of 200 (complete)"]),
        (tmp_path / "f.zarr", "features", ["map.length_scale", "checksum"]),
        (tmp_path / "p.zarr", "predictions", ["prediction"]),
        (
            model,
            "model",
            ["RandomFourierFeatures", "provenance.command", "train train.zarr model", "(10, 128) <f8"],
        ),
        (files / "test.parquet", "parquet", ["row_groups", "columns.label"]),
    ):
        assert json.loads(cli("inspect", path, "--json").out)["kind"] == kind
        shown = " ".join(cli("inspect", path).out.split())
        for word in words:
            assert word in shown
    made_of = json.loads(cli("inspect", tmp_path / "p.zarr", "--json").out)["provenance"]
    assert made_of == {"model": str(model), "source": str(files / "test.zarr"), "distrf": distrf.__version__}
    foreign = zarr.open_group(tmp_path / "other.zarr", mode="w")
    foreign.create_array("X", shape=(5, 3), dtype="f4")
    assert json.loads(cli("inspect", tmp_path / "other.zarr", "--json").out)["n"] == 5


# ---- reading the rows -------------------------------------------------------------------------------


def test_scaling_is_part_of_the_model(cli, files, tmp_path):
    """Trained with a scaling, a model takes raw rows."""
    words = ["--scale", "standard", "-D", 128, "--length-scale", 10, "--alpha", "1e-6", "--raw-columns", "no"]
    cli("train", files / "train.zarr", tmp_path / "m", *words, cluster=True)
    pipeline = distrf.load_model(tmp_path / "m")
    np.testing.assert_allclose(pipeline["scale"].map_.shift, GREY.mean(axis=0), rtol=1e-6)
    cli("predict", tmp_path / "m", files / "test.zarr", tmp_path / "p.zarr", cluster=True)
    predicted = open_array(tmp_path / "p.zarr", "prediction").compute(scheduler="sync")
    assert np.mean(predicted == TEST_Y) > 0.9
    scaler = distrf.StreamingScaler().fit(GREY)
    direct = distrf.RandomFourierFeatures(length_scale=10.0, n_components=128, random_state=0)
    ridge = distrf.StreamingRidgeClassifier(1e-6).fit(direct.fit_transform(scaler.transform(GREY)), TRAIN_Y)
    expected = ridge.predict(direct.transform(scaler.transform(TEST_GREY)))
    assert np.mean(predicted == expected) > 0.995


def test_models_of_python_get_the_rows_of_python(cli, files, tmp_path, client):
    """A model trained on what `open_rows` gives is given the same by the commands."""
    X, y = open_rows(files / "train.zarr")
    distrf.save_model(distrf.StreamingRidgeClassifier(1e-4).fit(X, y), tmp_path / "m")
    scored = json.loads(cli("evaluate", tmp_path / "m", files / "test.zarr", "--json", cluster=True).out)
    X, y = open_rows(files / "test.zarr")
    assert scored["accuracy"] == distrf.load_model(tmp_path / "m").score(X, y)
    distrf.save_model(distrf.StreamingScaler().fit(X), tmp_path / "s")
    printed = cli("evaluate", tmp_path / "s", files / "test.zarr", code=1)
    assert "ends in a StreamingScaler" in printed.err


@pytest.mark.slow
def test_the_model_follows_the_target(cli, files, tmp_path, monkeypatch):
    """--model auto takes a regressor for numbers; a classifier of them is refused before a cluster starts."""
    np.savez(tmp_path / "r.npz", X=TRAIN_X[:300, 18:24], y=TRAIN_X[:300, 20] * 3.3 + TRAIN_X[:300, 28])
    ingest(tmp_path / "r.npz", tmp_path / "r.zarr")
    result = json.loads(cli("train", tmp_path / "r.zarr", tmp_path / "m", "--json", cluster=True).out)
    assert result["choices"][0]["value"] == "StreamingRidge"
    labels = json.loads(
        cli("train", files / "train.zarr", tmp_path / "l", "-D", 64, "--json", cluster=True).out
    )
    assert labels["choices"][0]["value"] == "StreamingRidgeClassifier"
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    printed = cli("train", tmp_path / "r.zarr", tmp_path / "n", "--model", "svm", code=1)
    assert "'svm' is a classifier, but the target is not whole numbers" in printed.err
    assert "--model ridge" in printed.err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "zarr", "scaled", "unnamed"])
def test_columns_are_chosen_and_ordered(cli, files, tmp_path, kind):
    columns, source, rows = (
        ["p44", "p20", "p37"],
        files / "train.parquet",
        GREY[:, [44, 20, 37]].astype(np.float32),
    )
    target = ["--target", "label"]
    if kind == "unnamed":
        columns, source, target = ["44", "20", "37"], files / "train.zarr", []
    elif kind != "parquet":
        cli("ingest", source, tmp_path / "a.zarr", *target, "--columns", PIXELS)
        source, target = tmp_path / "a.zarr", []
    words = [*target, "--columns", ",".join(columns), "--map", "none", "--alpha", "1e-6"]
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
    test = {"parquet": "test.parquet", "unnamed": "test.zarr"}.get(kind)
    if test:
        cli("predict", tmp_path / "m", files / test, tmp_path / "p.zarr", cluster=True)
        stored = open_array(tmp_path / "p.zarr", "prediction").compute(scheduler="sync")
        assert stored.tolist() == got.predict(TEST_GREY[:, [44, 20, 37]].astype(np.float32)).tolist()


@pytest.mark.slow
def test_the_training_mean_fills_test_rows(cli, files, tmp_path):
    """A null in a test row is replaced by the mean of the training rows, whichever way those were read."""
    x = np.arange(60.0)
    first = pa.table({"a": pa.array([None, *x[1:]]), "b": x % 7, "t": x % 2})
    pq.write_table(first, tmp_path / "train.parquet")
    pq.write_table(pa.table({"a": pa.array([None, 1000.0]), "b": [1.0, 2.0]}), tmp_path / "test.parquet")
    mean = x[1:].mean()
    cli(
        "train", tmp_path / "train.parquet", tmp_path / "direct", "--target", "t", "--impute", "mean", "--map", "none",
        "--model", "ridge", cluster=True,
    )  # fmt: skip
    cli("ingest", tmp_path / "train.parquet", tmp_path / "a.zarr", "--target", "t", "--impute", "mean")
    cli("train", tmp_path / "a.zarr", tmp_path / "ingested", "--map", "none", "--model", "ridge", cluster=True)
    for name in ("direct", "ingested"):
        cli("predict", tmp_path / name, tmp_path / "test.parquet", tmp_path / f"{name}.parquet", cluster=True)
        got = pq.read_table(tmp_path / f"{name}.parquet").column("prediction").to_numpy()
        model = distrf.load_model(tmp_path / name)
        np.testing.assert_allclose(got, model.predict(np.array([[mean, 1], [1000, 2]])), rtol=1e-12)
    planned = cli("plan", tmp_path / "train.parquet", "--target", "t", "--impute", "mean", "-D", 32, "--json")
    assert json.loads(planned.out)["rows"] == len(pq.read_table(tmp_path / "train.parquet"))
    printed = cli(  # columns that are scaled are numbers; encoded ones may have nulls
        "train", tmp_path / "train.parquet", tmp_path / "m", "--target", "t", "--scale", "standard", code=1
    )
    assert "column 'a' has nulls in row group 0" in printed.err
    assert "impute" in printed.err


# ---- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "{d}/train.zarr"], "Missing argument"),
        (["train", "{d}/train.zarr", "{o}", "--depth", "3"], "No such option"),
        (["train", "{d}/train.zarr", "{o}", "-D", "many"], "--n-components must be an integer >= 1, got 'many'"),
        (["nothing"], "No such command"),
        (["train", "{d}/train.zarr", "{o}", "--kernel", "cubic"], "--kernel must be 'gaussian', .*got 'cubic'"),
        (["train", "{d}/train.zarr", "{o}", "--map", "fuorier"], "unknown --map 'fuorier' .did you mean 'fourier'..; known: fourier"),
        (["train", "{d}/train.zarr", "{o}", "--model", "svn"], "--model is one of auto, ridge, .*svm.*, got 'svn'"),
        (["train", "{d}/train.zarr", "{o}", "-D", "33"], "must be even, got 33; use 34"),
        (["train", "{d}/train.zarr", "{o}", "--length-scale", "knm"], "--length-scale must be .*, got 'knm'"),
        (["train", "{d}/train.zarr", "{o}", "--length-scale", "-1"], "--length-scale must be a finite number > 0, .*got -1"),
        (["train", "{d}/train.zarr", "{o}", "--gamma", "0.1", "--kernel", "cauchy"], "gamma"),
        (["train", "{d}/train.zarr", "{o}", "--gamma", "-0.1"], "--gamma must be a finite number > 0, got -0.1"),
        (["train", "{d}/train.zarr", "{o}", "--projection", "dens"], "--projection must be .*got 'dens'"),
        (["train", "{d}/train.zarr", "{o}", "--phase", "none"], "--phase must be 'paired' or 'offset', got 'none'"),
        (["train", "{d}/train.zarr", "{o}", "--alpha", "1e-6,x"], "--alpha must be .*finite numbers >= 0"),
        (["train", "{d}/train.zarr", "{o}", "--alpha", "-1"], "--alpha must be .*finite numbers >= 0"),
        (["train", "{d}/train.zarr", "{o}", "--cv", "1"], "--cv must be an integer >= 2, 'holdout' or 'auto', got 1"),
        (["train", "{d}/train.zarr", "{o}", "--class-weight", "heavy"], "--class-weight must be 'balanced', .*got 'heavy'"),
        (["train", "{d}/train.zarr", "{o}", "--memory-limit", "much"], "such as 4GiB, got 'much'"),
        (["train", "{d}/train.zarr", "{o}", "--memory-limit", "0"], "such as 4GiB, got '0'"),
        (["train", "{d}/train.zarr", "{o}", "--memory-limit", "1GiB", "--cluster", "tcp://a:1"], "leave it out"),
        (["featurize", "{d}/train.zarr", "{o}", "--map", "none"], "featurize needs a map"),
        (["plan", "{d}/train.zarr", "--job", "sleep"], "--job is train or featurize, got 'sleep'"),
        (["train", "{d}/train.zarr", "{o}", "--scale", "big"], "--scale must be 'standard', .*got 'big'"),
        (["train", "{d}/train.zarr", "{o}", "--scale", "standard", "--divisor", "16"], "exclude each other"),
        (["train", "{d}/train.zarr", "{o}", "--divisor", "0"], "--divisor must be .*got 0"),
        (["train", "{d}/train.zarr", "{o}", "--raw-columns", "some"], "--raw-columns must be .*'auto', got 'some'"),
        (["featurize", "{d}/train.zarr", "{o}", "--scale", "auto"], "name a scaling, or none"),
        (["ingest", "{d}/digits.npz", "{o}", "--sparse", "coo"], "--sparse must be 'csr', 'dense', got 'coo'"),
        (["ingest", "{d}/digits.npz", "{o}", "--dtype", "int8"], "--dtype must be 'float32', 'float64', got 'int8'"),
    ],
)  # fmt: skip
def test_wrong_usage(cli, files, tmp_path, words, message, monkeypatch):
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    filled = [word.format(d=files, o=tmp_path / "out") for word in words]
    printed = cli(*filled, code=2)
    assert printed.out == ""
    assert_matches(message, printed.err)
    assert list(tmp_path.iterdir()) == []


def assert_matches(pattern, text):
    import re

    assert re.search(pattern, " ".join(text.split())), text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "{d}/none.zarr", "{o}"], "no such .*none.zarr.*check the path"),
        (["train", "{d}/none.parquet", "{o}", "--target", "t"], "no Parquet file at .*none.parquet"),
        (["ingest", "{d}/none.csv", "{o}"], "no such data: no CSV file at .*none.csv.*check the path"),
        (["predict", "{d}/none", "{d}/test.zarr", "{o}"], "nothing exists at"),
        (["predict", "{d}/train.zarr", "{d}/test.zarr", "{o}"], "is not a model.*model is a folder"),
        (["evaluate", "{d}/none", "{d}/test.zarr"], "nothing exists at"),
        (["inspect", "{d}/none"], "no such store"),
        (["train", "{d}/digits.npz", "{o}"], "only be read from the first to the last; make a store of them with `distrf ingest`"),
        (["train", "{d}/digits.csv", "{o}"], "training needs a target: .*digits.csv' has none; give --target"),
        (["ingest", "{d}/digits.npz", "{d}/digits.csv/x", "--split", "train"], "digits.csv/x' cannot be written: Not a directory"),
        (["train", "{d}/train.parquet", "{o}", "--target", "label", "--numeric", "id"], "texts of column 'id' are not.*--numeric"),
        (["train", "{d}/train.parquet", "{o}", "--target", "lable"], r"columns \['lable'\] are not in .*train.parquet"),
        (["train", "{d}/train.zarr", "{o}", "--columns", "p1,p2"], "column 'p1' .*no column names, only numbers 0..63"),
        (["ingest", "{d}/digits.csv", "{o}"], r"label \(string\)"),
        (["train", "{d}/train.zarr", "{d}"], "the model must lie apart from its input"),
    ],
)  # fmt: skip
def test_data_that_is_not_there(cli, files, tmp_path, words, message, monkeypatch):
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    printed = cli(*[word.format(d=files, o=tmp_path / "out") for word in words], code=1)
    assert printed.out == ""
    assert_matches(message, printed.err)
    assert list(tmp_path.iterdir()) == []


def test_a_column_to_slice_by_that_is_not_there(cli, files, model, monkeypatch):
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    printed = cli("evaluate", model, files / "test.zarr", "--by", "region", code=1)
    assert_matches("column 'region' is not in .*test.zarr", printed.err)


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


@pytest.mark.parametrize("command", ["train", "featurize"])
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (
            spoiled(np.nan),
            TRAIN_Y[:300],
            r"X must be finite, but row 133( of the block)?, column 7 is (NaN.*from row 0 on|nan; impute)",
        ),
        (
            spoiled(np.inf),
            TRAIN_Y[:300],
            r"X must be finite, but row 133( of the block)?, column 7 is (infinity.*from row 0 on|inf; impute)",
        ),
        (
            TRAIN_X[:300],
            TRAIN_Y[:200],
            r"X and y must have the same rows: X has shape \(300, 64\), 'y' .*\(200,\)",
        ),
        (TRAIN_X[:300].astype("U8"), TRAIN_Y[:300], r"X is a 2-D numeric array; .*dtype"),
        (TRAIN_X[:300].astype("c8"), TRAIN_Y[:300], r"X is a 2-D numeric array; .*complex64"),
    ],
    ids=["nan", "inf", "y", "text", "complex"],
)
@pytest.mark.filterwarnings("ignore:The data type .* does not have a Zarr V3 specification")
def test_bad_rows(cli, tmp_path, command, X, y, message):
    foreign(tmp_path / "bad.zarr", X, y)
    arguments = ["-D", 32, "--length-scale", 2]
    printed = cli(command, tmp_path / "bad.zarr", tmp_path / "out", *arguments, code=1, cluster=True)
    assert printed.out == ""
    assert_matches(message, printed.err)
    assert not reads_as_whole(tmp_path / "out")


def test_bad_rows_at_ingest(cli, tmp_path):
    np.savez(tmp_path / "short.npz", X=TRAIN_X[:30], y=TRAIN_Y[:20])
    np.savez(tmp_path / "objects.npz", X=np.array([[1, None], [2, 3]], dtype=object), y=[0, 1])
    np.savez(tmp_path / "nan.npz", X=spoiled(np.nan), y=TRAIN_Y[:300])
    (tmp_path / "text.csv").write_text("a,b\n1,x\n2,y\n")
    for name, message in (
        ("short.npz", r"X has shape \(30, 64\), 'y' has shape \(20,\)"),
        ("objects.npz", "without running code"),
        ("nan.npz", "row 133, column 7 is nan.*impute"),
        ("text.csv", r"b \(string\)"),
    ):
        printed = cli("ingest", tmp_path / name, tmp_path / "out", "--block-rows", 50, code=1)
        assert_matches(message, printed.err)
        assert not reads_as_whole(tmp_path / "out")
        if name == "nan.npz":
            shown = cli("inspect", tmp_path / "out").out
            assert "0 of 6 blocks finished" in " ".join(shown.split())


def test_bad_targets(cli, tmp_path):
    y = TRAIN_Y[:300].astype(float)
    for name, values, message in (
        ("nan", np.where(np.arange(300) == 9, np.nan, y), "y must be finite"),
        ("half", y + 0.5, "is a classifier, but the target is not whole numbers: 10 distinct values"),
        ("one", np.ones(300, "i4"), "at least 2 classes, but the target is one number in 300 rows"),
    ):
        foreign(tmp_path / f"{name}.zarr", TRAIN_X[:300], values)
        words = [*SMALL, "--model", "ridge-classifier"]
        printed = cli("train", tmp_path / f"{name}.zarr", tmp_path / "m", *words, code=1, cluster=True)
        assert_matches(message, printed.err)
    foreign(tmp_path / "none.zarr", TRAIN_X[:300])
    printed = cli("train", tmp_path / "none.zarr", tmp_path / "m", *SMALL, code=1, cluster=True)
    assert_matches("needs a target: .*none.zarr.* has none; give --target", printed.err)
    assert not (tmp_path / "m").exists()


def test_wrong_width(cli, files, model, tmp_path):
    foreign(tmp_path / "narrow.zarr", TEST_X[:, :60])
    for command in (
        ["predict", model, tmp_path / "narrow.zarr", tmp_path / "p.zarr"],
        ["evaluate", model, tmp_path / "narrow.zarr"],
    ):
        printed = cli(*command, code=1)
        assert_matches("has 60 features, but the model .* trained on 64 features", printed.err)
    assert not (tmp_path / "p.zarr").exists()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_corrupt_chunk(cli, files, model, tmp_path, damage):
    ingest(files / "digits.npz", tmp_path / "a.zarr", split="train", block_rows=200)
    chunk = tmp_path / "a.zarr/X/c/3/0"
    data = bytearray(chunk.read_bytes())
    if damage == "remove":
        chunk.unlink()
    else:
        data[40] ^= 4
        chunk.write_bytes(data[:100] if damage == "cut" else data)
    for command, out in (
        (["train", tmp_path / "a.zarr", tmp_path / "m", *SMALL], tmp_path / "m"),
        (["featurize", tmp_path / "a.zarr", tmp_path / "f.zarr", "-D", 16, "--gamma", 1], tmp_path / "f.zarr"),
        (["predict", model, tmp_path / "a.zarr", tmp_path / "p.zarr"], tmp_path / "p.zarr"),
        (["predict", model, tmp_path / "a.zarr", tmp_path / "p.parquet"], tmp_path / "p.parquet"),
    ):
        printed = cli(*command, code=1, cluster=True)
        said = (
            "is missing though the store is complete"
            if damage == "remove"
            else "600:800.*damaged or out of reach"
        )
        assert_matches(said, printed.err)
        assert_matches("restore the file, or remove the store and make it again", printed.err)
        assert not reads_as_whole(out)


def test_existing_outputs_are_kept(cli, files, model, tmp_path):
    before = whole(model)
    printed = cli("train", files / "train.zarr", model, "-D", 32, code=1)
    assert_matches("holds a model already; choose another path, or pass --overwrite", printed.err)
    assert whole(model) == before
    cli("ingest", files / "digits.npz", tmp_path / "a.zarr", "--split", "test")
    before = whole(tmp_path / "a.zarr")
    printed = cli("ingest", files / "digits.npz", tmp_path / "a.zarr", "--split", "train", code=1)
    assert_matches("made with another spec.*split: 'test' -> 'train'.*--overwrite", printed.err)
    printed = cli("featurize", files / "test.zarr", tmp_path / "a.zarr", "-D", 16, code=1, cluster=True)
    assert_matches("made with another spec", printed.err)
    assert whole(tmp_path / "a.zarr") == before
    (tmp_path / "notes.txt").write_text("mine")
    for words in (
        ["ingest", files / "digits.npz", tmp_path, "--split", "test"],
        ["featurize", files / "test.zarr", tmp_path, "-D", 16],
        ["predict", model, files / "test.zarr", tmp_path],
    ):
        printed = cli(*words, "--overwrite", code=1, cluster=words[0] != "ingest")
        assert_matches("must be free or hold", printed.err)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("where", ["default", "spec"])
def test_not_enough_memory(cli, files, model, tmp_path, where, monkeypatch):
    """Refused with the numbers before a single worker process exists."""
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    limit = ["--memory-limit", "400MiB"]
    if where == "spec":
        (tmp_path / "c.yaml").write_text("class: distributed.LocalCluster\narguments: {memory_limit: 400MiB}\n")
        limit = ["--cluster", tmp_path / "c.yaml"]
    for words in (
        ["train", files / "train.zarr", tmp_path / "out", "-D", 8192],
        ["featurize", files / "train.zarr", tmp_path / "out", "-D", 65536],
    ):
        printed = cli(*words, *limit, code=1)
        assert_matches(r"Not enough memory: .* was refused: it needs .*GiB|MiB on each worker", printed.err)
        assert_matches(r"which has 400.00 MiB \(process .*Remedy: .*--memory-limit of at least", printed.err)
    tiny = ["--memory-limit", "200MiB"]
    for words in (
        ["predict", model, files / "test.zarr", tmp_path / "out"],
        ["evaluate", model, files / "test.zarr"],
    ):
        assert_matches("was refused: it needs", cli(*words, *tiny, code=1).err)
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_is_too_small(cli, files, tmp_path, two_worker_cluster, monkeypatch):
    """A running cluster is asked: the pass is refused before it starts."""
    from distrf.execution import memory

    small = memory.PROCESS_BYTES + 20 * 2**20
    monkeypatch.setattr(memory.Workers, "of_client", classmethod(lambda cls, client: cls(2, 1, small)))
    printed = cli("train", files / "train.zarr", tmp_path / "m", "-D", 4096, code=1, cluster=True)
    assert_matches("was refused: it needs", printed.err)
    assert not (tmp_path / "m").exists()


def test_clusters_that_are_not_there(cli, files, tmp_path, monkeypatch):
    import distrf.cluster

    connect = distrf.cluster.connect
    monkeypatch.setattr(distrf.cluster, "connect", lambda cluster, **k: connect(cluster, **k, timeout=0.5))
    arguments = ["train", files / "train.zarr", tmp_path / "m", *SMALL, "--cluster"]
    printed = cli(*arguments, "tcp://127.0.0.1:9", code=1)
    assert_matches(
        "no Dask scheduler answered at 'tcp://127.0.0.1:9' within 0.5 s.*check the address", printed.err
    )
    printed = cli(*arguments, tmp_path / "none.yaml", code=1)
    assert_matches("none.yaml' is neither: no such file", printed.err)
    (tmp_path / "bad.yaml").write_text("classs: distributed.LocalCluster\n")
    printed = cli(*arguments, tmp_path / "bad.yaml", code=1)
    assert_matches("a cluster spec has 'class' and may have .*got \\['classs'\\]", printed.err)
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_a_default_cluster(files, tmp_path):
    """Without --cluster: a cluster of its own, in a process of its own; nothing is left behind."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "distrf",
            "train",
            "train.zarr",
            tmp_path / "m",
            "-D",
            "64",
            "--memory-limit",
            "1GiB",
        ],
        cwd=files,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "workers, dashboard http://127.0.0.1" in done.stderr
    assert "rows per second" in done.stdout
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr


def test_csv_is_read_as_it_is_said_by_every_command(cli, tmp_path):
    """One file without names, with `|`, decimal commas and a class NA; and columns whose names have commas."""
    rng = np.random.default_rng(0)
    rows = [
        f"{x:.3f}|{k}|{'NA' if x > 0 else 'EU'}".replace(".", ",") for k, x in enumerate(rng.normal(size=200))
    ]
    (tmp_path / "a.data").write_text("\n".join(rows))
    said = ["--sep", "|", "--decimal", ",", "--header", "no", "--no-keep-default-na", "--cluster", "none"]
    cli(
        "train",
        tmp_path / "a.data",
        tmp_path / "m",
        "--target",
        "f2",
        "--exclude",
        "f1",
        "--map",
        "none",
        "-q",
        *said,
    )
    scores = json.loads(cli("evaluate", tmp_path / "m", tmp_path / "a.data", "--json", *said).out)
    assert scores["accuracy"] > 0.95
    out = tmp_path / "out.parquet"
    cli("predict", tmp_path / "m", tmp_path / "a.data", out, "--keys", "f1", "-q", *said)
    assert pq.read_table(out).column("f1").to_pylist() == list(range(200))
    (tmp_path / "b.csv").write_text(
        '"size, mm"," id",y\n'
        + "".join(f"{x:.3f},{k % 3},{x:.3f}\n" for k, x in enumerate(rng.normal(size=90)))
    )
    cli("ingest", tmp_path / "b.csv", tmp_path / "b.zarr", "--target", "y", "--columns", "size, mm, id", "-q")
    assert describe(tmp_path / "b.zarr").columns == ["size, mm", " id"]
    cli("ingest", tmp_path / "b.csv", tmp_path / "c.zarr", "--target", "y", "--columns", '" id"', "-q")
    assert describe(tmp_path / "c.zarr").columns == [" id"]
    assert (
        "--header must be True, False" in cli("inspect", tmp_path / "a.data", "--header", "maybe", code=2).err
    )
