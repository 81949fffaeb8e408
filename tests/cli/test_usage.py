"""What commands refuse, by which exit code and in which words: before anything runs, and with nothing left behind."""

from __future__ import annotations

import re

import numpy as np
import pytest

from distrf import StreamingRidge, ingest, save_model

BIG = 2**70
MOST = 2**63 - 1
SGD = "--model sgd-classifier"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("usage")
    rng = np.random.default_rng(0)
    X = rng.poisson(2.0, size=(60, 4)).astype(np.float32)
    np.savez(folder / "rows.npz", X=X, y=(X[:, 0] > 1).astype(int))
    np.savez(folder / "numbers.npz", X=X, y=X[:, 0] * 1.37)
    for name in ("rows", "numbers"):
        ingest(folder / f"{name}.npz", folder / f"{name}.zarr", block_rows=20)
    lines = [",".join(map(str, [*row, f"{row[0]} apples"])) for row in X]
    (folder / "rows.csv").write_text("\n".join(["a,b,c,d,word", *lines]) + "\n")
    (folder / "holes.csv").write_text("a,b,y\n1,2,0\n3,,1\n4,5,\n")
    save_model(StreamingRidge(1.0).fit(X, X[:, 0]), folder / "model")
    return folder


#: Words behind `train ROWS OUT`, and what is said; exit code 2.
TRAIN = [
    ("--depth 3", "No such option"),
    ("-D many", "n_components must be an integer >= 1, got 'many'"),
    ("-D ²", "n_components must be an integer >= 1, got '²'"),
    ("--set map__kernel=cubic", "map__kernel must be 'gaussian', .*got 'cubic'"),
    ("--map fuorier", "map must be 'fourier', .*or 'none', got 'fuorier' .did you mean 'fourier'"),
    ("--set map__length_scale=knm", "map__length_scale must be .*, got 'knm'"),
    ("--set map__projecton=dense", "set must be parameters that the map, RandomFourierFeatures, has: kernel, .*got 'projecton' .did you mean 'projection'"),
    ("--set kernel=cauchy", "set or grid must be parameters of steps, map__NAME, .*got 'kernel'"),
    ("--set map__phase", "--set takes NAME=VALUE, got 'map__phase'"),
    ("--set map__random_state=3", "has: kernel, .*got 'random_state'"),
    ("--map tefm --set map__base__n_components=0", "map__base__n_components must be an integer >= 1, got 0"),
    ("--map tefm --set map__base__base=1", "the map, RandomFourierFeatures, has: .*got 'base'"),
    ("--seed -1", "random_state must be an integer >= 0"),
    (f"--seed {BIG}", "random_state must be an integer between"),
    ("--alpha 1e-6,x", "alpha must be .*finite numbers >= 0"),
    ("--set model__cv=1", "model__cv must be an integer >= 2, 'holdout' or 'auto', got 1"),
    ("--set model__loss=hinge", "the model, StreamingRidgeClassifier, has: alpha, .*got 'loss'"),
    (f"{SGD} --set model__cv=3", "the model, StreamingSGDClassifier, has: .*got 'cv'"),
    ("--model logistic --set model__loss=hinge", "model__loss must be .*multinomial"),
    (f"{SGD} --alpha 1e-6,1e-5", "alpha must be a finite number .* got '1e-6,1e-5'"),
    ("--scale big", "scale must be 'standard', .*got 'big'"),
    ("--scale divide --set scale__divisor=0", "scale__divisor must be .*got 0"),
    ("--split weekly", "split must be"),
    ("--columns 0,0", "columns must be|each of them once"),
    ("--columns ,", "--columns names columns, got"),
    ("--map laplace --set map__projection=fastfood", "must be|keeps weights nonnegative"),
    ("--csv header=maybe", "header must be|header must be True, False"),
    ("--csv sepp=;", "csv must be .*: sep, encoding, .*got 'sepp' .did you mean 'sep'"),
    ("--model svn", "model must be 'ridge', .*got 'svn' .did you mean 'svm'"),
    ("--map laplace --set map__kernel=gaussian", "map__kernel must be 'exponential_semigroup', .*got 'gaussian'"),
    ("--map tensor-sketch --set map__kernel=gaussian", "the map, TensorSketchFeatures, has: .*got 'kernel'"),
    ("--map blockwise --set map__transformer=LabelBinarizer", "transformer must be .*got 'LabelBinarizer'"),
]  # fmt: skip
#: The same with exit code 1: the data, or the job, do not allow it.
JOBS = [
    ("--map none --set map__kernel=cauchy", "map='none' has no features and no parameters"),
    ("--set scale__divisor=2", "scale__divisor needs a scaling"),
    ("--set table__numbers=both", "table__numbers is of a table"),
    ("--set map__gamma=1 --set map__length_scale=2", "gamma and length_scale exclude each other"),
    ("--memory-limit much", "such as 4GiB, got 'much'"),
    ("--memory-limit 1GiB --cluster tcp://a:1", "leave it out"),
    ("--map blockwise", "map 'blockwise' needs transformer="),
    ("--map cnm --set map__structure=circulant --set map__kernel=matern", "starts from circulant blocks alone"),
    ("--split group", "name it with by="),
    ("--by 0", "got split='random'"),
    ("--columns a,b", "column 'a' .*no column names, only numbers 0..3"),
    ("--kind a=drop", "kinds=: of Parquet, CSV and other tables"),
    ("--cluster none.yaml", "none.yaml' is neither: .*No such file"),
]  # fmt: skip
#: Whole command lines, the exit code and what is said. {d}: data, {o}: an output.
OTHERS = [
    ("nothing", 2, "No such command"),
    ("train {d}/rows.zarr", 2, "Missing argument"),
    ("train {d}/rows.zarr {d}", 1, "the model must lie apart from its input"),
    ("train {d}/none.zarr {o}", 1, "no such .*none.zarr.*check the path"),
    ("train {d}/rows.csv {o}", 1, "needs a target: .*rows.csv' has none; give target="),
    ("train {d}/rows.csv {o} --target wrod", 1, r"columns \['wrod'\] are not in .*rows.csv"),
    ("train {d}/rows.csv {o} --target a --kind word=date", 1, "word"),
    ("train {d}/rows.csv {o} --target a --kind word=colour", 2, "the kind of 'word' must be .*'drop', got 'colour'"),
    ("train {d}/numbers.zarr {o} --model svm", 1, "'svm' is a classifier, but the target is not whole numbers"),
    ("plan {d}/rows.zarr --classes 0", 2, "classes must be an integer >= 1"),
    ("plan {d}/rows.zarr --classes x", 2, "Invalid value for '--classes'"),
    ("featurize {d}/rows.zarr {o} --map none", 2, "featurize needs a map"),
    ("featurize {d}/rows.zarr {o} --like {d}/none", 1, "none"),
    ("featurize {d}/rows.zarr {o} --like {d}/model -D 64", 2, "leave these out"),
    ("featurize {d}/rows.zarr {o} --like {d}/model", 1, "holds no map"),
    ("ingest {d}/none.csv {o}", 1, "no such data: no CSV file at .*none.csv.*check the path"),
    ("ingest {d}/rows.npz {o} --block-rows 0", 2, "block_rows must be an integer >= 1"),
    ("ingest {d}/rows.npz {o} --columns 7", 1, "7"),
    ("ingest {d}/rows.npz {d}/rows.csv/x", 1, "rows.csv/x' cannot be written: "),
    ("ingest {d}/rows.csv {o}", 1, r"word \(string\)"),
    ("ingest {d}/holes.csv {o} --target y --columns a", 1, "the first in row 3; drop the rows"),
    ("predict {d}/none {d}/rows.zarr {o}", 1, "nothing exists at"),
    ("predict {d}/rows.zarr {d}/rows.zarr {o}", 1, "is not a model.*model is a folder"),
    ("predict {d}/model {d}/rows.zarr p.csv", 1, "written to Parquet, which ends in .parquet: '.*/p.parquet'"),
    ("predict {d}/none {d}/rows.zarr p.csv", 1, "p.csv' cannot be written"),
    ("predict {d}/model {d}/rows.zarr {o} --interval 0.9", 1, "interval= needs a regressor that was calibrated"),
    ("predict {d}/model {d}/rows.zarr {o} --interval 90", 2, "interval must be a finite number > 0 and < 1"),
    ("predict {d}/model {d}/rows.zarr {o} --keys a", 1, "keys= goes with out= of .parquet"),
    ("evaluate {d}/model {d}/rows.zarr --weight region", 1, "column 'region' is not in .*rows.zarr"),
    ("featurize {d}/rows.zarr {d}/o.zarr --scale auto", 2, "--scale auto is chosen by a target, which featurize has not"),
    ("train {d}/rows.csv {o} --target a --scale none", 1, "word"),
    ("add {d}/model {d}/rows.zarr", 1, "train it again with set={'model__keep_state': True}"),
    ("inspect {d}/none", 1, "no such store or folder"),
    ("inspect /", 1, "'/' is not a Zarr store written by distrf"),
    ("train / {o}", 1, "'/' is the root of a file system; give the path of a .*folder of Parquet files"),
    ("demo --rows 0", 2, "rows must be an integer"),
    ("demo --rows 10 -D x", 2, "n_components must be an integer"),
    ("tune {d}/rows.zarr", 2, "Missing argument"),
    ("tune {d}/rows.zarr {o} --grid map__gamma=0.1,x", 2, "map__gamma must be a finite number > 0 or None, got 'x'"),
    ("tune {d}/rows.zarr {o} --grid map__gama=1", 2, "RandomFourierFeatures, has: .*got 'gama' .did you mean 'gamma'"),
    ("tune {d}/rows.zarr {o} --grid alpha=abc", 2, "alpha must be one or more finite numbers .*got 'abc'"),
    ("tune {d}/rows.zarr {o} --map none --grid map__gamma=1", 1, "map='none' has no features and no parameters; leave gamma out"),
    (f"tune {{d}}/rows.zarr {{o}} {SGD} --grid alpha=1 --set model__cv=3", 2, "has: .*got 'cv'"),
]  # fmt: skip
LINES = [(f"train {{d}}/rows.zarr {{o}} {words}", 2, said) for words, said in TRAIN]
LINES += [(f"train {{d}}/rows.zarr {{o}} {words}", 1, said) for words, said in JOBS]


@pytest.mark.parametrize(
    ("line", "code", "said"), LINES + OTHERS, ids=lambda v: v[:60] if isinstance(v, str) else ""
)
def test_refused(cli, data, tmp_path, monkeypatch, line, code, said):
    monkeypatch.setattr("distrf.cluster._started", lambda *_: pytest.fail("a cluster was started"))
    monkeypatch.chdir(tmp_path)
    printed = cli(*(word.format(d=data, o=tmp_path / "out") for word in line.split(" ")), code=code)
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert "unexpected" not in printed.err, printed.err
    assert re.search(said, " ".join(printed.err.split())), printed.err
    assert [path for path in tmp_path.rglob("*") if path.suffix != ".json"] in (
        [],
        [tmp_path / "out"],
    ) or code == 1
    assert not (tmp_path / "out" / "model.json").exists()


@pytest.mark.parametrize("words", [["plan", ""], ["train", "{d}/rows.zarr", " "], ["inspect", "a\0b"]])
def test_empty_words_are_refused(cli, data, words):
    assert "must not be empty" in cli(*(word.format(d=data) for word in words), code=2).err
