"""Job files say what command lines say: every argument and every option of every command, and nothing else."""

from __future__ import annotations

import inspect
import json
import os
import shlex
import tomllib
import types
import typing
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import distrf
from distrf import ingest
from distrf.cli.app import COMMANDS as FUNCTIONS
from distrf.cli.app import get_command
from distrf.cli.groups import grouped, path_parameters
from distrf.cli.jobs import job_text, job_words, keys_of
from distrf.cli.usage import UsageError
from distrf.datasets import load_digits_split

COMMANDS = {name: get_command(name) for name in FUNCTIONS if name != "run"}
PATHS = {
    "demo": {"out", "cluster", "tls"},
    "ingest": {"source", "out", "cluster", "tls"},
    "plan": {"X", "cluster", "tls"},
    "featurize": {"X", "out", "save_map", "like", "cluster", "tls"},
    "train": {"X", "out", "checkpoint", "plot", "report", "cluster", "tls"},
    "add": {"model", "X", "report", "cluster", "tls"},
    "predict": {"model", "X", "out", "cluster", "tls"},
    "evaluate": {"model", "X", "report", "cluster", "tls"},
    "importance": {"model", "X", "plot", "cluster", "tls"},
    "inspect": {"path", "cluster", "tls"},
    "compare": {"X", "plot", "cluster", "tls"},
    "tune": {"X", "out", "model_out", "report", "cluster", "tls"},
}


def kinds(command):
    """{parameter: bool, int, float or str}."""
    found = {}
    for name, parameter in inspect.signature(command.callback).parameters.items():
        kind = parameter.annotation
        if typing.get_origin(kind) is typing.Annotated:
            kind = typing.get_args(kind)[0]
        if isinstance(kind, types.UnionType):
            (kind,) = (k for k in typing.get_args(kind) if k is not types.NoneType)
        found[name] = kind
    return found


def values(command):
    """{parameter: a value that is not its default}."""
    made = {}
    for name, kind in kinds(command).items():
        default = inspect.signature(command.callback).parameters[name].default
        made[name] = {bool: default is not True, int: 27, float: 0.375, str: f"{name} of mine"}[kind]
        assert made[name] != default
    return made


def parsed(name, words):
    return COMMANDS[name].make_context(name, list(words)).params


def typed(command, given):
    """The command line that a person would type."""
    positional, options = [], []
    for parameter in command.params:
        if parameter.name not in given:
            continue
        value = given[parameter.name]
        if parameter.param_type_name == "argument":
            positional.append(str(value))
        elif value is True:
            options.append(parameter.opts[0])
        elif value is False:
            options += parameter.secondary_opts[:1]
        else:
            options += [parameter.opts[-1], str(value)]
    return [*positional, *options]


def job_file(path, name, given):
    """The job file that says the same."""
    keys = {parameter.name: key for key, parameter in keys_of(COMMANDS[name]).items()}
    path.write_text(job_text(name, {keys[parameter]: value for parameter, value in given.items()}))
    return str(path)


def test_every_command_is_covered():
    """All commands but `run` itself, all of their parameters, and all paths among them."""
    assert set(COMMANDS) == set(FUNCTIONS) - {"run"} == set(PATHS)
    for name, command in COMMANDS.items():
        assert {p.name for p in keys_of(command).values()} == set(command.spellings)
        assert set(kinds(command)) == set(command.spellings)
        assert path_parameters(command) == PATHS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_job_is_its_command_line(tmp_path, name):
    """All parameters at once, and sets of them: what is parsed is equal, and is what was given.

    Of any two parameters each is in a set without the other: those whose number has a bit, and those without it.
    """
    command, given = COMMANDS[name], values(COMMANDS[name])
    needed = {p.name for p in command.params if p.required}
    bits = range(len(given).bit_length())
    sets = [{k for i, k in enumerate(given) if (i >> bit) % 2 == has} for bit in bits for has in (0, 1)]
    for chosen in (given, *({k: given[k] for k in needed | some} for some in sets)):
        words = job_words(job_file(tmp_path / "job.toml", name, chosen))
        assert words[0] == name
        got = parsed(name, words[1:])
        placed = {k: os.path.join(tmp_path, v) if k in PATHS[name] else v for k, v in chosen.items()}
        assert got == parsed(name, typed(command, placed))
        assert {k: got[k] for k in chosen} == placed


def test_keys_are_the_long_names():
    keys = keys_of(COMMANDS["train"])
    assert {
        "X",
        "out",
        "n-components",
        "length-scale",
        "base-n-components",
        "fit-intercept",
        "checkpoint-every",
    } <= set(keys)
    assert not {"D", "no-intercept", "help", "length_scale"} & set(keys)


