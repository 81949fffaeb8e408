"""python -m benchmarks NAME [--data DIR] [--json FILE] [--small]

    python -m benchmarks                                    # the names
    python -m benchmarks scrf_2015 --data DIR               # measure, and print tables
    python -m benchmarks scrf_2015 --data DIR --json benchmarks/results/scrf_2015.json    # and keep what was measured
    python -m benchmarks scrf_2015 --parts table1           # some of its tables
    python -m benchmarks scrf_2015 --small                  # in seconds, on drawn rows: does it work?
    python -m benchmarks tables --data DIR --json benchmarks/results/tables.json    # hours: goes on where the file ends
    python -m benchmarks --pages                            # the tables of docs from benchmarks/results

DIR holds the .npz archives of the data sets. BLAS has one thread, unless OPENBLAS_NUM_THREADS says otherwise.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

from benchmarks import names, results
from benchmarks.benchmark import Part, Record, Run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=[*names.NAMES], metavar="NAME")
    parser.add_argument("--data", type=Path, help="folder of the .npz archives")
    parser.add_argument("--json", type=Path, help="file of results: parts that were run are written into it")
    parser.add_argument("--small", action="store_true", help="in seconds, on drawn rows")
    parser.add_argument("--parts", nargs="+", metavar="PART", help="only these")
    parser.add_argument("--pages", action="store_true", help="fill the tables of docs from benchmarks/results")
    options = parser.parse_args()
    if options.data and not options.data.is_dir():
        parser.exit(2, f"--data {options.data}: there is no such folder\n")
    if options.pages:
        from benchmarks import pages

        for path in pages.write():
            print(path)
    elif options.name is None:
        width = max(map(len, names.NAMES))
        print("\n".join(f"{name:<{width}}  {names.summary(name)}" for name in names.NAMES))
    else:
        parts = names.parts(options.name)
        if unknown := set(options.parts or ()) - {*parts}:
            parser.error(f"{options.name} has no part {', '.join(unknown)}: {', '.join(parts)}")
        wanted = [parts[name] for name in options.parts or parts]
        run_all(options.name, wanted, Run(options.data, options.small), options.json)


def run_all(name: str, parts: list[Part], run: Run, path: Path | None) -> None:
    """Measure the parts, print their tables, and keep what was found."""
    results.commit()  # now, and not when the first part has run
    for part in parts:
        if part.data and run.data is None and not run.small:
            raise SystemExit(
                f"{part.name} reads data sets: say where they are with --data DIR, or take --small"
            )
        started = time.perf_counter()
        found = measure(name, part, run, path)
        print(f"\n{part.name}: {time.perf_counter() - started:.0f} s\n\n{part.show(found)}\n", flush=True)


def measure(name: str, part: Part, run: Run, path: Path | None) -> list[Record]:
    """The records of a part, each shown as it comes. They are kept at the end, or one by one where the part resumes."""
    before = results.resumed(path, part, run)
    run = dataclasses.replace(run, have=tuple(before["records"]) if before else ())
    found, started = list(run.have), time.perf_counter()
    for record in part.measure(run):
        found.append(results.rounded(record))
        print(f"  {json.dumps(found[-1])}", flush=True)
        if path and part.resumes:
            results.keep(path, name, part.name, run, found, time.perf_counter() - started, before)
    if path and not part.resumes:
        results.keep(path, name, part.name, run, found, time.perf_counter() - started)
    return found


if __name__ == "__main__":
    main()
