"""docs/results and the tables of results on other pages are what benchmarks/results makes of them."""

from __future__ import annotations

import pytest

from benchmarks import names, pages, results

PAGES = pages.texts() | pages.filled()
PICTURES = pages.pictures()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_made_from_its_file(path):
    assert path.read_text() == PAGES[path], "run `python -m benchmarks --pages`"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_shows_the_records_of_its_file(path):
    assert pages.stamp(PICTURES[path][1]) in path.read_text(), "run `python -m benchmarks --pages`"


def test_nothing_is_left_over():
    assert {path.stem for path in results.FOLDER.glob("*.json")} <= set(names.NAMES)
    made = set(PAGES) | set(PICTURES)
    assert {path for path in pages.DOCS.iterdir() if path not in made} == set()


def test_a_table_on_another_page():
    made = {"scrf_2015": results.read(results.FOLDER / "scrf_2015.json")}
    if not made["scrf_2015"]["parts"].get("figure1"):
        pytest.skip("benchmarks/results/scrf_2015.json has no figure1")
    text = "before\n<!-- results: scrf_2015 figure1 -->\nold\n<!-- end of results -->\nafter"
    filled = pages.fill(text, made)
    assert "| SCRF |" in filled
    assert "old" not in filled
    assert pages.fill(filled, made) == filled
    with pytest.raises(SystemExit, match="does not hold"):
        pages.fill(text.replace("figure1", "figure9"), made)


def test_a_heading():
    assert [pages.heading(name) for name in ("figure1", "kernel_error", "table2")] == [
        "Figure 1",
        "Kernel error",
        "Table 2",
    ]
