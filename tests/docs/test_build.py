"""The site builds without a warning, of links that lead nowhere too, and nothing public is without a page."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import typer

import distrf
from distrf.cli.app import app

COMMANDS = typer.main.get_command(app).commands
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    p for p in DOCS.rglob("*.md") if not {"_build", "commands", "generated"} & set(p.relative_to(DOCS).parts)
)
MODULES = ("distrf.datasets", "distrf.metrics", "distrf.plot")
#: The parts of every page on a method, in this order.
PARTS = ["What it does", "Formula", "Cost", "When to use it, and when not", "Picture", "Measurements"]
PARTS += ["Reference", "See also"]


def public_names():
    names = {f"distrf.{name}" for name in distrf.__all__ if not name.startswith("_")}
    for module in MODULES:
        names |= {f"{module}.{n}" for n in importlib.import_module(module).__all__ if not n.isupper()}
    return names


@pytest.mark.parametrize("page", sorted((DOCS / "methods").glob("*.md")), ids=lambda page: page.stem)
def test_methods_have_the_same_parts(page):
    assert re.findall(r"^## (.+)$", page.read_text(), flags=re.M) == PARTS


def test_pictures_are_small_and_can_be_made_again():
    drawn = re.findall(r"^def (\w+)", (DOCS / "pictures/draw.py").read_text(), flags=re.M)
    shown = {name for page in PAGES for name in re.findall(r"pictures/(\w+)\.svg", page.read_text())}
    pictures = sorted((DOCS / "pictures").glob("*.svg"))
    assert {p.stem for p in pictures} == shown
    for picture in pictures:
        assert picture.stem in drawn
        assert picture.stat().st_size < 100_000, picture.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_code_host_shows_pages_as_they_are(page):
    """No directives and no roles, which are Sphinx's alone."""
    assert not re.findall(r"^(?:```|:::)\{|\{[\w:]+\}`", page.read_text(), flags=re.M)


def test_the_map_that_a_page_shows_is_the_one_that_is_tested():
    assert (ROOT / "tests/relu_features.py").read_text() in (DOCS / "extend/index.md").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("myst_parser")
    pytest.importorskip("pydata_sphinx_theme")
    work = tmp_path_factory.mktemp("docs")
    shutil.copytree(DOCS, work / "docs", ignore=shutil.ignore_patterns("_build", "commands", "generated"))
    shutil.copytree(ROOT / "notebooks", work / "notebooks")
    words = [sys.executable, *["-m", "sphinx", "-q", "-W", "--keep-going", "-n"], work / "docs", work / "site"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return work / "site"


@pytest.mark.slow
def test_everything_public_has_a_page(site):
    data = (site / "objects.inv").read_bytes()
    body = zlib.decompress(data[data.index(b"zlib.\n") + 6 :]).decode()
    found = {line.split()[0] for line in body.splitlines() if " py:" in line}
    assert public_names() <= found


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_have_a_page_with_each_option(site, name):
    text = (site / f"reference/commands/{name}.html").read_text()
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            for option in parameter.opts:
                assert option in text, option
    assert f"commands/{name}.html" in (site / "reference/commands.html").read_text()
