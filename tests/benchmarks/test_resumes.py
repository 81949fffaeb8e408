"""A part that takes hours is kept record by record, and goes on where its file ends."""

from __future__ import annotations

import json
import subprocess

import pytest

from benchmarks import __main__ as command
from benchmarks import pages, results
from benchmarks.benchmark import Benchmark, Claim, Part, Run, markdown


def measure(run):
    for i in range(run.pick(5, 2)):
        if {"i": i} not in run.have:
            if i == stop_before:
                raise KeyboardInterrupt
            yield {"i": i}


stop_before = None
PART = Part(
    "long", measure, lambda records: markdown(["i"], [[r["i"]] for r in records]), data=False, resumes=True
)
BENCHMARK = Benchmark("some", "Some", "About.", (PART,), lambda found: [Claim("said", "1", "2", "holds")])


def test_a_part_goes_on_where_its_file_ends(tmp_path, monkeypatch, capsys):
    path = tmp_path / "some.json"
    monkeypatch.setitem(globals(), "stop_before", 3)
    with pytest.raises(KeyboardInterrupt):
        command.run_all(BENCHMARK, Run(), None, path)
    kept = results.read(path)
    assert results.records(BENCHMARK, kept) == {"long": [{"i": 0}, {"i": 1}, {"i": 2}]}
    monkeypatch.setitem(globals(), "stop_before", None)
    capsys.readouterr()
    command.run_all(BENCHMARK, Run(), None, path)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:3] == "  {"] == [
        {"i": 3},
        {"i": 4},
    ]
    whole = results.read(path)
    assert [r["i"] for r in whole["parts"]["long"]["records"]] == [0, 1, 2, 3, 4]
    assert "before" not in whole["parts"]["long"]
    command.run_all(BENCHMARK, Run(), None, path)  # nothing is missing, so nothing is written
    assert results.read(path) == whole
    with pytest.raises(SystemExit, match="does not replace"):
        command.run_all(BENCHMARK, Run(small=True), None, path)


def test_another_machine_is_named_with_its_records(tmp_path, monkeypatch):
    path = tmp_path / "some.json"
    facts = {"processor": "one", "BLAS threads": "1", "numpy": "1"}
    seconds = 100.0
    for processor, found in (("one", 2), ("two", 3), ("two", 4), ("three", 5)):
        monkeypatch.setattr(results, "machine", lambda name=processor: facts | {"processor": name})
        before = results.resumed(path, PART, Run())
        results.keep(path, BENCHMARK, "long", Run(), [{"i": i} for i in range(found)], seconds, before)
    part = results.read(path)["parts"]["long"]
    assert [(b["machine"]["processor"], b["seconds"], b["records"]) for b in part["before"]] == [
        ("one", 100, 2),
        ("two", 200, 4),
    ]
    text = pages.measured(part)
    assert text.startswith("2 min on ")
    assert "; the first 2 records: 2 min on" in text
    assert "; the first 4 records: 3 min on" in text
    assert pages.machine({}) == "on a machine that was not noted"


def test_the_commit_is_that_of_the_code(tmp_path, monkeypatch):
    """Asked when the run starts; files of results and documentation are no changes of it."""

    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    code, result, page = (
        tmp_path / path for path in ("code.py", "benchmarks/results/some.json", "docs/some.md")
    )
    git("init")
    for path in (code, result, page):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.setattr(results, "FOLDER", result.parent)
    monkeypatch.setattr(results, "machine", lambda: {"distrf": results.commit()})

    def asked(change):
        results.commit.cache_clear()
        change()
        return results.commit()

    clean = asked(lambda: None)
    assert len(clean) == 7
    assert asked(lambda: (result.write_text("1"), page.write_text("1"))) == clean
    assert asked(lambda: code.write_text("1")) == clean + "+"
    git("commit", "-am", "second")
    results.commit.cache_clear()
    edited = Part("edited", lambda run: iter([{"i": code.write_text("2")}]), PART.table, data=False)
    command.run_all(Benchmark("some", "Some", "About.", (edited,)), Run(), None, tmp_path / "some.json")
    assert results.read(tmp_path / "some.json")["parts"]["edited"]["machine"]["distrf"][-1] != "+"
    results.commit.cache_clear()


def test_a_block_of_verdicts(monkeypatch):
    monkeypatch.setattr(pages.names, "get", lambda name: BENCHMARK)
    made = {"some": {"parts": {"long": {"records": [{"i": 7}]}}}}
    page = "<!-- results: some verdicts -->\n<!-- end of results -->\n<!-- results: some long -->\n<!-- end of results -->"
    filled = pages.fill(page, made)
    assert "| said | 1 | 2 | **holds** |" in filled
    assert "| 7 |" in filled
