"""What small steps cost: one row through a loaded model, and commands that need no cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from distrf import RandomFourierFeatures, StreamingRidge, StreamingScaler, load_model, save_model, write_rows

#: Seconds that one row may take beside its arithmetic: well below a millisecond, on a machine that does other work too.
BESIDE = 1e-3


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(2000, 20))
    path = tmp_path_factory.mktemp("model") / "model"
    made = make_pipeline(
        StreamingScaler(),
        RandomFourierFeatures(n_components=512, projection="circulant", random_state=0),
        StreamingRidge(alpha=1e-3),
    )
    save_model(made.fit(X, X[:, 0]), path)
    return path


def least(call, times=300):
    """The least of many times: what the work takes where nothing interferes, a measurement of coverage least of all."""
    call()
    seconds = []
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        for _ in range(times):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    finally:
        sys.settrace(trace)
    return min(seconds)


@pytest.mark.clock
def test_one_row_costs_its_arithmetic(model):
    loaded = load_model(model)
    scale, map_, weights = loaded[0].map_, loaded[1].map_, np.atleast_2d(loaded[2].coef_)
    row = np.random.default_rng(1).normal(size=(1, 20))
    arithmetic = least(lambda: map_(scale(row)) @ weights.T)
    assert least(lambda: loaded.predict(row)) < arithmetic + BESIDE


def test_what_the_checks_are_for_is_still_refused(model):
    loaded = load_model(model)
    rows = np.ones((3, 20))
    for bad, message in (
        (np.where(np.eye(3, 20) > 0, np.nan, rows), "NaN"),
        (np.where(np.eye(3, 20) > 0, np.inf, rows), "infinity"),
        (rows[:, :5], "5 features"),
        (rows[:0], "0 sample"),
        (rows[0], "1D array"),
    ):
        with pytest.raises(ValueError, match=message):
            loaded.predict(bad)
    assert np.isfinite(loaded[0].transform(1e300 * rows)).all()  # whose squares are infinite
    with pytest.raises(NotFittedError):
        RandomFourierFeatures().transform(rows)


CODE = """
import json, sys, time
began = time.process_time()
if sys.argv[1:2] == ["--import"]:
    import importlib
    for name in json.load(open(sys.argv[2])):
        try:
            importlib.import_module(name)
        except Exception:
            pass
else:
    from distrf.cli import main as run
    try:
        run()
    except SystemExit as left:
        assert not left.code
    json.dump(list(sys.modules), open("modules.json", "w"))
print(time.process_time() - began, file=sys.stderr)
"""


@pytest.mark.clock
@pytest.mark.parametrize(
    "words", [["inspect", "rows.zarr"], ["plan", "rows.zarr"], ["predict", "MODEL", "rows.zarr", "out.zarr"]]
)
def test_commands_take_little_more_than_their_imports(model, tmp_path, words):
    X = np.random.default_rng(0).normal(size=(2000, 20))
    write_rows(X, tmp_path / "rows.zarr", X[:, 0])
    words = [str(model) if word == "MODEL" else word for word in words]

    def seconds(*arguments):
        done = subprocess.run(
            [sys.executable, "-c", CODE, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return float(done.stderr.splitlines()[-1])

    command = imports = np.inf
    for _ in range(10):  # in turns, and again where something interfered
        command = min(command, seconds(*words))
        assert json.loads((tmp_path / "modules.json").read_text())
        imports = min(imports, seconds("--import", "modules.json"))
        if command < 1.1 * imports:
            break
    # The bar is 1.1 on an idle machine; the rest is for one that is not: 1.19 was measured beside other tests.
    print("ratio", command, imports, command / imports)
    assert command < 1.5 * imports
