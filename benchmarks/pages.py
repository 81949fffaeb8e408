"""docs/results: a page for each file of results, and one page with all verdicts."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

from benchmarks import names, results
from benchmarks.benchmark import Benchmark, Claim, Part, Verdict, markdown

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "results"
MADE = (
    "<!-- Made by `python -m benchmarks --pages` from benchmarks/results: change those files, not this one. -->"
)
BLOCK = re.compile(r"<!-- results: (?P<name>\w+) (?P<part>\w+) -->.*?<!-- end of results -->", re.DOTALL)
HEAD = ("claim", "theirs", "measured", "verdict")


def write() -> list[Path]:
    """Write all pages and pictures; returns their paths."""
    DOCS.mkdir(exist_ok=True)
    made = {
        path: text
        for path, text in (texts() | filled()).items()
        if not path.exists() or path.read_text() != text
    }
    for path, text in made.items():
        path.write_text(text)
    return [*made, *(draw(path, *what) for path, what in pictures().items())]


def texts() -> dict[Path, str]:
    """{path: text} of all pages."""
    pages = {DOCS / f"{name}.md": page(names.get(name), file) for name, file in files().items()}
    return {DOCS / "index.md": index(), **pages}


def filled() -> dict[Path, str]:
    """{path: text} of the other pages that show tables of results: each between its two marks, made anew."""
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent != DOCS]
    return {path: fill(path.read_text(), files()) for path in pages if BLOCK.search(path.read_text())}


def fill(text: str, made: dict[str, dict[str, Any]]) -> str:
    """The text with the table of each part between `<!-- results: NAME PART -->` and `<!-- end of results -->`.

    The part "verdicts" is the table of verdicts; a benchmark may have extracts besides.
    """

    def block(match: re.Match[str]) -> str:
        name, part = match["name"], match["part"]
        benchmark = names.get(name) if name in made else None
        if benchmark is None or part not in ("verdicts", *benchmark.extracts, *made[name]["parts"]):
            raise SystemExit(f"a page shows {name} {part}, which benchmarks/results does not hold")
        records = results.records(benchmark, made[name])
        if part == "verdicts":
            table = verdicts(benchmark.claims(records))
        elif part in benchmark.extracts:
            table = benchmark.extracts[part](records)
        else:
            table = benchmark.part(part).table(records[part]).strip()
        return f"<!-- results: {name} {part} -->\n\n{table}\n\n<!-- end of results -->"

    return BLOCK.sub(block, text)


def files() -> dict[str, dict[str, Any]]:
    """{name: file of results}, in the order of the table of names."""
    found = {name: results.FOLDER / f"{name}.json" for name in names.NAMES}
    read = {name: results.read(path) for name, path in found.items() if path.exists()}
    for name, file in read.items():
        small = [part for part, what in file["parts"].items() if what["small"]]
        if small:
            raise SystemExit(f"benchmarks/results/{name}.json holds small runs, which measure nothing: {small}")
    return read


def page(benchmark: Benchmark, file: dict[str, Any]) -> str:
    """The page of one benchmark."""
    records = results.records(benchmark, file)
    blocks = [f"# {benchmark.title}", MADE, benchmark.about.strip()]
    claims = benchmark.claims(records)
    if claims:
        blocks += ["## Verdicts", verdicts(claims)]
    for part in benchmark.parts:
        if part.name not in records:
            continue
        made = file["parts"][part.name]
        blocks += [f"## {heading(part.name)}", part.table(records[part.name]).strip()]
        if part.draw:
            blocks.append(f"![{heading(part.name)}]({benchmark.name}_{part.name}.svg)")
        data = " --data DATA" if part.data else ""
        command = f"`python -m benchmarks {benchmark.name} --parts {part.name}{data}`"
        blocks.append(f"{command}: {measured(made)}.")
    missing = [f"`{part.name}`" for part in benchmark.parts if part.name not in records]
    if missing:
        blocks.append(f"Not measured: {', '.join(missing)}.")
    return "\n\n".join(blocks) + "\n"


def heading(name: str) -> str:
    """ "figure1" as "Figure 1", "kernel_error" as "Kernel error"."""
    text = name.replace("_", " ")
    digits = len(text) - len(text.rstrip("0123456789"))
    return (f"{text[:-digits].rstrip()} {text[-digits:]}" if digits else text).capitalize()


def measured(part: dict[str, Any]) -> str:
    """How long it took, when and where."""
    text = f"{minutes(part['seconds'])} on {part['date']}, {machine(part['machine'])}"
    for before in part.get("before", ()):
        text += f"; the first {before['records']} records: {measured(before)}"
    return text


def minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


#: Of records without a commit, which runs have noted since.
EARLIER = "an earlier state of distrf, whose commit was not noted"


def machine(facts: dict[str, Any]) -> str:
    """The machine and the versions that speed depends on, as far as they were noted."""
    cores = f"{facts['cores']} cores, " if "cores" in facts else ""
    here = f"{facts['processor']}, {cores}BLAS threads: {facts['BLAS threads']}" if "processor" in facts else ""
    packages = ("distrf", "numpy", "scipy", "scikit-learn", "numba")
    versions = ", ".join(f"{name} {facts[name]}" for name in packages if name in facts)
    if "distrf" in facts and " at " not in facts["distrf"]:
        versions += f" ({EARLIER})"
    return "; ".join(text for text in (here, versions) if text) or "on a machine that was not noted"


def verdicts(claims: list[Claim]) -> str:
    """The table of verdicts, and why, where one does not hold."""
    rows = [(c.said, c.theirs, c.ours, f"**{c.verdict}**" + (f": {c.why}" if c.why else "")) for c in claims]
    return markdown(HEAD, rows).replace("| --- | --: | --: | --: |", "| --- | --- | --- | --- |")


def index() -> str:
    """The page of all verdicts."""
    made = files()
    judged = {
        name: names.get(name).claims(results.records(names.get(name), file)) for name, file in made.items()
    }
    blocks = ["# Results", MADE, INTRODUCTION.strip(), counts(judged)]
    for name, claims in judged.items():
        blocks.append(f"## [{names.get(name).title}]({name}.md)")
        blocks.append(verdicts(claims) if claims else f"{names.NAMES[name][1]}.")
    blocks.append("```{toctree}\n:hidden:\n\n" + "\n".join(made) + "\n```")
    return "\n\n".join(blocks) + "\n"


def counts(judged: dict[str, list[Claim]]) -> str:
    """How many claims of each page came out how."""
    kinds = get_args(Verdict)
    found = {name: Counter(claim.verdict for claim in claims) for name, claims in judged.items() if claims}
    lines = {f"[{names.get(name).title}]({name}.md)": count for name, count in found.items()}
    lines["all"] = sum(found.values(), Counter())
    rows = [[who, *(count[kind] for kind in kinds), count.total()] for who, count in lines.items()]
    return markdown(["verdicts", *kinds, "all"], rows)


INTRODUCTION = """
Every figure of these pages is kept in `benchmarks/results`, with the date, the machine and the versions; the page behind each heading names the command that measured it. Each claim, of a paper or of distrf, *holds*, *holds in part*, *does not hold*, or is *not measured* on the data or machine that it speaks of; where it does not fully hold, the last column says why. *Theirs* is the figure of the paper or of the other method, or what the claim asks for. `±` is one standard error over seeds, or over splits of a table.
"""


# ---- pictures -----------------------------------------------------------------------------------------


def pictures() -> dict[Path, tuple[Part, list[dict[str, Any]]]]:
    """{path: what it is drawn from}."""
    made = {}
    for name, file in files().items():
        benchmark = names.get(name)
        for part, records in results.records(benchmark, file).items():
            if benchmark.part(part).draw:
                made[DOCS / f"{name}_{part}.svg"] = (benchmark.part(part), records)
    return made


def stamp(records: list[dict[str, Any]]) -> str:
    """What a picture carries to say which records it shows."""
    return "records " + hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()[:16]


def draw(path: Path, part: Part, records: list[dict[str, Any]]) -> Path:
    """Draw one picture; its description names the records."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    style = {"svg.hashsalt": "distrf", "axes.spines.right": False, "axes.spines.top": False, "font.size": 10}
    with matplotlib.rc_context(style | {"legend.frameon": False}):
        figure = Figure(figsize=(8, 4), layout="constrained")
        assert part.draw is not None
        part.draw(records, figure)
        figure.savefig(path, metadata={"Date": None, "Description": stamp(records)})
    return path