def test_lists_and_negative_values(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(
        'command = "train"\nX = "-a.zarr"\nout = "/m"\nalpha = [1e-6, 1, 0.1]\ncolumns = ["a", "b"]\ncoef0 = -1'
    )
    words = job_words(str(path))
    got = parsed("train", words[1:])
    assert (got["alpha"], got["columns"], got["coef0"]) == ("1e-06,1,0.1", "a,b", "-1")
    assert (got["X"], got["out"]) == (f"{tmp_path}/-a.zarr", "/m")
    assert job_words(str(path)) == words


def test_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    path = tmp_path / "jobs" / "job.toml"
    path.write_text(
        'command = "train"\nX = "s3://bucket/rows.zarr"\nout = "../m"\ncluster = "tcp://127.0.0.1:9"\n'
        'checkpoint = "state"\nmodel = "svm"'
    )
    got = parsed("train", job_words("jobs/job.toml")[1:])
    assert (got["X"], got["cluster"]) == ("s3://bucket/rows.zarr", "tcp://127.0.0.1:9")
    assert (got["out"], got["checkpoint"], got["model"]) == ("jobs/../m", "jobs/state", "svm")
    path.write_text('command = "inspect"\npath = "-x"')
    (tmp_path / "job.toml").write_text('command = "inspect"\npath = "-x"')
    assert job_words("job.toml") == ["inspect", "--", "-x"]  # a path that looks like an option


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("command = train", "is not TOML: .*text stands in quotes"),
        ("X = 'a'", "names its command, one of demo, ingest, .*; '.*job.toml' has none"),
        ("command = 'trian'", "has 'trian'"),
        ("command = 'run'\njob = 'other.toml'", "has 'run'"),
        ("command = 'inspect'\npath = 'a'\nfoo = 1\nbar = 2", "does not know: bar, foo; known: path, cluster, .*json"),
        ("command = 'train'\nX = 'a'\nout = 'b'\nlength_scale = 2", "not know: length_scale .did you mean 'length-scale'..; known: .*length-scale"),
        ("command = 'train'\nX = 'a'", "lacks out, which `distrf train` needs"),
        ("command = 'inspect'\npath = 'a'\njson = 'yes'", "json in '.*' is true or false, got 'yes'"),
        ("command = 'inspect'\npath = true", "path in '.*' is text, a number or a list of them, got True"),
        ("command = 'inspect'\n[path]\nx = 1", "path in '.*' is text, a number or a list"),
        ("command = 'inspect'\npath = []", "path in '.*' is text, a number or a list"),
        ("command = 'inspect'\npath = ['a,b', 'c']", "must not have commas"),
    ],
)  # fmt: skip
def test_refusals(cli, tmp_path, text, message):
    path = tmp_path / "job.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        job_words(str(path))
    assert "Usage error" in cli("run", path, code=2).err


def test_other_refusals(cli, tmp_path):
    assert "no job file at" in cli("run", tmp_path / "none.toml", code=2).err
    (tmp_path / "job.toml").write_text("command = 'plan'\nX = 'a'\nclasses = 'many'")
    assert "--classes must be an integer >= 1, got 'many'" in cli("run", tmp_path / "job.toml", code=2).err
    (tmp_path / "job.toml").write_text("command = 'train'\nX = 'a'\nout = 'b'")
    assert "no such" in cli("run", tmp_path / "job.toml", code=1).err


def test_text_round_trips():
    given = {
        "a": 'quotes " and \\ and \n and ü 🙂 \x07', "b": 1e-300, "c": -3, "d": False, "e": ["x", 2.5], "f": None,
    }  # fmt: skip
    text = job_text("train", given, "said\nwhy")
    assert text.startswith("# said\n# why\n")
    assert tomllib.loads(text) == {"command": "train"} | {k: v for k, v in given.items() if v is not None}


def test_runs_what_the_command_runs(cli, tmp_path, two_worker_cluster, monkeypatch):
    """The same bits from a job file as from the line that --dry-run prints; the model keeps that line."""
    X, y, *_ = load_digits_split(0)
    np.savez(tmp_path / "d.npz", X=X[:400], y=y[:400])
    ingest(tmp_path / "d.npz", tmp_path / "d.zarr")
    job = tmp_path / "job.toml"
    address = two_worker_cluster.scheduler_address
    given = {"X": "d.zarr", "out": "m", "n-components": 64, "gamma": 0.5, "seed": 3, "json": True}
    job.write_text(job_text("train", given | {"cluster": address}))
    line = cli("run", job, "--dry-run").out
    assert not (tmp_path / "m").exists()
    assert json.loads(cli("run", job).out)["rows"] == 400
    first = distrf.load_model(tmp_path / "m")
    words = shlex.split(line)
    assert words[:4] == ["distrf", "train", f"{tmp_path}/d.zarr", f"{tmp_path}/m"]
    cli(*words[1:], "--overwrite")
    np.testing.assert_array_equal(first["model"].coef_, distrf.load_model(tmp_path / "m")["model"].coef_)
    assert "holds a model already" in cli("run", job, code=1).err
    kept = json.loads(cli("inspect", tmp_path / "m", "--json").out)["provenance"]["command"]
    assert kept == " ".join([*words[1:], "--overwrite"])


@dataclass(kw_only=True)
class Group:
    panel: ClassVar[str] = "Options"
    a: bool = False


def test_groups_do_not_share_names():
    def command(a: str, group: Group): ...

    with pytest.raises(TypeError, match="two parameters named 'a'"):
        grouped(command)
