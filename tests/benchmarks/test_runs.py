"""Every benchmark runs, small, and its tables can be made from what it finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import names, results
from benchmarks.benchmark import Part, Run, grid, lines, markdown, pm, spread

ROOT = Path(__file__).parents[2]
PARTS = [(name, part) for name in names.NAMES for part in names.parts(name)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), PARTS, ids=map("-".join, PARTS))
def test_a_small_run_of_every_part(name, what):
    part = names.parts(name)[what]
    found = results.rounded(list(part.measure(Run(small=True))))
    assert found
    text = json.dumps(found, allow_nan=False)
    assert part.show(json.loads(text)).count("|") > 4
    assert part.measure.__doc__


@pytest.mark.slow
def test_the_command(tmp_path):
    def called(*words):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    code, text = called()
    assert code == 0
    assert set(names.NAMES) == {line.split()[0] for line in text.splitlines()}
    file = tmp_path / "scrf_2015.json"
    code, text = called("scrf_2015", "--small", "--parts", "figure1", "--json", str(file))
    assert code == 0, text
    assert "| SCRF |" in text
    made = json.loads(file.read_text())
    assert made["parts"]["figure1"]["small"]
    assert made["parts"]["figure1"]["machine"]["cores"] == os.cpu_count()
    for part, words in (("figure1", "--data DIR"), ("table9", "figure2")):
        code, text = called("cnm_2015", "--parts", part)
        assert code
        assert words in text
    code, text = called("rff_2007", "--parts", "table1", "--data", str(tmp_path / "nowhere"))
    assert (code, text.count("\n")) == (2, 1)
    assert "there is no such folder" in text


def long(run):
    """Numbers."""
    for i in range(run.pick(5, 2)):
        if not run.has(i=i):
            if i == stop_before:
                raise KeyboardInterrupt
            yield {"i": i}


stop_before = None
PART = Part(long, lines({"i": "{i}"}), data=False, resumes=True)


def test_a_part_goes_on_where_its_file_ends(tmp_path, monkeypatch, capsys):
    path = tmp_path / "some.json"
    monkeypatch.setitem(globals(), "stop_before", 3)
    with pytest.raises(KeyboardInterrupt):
        command.run_all("some", [PART], Run(), path)
    assert results.read(path)["parts"]["long"]["records"] == [{"i": 0}, {"i": 1}, {"i": 2}]
    monkeypatch.setitem(globals(), "stop_before", None)
    capsys.readouterr()
    command.run_all("some", [PART], Run(), path)
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:3] == "  {"]
    assert printed == [{"i": 3}, {"i": 4}]
    whole = results.read(path)
    assert [r["i"] for r in whole["parts"]["long"]["records"]] == [0, 1, 2, 3, 4]
    assert "before" not in whole["parts"]["long"]
    command.run_all("some", [PART], Run(), path)  # nothing is missing, so nothing is written
    assert results.read(path) == whole
    with pytest.raises(SystemExit, match="does not replace"):
        command.run_all("some", [PART], Run(small=True), path)
    results.keep(path, "some", "second", Run(), [{"d": 1}], 2.0)
    assert results.read(path)["parts"]["long"] == whole["parts"]["long"]


def test_tables():
    records = [{"set": s, "D": D, **spread([D, D + s])} for s in (1, 2) for D in (8, 16) if (s, D) != (2, 16)]
    assert grid("set {set}", "D = {D}", pm(1), "a")(records) == markdown(
        ["a", "D = 8", "D = 16"], [["set 1", "8.5 ± 0.5", "16.5 ± 0.5"], ["set 2", "9.0 ± 1.0", ""]]
    )
    assert lines({"D": "{D:,}", "one": lambda r: r["D"] + 1})(records[:1]).splitlines()[2] == "| 8 | 9 |"
    assert pm()(spread([3.0])) == "3.00"
