"""Ten million rows of a table in 50 Parquet files, on two workers of 2 GiB: encoded, trained, predicted; killed and resumed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq

from benchmarks.benchmark import UNKNOWN, Benchmark, Claim, Part, Record, Run, Verdict, markdown, one, where

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


@dataclass(frozen=True)
class Watched:
    """What a command printed, its seconds, and the largest worker in MiB in each tenth of them; whether SIGKILL ended it."""

    printed: dict[str, Any]
    seconds: float
    MiB: list[float]
    killed: bool = False


def watched(words: tuple[Any, ...], kill_after: float | None = None) -> Watched:
    """Run a command on the local cluster, looking at its processes every half second; killed with all of them if asked."""
    cluster = Path(__file__).resolve().parents[2] / "cluster/local/cluster.yaml"
    line = [sys.executable, "-m", "distrf", *map(str, words), "--cluster", str(cluster), "--json"]
    started = time.perf_counter()
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True)
    seen: list[tuple[float, float]] = []
    while process.poll() is None:
        sizes = [0.0]
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    sizes.append(child.memory_info().rss / 2**20)
        seen.append((time.perf_counter() - started, max(sizes)))
        if kill_after is not None and seen[-1][0] > kill_after:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        time.sleep(0.5)
    seconds = time.perf_counter() - started
    assert process.stdout is not None
    with process.stdout:
        text = process.stdout.read()
    killed = kill_after is not None and process.returncode == -signal.SIGKILL
    if process.returncode and not killed:
        raise SystemExit(f"{' '.join(line)} ended with {process.returncode}:\n{text}")
    tenths = [max([m for at, m in seen if k <= 10 * at / seconds < k + 1], default=0.0) for k in range(10)]
    return Watched({} if killed else json.loads(text), seconds, tenths, killed)


def called(words: tuple[Any, ...], kill_after: float | None = None) -> Watched:
    """The same in this process, for small runs: nobody is killed and no worker is looked at."""
    from distrf.cli.app import run

    if kill_after is not None:
        return Watched({}, 0.0, [0.0] * 10)
    started, text = time.perf_counter(), io.StringIO()
    line = ["distrf", *map(str, words), "--cluster", "none", "--json"]
    with mock.patch("sys.argv", line), contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        run()
    return Watched(json.loads(text.getvalue()), time.perf_counter() - started, [0.0] * 10)


def checksums(folder: Path) -> dict[str, str]:
    """{file of the folder: SHA-256 of its bytes}."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def same(whole: Path, other: Path) -> bool:
    """Whether two folders have the same files with the same bytes, and some."""
    return checksums(whole) == checksums(other) != {}


def job(run: Run) -> Iterator[Record]:
    """A training by ridge; one by SGD; that again, killed and resumed; predictions; those again, killed and resumed."""
    command = called if run.small else watched

    def step(
        what: str, words: tuple[Any, ...], kill_after: float | None = None
    ) -> tuple[Record, dict[str, Any]]:
        found = command(words, kill_after)
        record = {"step": what, "seconds": found.seconds, "MiB": [round(m) for m in found.MiB]}
        return record | ({} if kill_after is None else {"killed": found.killed}), found.printed

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        table = folder / "table"
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
            yield step("train by SGD, killed", again, whole["seconds"] / (KILLS + 2))[0]
        record, _ = step("train by SGD, resumed", again)
        arrays = (folder / name / "arrays.zarr" for name in ("sgd", "resumed"))
        yield record | {"same bytes": same(*arrays), "share of whole": record["seconds"] / whole["seconds"]}
        yield from predictions(step, folder)


def predictions(step: Callable[..., tuple[Record, dict[str, Any]]], folder: Path) -> Iterator[Record]:
    """Unbroken ones, then others that are killed at half of their time and resumed."""

    def words(out: Path) -> tuple[Any, ...]:
        return ("predict", folder / "ridge", folder / "table", out, "--keys", "order_id")

    whole, broken = folder / "whole.parquet", folder / "broken.parquet"
    record, result = step("predict", words(whole))
    yield record | {"predicted": result["rows"]}
    yield step("predict, killed", words(broken), record["seconds"] / 2)[0]
    record, result = step("predict, resumed", words(broken))
    written = pq.ParquetDataset(broken).read(columns=[]).num_rows
    parts = {"blocks": result["blocks"], "blocks computed": result["blocks_computed"]}
    yield record | {"predicted": written, "same bytes": same(whole, broken), **parts}


