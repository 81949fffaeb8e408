"""The notebooks run from top to bottom, import public names alone, and show what they promise."""

from __future__ import annotations

import ast
import base64
import importlib
import itertools
import os
import re
import sys
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

#: Modules of distrf whose `__all__` is public.
PUBLIC = ("distrf", "distrf.datasets", "distrf.metrics", "distrf.plot")
#: Packages beside them, and the standard library.
OTHERS = {
    "IPython",
    "dask",
    "distributed",
    "matplotlib",
    "numpy",
    "pandas",
    "sklearn",
} | sys.stdlib_module_names
#: CPU seconds of a notebook, with all its processes: less than a minute on two idle cores, of which it does not keep both
#: busy all the time. The clock of a busy machine says little, so a cell may take longer by it.
CPU_SECONDS, CELL_SECONDS = 90, 240


def number(pattern, text):
    """The number that the group of a pattern finds in a text."""
    return float(re.search(pattern, text)[1].replace(",", ""))


def check_quickstart(text, images):
    linear, kernel = number(r"linear ([\d.]+), kernel", text), number(r"kernel ([\d.]+)", text)
    assert kernel > linear + 0.02
    assert kernel > 0.95
    assert "Dashboard" in text
    assert "length scale:" in text  # a choice
    assert number(r"on the wire (\d+) B", text) < 1024
    assert "same labels: True" in text
    assert len(images) == 2


def check_which_map(text, images):
    errors = [float(e) for e in re.findall(r"root mean square error ([\d.]+)", text)]
    assert all(3 < more / fewer < 5 for more, fewer in itertools.pairwise(errors))
    for order, least, most in [("in order", 3, 20), ("shuffled", 0.8, 2.5)]:
        found = ast.literal_eval(re.search(rf"columns {order} (\{{.*?\}})", text)[1])
        assert least < found["circulant-paper"] / found["circulant"] < most
        assert found["circulant"] < 2 * found["dense"]
    structured, dense = (number(rf"\n{name} +([\d.]+) ms", text) for name in ("structured_orthogonal", "dense"))
    assert structured < dense
    assert len(images) == 5


def check_larger_than_memory(text, images):
    assert number(r"rows ([\d.]+) GiB", text) > number(r"both workers ([\d.]+) GiB", text)
    assert "was refused: it needs" in text
    assert number(r"R² ([\d.]+)", text) > 0.8
    assert number(r"peak of both workers (\d+) MiB", text) < 1.1 * number(r"planned (\d+) MiB", text)
    assert "killed (exit status -9)" in text
    assert "only a complete store can be read" in text
    done, blocks = map(int, re.search(r"(\d+) of (\d+) blocks computed", text).groups())
    assert 0 < done < blocks
    assert "same bits: True" in text
    assert len(images) == 1


def check_tefm(text, images):
    assert number(r"directions have ([\d.]+)%", text) > 90
    names = ("plain 128", "TEFM 128 of 512", "plain 512")
    plain, best, all_ = (number(rf"{name} +wrong ([\d.]+)", text) for name in names)
    assert all_ < best < 0.75 * plain
    plain, best, all_ = (number(rf"{name} +wrong [\d.]+, kernel error ([\d.]+)", text) for name in names)
    assert best < 0.65 * plain
    assert best < 1.2 * all_
    assert len(images) == 3


def check_learned_maps(text, images):
    learned, drawn = (
        number(rf"8 features: {pattern}", text)
        for pattern in (r"learned ([\d.]+)", r"learned [\d.]+, drawn ([\d.]+)")
    )
    assert learned > max(0.93, drawn + 0.2)
    assert number(r"(\d+) drawn ones are needed", text) >= 64
    drawn, learned = (
        number(rf"error of the kernel: {p}", text)
        for p in (r"drawn ([\d.]+)", r"drawn [\d.]+, learned ([\d.]+)")
    )
    assert learned < drawn / 2
    assert len(images) == 5


