"""Malformed command lines and inputs, drawn at random from a seed: a short error, an exit code, nothing half-written."""

from __future__ import annotations

import json
import random
import shutil
import typing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from sklearn.datasets import dump_svmlight_file

import distrf
from distrf import ingest
from distrf.cli.app import app
from distrf.cli.options import OPTIONS
from distrf.errors import ClusterError

LINES, FEW_LINES = 300, 30
FILES, FEW_FILES = 200, 24
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
    fault = draw.choice(["value", "value", "value", "value", "unknown", "flag", "argument", "extra", "command"])
    if fault == "value":
        # These run without a cluster.
        unused = ("cluster", "memory_limit", "tls") if name in ("ingest", "inspect") else ()
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
    """The same rows in every format, a store of them, a model and a job."""
    folder = tmp_path_factory.mktemp("malformed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(np.int64)
    np.savez(folder / "rows.npz", X=X, y=y)
    np.save(folder / "rows.npy", np.c_[X, y])
    pq.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "label": y}), folder / "rows.parquet")
    np.savetxt(folder / "rows.csv", np.c_[X, y], delimiter=",", header="a,b,c,label", comments="")
    dump_svmlight_file(X.astype(float), y.astype(float), str(folder / "rows.svmlight"))
    ingest(folder / "rows.npz", folder / "store", block_rows=20)
    features = distrf.RandomFourierFeatures(n_components=8, gamma=1.0, random_state=0)
    model = distrf.make_model(X, y, map=features, model=distrf.StreamingRidgeClassifier(keep_state=True))
    distrf.save_model(model.fit(X, y), folder / "model")
    (folder / "job.yaml").write_text("command: plan\nX: store\nn_components: 8\nset: {map__gamma: 0.5}\n")
    (folder / "cluster.yaml").write_text("class: distributed.LocalCluster\narguments: {n_workers: 1}\n")
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


def check(code, text, codes):
    assert code in codes, text[-2000:]
    assert "Traceback" not in text
    assert "error: unexpected" not in text, text[-2000:]
    assert len(text) < 10_000


def filled(words, data, out):
    return [word.replace("{data}", str(data)).replace("{out}", str(out)) for word in words]


def seeds(count, few, of):
    slow = pytest.mark.slow
    return [pytest.param(seed, id=f"{of}{seed}", marks=() if seed < few else slow) for seed in range(count)]


@pytest.mark.parametrize("seed", seeds(LINES, FEW_LINES, "line"))
def test_malformed_lines(call, data, tmp_path, seed):
    words = filled(malformed_line(random.Random(seed)), data, tmp_path)
    code, text = call(words)
    check(code, text, (1, 2))
    assert REACHED not in text, words
    assert list(tmp_path.iterdir()) == [], words


#: File to spoil (a pattern), and what reads it.
READERS = {
    "rows.npz": ["ingest", "{in}/rows.npz", "{out}/store"],
    "rows.npy": ["ingest", "{in}/rows.npy", "{out}/store", "--target", "3"],
    "rows.csv": ["ingest", "{in}/rows.csv", "{out}/store", "--target", "label"],
    "rows.svmlight": ["ingest", "{in}/rows.svmlight", "{out}/store"],
    "rows.parquet": ["ingest", "{in}/rows.parquet", "{out}/store", "--target", "label"],
    "store/zarr.json": ["plan", "{in}/store"],
    "store/X/zarr.json": ["train", "{in}/store", "{out}/m", "-D", "8"],
    "store/y/zarr.json": ["inspect", "{in}/store"],
    "model/model.json": ["evaluate", "{in}/model", "{in}/store"],
    "model/arrays-*.npz": ["predict", "{in}/model", "{in}/store", "{out}/p.parquet"],
    "job.yaml": ["plan", "--job", "{in}/job.yaml"],
    "cluster.yaml": ["train", "{in}/store", "{out}/m", "-D", "8", "--cluster", "{in}/cluster.yaml"],
}  # fmt: skip


def spoilt(draw: random.Random, content: bytes) -> bytes:
    """The content cut off, garbled, replaced, or, where it is JSON, with another value somewhere."""
    ways = ["cut", "flip", "noise", "empty", "repeat", "nan", "other"]
    try:
        document = json.loads(content)
        ways = [*ways, *["value"] * 6]
    except ValueError:
        document = None
    way = draw.choice(ways)
    if way == "cut":
        return content[: draw.randrange(len(content))]
    if way == "flip":
        changed = bytearray(content)
        for _ in range(draw.choice([1, 4, 64])):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        return bytes(changed)
    if way == "noise":
        return draw.randbytes(draw.choice([1, 100, 5000]))
    if way == "repeat":
        return content * 2
    if way == "nan":
        return content.replace(b"0", b"nan")
    if way == "other":
        return draw.choice(
            [b"[]", b"null", b"3", b'{"a": 1}', b"\xff\xfe", b"\n" * 50, b"a,b\n1\n1,2,3\n", b"- a\n- b\n"]
        )
    if way == "value":
        places = []

        def walk(value):
            items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()  # fmt: skip
            for key, inner in items:
                places.append((value, key))
                walk(inner)

        walk(document)
        holder, key = draw.choice(places)
        holder[key] = draw.choice(
            [None, -1, 0, 1.5, 2**70, "x", "", [], {}, [1, 2, 3], True, {"$map": {}}, [[]]]
        )
        return json.dumps(document).encode()
    return b""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", seeds(FILES, FEW_FILES, "file"))
def test_malformed_files(call, data, tmp_path, seed):
    draw = random.Random(seed)
    pattern = sorted(READERS)[seed % len(READERS)]
    given, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(data, given)
    out.mkdir()
    place = next(given.glob(pattern))
    place.write_bytes(spoilt(draw, place.read_bytes()))
    words = [w.replace("{in}", str(given)).replace("{out}", str(out)) for w in READERS[pattern]]
    code, text = call(words)
    check(code, text, (0, 1, 2))
    if code:
        for made in out.iterdir():  # an ingest that stopped, and says so
            with pytest.raises(distrf.errors.StoreError):
                distrf.open_rows(made)
    assert not [p for p in out.rglob("*") if p.name.endswith(".partial")]


def test_every_command_is_drawn():
    assert set(WHOLE) == set(COMMANDS)
