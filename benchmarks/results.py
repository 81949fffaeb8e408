"""Files of results: what was measured, on which machine, with which versions, when."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import json
import math
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.benchmark import Part, Record, Run

#: The results that the documentation shows.
FOLDER = Path(__file__).parent / "results"
#: Tracked files that no measurement runs.
NO_CODE = ("benchmarks/results", "docs")
PACKAGES = ("distrf", "numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr")


def machine() -> dict[str, Any]:
    """{what: value}: processor, cores, memory, threads of BLAS, Python and the packages that numbers depend on."""
    memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    threads, python = os.environ.get("OPENBLAS_NUM_THREADS", "all"), platform.python_version()
    found: dict[str, Any] = {"processor": processor(), "cores": os.cpu_count(), "GiB": memory}
    found |= {"BLAS threads": threads, "python": python}
    found |= {name: importlib.metadata.version(name) for name in PACKAGES}
    return found | {"distrf": " at ".join(part for part in (found["distrf"], commit()) if part)}


@functools.cache
def commit() -> str:
    """The commit whose code is measured, short, with a "+" where files differ from it; "" outside of a repository.

    Asked once, when a run starts: edits of later hours are not what it measures. Files of results, and documentation, are no code.
    """

    def git(*words: str) -> str:
        command = ["git", "-C", str(FOLDER.parent), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    code = [":/", *(f":(top,exclude){path}" for path in NO_CODE)]
    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
        return git("rev-parse", "--short=7", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def processor() -> str:
    """The name of the processor, and its widest vector instructions."""
    text = Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    flags = facts.get("flags", "").split()
    widest = next((f for f in ("avx512vbmi", "avx512f", "avx2") if f in flags), "")
    family = f"family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else ""
    return ", ".join(part for part in (facts.get("model name", platform.machine()), family, widest) if part)


def read(path: str | Path) -> dict[str, Any]:
    """A file of results, or an empty one."""
    path = Path(path)
    return json.loads(path.read_text()) if path.exists() else {"benchmark": path.stem, "parts": {}}


def resumed(path: str | Path | None, part: Part, run: Run) -> dict[str, Any] | None:
    """What the file has of a part that resumes; None of others, and of a run of the other size."""
    before = read(path)["parts"].get(part.name) if path and part.resumes else None
    return before if before and before["small"] == run.small else None


def keep(
    path: str | Path,
    benchmark: str,
    name: str,
    run: Run,
    found: list[Record],
    seconds: float,
    before: Any = None,
) -> None:
    """Write what one part found beside what the file has of others. A small run takes no full run's place.

    before : the part that this run went on with; `found` begins with its records, and the file keeps where they are from
    """
    file = read(path)
    old = file["parts"].get(name)
    if run.small and old and not old["small"]:
        raise SystemExit(f"{path} has a full run of {name}: a small one does not replace it")
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    about = {"date": date, "seconds": round(seconds), "small": run.small, "machine": machine()}
    file["benchmark"] = benchmark
    file["parts"][name] = (after(before, about) if before else about) | {"records": found}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(f"{path}.new")
    scratch.write_text(dumps(file))
    scratch.replace(path)


def after(before: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """`about` of a part that went on: seconds of one machine add up, another machine is named with its records."""
    earlier = before.get("before", [])
    if before["machine"] == about["machine"]:
        about = about | {"seconds": before["seconds"] + about["seconds"]}
    else:
        first = {name: before[name] for name in ("date", "seconds", "machine")}
        earlier = [*earlier, first | {"records": len(before["records"])}]
    return about | ({"before": earlier} if earlier else {})


def dumps(file: dict[str, Any]) -> str:
    """JSON with one record a line, so that a difference of two files can be read."""
    text = json.dumps(file | {"parts": {}}, indent=1)[: -len("{}\n}")].rstrip() + " {"
    for i, (name, part) in enumerate(file["parts"].items()):
        head = json.dumps(part | {"records": []}, indent=3)[: -len("[]\n}")].rstrip()
        lines = ",\n    ".join(json.dumps(rounded(record), allow_nan=False) for record in part["records"])
        text += ("," if i else "") + f"\n  {json.dumps(name)}: {head} [\n    {lines}\n  ]}}"
    return text + "\n }\n}\n"


def rounded(value: Any) -> Any:
    """Numbers to six digits: more are noise."""
    if isinstance(value, dict):
        return {name: rounded(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value
