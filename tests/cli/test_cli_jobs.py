"""Job files say what command lines say: arguments, options, parameters of maps and models; what is typed goes before them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import typer

import distrf
from distrf import ingest
from distrf.cli.app import app
from distrf.cli.options import OPTIONS, given_options, load_job
from distrf.datasets import load_digits_split

COMMANDS = typer.main.get_command(app).commands
PATHS = {
    "source", "x", "out", "save_map", "like", "report", "cluster", "tls", "path",
}  # fmt: skip


def value_of(parameter):
    """A value of an entry, and what it is when typed."""
    if getattr(parameter, "is_flag", False):
        return True, True
    if parameter.metavar == "NAME=VALUE":
        return {"a": 1, "b": [0.5, 2]}, {"a": "1", "b": "[0.5, 2]"}
    if parameter.multiple:
        return ["a, b", 'c"d'], ["a, b", 'c"d']
    kind = str(getattr(OPTIONS.get(parameter.name), "__origin__", ""))
    value = 27 if "int" in kind else 0.375 if "float" in kind else f"{parameter.name} of mine"
    return value, value


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_can_be_an_entry(tmp_path, name):
    """By its own name or with dashes; of a path, relative to the file."""
    command = COMMANDS[name]
    known = {p.name: p for p in command.params if p.name not in ("help", "job")}
    entries = {n.replace("_", "-") if i % 2 else n: value_of(p)[0] for i, (n, p) in enumerate(known.items())}
    (tmp_path / "job.yaml").write_text(json.dumps({"command": name} | entries))  # JSON is YAML
    context = command.make_context(name, ["--job", str(tmp_path / "job.yaml")])
    seen = given_options(context, {n: v for n, v in context.params.items() if n not in ("ctx",)})
    for parameter in known.values():
        expected = value_of(parameter)[1]
        is_path = parameter.name in PATHS or (
            parameter.name == "model" and parameter.param_type_name == "argument"
        )
        assert seen[parameter.name] == (f"{tmp_path}/{expected}" if is_path else expected)


def loaded(tmp_path, text, name="train"):
    (tmp_path / "job.yaml").write_text(text)
    return load_job(str(tmp_path / "job.yaml"), COMMANDS[name])


def test_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/job.yaml").write_text(
        "X: s3://bucket/rows.zarr\nout: ../m\ncluster: tcp://127.0.0.1:9\nmodel: svm\nreport: /a/b.html"
    )
    assert load_job("jobs/job.yaml", COMMANDS["train"]) == {
        "x": "s3://bucket/rows.zarr", "out": "m", "cluster": "tcp://127.0.0.1:9", "model": "svm", "report": "/a/b.html",
    }  # fmt: skip
    assert loaded(tmp_path, "cluster: none")["cluster"] == "none"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is neither YAML nor JSON"),
        ("\0", "is neither YAML nor JSON"),
        ("- X", "a job file has NAME: VALUE on each line, .* has not"),
        ("command: predict", "is a job of `distrf predict`, not of `distrf train`"),
        ("n-componets: 2", "has no 'n_componets' .did you mean 'n_components'..; there are: x, out, "),
        ("overwrite: maybe", "valid boolean"),
        ("set: 3", "--set takes NAME=VALUE, got"),
        ("X: a", "Missing argument"),
    ],
)
def test_refusals(cli, tmp_path, text, said):
    (tmp_path / "job.yaml").write_text(text if "X" in text else f"X: a.zarr\nout: m\n{text}")
    printed = cli("train", "--job", tmp_path / "job.yaml", code=2)
    assert re.search(said, " ".join(printed.err.split())), printed.err
    assert "no job file at" in cli("train", "--job", tmp_path / "none.yaml", code=2).err


def test_runs_what_the_command_line_runs(cli, tmp_path, two_worker_cluster):
    """The same bits; parameters that are typed are added to those of the file, and other options replace them."""
    X, y, *_ = load_digits_split(0)
    np.savez(tmp_path / "d.npz", X=X[:400], y=y[:400])
    ingest(tmp_path / "d.npz", tmp_path / "d.zarr")
    job = tmp_path / "job.yaml"
    job.write_text(
        "command: train\nX: d.zarr\nout: m\nn_components: 64\nalpha: [1e-6, 1.0e-4]\nmodel: ridge-classifier\nrandom_state: 3\n"
        f"set: {{map__gamma: 0.5, model__fit_intercept: false}}\ncluster: {two_worker_cluster.scheduler_address}\n"
    )
    assert json.loads(cli("train", "--job", job, "--json").out)["rows"] == 400
    words = [
        "-D",
        64,
        "--alpha",
        "1e-6,1e-4",
        "--seed",
        3,
        "--set",
        "map__gamma=0.5",
    ]
    words += ["--set", "model__fit_intercept=no", "--quiet"]
    cli("train", tmp_path / "d.zarr", tmp_path / "n", *words, cluster=True)
    first, other = (distrf.load_model(tmp_path / name)["model"] for name in "mn")
    np.testing.assert_array_equal(first.coef_, other.coef_)
    assert "holds a model already" in cli("train", "--job", job, code=1).err
    cli("train", "--job", job, "--overwrite", "--set", "map__gamma=0.25", "-D", 32, "--quiet")
    typed = distrf.load_model(tmp_path / "m")
    gamma = typed["map"].get_params()["base__gamma"]
    assert (gamma, typed["model"].fit_intercept, typed["model"].coef_.shape[1]) == (0.25, False, 64 + 32)
    for named in ("command: train\n", ""):  # a job of train, which need not say so
        job.write_text(named + job.read_text().removeprefix("command: train\n"))
        planned = json.loads(cli("plan", "--job", job, "--cluster", "none", "--json").out)
        assert (planned["job"], planned["rows"]) == ("train", 400)
