"""Every benchmark runs, small, and its tables and verdicts can be made from what it finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import names, pages, results
from benchmarks.benchmark import Run

ROOT = Path(__file__).parents[2]
PARTS = [(name, part.name) for name in names.NAMES for part in names.get(name).parts]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part"), PARTS, ids=map("-".join, PARTS))
def test_a_small_run_of_every_part(name, part):
    benchmark = names.get(name)
    run = Run(small=True)
    found = results.rounded(list(benchmark.part(part).measure(run)))
    assert found
    text = json.dumps(found, allow_nan=False)
    assert benchmark.part(part).table(json.loads(text)).count("|") > 4
    for claim in benchmark.claims({part: json.loads(text)}):
        assert pages.verdicts([claim]).count("\n") == 2
    if draw := benchmark.part(part).draw:
        from matplotlib.figure import Figure

        draw(found, Figure())


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
    code, text = called("scrf_2015", "--parts", "table2")
    assert code
    assert "--data DIR" in text
    code, text = called("scrf_2015", "--parts", "table9")
    assert code
    assert "table2" in text


def test_a_wrong_folder_of_data_is_one_line(tmp_path, monkeypatch, capsys):
    """A folder that is not there, and one without the archive."""
    for folder, words in (
        (tmp_path / "nowhere", "there is no such folder"),
        (tmp_path, "protein_casp.npz: there is no"),
    ):
        monkeypatch.setattr(sys, "argv", ["benchmarks", "accuracy", "--parts", "casp", "--data", str(folder)])
        with pytest.raises(SystemExit) as ended:
            command.main()
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1


def test_a_small_run_replaces_no_full_one(tmp_path):
    benchmark, path = names.get("scrf_2015"), tmp_path / "file.json"
    results.keep(path, benchmark, "figure1", Run(), [{"D": 1}], 2.0)
    with pytest.raises(SystemExit, match="does not replace"):
        results.keep(path, benchmark, "figure1", Run(small=True), [{"D": 2}], 2.0)
    results.keep(path, benchmark, "table1", Run(), [{"d": 1}, {"d": 2}], 2.0)
    assert results.records(benchmark, results.read(path)) == {
        "figure1": [{"D": 1}],
        "table1": [{"d": 1}, {"d": 2}],
    }


@pytest.mark.parametrize(
    ("flags", "widest"),
    [("avx2 avx512f avx512vbmi", "avx512vbmi"), ("avx2 avx512f", "avx512f"), ("avx2", "avx2")],
)
def test_the_widest_instructions_are_named_as_linux_does(flags, widest, monkeypatch):
    text = f"model name\t: Some CPU\ncpu family\t: 6\nmodel\t\t: 106\nflags\t\t: fpu {flags}\n"
    monkeypatch.setattr(results.Path, "read_text", lambda path: text)
    monkeypatch.setattr(results.os.path, "exists", lambda path: True)
    assert results.processor() == f"Some CPU, family 6 model 106, {widest}"
    assert results.has_vbmi(results.processor()) == (widest == "avx512vbmi")
