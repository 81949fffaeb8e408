"""Models that learn by SGD on the command line: options, plans, progress, checkpoints, learning curves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from peaks import MIB, cluster_file, distrf, peak

from distrf import ingest, load_model
from distrf.datasets import load_digits_split
from distrf.sgd.batch_plan import BatchMemory

TRAIN_X, TRAIN_Y, TEST_X, TEST_Y = load_digits_split(0)
MAP = ["-D", 64, "--set", "map__gamma=0.5"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sgd")
    np.savez(folder / "digits.npz", X_train=TRAIN_X, y_train=TRAIN_Y, X_test=TEST_X, y_test=TEST_Y)
    np.savez(folder / "numbers.npz", X=TRAIN_X[:, :40], y=TRAIN_X[:, 20].astype(float) * 3 + 1)
    for split in ("train", "test"):
        ingest(folder / "digits.npz", folder / f"{split}.zarr", split=split, block_rows=200)
    ingest(folder / "numbers.npz", folder / "numbers.zarr", block_rows=200)
    return folder


#: Fits are cut short for the sake of time.
pytestmark = pytest.mark.filterwarnings("ignore:.*the loss still falls:sklearn.exceptions.ConvergenceWarning")


def said(text):
    return " ".join(text.split())


# ---- training ---------------------------------------------------------------------------------------


def test_train_reports_the_epochs(cli, files, tmp_path, caplog):
    caplog.set_level("INFO", "distrf")
    arguments = ["--model", "sgd-classifier", *MAP, "--raw-columns", "no"]
    for name in ("loss=multinomial", "n_epochs=2", "tol=none", "early_stopping=true"):
        arguments += ["--set", f"model__{name}"]
    result = json.loads(
        cli("train", files / "train.zarr", tmp_path / "m", *arguments, "--json", cluster=True).out
    )
    history = result["history"]
    assert [entry["epoch"] for entry in history] == [1, 2] == list(range(1, result["epochs"] + 1))
    assert result["final_loss"] == history[-1]["loss"] < history[0]["loss"]
    assert result["validation_score"] == history[-1]["validation_score"] > 0.8
    assert result["batches"] == sum(entry["batches"] for entry in history)
    assert result["loss"] == "multinomial"
    shown = cli("train", files / "train.zarr", tmp_path / "n", *arguments, cluster=True)
    assert re.search(r"epoch .*loss .*batches .*seconds", said(shown.out))
    assert f"{history[-1]['loss']:.6g}" in shown.out
    assert f"{history[-1]['validation_score']:.6g}" in shown.out
    assert re.search(r"epoch 2/2: .*, loss 0\.\d+", caplog.text)
    assert "epoch" not in shown.err
    first, second = (load_model(tmp_path / name)["model"] for name in "mn")
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_allclose(first.predict_proba(np.ones((2, 64), np.float32)).sum(axis=1), 1, rtol=1e-6)


@pytest.mark.slow
def test_kinds_learn(cli, files, tmp_path):
    """Nearly as well as the exact ridge on the same features."""
    for kind, exact, data in (
        ("sgd-classifier", "ridge-classifier", "train"),
        ("sgd-regressor", "ridge", "numbers"),
    ):
        store, scores = files / f"{data}.zarr", []
        for model, options in ((kind, ["--set", "model__n_epochs=4", "--set", "model__tol=none"]), (exact, [])):
            cli("train", store, tmp_path / model, "--model", model, *MAP, *options, "--quiet", cluster=True)
            result = json.loads(cli("evaluate", tmp_path / model, store, "--json", cluster=True).out)
            scores.append(result["r2" if data == "numbers" else "accuracy"])
        assert scores[0] > scores[1] - 0.01 > 0.7


@pytest.mark.slow
def test_solver_of_ridge(cli, files, tmp_path):
    result = {}
    for solver in ("gram", "cg"):
        out = cli(
            "train", files / "train.zarr", tmp_path / solver, *MAP, "--alpha", "1e-3", "--set", f"model__solver={solver}", "--json",
            cluster=True,
        )  # fmt: skip
        result[solver] = json.loads(out.out)
        assert result[solver]["solver"] == solver
    assert "passes" in result["cg"]
    models = [load_model(tmp_path / solver).predict(TEST_X) for solver in ("gram", "cg")]
    assert np.mean(models[0] == models[1]) > 0.98


@pytest.mark.slow
def test_plots(cli, files, tmp_path):
    for i, options in enumerate(
        (
            ["--model", "sgd-classifier", "--set", "model__n_epochs=2"],
            ["--alpha", "1e-6,1e-3", "--set", "model__cv=holdout"],
        )
    ):
        plot = tmp_path / "new" / f"{i}.png"
        arguments = ["train", files / "train.zarr", tmp_path / str(i), *MAP, *options, "--plot", plot, "--json"]
        assert json.loads(cli(*arguments, cluster=True).out)["plot"] == str(plot)
        assert plot.read_bytes().startswith(b"\x89PNG")


# ---- checkpoints ------------------------------------------------------------------------------------

KEPT = [
    "--model",
    "sgd-classifier",
    *MAP,
    "--set",
    "model__n_epochs=3",
    "--set",
    "model__tol=none",
    "--set",
    "model__batch_size=160",
]


@pytest.mark.slow
def test_killed_and_resumed_to_the_same_bits(cli, files, tmp_path, two_worker_cluster):
    """SIGKILL in the middle; --resume ends where the job that nobody disturbed ends."""
    state = tmp_path / "state"
    kept = [*KEPT, "--checkpoint", state, "--checkpoint-every", 1]
    command = [sys.executable, "-m", "distrf", "train", files / "train.zarr", tmp_path / "m", *kept]
    command += ["--cluster", two_worker_cluster.scheduler_address, "--quiet"]
    with subprocess.Popen([str(word) for word in command]) as job:
        deadline = time.monotonic() + 300
        place = state / "sgd/checkpoint.json"  # two rounds are done
        while not place.exists() or len(json.loads(place.read_text())["spec"]["states"]) < 2:
            assert job.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        job.send_signal(signal.SIGKILL)
        assert job.wait() == -signal.SIGKILL
    assert not (tmp_path / "m").exists()
    cli("train", files / "train.zarr", tmp_path / "whole", *KEPT, "--quiet", cluster=True)
    assert "resume=True continues it" in cli("train", files / "train.zarr", tmp_path / "m", *kept, code=1).err
    for changed in (["-D", 66], ["--set", "map__gamma=0.6"], ["--seed", 1]):
        words = ["train", files / "train.zarr", tmp_path / "m", *kept, "--resume", *changed]
        assert "is of another job" in cli(*words, code=1).err
    other = ["train", files / "test.zarr", tmp_path / "m", *kept, "--resume"]
    assert "is of another job" in cli(*other, code=1).err
    printed = cli(
        "train", files / "train.zarr", tmp_path / "m", *kept, "--resume", "--alpha", 1, code=1, cluster=True
    )
    assert "-> 1;" in said(printed.err)
    cli("train", files / "train.zarr", tmp_path / "m", *kept, "--resume", "--quiet", cluster=True)
    whole, resumed = (load_model(tmp_path / name)["model"] for name in ("whole", "m"))
    np.testing.assert_array_equal(whole.coef_, resumed.coef_)
    np.testing.assert_array_equal(whole.intercept_, resumed.intercept_)
    losses = [[entry["loss"] for entry in model.history_] for model in (whole, resumed)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 3
    # A finished training with more epochs goes on; started anew it forgets.
    more = [*kept, "--set", "model__n_epochs=4"]
    cli(
        "train", files / "train.zarr", tmp_path / "m", *more, "--resume", "--overwrite", "--quiet", cluster=True
    )
    assert [e["loss"] for e in load_model(tmp_path / "m")["model"].history_][:3] == losses[0]
    cli(
        "train",
        files / "train.zarr",
        tmp_path / "m",
        *kept,
        "--overwrite",
        "--seed",
        1,
        "--quiet",
        cluster=True,
    )
    assert (load_model(tmp_path / "m")["model"].coef_ != whole.coef_).any()


def test_an_interrupted_job_says_how_it_goes_on(cli, files, tmp_path, monkeypatch):
    def pressed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("distrf.pipeline.outputs.Outputs.keep_state", pressed)
    words = ["train", files / "train.zarr", tmp_path / "m", "--model", "sgd-classifier"]
    assert "ingest, featurize and predict go on where they were" in said(cli(*words, code=130).err)


def test_checkpoints_are_folders(cli, files, tmp_path):
    (tmp_path / "file").write_text("mine")
    words = ["train", files / "train.zarr", tmp_path / "m", *KEPT, "--checkpoint", tmp_path / "file"]
    assert "checkpoint= is a folder" in cli(*words, code=1).err
    assert (tmp_path / "file").read_text() == "mine"


# ---- plans ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_plan_counts_the_rounds(cli, files, tmp_path):
    options = ["--model", "sgd-classifier", *MAP, "--set", "model__n_epochs=3", "--set", "model__tol=none"]
    made = json.loads(
        cli("plan", files / "train.zarr", *options, "--set", "model__batch_size=90", "--json").out
    )
    done = json.loads(
        cli(
            "train",
            files / "train.zarr",
            tmp_path / "m",
            *options,
            "--set",
            "model__batch_size=90",
            "--json",
            cluster=True,
        ).out
    )
    assert made["passes"] == 1 + 3 + 4  # two samples for what is chosen, that of SGD, and that of calibration
    assert made["bytes_read"] == (3 + 3) * TRAIN_X.nbytes  # samples, and epochs
    rounds = int(re.search(r"about (\d+) batches of 90 rows", " ".join(made["notes"]))[1])
    assert rounds == pytest.approx(done["batches"] / 3, abs=1)
    auto = json.loads(cli("plan", files / "train.zarr", *options, "--json").out)
    assert any("rows at most, as the spectrum of a row sample says" in note for note in auto["notes"])
    assert any("directions" in note for note in auto["notes"])
    plain = json.loads(
        cli("plan", files / "train.zarr", *options, "--set", "model__n_directions=0", "--json").out
    )
    assert not any("directions" in note for note in plain["notes"])
    shown = cli("plan", files / "train.zarr", *options).out
    assert "features" in shown
    assert "gradients" in shown


@pytest.mark.slow
def test_plan_grows_with_what_costs(cli, files):
    def made(*words):
        options = ["--model", "sgd-classifier", "--set", "model__batch_size=1000"]
        printed = cli("plan", files / "train.zarr", *options, *words, "--cluster", "local", "--json")
        return json.loads(printed.out)

    for option, values in (
        ("-D", (256, 1024, 4096)),
        ("--set", [f"model__batch_size={rows}" for rows in (100, 400, 1400)]),
        ("--classes", (3, 300)),
    ):
        peaks = [made("-D", 2048, option, v)["peak_bytes_per_worker"] for v in values]
        assert peaks == sorted(peaks)
        assert peaks[0] < peaks[-1]
    read = [made("--set", f"model__n_epochs={epochs}")["bytes_read"] for epochs in (10, 20, 30)]
    assert read[2] - read[1] == read[1] - read[0] == 10 * TRAIN_X.nbytes


def test_refused_before_a_cluster_starts(cli, files, tmp_path, monkeypatch):
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    words = [
        "train",
        files / "train.zarr",
        tmp_path / "m",
        "--model",
        "sgd-classifier",
        "-D",
        65536,
        "--checkpoint",
        tmp_path / "c",
    ]
    printed = cli(*words, "--memory-limit", "512MiB", code=1)
    assert "error: train was refused: it needs" in said(printed.err)
    assert "fewer components or outputs, a structured projection" in said(printed.err)
    assert list(tmp_path.iterdir()) == []


def test_parts_of_the_memory():
    memory = BatchMemory(
        block=1, scratch=2, partial=0, weights=3, threads=2, held=10, features=20, gradients=30
    )
    assert sum(memory.parts.values()) == memory.peak
    assert memory.parts["blocks"] == int(1.15 * (10 + 2 * 1))
    assert memory.parts["features"] == 23


@pytest.mark.clock
def test_training_stays_below_the_plan(tmp_path, cli):
    """On workers of their own: below the figure, which is not three times what the job takes."""
    from peaks import make_store

    store = make_store(tmp_path / "rows.zarr", 20_000, 64, 4096)
    cluster = cluster_file(tmp_path / "c.json")
    options = [
        "--model",
        "sgd-classifier",
        "-D",
        2048,
        "--set",
        "map__gamma=0.1",
        "--set",
        "model__n_epochs=1",
        "--set",
        "model__batch_size=4096",
    ]
    made = json.loads(cli("plan", store, *options, "--cluster", cluster, "--json").out)["peak_bytes_per_worker"]
    measured = peak(distrf("train", store, tmp_path / "m", *options, "--cluster", cluster))
    print(f"plan {made / MIB:.0f} MiB, peak {measured / MIB:.0f} MiB")
    from distrf.execution.memory import PROCESS_BYTES

    assert measured <= made
    # Workers of rounds import no estimators: 80 MiB less than the plan counts for a process.
    assert made - PROCESS_BYTES <= 3 * max(measured - 0.8 * PROCESS_BYTES, 20 * MIB)
