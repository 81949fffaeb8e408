"""Ten million rows of a table in 50 Parquet files, on two workers of 2 GiB: encoded, trained, predicted; killed and resumed.

    python benchmarks/big_table.py FOLDER            # 50 files x 200,000 rows: 25 minutes on 2 cores
    python benchmarks/big_table.py FOLDER --rows 20000 --kills 1

It prints the wall time of each command, the highest resident memory of a worker in every tenth of it, and whether a
training by SGD that was killed (`kill -9` of all its processes) and resumed wrote the same bytes as one that was not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq

FILES = 50


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
    frame = pd.DataFrame(
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
    return frame


def make(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        path = folder / f"part-{number:03d}.parquet"
        if not path.exists():
            rows(number, count).to_parquet(path, index=False, row_group_size=50_000)


def command(*words: Any) -> list[str]:
    cluster = Path(__file__).resolve().parent.parent / "cluster/local/cluster.yaml"
    return [sys.executable, "-m", "distrf", *map(str, words), "--cluster", str(cluster), "--json"]


def watched(words: list[str], kill_after: float | None = None) -> tuple[dict[str, Any], float, list[float]]:
    """The printed JSON of a command, its seconds, and [second, largest worker in MiB] a line for every half second."""
    started = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    seen: list[Any] = []
    while process.poll() is None:
        sizes = [0.0]
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                sizes.append(child.memory_info().rss / 2**20)
            except psutil.NoSuchProcess:
                continue
        seen.append((time.perf_counter() - started, max(sizes)))
        if kill_after is not None and seen[-1][0] > kill_after:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        time.sleep(0.5)
    text = process.stdout.read()
    if kill_after is None and process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}:\n{text}")
    seconds = time.perf_counter() - started
    tenths = [max([m for at, m in seen if k <= 10 * at / seconds < k + 1], default=0.0) for k in range(10)]
    return (json.loads(text) if text and not process.returncode else {}), seconds, tenths


def told(what: str, seconds: float, tenths: list[float], **facts: Any) -> None:
    line = {"step": what, "seconds": round(seconds, 1), "worker_mib_by_tenth": [round(m) for m in tenths]}
    print(json.dumps(line | facts), flush=True)


def files_of(folder: Path) -> dict[str, bytes]:
    """The arrays of a model."""
    arrays = folder / "arrays.zarr"
    return {str(p.relative_to(arrays)): p.read_bytes() for p in sorted(arrays.rglob("*")) if p.is_file()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=200_000, help="of each of the 50 files")
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--kills", type=int, default=3, help="how often the second training is killed")
    options = parser.parse_args()
    table = options.folder / "table"
    make(table, options.rows)
    size = sum(p.stat().st_size for p in table.iterdir())
    print(json.dumps({"rows": FILES * options.rows, "files": FILES, "bytes": size}), flush=True)
    ridge, sgd, resumed, kept, out = (
        options.folder / name for name in ("ridge", "sgd", "resumed", "kept", "out.parquet")
    )
    for path in (ridge, sgd, resumed, kept, out):
        shutil.rmtree(path, ignore_errors=True)
    training = ("--target", "y", "--n-components", options.features)
    result, seconds, tenths = watched(command("train", table, ridge, *training))
    told(
        "train",
        seconds,
        tenths,
        baseline=result["baseline"][0],
        rows_per_second=round(result["rows_per_second"]),
    )
    batches = ("--model", "sgd-regressor", "--n-epochs", 1)
    _, whole, tenths = watched(command("train", table, sgd, *training, *batches))
    told("train --model sgd-regressor", whole, tenths)
    again = command("train", table, resumed, *training, *batches, "--checkpoint", kept, "--resume")
    for _ in range(options.kills):
        _, seconds, tenths = watched(again, kill_after=whole / (options.kills + 2))
        told("killed", seconds, tenths)
    _, seconds, tenths = watched(again)
    same = files_of(sgd) == files_of(resumed) != {}
    told("resumed", seconds, tenths, same_bytes=same, share_of_whole=round(seconds / whole, 2))
    predict = command("predict", ridge, table, out, "--keys", "order_id")
    _, seconds, tenths = watched(predict, kill_after=12)
    told("predict, killed", seconds, tenths, done=out.exists())
    _, seconds, tenths = watched(predict)
    told("predict, resumed", seconds, tenths, rows=pq.ParquetDataset(out).read(columns=[]).num_rows)
    if not same:
        raise SystemExit("the resumed model is another one")


if __name__ == "__main__":
    main()
