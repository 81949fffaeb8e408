"""The last line of defence: no traceback unless asked for, one line for what nobody foresaw, and nothing meaningless accepted."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from distrf import ingest
from distrf.cli.session import RunOptions, Session


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    np.savez(folder / "rows.npz", X=X, y=(X[:, 0] > 0).astype(int))
    ingest(folder / "rows.npz", folder / "rows.zarr", block_rows=20)
    return folder / "rows.zarr"


def broken(*args, **kwargs):
    raise ZeroDivisionError("[ours] two\nlines")


@pytest.mark.parametrize("debug", [False, True])
def test_an_error_that_nobody_foresaw(cli, rows, monkeypatch, tmp_path, debug):
    monkeypatch.setattr("distrf.store.describe", broken)
    words = ["--debug"] if debug else []
    printed = cli(*words, "train", rows, tmp_path / "m", code=1)
    assert ("Traceback" in printed.err) == debug
    line = printed.err.splitlines()[-1]
    assert line == (
        "Unexpected error: ZeroDivisionError: [ours] two lines. This is a fault of distrf or of its input; "
        "`distrf --debug ...` shows where it arose"
    )
    assert debug or len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("quiet", [False, True])
def test_warnings_are_printed_even_if_quiet(capsys, quiet):
    session = Session(RunOptions(quiet=quiet))
    session.finish({"warnings": ["no better than a [constant]"]}, lambda console: console.print("a report"))
    assert tuple(capsys.readouterr()) == (
        "" if quiet else "a report\n",
        "Warning: no better than a [constant]\n",
    )


def test_parameters_are_named_as_options(cli, tmp_path):
    """What is said to users of Python is said to those of the command line in their words."""
    (tmp_path / "rows.csv").write_text("a,b,y\n1,2,0\n3,,1\n4,5,\n")
    words = ("ingest", tmp_path / "rows.csv", tmp_path / "out.zarr", "--target", "y")
    assert "the first in row 1; pass --impute mean, " in cli(*words, code=1).err
    assert "the first in row 2; drop the rows" in cli(*words, "--columns", "a", code=1).err
    assert "is among --columns; leave it out" in cli(*words, "--columns", "a,y", code=1).err


def test_a_job_file_keeps_debug(cli, rows, monkeypatch, tmp_path):
    monkeypatch.setattr("distrf.store.describe", broken)
    (tmp_path / "job.toml").write_text(f'command = "train"\nX = "{rows}"\nout = "m"\n')
    assert "Traceback" in cli("--debug", "run", tmp_path / "job.toml", code=1).err
    assert "Traceback" not in cli("run", tmp_path / "job.toml", code=1).err


def test_a_foreseen_error_shows_its_place_on_request(cli, tmp_path):
    printed = cli("--debug", "inspect", tmp_path / "nothing", code=1)
    assert "Traceback" in printed.err
    assert printed.err.splitlines()[-1].startswith("Store error: ")


LOGGED = """
import asyncio, logging
from distrf.cli.faults import quieten
quieten()
for name in ("distributed.scheduler", "tornado.application", "asyncio"):
    try:
        raise OSError("Stream is closed")
    except OSError:
        logging.getLogger(name).exception("lost a worker")
    logging.getLogger(name).error("a line of %s", name)
