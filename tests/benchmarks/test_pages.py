"""The tables of the documentation are what benchmarks/results makes of them."""

from __future__ import annotations

import pytest

from benchmarks import names, pages, results
from benchmarks.benchmark import Run

FILLED = pages.filled()


@pytest.mark.parametrize("path", FILLED, ids=lambda path: path.stem)
def test_a_page_shows_its_files(path):
    assert path.read_text() == FILLED[path], "run `python -m benchmarks --pages`"


def test_every_part_on_file_is_on_one_page():
    shown = [block.groups() for path in FILLED for block in pages.BLOCK.finditer(path.read_text())]
    kept = {name: results.read(results.FOLDER / f"{name}.json")["parts"] for name in names.NAMES}
    assert sorted(shown) == sorted((name, part) for name, parts in kept.items() for part in parts)
    assert {path.stem for path in results.FOLDER.glob("*.json")} == {*names.NAMES, "frozen"}


@pytest.mark.parametrize("name", [*names.NAMES, "frozen"])
def test_a_file_names_its_machine(name):
    for part in results.read(results.FOLDER / f"{name}.json")["parts"].values():
        assert not part["small"]
        assert {"processor", "distrf", "numpy"} <= set(part["machine"])


def test_a_table_on_a_page(tmp_path, monkeypatch):
    results.keep(tmp_path / "scale.json", "scale", "rows", Run(), [], 100.0)
    record = {"rows": 7, "bytes": 2**20, "planned_bytes": 2**21, "seconds": 1.0, "wall": 2.0}
    facts = {"BLAS threads": "1", "numpy": "1", "distrf": "0.1.0"}
    for processor, found in (("one", 2), ("two", 3), ("two", 4), ("three", 5)):
        monkeypatch.setattr(results, "machine", lambda name=processor: facts | {"processor": name})
        file = results.read(tmp_path / "scale.json")["parts"]["rows"] if found > 2 else None
        results.keep(tmp_path / "scale.json", "scale", "rows", Run(), [record] * found, 100.0, file)
    text = "before\n<!-- results: scale rows -->\nold\n<!-- end of results -->\nafter"
    made = pages.fill(text, tmp_path)
    assert made.count("| 7 | 1 | 2 | 1.0 | 2.0 |") == 5
    assert "old" not in made
    assert "; the first 2 records: 2 min on" in made
    assert "; the first 4 records: 3 min on" in made
    assert pages.fill(made, tmp_path) == made
    with pytest.raises(SystemExit, match="holds no full run"):
        pages.fill(text.replace("rows", "columns"), tmp_path)
