"""What README and docs say can be typed: every command line parses, the flow runs, the Python runs."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from distrf import ingest
from distrf.cli.app import app
from distrf.datasets import load_digits_split

ROOT = Path(__file__).parents[1]
COMMANDS = typer.main.get_command(app).commands
#: The reference is made from the package when the site is built; tests/docs holds it.
WRITTEN = [page for page in (ROOT / "docs").rglob("*.md") if not {"reference", "_build"} & set(page.parts)]
PAGES = sorted(
    [*(ROOT / name for name in ("README.md", "cluster/README.md", "benchmarks/README.md")), *WRITTEN]
)


def blocks(page, language):
    """Fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.M | re.S)


def command_lines(page):
    """Lines of the shell blocks, and inline code, that call `distrf`."""
    lines = [line for block in blocks(page, "bash") for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(r"`(distrf [^`]+)`", page.read_text())
    return [line for line in (*lines, *inline) if line.startswith("distrf ")]


LINES = [(page.relative_to(ROOT), line) for page in PAGES for line in command_lines(page)]


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{p}:{line[:40]}" for p, line in LINES])
def test_command_lines_parse(page, line):
    words = [word for word in shlex.split(line, comments=True)[1:] if word != "..."]
    if not words or words[0].startswith("-"):
        return
    assert words[0] in COMMANDS
    command = COMMANDS[words[0]]
    known = {
        option
        for p in command.params
        if p.param_type_name == "option"
        for option in (*p.opts, *p.secondary_opts)
    }
    assert {word for word in words[1:] if re.match(r"--?[A-Za-z]", word)} <= known | {"--help"}


@pytest.mark.parametrize("page", ["README.md", "docs/guide/commands.md"])
def test_every_command_is_named(page):
    text = (ROOT / page).read_text()
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", text), f"{page} does not mention `distrf {name}`"


def test_scores_in_the_readme_are_those_of_the_page():
    text, page = ((ROOT / name).read_text() for name in ("README.md", "docs/results/tables.md"))
    rows = text.split("## Measured")[1].split("## Links")[0]
    table = [line for line in rows.splitlines() if line.startswith("|") and not line.startswith("|---")]
    assert len(table) > 10
    assert set(table) <= set(page.splitlines())


def places(page):
    """What a link to a heading of a page says behind the #, as code hosts make it."""
    heads = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), flags=re.M
    )
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target:
            path, _, place = target.partition("#")
            found = page.parent / path if path else page
            assert found.exists(), target
            assert not place or place in places(found), target


def test_files_that_pages_and_code_name_exist():
    """`docs/guide/commands.md` in a file of the package; `benchmarks/data.py` in a page, with or without arguments."""
    texts = [*(ROOT / "distrf").rglob("*.py"), ROOT / "CONTRIBUTING.md", *PAGES]
    for source in texts:
        for named in re.findall(
            r"\b((?:docs|benchmarks|cluster|tests|notebooks)/[\w./-]+\.\w+)", source.read_text()
        ):
            assert (ROOT / named).exists(), f"{source.name} names {named}"


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with the files that the README speaks of; few rows, since what is typed is tested and not what it learns."""
    X, y, X_test, y_test = load_digits_split(0)
    X, y = X[:400], y[:400]
    table = {f"p{j}": X[:, j] for j in range(64)} | {"label": y}
    pq.write_table(pa.table(table), tmp_path / "digits.parquet")
    more = {f"p{j}": X_test[:30, j] for j in range(64)} | {"label": y_test[:30]}
    pq.write_table(pa.table(more), tmp_path / "more.parquet")
    for name, rows, labels in (("digits", X, y), ("test", X_test, y_test)):
        np.savez(tmp_path / f"{name}.npz", X=rows, y=labels)
    ingest(tmp_path / "test.npz", tmp_path / "test.zarr")
    rng = np.random.default_rng(0)
    age, plan = rng.normal(40, 10, 400), rng.choice(["basic", "plus"], 400)
    mixed = {"customer_id": np.arange(400), "age": age, "plan": plan}
    pq.write_table(pa.table(mixed | {"price": age + rng.normal(size=400)}), tmp_path / "sales.parquet")
    for name in ("customers", "new"):
        churned = np.where(age + 10 * (plan == "plus") > 45, "yes", "no")
        pq.write_table(pa.table(mixed | {"churned": churned}), tmp_path / f"{name}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_of_the_readme(workplace, cli):
    section = (ROOT / "README.md").read_text().split("## On your table")[1]
    first, *lines = re.search(r"^```bash\n(.*?)^```", section, flags=re.M | re.S)[1].splitlines()
    assert first.startswith("source .venv/bin/activate")  # `distrf` is not found without it
    for line in lines:
        cli(*shlex.split(line)[1:])
    assert {"churn", "churn.html", "predictions.parquet"} <= {p.name for p in workplace.iterdir()}


def test_commands_by_example(workplace, cli):
    block = blocks(ROOT / "docs/guide/commands.md", "bash")[0]
    ran = set()
    for line in block.splitlines():
        words = [re.sub("^8192$", "128", word) for word in shlex.split(line, comments=True)[1:]]
        cli(*words, cluster=words[0] not in ("ingest", "plan", "inspect"))
        ran.add(words[0])
    assert {"ingest", "plan", "train", "evaluate", "predict", "featurize", "inspect"} <= ran
    assert {"data.zarr", "model", "predictions.zarr", "features.zarr"} <= {p.name for p in workplace.iterdir()}


def write_snippet(workplace, page, index):
    ingest(workplace / "digits.npz", workplace / "data.zarr", block_rows=150)
    code = re.sub(r"\b8192\b", "128", blocks(page, "python")[index])
    (workplace / "snippet.py").write_text(code)
    return code


def test_the_python_of_the_readme(workplace, client, monkeypatch):
    """In this process and on a cluster that is there."""

    @contextmanager
    def connect():
        yield client

    monkeypatch.setattr("distrf.cluster.connect", connect)
    assert len(blocks(ROOT / "README.md", "python")) == 1
    write_snippet(workplace, ROOT / "README.md", 0)
    runpy.run_path("snippet.py", run_name="__main__")
    assert (workplace / "model/model.json").exists()


SNIPPETS = [(page.relative_to(ROOT), i) for page in PAGES for i, _ in enumerate(blocks(page, "python"))]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "index"), SNIPPETS, ids=[f"{p}-{i}" for p, i in SNIPPETS])
def test_python_runs(workplace, page, index):
    """In a process of its own, with a cluster of its own."""
    code = write_snippet(workplace, ROOT / page, index)
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "snippet.py"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    if "save_model" in code:
        assert (workplace / "model/model.json").exists()