def compared(baseline: dict[str, Any]) -> str:
    """The machine beside a linear model and a constant, on held-out rows."""
    return ", ".join(f"{who} {baseline[who]:.3f}" for who in ("machine", "linear", "constant"))


def show(records: list[Record]) -> str:
    said: dict[str, Callable[[Any], str]] = {
        "rows per second": lambda v: f"{v:,.0f} rows/s",
        "baseline": lambda v: f"{v['what']}: {compared(v)}",
        "killed": lambda v: "ended by SIGKILL" if v else "ended before it was killed",
        "predicted": lambda v: f"{v:,} rows",
        "blocks computed": lambda v: f"{v:,} blocks left to compute",
        "same bytes": lambda v: "the same bytes" if v else "other bytes",
        "share of whole": lambda v: f"{100 * v:.0f} % of the whole",
    }
    cells = []
    for r in records:
        notes = ", ".join(tell(r[name]) for name, tell in said.items() if name in r)
        cells.append([r["step"], f"{r['seconds']:.0f}", f"{max(r['MiB']):,}", notes])
    first = records[0]
    head = f"{first['rows']:,} rows in {first['files']} files, {first['bytes'] / 2**20:,.0f} MiB.\n\n"
    return head + markdown(["command", "wall s", "largest worker, MiB", ""], cells)


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    records = found.get("job", [])
    if not records:
        return []
    made = [claim_baseline(records[0]), claim_memory(records)]
    for what, step in (("a training", "train by SGD"), ("a prediction", "predict")):
        resumed = one(records, step=f"{step}, resumed")
        if resumed:
            made.append(
                claim_resumed(what, where(records, step=f"{step}, killed"), resumed, records[0]["rows"])
            )
    return made


def claim_baseline(first: Record) -> Claim:
    scores = first["baseline"]
    ok = scores["machine"] >= scores["linear"] and scores["machine"] > scores["constant"]
    return Claim(
        "the model is no worse than a linear one, and better than a constant", f"{scores['what']} on {scores['rows']}",
        compared(scores), "holds" if ok else "does not hold", "" if ok else UNKNOWN,
    )  # fmt: skip


def claim_memory(records: list[Record]) -> Claim:
    worst = max(records, key=lambda r: max(r["MiB"]))
    most = max(worst["MiB"])
    ok = most <= LIMIT_MIB
    return Claim(
        f"workers stay within {LIMIT_MIB / 1024:.0f} GiB", f"{LIMIT_MIB:,} MiB", f"{most:,} MiB in *{worst['step']}*",
        "holds" if ok else "does not hold", "" if ok else UNKNOWN,
    )  # fmt: skip


def claim_resumed(what: str, killed: list[Record], resumed: Record, rows: int) -> Claim:
    """The bytes of the unbroken one, after processes that did die; of a prediction all rows, not all of them computed again."""
    died = sum(r["killed"] for r in killed)
    wrong = [] if resumed["same bytes"] else [f"the bytes differ: {UNKNOWN}"]
    wrong += [f"rows are missing: {UNKNOWN}"] if resumed.get("predicted", rows) != rows else []
    if died and resumed.get("blocks computed", 0) == resumed.get("blocks"):
        wrong.append(f"it began anew: {UNKNOWN}")
    left = f", {resumed['predicted']:,} rows" if "predicted" in resumed else ""
    verdict: Verdict = "does not hold" if wrong else "holds" if died == len(killed) > 0 else "not measured"
    why = "; ".join(wrong) if wrong else "" if verdict == "holds" else "it had ended before it was to be killed"
    times = "once" if len(killed) == 1 else f"{len(killed)} times"
    return Claim(
        f"{what} that was killed {times} and resumed writes the bytes of one that was not", "the same bytes",
        f"{'the same bytes' if resumed['same bytes'] else 'other bytes'}{left}; ended by SIGKILL: {died} of {len(killed)}", verdict, why,
    )  # fmt: skip


ABOUT = f"""
{FILES} Parquet files of {ROWS:,} rows: numbers with heavy tails and nulls, dates, categories of 3 to 20,000 levels. Their {FEATURES:,} features would
have {4e-9 * FILES * ROWS * FEATURES:.0f} GB. Each command of the
command line runs on two workers of 2 GiB of this machine (`cluster/local/cluster.yaml`) and its processes are looked at every half
second. A training by SGD and a prediction each run unbroken; then again, ended by `kill -9` of all their processes, and started again
until they are done. The files of both are compared.
"""

BENCHMARK = Benchmark(
    "big_table", "A table of ten million rows", ABOUT, (Part("job", job, show, data=False),), claims
)
