"""Malformed command lines, drawn at random from a seed: a short error, an exit code, nothing half-written."""

from __future__ import annotations

import random
import typing

import numpy as np
import pytest
import typer

import distrf
from distrf import ingest
from distrf.cli.app import app
from distrf.cli.options import OPTIONS
from distrf.errors import ClusterError

LINES, FEW_LINES = 300, 30
REACHED = "the test has no cluster"

COMMANDS = typer.main.get_command(app).commands
#: Arguments with which a command line is whole.
WHOLE = {
    "demo": [],
    "ingest": ["{data}/rows.npz", "{out}/store"],
    "plan": ["{data}/store"],
    "featurize": ["{data}/store", "{out}/features"],
    "train": ["{data}/store", "{out}/m"],
    "add": ["{data}/model", "{data}/store", "--again"],
    "predict": ["{data}/model", "{data}/store", "{out}/predictions.zarr"],
    "evaluate": ["{data}/model", "{data}/store"],
    "inspect": ["{data}/store"],
    "tune": ["{data}/store", "{out}/best"],
}
BAD = {
    int: ["x", "1.5", "nan", "", "-1", str(2**70), "9" * 5000, "½", "0x10", "--"],
    float: ["x", "nan", "inf", "-inf", "", "1,2", "1e999", "--"],
    str: ["", " ", "no such value", "\x07", "∞", "a" * 5000, "--"],
}
#: Texts that are as good as any other: paths that are written, and names of what may be there.
ANY_TEXT = ("save_map", "out")


def kind_of(annotation):
    while typing.get_args(annotation):
        annotation = next(a for a in typing.get_args(annotation) if a is not type(None))
    return annotation


def malformed_line(draw: random.Random) -> list[str]:
    """A command line that is wrong in at least one place."""
    name = draw.choice(sorted(WHOLE))
    command, words = COMMANDS[name], [name, *WHOLE[name]]
    kinds = {p.name: kind_of(OPTIONS[p.name]) for p in command.params if p.name in OPTIONS}
    options = [p for p in command.params if p.param_type_name == "option" and p.name in kinds]
    faults = ["unknown", "flag", "argument", "extra", "command"]
    fault = draw.choice(faults if name == "inspect" else ["value", "value", "value", "value", *faults])
    if fault == "value":
        # These run without a cluster.
        unused = ("cluster", "memory_limit", "tls") if name == "ingest" else ()
        option = draw.choice([p for p in options if kinds[p.name] is not bool and p.name not in unused])
        values = BAD[kinds[option.name]]
        if option.name in ANY_TEXT:
            values = ["", " "]
        return [*words, option.opts[-1], draw.choice(values)]
    if fault == "flag":
        option = draw.choice([p for p in options if kinds[p.name] is bool])
        return [*words, f"{option.opts[0]}=maybe"]
    if fault == "argument" and len(words) > 1:
        at = draw.randrange(1, len(words))
        wrong = draw.choice(["", "{data}/nothing", "{data}/rows.npz/x", "{data}", "{data}/note.txt", "http:/x"])
        if words[at].startswith("{out}"):
            wrong = draw.choice(["", "{data}/note.txt/m"])
        return words[:at] if draw.random() < 0.3 else [*words[:at], wrong, *words[at + 1 :]]
    if fault == "extra":
        return [*words, *["{data}/store"] * 4]
    if fault == "command":
        return [draw.choice(["trian", "", "--", "-x", "train;", "PLAN", "run"]), *words[1:]]
    return [*words, draw.choice(["--nope", "-Z", "--gama", "---", "--seed=", "-D"])]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Rows, a store of them and a model."""
    folder = tmp_path_factory.mktemp("malformed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(np.int64)
    np.savez(folder / "rows.npz", X=X, y=y)
    ingest(folder / "rows.npz", folder / "store", block_rows=20)
    features = distrf.RandomFourierFeatures(n_components=8, gamma=1.0, random_state=0)
    model = distrf.make_model(X, y, map=features, model=distrf.StreamingRidgeClassifier(keep_state=True))
    distrf.save_model(model.fit(X, y), folder / "model")
    (folder / "note.txt").write_text("no data")
    return folder


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command line in this process; (exit code, what it printed). A cluster cannot be had."""
    from distrf.cli.app import main as run

    def refused(*args, **kwargs):
        raise ClusterError(REACHED)

    monkeypatch.setattr("distrf.cluster._started", refused)

    def command(words):
        monkeypatch.setattr("sys.argv", ["distrf", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            run()
        printed = capsys.readouterr()
        return left.value.code, printed.out + printed.err

    return command


SEEDS = [pytest.param(seed, marks=() if seed < FEW_LINES else pytest.mark.slow) for seed in range(LINES)]


@pytest.mark.parametrize("seed", SEEDS)
def test_malformed_lines(call, data, tmp_path, seed):
    drawn = malformed_line(random.Random(seed))
    words = [word.replace("{data}", str(data)).replace("{out}", str(tmp_path)) for word in drawn]
    code, text = call(words)
    assert code in (1, 2), text[-2000:]
    assert [word for word in (REACHED, "Traceback", "error: unexpected") if word in text] == [], words
    assert len(text) < 10_000
    assert list(tmp_path.iterdir()) == [], words


def test_every_command_is_drawn():
    assert set(WHOLE) == set(COMMANDS)
