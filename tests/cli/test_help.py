"""Help, completion, and the words of errors: what a user sees of the options."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

import distrf
from distrf import ingest
from distrf.cli import faults, kept_options
from distrf.cli.app import COMMANDS, app, get_command
from distrf.cli.estimator_options import MapOptions, ModelOptions
from distrf.cli.groups import grouped
from distrf.cli.help import USUAL
from distrf.cli.signatures import parameters_of, read
from distrf.cli.usage import UsageError, flag
from distrf.errors import InputError, did_you_mean
from distrf.parameters import FLAG, check_parameters
from distrf.registry import MAPS, MODELS

#: What no rule allows, of any parameter but a list of names.
WRONG = ("no such value", "-7.5")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("help")
    rng = np.random.default_rng(0)
    np.savez(folder / "rows.npz", X=rng.random((40, 3)), y=np.arange(40) % 2)
    (folder / "rows.csv").write_text("price,size\n" + "".join(f"{i % 7},{i}\n" for i in range(40)))
    ingest(folder / "rows.npz", folder / "rows.zarr")
    return folder


# ---- help ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", [80, 120])
def test_help_is_a_page(cli, monkeypatch, name, width):
    """About ten options, an example, and where the others are."""
    monkeypatch.setenv("COLUMNS", str(width))
    shown = cli(name, "--help").out
    assert max(map(len, shown.splitlines())) <= max(width, 100)
    command = get_command(name)
    options = {s.names[0].split("/")[0] for s in command.spellings.values() if not s.is_argument}
    listed = {found for found in re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.M) if found in options}
    if name in USUAL:
        assert listed == {flag(option) for option in USUAL[name]}
        assert len(listed) <= 10
        assert f"--help-all  All {len(options)} options" in " ".join(shown.replace("\n", " ").split()).replace(
            "--help-all All", "--help-all  All"
        )
        assert all(f"--{option}" in cli(name, "--help-all").out for option in ("cluster", "tls", "quiet"))
    else:
        assert listed == options
        assert len(options) <= 12
    assert f"  distrf {name}" in shown.partition("Examples:\n")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_command_lines(name):
    command = get_command(name)
    assert command.examples
    for line in command.examples:
        program, first, *words = shlex.split(line)
        assert program == "distrf"
        get_command(first).make_context(first, words)


def test_help_of_a_map_and_of_a_model(cli):
    shown = cli("featurize", "--help-map", "tefm").out
    assert "--map tefm:" in shown
    assert {"--sketch", "--map-tol", "--base-n-components", "--seed"} <= set(re.findall(r"--[\w-]+", shown))
    assert not {"--n-grids", "--alpha", "--cv"} & set(re.findall(r"--[\w-]+", shown))
    assert "[default: 256]" in shown.partition("--whiten")[0]  # its own, which other maps do not share
    shown = cli("tune", "--help-model", "svm").out
    assert {"--loss", "--alpha", "--penalty"} <= set(re.findall(r"--[\w-]+", shown))
    assert not {"--cv", "--sketch", "--kernel"} & set(re.findall(r"--[\w-]+", shown))
    said = cli("train", "--help-model", "svn", code=2).err
    assert "--help-model is one of ridge, " in said
    assert "did you mean 'svm'?" in said


@pytest.mark.slow
def test_help_of_training_imports_no_estimator_and_is_kept(tmp_path, monkeypatch):
    """Once the options are kept, help takes as little as that of any command; a source that changed makes them anew."""
    package = tmp_path / "distrf"
    shutil.copytree(os.path.dirname(distrf.__file__), package, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import sys\nfrom distrf.cli.app import run\n"
        "try:\n    run()\nexcept SystemExit as left:\n    assert not left.code\n"
        "print('numpy' in sys.modules, file=sys.stderr)"
    )

    def shown(*words):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.strip()

    first, slow = shown("train", "--help-all")
    again, quick = shown("train", "--help-all")
    assert (first, slow, quick) == (again, "True", "False")
    (kept,) = package.glob("cli/__pycache__/kept_options*.json")
    kept.write_text("no JSON")
    assert shown("train", "--help")[1] == "True"
    assert shown("tune", "--help")[1] == "False"
    with (package / "registry.py").open("a") as file:
        file.write("\n# changed\n")
    assert shown("train", "--help")[1] == "True"


def test_kept_options_are_those_that_are_made():
    for name in kept_options._names():
        made = kept_options.group_class(name).options()
        plain = json.loads(json.dumps({k: kept_options.dataclasses.asdict(s) for k, s in made.items()}))
        assert kept_options._from_plain(plain) == made


# ---- completion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tr"], ["train"]),
        (["train", "--proj"], ["--projection"]),
        (["train", "X", "out", "--map", "t"], ["tensor-sketch", "tefm"]),
        (["train", "X", "out", "--split", ""], ["random", "stratified", "group", "time", "blocks"]),
        (["tune", "X", "--kernel", "gaussian,lap"], ["gaussian,laplacian"]),
        (["train", ""], []),  # paths are completed by the shell
    ],
)
def test_what_is_offered(capsys, monkeypatch, words, offered):
    monkeypatch.setenv("_DISTRF_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(["distrf", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit):
        app(prog_name="distrf", complete_var="_DISTRF_COMPLETE")
    assert capsys.readouterr().out.split() == offered


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_completion_in_bash(tmp_path):
    """The script as it is installed, in a bash of its own."""
    program = tmp_path / "distrf"
    program.write_text(f"#!{sys.executable}\nfrom distrf.cli import main\nmain()\n")
    program.chmod(0o755)
    cases = {
        ("t",): "train tune",
        ("train", "--proj"): "--projection",
        ("train", "X", "out", "--map", "t"): "tensor-sketch tefm",
        ("train", "X", "out", "--split", ""): "random stratified group time blocks",
        ("tune", "X", "--kernel", "gaussian,lap"): "gaussian,laplacian",
        ("predict", "m", "X", "o", "--probabilities", ""): "auto yes no",
        ("train", ""): "",  # paths are completed by the shell
    }
    script = [
        "set -e",
        f"export PATH={tmp_path}:$PATH",
        f"export HOME={tmp_path}",
        "distrf --install-completion >&2",
    ]
    script.append(f"source {tmp_path}/.bashrc")
    for words in cases:
        line = " ".join(map(shlex.quote, ("distrf", *words)))
        script.append(
            f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _distrf_completion distrf; echo ${{COMPREPLY[*]}}"
        )
    script.append("complete -p distrf")
    done = subprocess.run(["bash", "-c", "\n".join(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *lines, registered = done.stdout.splitlines()
    assert lines == list(cases.values())
    assert registered == "complete -o default -F _distrf_completion distrf"


def test_values_that_are_offered_can_be_typed():
    for kinds, made in ((MAPS, MapOptions), (MODELS, ModelOptions)):
        for kind in kinds:
            options = made.options()
            cls = MAPS[kind] if kinds is MAPS else MODELS[kind].estimator
            for name, parameter in parameters_of(cls).items():
                option = f"map_{name}" if kinds is MAPS and f"map_{name}" in options else name
                if parameter.rule is FLAG:
                    continue
                assert set(parameter.values) <= set(options[option].values)
                for text in parameter.values:
                    assert parameter.rule.allows(read(text, parameter.rule)), (kind, name, text)


# ---- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["trian"], "No such command: trian (did you mean 'train'?)"),
        (["--verson"], "No such option: --verson (did you mean '--version'?)"),
        (["train", "--n-component", "3", "a", "b"], "--n-component (did you mean '--n-components'?)"),
        (["train", "a", "b", "--map", "forier"], "unknown --map 'forier' (did you mean 'fourier'?)"),
        (["train", "{}/rows.zarr", "b", "--kernel", "Gausian"], "got 'Gausian' (did you mean 'gaussian'?)"),
        (["train", "{}/rows.zarr", "b", "--model", "svn"], "got 'svn' (did you mean 'svm'?)"),
        (["train", "{}/rows.zarr", "b", "--split", "goup"], "got 'goup' (did you mean 'group'?)"),
        (["train", "{}/rows.csv", "b", "--target", "Prise"], "(did you mean 'price'?)"),
        (["train", "{}/rows.csv", "b", "--target", "price", "--exclude", "sise"], "(did you mean 'size'?)"),
    ],
)  # fmt: skip
def test_errors_name_the_nearest(cli, rows, monkeypatch, words, meant):
    monkeypatch.chdir(rows)
    code = 1 if "csv" in str(words) else 2
    printed = cli(*(word.format(rows) for word in words), code=code).err
    assert meant in printed


def test_the_nearest():
    assert did_you_mean("LenghtScale", ["length_scale", "alpha"]) == " (did you mean 'length_scale'?)"
    assert did_you_mean(["prise", "Qty", "zzz"], ["price", "qty"]) == " (did you mean 'price', 'qty'?)"
    assert did_you_mean("zzz", ["price"]) == did_you_mean(3, ["3"]) == did_you_mean(None, ["a"]) == ""


def wrong_text(parameter):
    """A text that the parameter refuses; None where it takes any."""
    return next((t for t in WRONG if not parameter.rule.allows(read(t, parameter.rule))), None)


def _model(kind, option, text):
    return lambda: ModelOptions(kind, **{option: text}).make(seed=0)


@pytest.mark.parametrize("kind", [*MAPS, *MODELS])
def test_each_rule_speaks_the_words_of_its_reader(kind):
    """The command line names the option, Python the parameter."""
    of_map = kind in MAPS
    cls = MAPS[kind] if of_map else MODELS[kind].estimator
    needed = {"transformer": "PCA"} if kind == "blockwise" else {}
    options = (MapOptions if of_map else ModelOptions).options()
    for name, parameter in parameters_of(cls).items():
        text = wrong_text(parameter)
        assert text is not None
        with pytest.raises(InputError) as raised:
            check_parameters(cls(**needed | {name: read(text, parameter.rule)}))
        assert str(raised.value).startswith(f"{name} must be ")
        assert "--" not in str(raised.value)
        if parameter.rule is FLAG:
            continue  # the command line takes no value
        option = f"map_{name}" if of_map and f"map_{name}" in options else name
        make = MapOptions(kind, **needed | {option: text}).make if of_map else _model(kind, option, text)
        with pytest.raises(UsageError) as refused:
            make()
        assert flag(option) in str(refused.value)
        if "_" in name:
            assert not re.search(rf"\b{name}\b", str(refused.value))


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("pass impute='mean', or overwrite=True", "pass --impute mean, or --overwrite"),
        ("train it again with keep_state=True; got fit_intercept=False", "train it again with --keep-state; got --no-fit-intercept"),
        ("give n_components=64 or a larger n_components, by=.", "give --n-components 64 or a larger --n-components, --by."),
        ("raw_columns=True, class_weight=None, target= is", "--raw-columns yes, --class-weight none, --target is"),
        ("'n_components.zarr', \"length_scale\" and a/n_components.npy stay", "'n_components.zarr', \"length_scale\" and a/n_components.npy stay"),
        ("exclude=['a', 'b'], or categorical=['a b']", "--exclude a,b, or --categorical 'a b'"),
        ("gamma=0.5 and length_scale=auto; unknown_name=3", "--gamma 0.5 and --length-scale auto; unknown_name=3"),
    ],
)  # fmt: skip
def test_messages_for_python_in_options(monkeypatch, python, typed):
    monkeypatch.setattr(faults, "_options", grouped(COMMANDS["train"]).spellings)
    assert faults.in_options(python) == typed


def test_messages_stay_where_no_command_runs(monkeypatch):
    monkeypatch.setattr(faults, "_options", {})
    assert faults.in_options("pass n_components=3") == "pass n_components=3"