"""


def test_libraries_log_no_traceback():
    """Tornado logs one when a worker ends while the scheduler speaks with it."""
    said = subprocess.run([sys.executable, "-c", LOGGED], capture_output=True, text=True, check=True).stderr
    assert "Traceback" not in said
    assert all(
        f"a line of {name}" in said for name in ("distributed.scheduler", "tornado.application", "asyncio")
    )


@pytest.mark.slow
def test_workers_print_no_traceback(rows, tmp_path):
    """A task that fails on a worker: its error alone, by the command that waits for it."""
    chunk = next(p for p in (rows / "X").rglob("*") if p.name == "0" and p.parent.name == "1")
    kept = chunk.read_bytes()
    chunk.write_bytes(kept[:-7] + b"garbage")
    try:
        (tmp_path / "one.yaml").write_text("class: distributed.LocalCluster\narguments: {n_workers: 1}\n")
        command = [sys.executable, "-m", "distrf", "train", str(rows), str(tmp_path / "m"), "-D", "16"]
        command += [
            "--gamma",
            "1",
            "--scale",
            "none",
            "--cluster",
            str(tmp_path / "one.yaml"),
            "--raw-columns",
            "no",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    finally:
        chunk.write_bytes(kept)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Compute Failed" not in done.stderr
    assert "Store error" in done.stderr
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--gamma", "1", "--length-scale", "2"],
        ["--gamma", "1", "--length-scale", "median"],
        ["--gamma", "1", "--length-scale", "knn"],
        ["--gamma", "1", "--length-scale", "auto"],
        ["--columns", "0,0"],
        ["--columns", ","],
        ["--target", ""],
        ["--map", "tefm", "--base-n-components", "0"],
        ["--map", "cnm", "--map-n-epochs", "0"],
        ["--map", "cnm", "--map-n-epochs", str(2**70)],
        ["--seed", "-1"],
        ["--seed", str(2**63)],
        ["--seed", str(2**70)],
        ["--n-components", str(2**70)],
        ["--n-components", "²"],
        ["--n-components", "10.5"],
        ["--n-components", "9" * 5000],
        ["--length-scale", "nan"],
        ["--length-scale", "inf"],
        ["--gamma", "inf"],
        ["--alpha", "nan"],
        ["--alpha", "inf"],
        ["--alpha", "-1"],
        ["--alpha", ","],
        ["--cv", "0"],
        ["--cv", "²"],
        ["--tol", "nan"],
        ["--max-passes", "0"],
        ["--n-directions", "0"],
        ["--divisor", "nan"],
        ["--scale", ""],
        ["--model", "svm", "--n-epochs", "inf"],
        ["--model", "svm", "--n-epochs", "0"],
        ["--model", "svm", "--batch-size", "inf"],
        ["--model", "svm", "--batch-size", "nan"],
        ["--model", "svm", "--eta0", "inf"],
        ["--model", "svm", "--learning-rate", "inverse_scaling", "--power-t", "nan"],
        ["--model", "svm", "--momentum", "nan"],
        ["--model", "svm", "--alpha", "inf"],
        ["--model", "svm", "--n-iter-no-change", str(2**70)],
        ["--plot", ""],
        ["--cluster", ""],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_meaningless_options_are_refused_by_train(cli, rows, tmp_path, words, monkeypatch):
    monkeypatch.setattr("distrf.cluster._started", broken)
    printed = cli("train", rows, tmp_path / "m", *words, code=2)
    assert "Traceback" not in printed.err
    assert words[-2].lstrip("-") in printed.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "{rows}", "--classes", "0"],
        ["plan", "{rows}", "--classes", str(2**70)],
        ["plan", ""],
        ["train", "{rows}", ""],
        ["inspect", " "],
        ["ingest", "{rows}", "{out}", "--seed", "-1"],
        ["ingest", "{rows}", "{out}", "--block-rows", "0"],
        ["ingest", "{rows}", "{out}", "--columns", "a,a"],
        ["tune", "{rows}", "--out", "{out}", "--n-rows", str(2**70)],
        ["tune", "{rows}", "--out", "{out}", "-D", "²"],
        ["tune", "{rows}", "--out", "{out}", "--alpha", "auto"],
        ["tune", "{rows}", "--out", "{out}", "--gamma", "1", "--length-scale", "1,2"],
        ["tune", "{rows}", "--out", "{out}", "--gamma", "1", "--length-scale", "knn"],
        ["compare", "{rows}", "--gamma", "1", "--length-scale", "knn"],
        ["plan", "{rows}", "--gamma", "1", "--length-scale", "auto"],
        ["featurize", "{rows}", "{out}", "--gamma", "1", "--length-scale", "knn"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_meaningless_options_of_other_commands(cli, rows, tmp_path, words):
    printed = cli(*(word.format(rows=rows, out=tmp_path / "o") for word in words), code=2)
    assert "Traceback" not in printed.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["inspect", "/"], ["ingest", "/", "{out}"], ["train", "/", "{out}"]])
def test_the_root_of_a_disk_is_no_data(cli, tmp_path, words):
    printed = cli(*(word.format(out=tmp_path / "o") for word in words), code=1)
    assert printed.err.startswith("Store error: '/' is the root of a file system; give the path of a ")
    assert "folder of Parquet files" in printed.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", ""], "--target must not be empty"),
        (["--plot", " "], "--plot must not be empty"),
        (["-D", str(2**63)], f"--n-components must be an integer between 1 and {2**63 - 1}, got 9223372036854775808"),
        (["--max-passes", str(2**70)], f"--max-passes must be an integer between 1 and {2**63 - 1}, got"),
        (["--map", "cnm", "--map-n-epochs", "0"], "--map-n-epochs must be an integer >= 1 or 'auto', got 0"),
        (["--model", "svm", "--resume"], "--resume needs --checkpoint, the folder that keeps the state"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)  # fmt: skip
def test_messages_name_the_option_and_what_it_takes(cli, rows, tmp_path, words, message):
    assert message in cli("train", rows, tmp_path / "m", *words, code=2).err


def test_epochs_of_the_map_may_be_auto(cli, rows):
    words = ["plan", rows, "-D", "16", "--map", "cnm", "--json"]
    said, unsaid = (json.loads(cli(*words, *more).out) for more in (["--map-n-epochs", "auto"], []))
    assert said | {"seconds": 0} == unsaid | {"seconds": 0}  # those of the command


def test_an_error_before_the_first_bar_leaves_no_empty_line(cli, rows, tmp_path):
    printed = cli("ingest", rows, tmp_path / "o", "--columns", "7", code=1)
    assert printed.err.startswith(("Store error: ", "Input error: "))


def test_a_folder_of_many_other_files_is_no_data(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("distrf.store.files._MOST_ENTRIES", 5)
    for i in range(8):
        (tmp_path / f"note{i}.txt").write_text("")
    printed = " ".join(cli("inspect", tmp_path, code=1).err.split())
    assert "neither a store nor a folder of Parquet files: it holds more than 5 entries" in printed
