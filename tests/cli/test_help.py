"""Help lists every option and loads nothing that computes; errors end in one line; nothing goes unsaid."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
import typer

import distrf
from distrf import ingest
from distrf.cli.app import app
from distrf.cli.console import Session
from distrf.cli.options import OPTIONS
from distrf.registry import MAPS, MODELS

COMMANDS = typer.main.get_command(app).commands
#: The public functions whose parameters options are.
FUNCTIONS = [
    distrf.ingest, distrf.train, distrf.make_model, distrf.plan, distrf.featurize, distrf.predict, distrf.evaluate, distrf.tune,
    distrf.add_rows, distrf.connect, distrf.open_rows,
]  # fmt: skip
#: Options that are no parameter of one: how a command runs, and names of files.
OWN = {"csv", "set", "quiet", "json", "report", "like", "rows", "kind", "grid"}


@pytest.fixture
def broken(monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("[ours] two\nlines")

    monkeypatch.setattr("distrf.store.find_format", fail)


def spellings(command):
    return {name for p in command.params for name in (*p.opts, *p.secondary_opts) if name.startswith("-")}


def test_commands_and_options():
    assert set(COMMANDS) == set(
        ["demo", "ingest", "plan", "train", "tune", "predict", "evaluate", "featurize", "add", "inspect"]
    )
    known = set().union(*map(spellings, COMMANDS.values()))
    assert len(known | {"--help", "--version", "--debug", "--install-completion", "--show-completion"}) <= 90
    assert {p.name for command in COMMANDS.values() for p in command.params} >= set(OPTIONS)
    parameters = {name for function in FUNCTIONS for name in inspect.signature(function).parameters}
    of_estimators = {
        name
        for cls in [*MAPS.values(), *(kind.estimator for kind in MODELS.values())]
        for name in cls.parameter_rules
    }
    assert set(OPTIONS) - OWN <= parameters | of_estimators


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_every_option_on_one_screen(cli, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli(name, "--help").out
    assert all(
        re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", shown) for option in spellings(COMMANDS[name])
    )
    assert "Examples:\n    distrf" in shown
    assert (len(shown.splitlines()) <= 50, max(map(len, shown.splitlines())) <= 80) == (True, True)
    assert not re.search("[\u2500-\u257f]", shown)  # no boxes, as nothing is printed to a terminal
    for line in re.findall(r"^ +distrf (.*)$", shown, re.MULTILINE):
        verb, *words = line.split()
        assert COMMANDS[verb].make_context(verb, words, resilient_parsing=True).params


def test_names_in_the_help_are_those_there_are(cli):
    shown = " ".join(cli("train", "--help").out.split())
    assert [name for name in [*MAPS, *MODELS] if name not in shown] == []


def test_version(cli):
    assert cli("--version").out.strip() == distrf.__version__


CHEAP = "numpy scipy sklearn dask distributed numba zarr pyarrow pandas matplotlib rich yaml"


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], CHEAP),
        (["train", "--help"], CHEAP),
        (["inspect", "rows.zarr"], "sklearn distributed numba pandas pyarrow matplotlib"),
        (["inspect", "model"], "sklearn distributed numba pandas pyarrow matplotlib"),
        (
            ["predict", "model", "rows.zarr", "p.zarr"],
            "distributed numba matplotlib sklearn.linear_model sklearn.neighbors",
        ),
        (["predict", "model", "rows.csv", "p.parquet"], "distributed numba matplotlib zarr"),
    ],
)
def test_start_up_is_cheap(tmp_path, words, heavy):
    np.savez(tmp_path / "rows.npz", X=np.eye(4), y=np.arange(4))
    ingest(tmp_path / "rows.npz", tmp_path / "rows.zarr")
    np.savetxt(tmp_path / "rows.csv", np.eye(4), delimiter=",", header="a,b,c,d", comments="")
    distrf.save_model(distrf.StreamingRidge(1.0).fit(np.eye(4), np.arange(4.0)), tmp_path / "model")
    code = (
        "import sys\nfrom distrf.cli import main\ntry:\n    main()\nexcept SystemExit as left:\n    assert not left.code\n"
        f"print(sorted(set({heavy!r}.split()) & {{'.'.join(m.split('.')[:k]) for m in sys.modules for k in (1, 2)}}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "[]")
    assert done.stdout


@pytest.mark.parametrize("debug", [False, True])
def test_an_error_that_nobody_foresaw(cli, broken, tmp_path, debug):
    printed = cli(*(["--debug"] if debug else []), "plan", tmp_path / "m.zarr", code=1)
    assert ("Traceback" in printed.err) == debug
    assert printed.err.splitlines()[-1] == (
        "error: unexpected ZeroDivisionError: [ours] two lines. This is a fault of distrf or of its input; `distrf --debug ...` "
        "shows where it arose"
    )
    assert debug or len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("quiet", [False, True])
def test_warnings_are_printed_even_if_quiet(capsys, quiet):
    session = Session(quiet=quiet)
    with session.hearing():
        import warnings

        warnings.warn("a column is left out", UserWarning, stacklevel=1)
    session.finish({"warnings": ["no better than a [constant]"]}, "a report")
    printed = capsys.readouterr()
    assert printed.out.splitlines()[:1] == ([] if quiet else ["a report"])
    assert printed.err == "warning: no better than a [constant]\nwarning: a column is left out\n"


@pytest.mark.slow
def test_workers_print_no_traceback(tmp_path):
    """A task that fails on a worker: its error alone, by the command that waits for it."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(60, 3)), y=np.arange(60) % 2)
    ingest(tmp_path / "rows.npz", tmp_path / "rows.zarr", block_rows=20)
    chunk = next(p for p in (tmp_path / "rows.zarr" / "X").rglob("*") if p.name == "0" and p.parent.name == "1")
    chunk.write_bytes(chunk.read_bytes()[:-7] + b"garbage")
    (tmp_path / "one.yaml").write_text("class: distributed.LocalCluster\narguments: {n_workers: 1}\n")
    words = [
        "featurize",
        "rows.zarr",
        "f.zarr",
        "-D",
        "16",
        "--set",
        "map__length_scale=1",
        "--cluster",
        "one.yaml",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "distrf", *words], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 1
    assert [word for word in ("Traceback", "Compute Failed") if word in done.stderr] == []
    assert "error: " in done.stderr
