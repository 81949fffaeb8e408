"""Mutants: the small faults of mutants.toml, one at a time in a copy of the package, and whether their tests notice.

    python tests/mutants.py                # all sixty
    python tests/mutants.py --only store   # those of a room, after work on it: a folder of distrf/, or a file beside them

An entry says which behaviour it breaks. Where the line was written anew, the entry is lost, which is an error: break the
same behaviour in the new code. A behaviour that is gone on purpose gives its place to another one of the room. The tests
of an entry must pass without the fault, and are few and short, none of them slow: no test runs this file. The loops of
distrf/compiled have no entries; they are tested through their callers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Tests that hang longer are stopped, and say nothing of their mutant.
SECONDS = 600


def room_of(mutant: dict[str, Any]) -> str:
    """The folder of the package that the file is in, or the file beside the folders, without its ending."""
    return Path(mutant["file"]).parts[1].removesuffix(".py")


def put_copy(folder: Path) -> None:
    """Copy what git knows with its times, and the machine code of the loops, which is then not compiled anew."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    names += [str(path.relative_to(ROOT)) for path in ROOT.glob("distrf/**/*.nb[ci]")]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, folder / name)


def outcome(folder: Path, tests: list[str]) -> tuple[int | None, str]:
    """The exit code of pytest in the copy, and what it says last: 1 and the test that fails; None where it does not end."""
    options = ["-n", "0", "-x", "-q", "-p", "no:cacheprovider", "-o", "timeout=0"]
    where = {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "300"}}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            capture_output=True, text=True, check=False, timeout=SECONDS, **where,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"stopped after {SECONDS} s"
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, ["", *lines, *failed][-1][:200]


def verdict(
    folder: Path, mutant: dict[str, Any], baselines: dict[tuple[str, ...], tuple[int | None, str]]
) -> tuple[str, str]:
    """("caught", "NOT CAUGHT" or "lost", why); `baselines` has what the tests say without a fault."""
    path, tests = folder / mutant["file"], mutant["tests"]
    source = path.read_text() if path.exists() else ""
    found = source.count(mutant["before"])
    if found != 1:
        return "lost", f"the line is {found} times in the file: find it a new place"
    key = tuple(tests)
    baselines[key] = baselines.get(key) or outcome(folder, tests)
    if baselines[key][0] != 0:
        return "lost", f"the tests must pass without the fault: {baselines[key][1]}"
    path.write_text(source.replace(mutant["before"], mutant["after"]))
    try:
        code, why = outcome(folder, tests)
    finally:
        shutil.copy2(ROOT / mutant["file"], path)
    return {0: "NOT CAUGHT", 1: "caught"}.get(code, "lost"), why


def main() -> int:
    """Exit code 0 if all mutants that were asked for are caught, else 1."""
    mutants = tomllib.loads((ROOT / "tests/mutants.toml").read_text())["mutant"]
    rooms = sorted({room_of(mutant) for mutant in mutants})
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=rooms, default=rooms, metavar="ROOM", help=", ".join(rooms)
    )
    chosen = parser.parse_args()
    mutants = [mutant for mutant in mutants if room_of(mutant) in chosen.only]
    baselines: dict[tuple[str, ...], tuple[int | None, str]] = {}
    counts: Counter[str] = Counter()
    left = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copy"
        put_copy(folder)
        for mutant in mutants:
            found, why = verdict(folder, mutant, baselines)
            said = f"{found}: {mutant['file']}: {mutant['breaks']}\n    {why}"
            print(said, flush=True)
            counts[found] += 1
            left += [said] if found != "caught" else []
    print("\n".join([", ".join(f"{count} {found}" for found, count in sorted(counts.items())), *left]))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
