"""Ten million rows of a table in 50 Parquet files, on two workers of 2 GiB: encoded, trained, predicted; killed and resumed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq

from benchmarks.benchmark import Benchmark, Claim, Part, Record, Run, markdown, where

FILES, ROWS, FEATURES, KILLS = 50, 200_000, 1024, 3
#: Of a worker, as cluster/local/cluster.yaml has it.
LIMIT_MIB = 2048


def rows(number: int, count: int) -> pd.DataFrame:
    """File `number` of the table: numbers with heavy tails and nulls, dates, categories of 3 to 20,000 levels, an id."""
    rng, fixed = np.random.default_rng([7, number]), np.random.default_rng(8)
    city_effect, product_effect = fixed.normal(0, 0.5, 300), fixed.normal(0, 0.7, 20_000)
    spend, age = np.exp(rng.normal(3, 1.2, count)), rng.normal(45, 15, count).round()
    calls, city = rng.poisson(2, count), rng.integers(0, 300, count)
    product, plan = rng.zipf(1.3, count) % 20_000, rng.integers(0, 3, count)
    day = rng.integers(0, 1500, count)
    y = 0.3 * np.log(spend) + np.sin(day / 58) + 0.02 * np.abs(age - 45) - 0.4 * calls * (plan == 0)
    y += city_effect[city] + product_effect[product] + rng.normal(0, 0.5, count)
    return pd.DataFrame(
        {
            "order_id": np.arange(count) + number * count,
            "spend": np.where(rng.random(count) < 0.1, np.nan, spend),
            "age": np.where(rng.random(count) < 0.2, np.nan, age),
            "calls": calls,
            "city": pd.Series([f"city {c}" for c in city]).where(rng.random(count) > 0.05),
            "product": [f"product {p}" for p in product],
            "plan": np.array(["basic", "plus", "pro"])[plan],
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(day, "D"),
            "active": rng.random(count) < 0.7,
            "y": y,
        }
    )


def make(folder: Path, files: int, count: int) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        rows(number, count).to_parquet(
            folder / f"part-{number:03d}.parquet", index=False, row_group_size=50_000
        )


# ---- commands -----------------------------------------------------------------------------------------

#: The printed JSON of a command, its seconds, and the largest worker in MiB in each tenth of it.
Watched = tuple[dict[str, Any], float, list[float]]


def watched(words: tuple[Any, ...], kill_after: float | None = None) -> Watched:
    """Run a command on the local cluster, looking at its processes every half second; killed with all of them if asked."""
    cluster = Path(__file__).resolve().parents[2] / "cluster/local/cluster.yaml"
    line = [sys.executable, "-m", "distrf", *map(str, words), "--cluster", str(cluster), "--json"]
    started = time.perf_counter()
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True)
    seen: list[Any] = []
    while process.poll() is None:
        sizes = [0.0]
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                sizes.append(child.memory_info().rss / 2**20)
        seen.append((time.perf_counter() - started, max(sizes)))
        if kill_after is not None and seen[-1][0] > kill_after:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        time.sleep(0.5)
    assert process.stdout is not None
    with process.stdout:
        text = process.stdout.read()
    if kill_after is None and process.returncode:
        raise SystemExit(f"{' '.join(line)} ended with {process.returncode}:\n{text}")
    seconds = time.perf_counter() - started
    tenths = [max([m for at, m in seen if k <= 10 * at / seconds < k + 1], default=0.0) for k in range(10)]
    return (json.loads(text) if text and not process.returncode else {}), seconds, tenths


def called(words: tuple[Any, ...], kill_after: float | None = None) -> Watched:
    """The same in this process, for small runs: nobody is killed and no worker is looked at."""
    from distrf.cli.app import run

    if kill_after is not None:
        return {}, 0.0, [0.0] * 10
    started, text = time.perf_counter(), io.StringIO()
    line = ["distrf", *map(str, words), "--cluster", "none", "--json"]
    with mock.patch("sys.argv", line), contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        run()
    return json.loads(text.getvalue()), time.perf_counter() - started, [0.0] * 10


def files_of(folder: Path) -> dict[str, bytes]:
    """The arrays of a model."""
    arrays = folder / "arrays.zarr"
    return {str(p.relative_to(arrays)): p.read_bytes() for p in sorted(arrays.rglob("*")) if p.is_file()}


def job(run: Run) -> Iterator[Record]:
    """A training by ridge; one by SGD; that again, killed and resumed; predictions, killed and resumed."""
    command = called if run.small else watched

    def step(
        what: str, words: tuple[Any, ...], kill_after: float | None = None
    ) -> tuple[Record, dict[str, Any]]:
        result, seconds, tenths = command(words, kill_after)
        return {"step": what, "seconds": seconds, "MiB": [round(m) for m in tenths]}, result

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        table, out = folder / "table", folder / "out.parquet"
        make(table, run.pick(FILES, 2), run.pick(ROWS, 300))
        size = sum(p.stat().st_size for p in table.iterdir())
        facts = {"rows": run.pick(FILES * ROWS, 600), "files": run.pick(FILES, 2), "bytes": size}
        training = ("--target", "y", "--n-components", run.pick(FEATURES, 32))
        record, result = step("train", ("train", table, folder / "ridge", *training))
        more = {"rows per second": result["rows_per_second"], "baseline": result["baseline"][0]}
        yield record | facts | more
        batches = ("--model", "sgd-regressor", "--n-epochs", 1)
        whole, _ = step("train by SGD", ("train", table, folder / "sgd", *training, *batches))
        yield whole
        state = ("--checkpoint", folder / "kept", "--resume")
        again = ("train", table, folder / "resumed", *training, *batches, *state)
        for _ in range(run.pick(KILLS, 1)):
            yield step("killed", again, whole["seconds"] / (KILLS + 2))[0]
        record, _ = step("resumed", again)
        same = files_of(folder / "sgd") == files_of(folder / "resumed") != {}
        yield record | {"same bytes": same, "share of whole": record["seconds"] / whole["seconds"]}
        predict = ("predict", folder / "ridge", table, out, "--keys", "order_id")
        yield step("predict, killed", predict, 12)[0] | {"done": out.exists()}
        record, _ = step("predict, resumed", predict)
        yield record | {"rows": pq.ParquetDataset(out).read(columns=[]).num_rows}


def show(records: list[Record]) -> str:
    cells = []
    for r in records:
        said = {
            "rows per second": lambda v: f"{v:,.0f} rows/s",
            "same bytes": lambda v: "the same bytes" if v else "other bytes",
            "share of whole": lambda v: f"{100 * v:.0f} % of the whole",
        }
        notes = ", ".join(tell(r[name]) for name, tell in said.items() if name in r)
        cells.append([r["step"], f"{r['seconds']:.0f}", f"{max(r['MiB']):,}", notes])
    first = records[0]
    head = (
        f"{first['rows']:,} rows in {first['files']} files, {first['bytes'] / 2**20:,.0f} MiB.\n\n"
        if "files" in first
        else ""
    )
    return head + markdown(["command", "wall s", "largest worker, MiB", ""], cells)


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    records = found.get("job", [])
    resumed, made = where(records, step="resumed"), []
    if resumed:
        same = resumed[0]["same bytes"]
        made.append(
            Claim(
                f"a training that was killed {KILLS} times and resumed writes the bytes of one that was not", "the same bytes",
                "the same bytes" if same else "other bytes", "holds" if same else "does not hold", "" if same else "it is another model",
            )
        )  # fmt: skip
    if records:
        worst = max(records, key=lambda r: max(r["MiB"]))
        most = max(worst["MiB"])
        ok = most <= LIMIT_MIB
        made.append(
            Claim(
                "workers stay within 2 GiB", f"{LIMIT_MIB:,} MiB", f"{most:,} MiB in {worst['step']}",
                "holds" if ok else "does not hold", "" if ok else "the plan leaves too little room",
            )
        )  # fmt: skip
    return made


ABOUT = f"""
{FILES} Parquet files of {ROWS:,} rows: numbers with heavy tails and nulls, dates, categories of 3 to 20,000 levels. Each command of the
command line runs on two workers of 2 GiB of this machine (`cluster/local/cluster.yaml`) and its processes are looked at every half
second. A training by SGD and a prediction are ended by `kill -9` of all their processes, and started again. 25 minutes on two cores.
"""

BENCHMARK = Benchmark(
    "big_table", "A table larger than memory", ABOUT, (Part("job", job, show, data=False),), claims
)
