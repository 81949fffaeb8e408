"""docs/results and the tables of results on other pages are what benchmarks/results makes of them."""

from __future__ import annotations

import pytest

from benchmarks import names, pages, results
from benchmarks.benchmark import Claim

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


@pytest.mark.parametrize("name", [name for name, file in pages.files().items() if file["parts"]])
def test_a_file_names_its_machine(name):
    """The processor and the versions of every part; a part without them is to be measured again."""
    parts = results.read(results.FOLDER / f"{name}.json")["parts"]
    unnamed = [
        what for what, part in parts.items() if not {"processor", "distrf", "numpy"} <= set(part["machine"])
    ]
    assert unnamed == []


def test_verdicts_are_counted():
    claims = [
        Claim("a", "", "", "holds"),
        Claim("b", "", "", "holds"),
        Claim("c", "", "", "does not hold", "so"),
    ]
    assert pages.counts({"speed": claims, "plan": claims[:1], "sgd": []}).splitlines() == [
        "| verdicts | holds | holds in part | does not hold | not measured | all |",
        "| --- | --: | --: | --: | --: | --: |",
        "| [Speed of maps](speed.md) | 2 | 0 | 1 | 0 | 3 |",
        "| [Plan and measurement](plan.md) | 1 | 0 | 0 | 0 | 1 |",
        "| all | 3 | 0 | 1 | 0 | 4 |",
    ]


def test_records_without_a_commit_are_of_an_earlier_state():
    for version, earlier in (("0.1.0", True), ("0.1.0 at 1340c0c", False)):
        text = pages.machine({"distrf": version, "numpy": "2.4.6"})
        assert text.startswith(f"distrf {version}, numpy 2.4.6")
        assert (pages.EARLIER in text) == earlier