def check_histograms(text, images):
    found = re.search(r"linear ([\d.]+), chi-squared ([\d.]+), gaussian ([\d.]+), laplace ([\d.]+)", text)
    linear, *others, laplace = map(float, found.groups())
    assert laplace > max(linear + 0.015, *others)
    assert number(r"exponential semigroup: a new colour lowers the likeness ([\d.]+)", text) > 5
    assert "Negative values in data" in text
    assert len(images) == 6


def check_cluster(text, images):
    assert re.search(r"3 places with 8 blocks, 1 fingerprint", text)
    # Rounding, enlarged by the solution: below 1e-9 with the kernels of OpenBLAS for AVX-512, 1e-7 with those for Haswell.
    assert number(r"largest difference (\S+)", text) < 1e-6
    assert all(words in text for words in ("workers: 2", "fit was refused", "dashboard: http"))
    assert len(images) == 3


def check_messy_table(text, images):
    found = re.search(r"average precision: random ([\d.]+), linear ([\d.]+), kernel ([\d.]+)", text)
    random, linear, kernel = map(float, found.groups())
    assert kernel - 0.15 > linear > random
    assert "first score: average_precision of 'fraud'" in text
    assert set(re.search(r"most important: (.*)", text)[1].split(", ")) == {"amount", "ordered"}
    same, kernel = map(float, re.search(r"brier score: all the same ([\d.]+), kernel ([\d.]+)", text).groups())
    assert kernel < same
    assert len(images) == 4


def check_learned_metric(text, images):
    plain, learned, known = map(
        float, re.search(r"R²: plain ([\d.]+), learned ([\d.]+), three columns alone ([\d.]+)", text).groups()
    )
    assert learned > known - 0.02 > plain + 0.1
    assert ast.literal_eval(re.search(r"columns that count: (\[.*?\])", text)[1]) == [3, 8, 15]
    plain, learned = map(float, re.search(r"digits: plain ([\d.]+), learned ([\d.]+)", text).groups())
    assert learned > plain - 0.01
    assert number(r"share of the two edges: ([\d.]+)%", text) < 10
    assert len(images) == 2


#: What a notebook promises: a function of all text that its cells put out and of its pictures, by its stem.
PROMISES = {
    "01_quickstart": check_quickstart,
    "02_which_map": check_which_map,
    "03_larger_than_memory": check_larger_than_memory,
    "04_tefm": check_tefm,
    "05_compact_nonlinear_maps": check_learned_maps,
    "06_histograms": check_histograms,
    "07_from_laptop_to_cluster": check_cluster,
    "08_messy_table": check_messy_table,
    "09_learned_metric": check_learned_metric,
}


def text_of(output):
    """What an output says in words: what was printed, or HTML without its tags."""
    if output.output_type == "stream":
        return output.text
    data = output.get("data", {})
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", data.get("text/html", data.get("text/plain", ""))))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own making
@every_notebook
def test_notebook(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": str(tmp_path)}}
    )
    before = os.times()
    client.execute()
    after = os.times()
    assert sum(after[2:4]) - sum(before[2:4]) < CPU_SECONDS  # of child processes, in user and in system mode
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    errors = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stderr")
    assert not re.search(r"Traceback|Warning", errors), errors
    images = [base64.b64decode(o.data["image/png"]) for o in outputs if "image/png" in o.get("data", {})]
    assert images
    assert all(image.startswith(b"\x89PNG") for image in images)
    PROMISES[path.stem]("\n".join(map(text_of, outputs)), images)


def test_promises_are_of_notebooks():
    assert PROMISES.keys() == {path.stem for path in NOTEBOOKS}


def names_used(source):
    """Full names of what code imports, and of what it takes from public modules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in PUBLIC:
            yield ast.unparse(node)


@every_notebook
def test_notebooks_use_public_names_alone(path):
    public = {f"{module}.{name}" for module in PUBLIC for name in importlib.import_module(module).__all__}
    code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    used = {name for source in code for name in names_used(source)}
    inside = {name for name in used - public - set(PUBLIC) if name.split(".")[0] not in OTHERS}
    assert not inside


@every_notebook
def test_notebooks_are_kept_without_outputs(path):
    """Outputs would make every change of the text a change of megabytes."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    assert all(cell.get("execution_count") is None for cell in notebook.cells)
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
