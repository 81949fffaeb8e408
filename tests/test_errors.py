"""What cannot be fitted, predicted or scored is an InputError, whoever finds it; what lacks memory is called nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import distrf
from distrf.cli import console
from distrf.errors import InputError, StoreError, reworded
from distrf.pipeline.target import look_at

X = np.random.default_rng(0).normal(size=(40, 3))
y = (X[:, 0] > 0).astype(int)
LABELS = np.array(["a", "b"] * 20, dtype=object)
LABELS[7] = None

#: What `train` refuses: rows, targets, and what is said of them where it is not what a library says.
REFUSED = {
    "rows of text": (X.astype(str), y, ""),
    "complex rows": (X + 1j, y, ""),
    "rows of objects": (X.astype(object), y, r"got dtype object; .*X.astype\(float\) makes numbers of objects"),
    "one class": (X, np.full(40, "a"), "at least 2 classes"),
    "one dimension": (X[:, 0], y, ""),
    "no rows": (X[:0], y[:0], ""),
    "no columns": (X[:, :0], y, ""),
    "no X": (None, y, ""),
    "infinity": (np.where(X > 1, np.inf, X), y, ""),
    "times": (X.astype("datetime64[s]"), y, ""),
    "rows beyond squares": (X * 1e200, y, "columns of X are too large, squared distances of rows overflow: up to"),
    "dictionaries": (X, np.array([{}] * 40, dtype=object), ""),
    "numbers and text": (X, np.array([1, "a"] * 20, dtype=object), ""),
    "complex targets": (X, y + 1j, ""),
    "times as targets": (X, np.arange(40).astype("datetime64[s]"), ""),
    "targets with NaN": (X, np.where(y, np.nan, 0.0), ""),
    "too few targets": (X, y[:10], ""),
    "targets of three dimensions": (X, np.ones((40, 2, 2)), ""),
    "no y": (X, None, ""),
    "a label that is missing": (X, LABELS, "^y must have a value in every row, but row 7 is None; drop such rows$"),
    "targets beyond float32": (X, y * 1e300, "too large or too alike for predictions in float32: up to .*e\\+300"),
    "targets below float32": (X, X[:, 0] * 1e-200, "too large or too alike .*e-200 apart"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_train_refuses(case):
    rows, targets, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        distrf.train(rows, targets)


def test_train_takes_lists():
    model = distrf.train(X.tolist(), y.tolist(), n_components=16)
    np.testing.assert_array_equal(model.predict(X), distrf.train(X, y, n_components=16).predict(X))


def test_two_numbers_beyond_whole_ones_are_no_labels():
    """scikit-learn's classifiers refuse them."""
    assert not look_at(y * 1e30).labels


def test_what_is_reworded_and_what_passes(capsys):
    with pytest.raises(StoreError, match="damaged") as caught, reworded(lambda e: StoreError(f"damaged: {e}")):
        raise KeyError("a")
    assert isinstance(caught.value.__cause__, KeyError)
    for error in (MemoryError("m"), InputError("i")):
        with pytest.raises(type(error)), reworded(lambda e: StoreError(f"damaged: {e}")):
            raise error
    assert console.print_error(MemoryError("Unable to allocate 8.00 GiB")) == 1
    assert "not enough memory: Unable to allocate 8.00 GiB" in capsys.readouterr().err


#: Functions that may raise another error in place of any: each lets MemoryError through, or says why not.
REWORDING = {("errors.py", "reworded"), ("store/files.py", "explained"), ("cluster.py", "_client")}  # fmt: skip


def test_no_other_function_rewords_any_error():
    root, found = Path(distrf.__file__).parent, set()
    for path in root.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for handler in (node for node in ast.walk(function) if isinstance(node, ast.ExceptHandler)):
                wide = handler.type is None or ast.unparse(handler.type) in ("Exception", "BaseException")
                if wide and any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(handler)):
                    found.add((path.relative_to(root).as_posix(), function.name))
    assert found == REWORDING
