"""What writes an output holds its lock: other processes that are started beside it, or after it was killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from foreign_lock import FOREIGN
from sklearn.pipeline import make_pipeline

from distrf import RandomFourierFeatures, StreamingRidge, featurize, ingest, predict, train, write_rows
from distrf.errors import InUseError
from distrf.store import job_lock

X = np.random.default_rng(0).normal(size=(60, 3))
MAP = RandomFourierFeatures(n_components=8, length_scale=2.0, random_state=0)

#: Features of 60 rows in six blocks. When two are written, it waits for ever.
JOB = """
import sys, time
from pathlib import Path
import dask, dask.array as da, numpy as np
from distrf import RandomFourierFeatures, featurize

out = Path(sys.argv[1])

def slow(block):
    while len(list(out.glob("X/c/*"))) >= 2:
        time.sleep(0.01)
    return block

X = da.from_array(np.random.default_rng(0).normal(size=(60, 3)), chunks=(10, 3))
map_ = RandomFourierFeatures(n_components=8, length_scale=2.0, random_state=0)
print("ready", flush=True)
sys.stdin.readline()
with dask.config.set(scheduler="synchronous"):
    featurize(map_, X.map_blocks(slow, dtype=X.dtype, name="rows"), out)
"""


def start(stack, out):
    """A process that waits for a line before it writes."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    words = [sys.executable, "-c", JOB, str(out)]
    process = stack.enter_context(subprocess.Popen(words, **pipes, text=True))
    stack.callback(process.kill)
    return process


def chunks(path):
    return {p.relative_to(path): p.read_bytes() for p in Path(path).glob("X/c/*/*")}


@pytest.mark.slow
def test_two_at_once_and_one_that_is_killed(tmp_path):
    """One of two is refused; what the other has left when it is killed is taken over at once, and its blocks are kept."""
    out, lock = tmp_path / "features.zarr", tmp_path / ".features.zarr.lock"
    with ExitStack() as stack:
        two = [start(stack, out) for _ in range(2)]
        for process in two:
            assert process.stdout.readline() == "ready\n"
        for process in two:
            process.stdin.write("\n")
            process.stdin.flush()
        while len(list(out.glob("manifest/*/*"))) < 2 or all(process.poll() is None for process in two):
            assert any(process.poll() is None for process in two)
            time.sleep(0.01)
        owner = json.loads(lock.read_text())["pid"]
        winner, loser = sorted(two, key=lambda process: process.pid != owner)
        said = loser.communicate()[1]
        assert loser.returncode == 1
        assert (
            f"InUseError: one job at a time writes an output: {str(out)!r} is being written by process {owner} on"
            in said
        )
        assert winner.poll() is None
        winner.kill()
        winner.wait()
        assert lock.exists()
    rows = da.from_array(X, chunks=(10, 3)).map_blocks(np.copy, dtype=X.dtype, name="rows")
    with dask.config.set(scheduler="synchronous"):
        assert featurize(MAP, rows, out).computed == 4
        assert [p.name for p in tmp_path.iterdir()] == ["features.zarr"]
        featurize(MAP, rows, tmp_path / "undisturbed.zarr")
    assert chunks(out) == chunks(tmp_path / "undisturbed.zarr")


def test_who_writes_holds_the_lock(tmp_path, monkeypatch):
    np.savez(tmp_path / "rows.npz", X=X)
    source = tmp_path / "source.zarr"
    write_rows(X, source)
    model = StreamingRidge(1.0).fit(X, X[:, 0])
    out = tmp_path / "out.zarr"
    jobs = {
        "write_rows": lambda: write_rows(X, out),
        "to_parquet": lambda: write_rows(X, tmp_path / "out.parquet"),
        "featurize": lambda: featurize(MAP, source, out),
        "save_map": lambda: featurize(MAP, source, tmp_path / "features.zarr", save_map=out),
        "predict": lambda: predict(model, source, out),
        "ingest": lambda: ingest(tmp_path / "rows.npz", out),
        "train": lambda: train(X, X[:, 0], out=out, model="ridge"),
        "checkpoint": lambda: train(X, X[:, 0], checkpoint=out, model="sgd-regressor"),
    }
    monkeypatch.setattr(job_lock, "_alive", lambda record: True)
    for name in (".out.zarr.lock", ".out.parquet.lock"):
        (tmp_path / name).write_text(json.dumps(FOREIGN))
    before = sorted(tmp_path.rglob("*"))
    for name, job in jobs.items():
        with pytest.raises(InUseError, match="being written by process 7 on far"):
            job()
        assert sorted(tmp_path.rglob("*")) == before, name


def test_a_job_that_lost_its_lock_writes_no_more(tmp_path, monkeypatch):
    """Its blocks are written in tasks, which look for themselves."""
    out, now = tmp_path / "out.zarr", time.time()

    def lose(block):
        if len(list(out.glob("X/c/*"))) == 2:
            (tmp_path / ".out.zarr.lock").write_text(json.dumps(FOREIGN))
            monkeypatch.setattr(time, "time", lambda: now + 3600)
        return block

    rows = da.from_array(X, chunks=(10, 3)).map_blocks(lose, dtype=X.dtype, name="rows")
    with dask.config.set(scheduler="synchronous"), pytest.raises(InUseError, match="no longer holds"):
        featurize(MAP, rows, out)
    assert len(list(out.glob("X/c/*"))) == 2
    assert json.loads((tmp_path / ".out.zarr.lock").read_text()) == FOREIGN


def test_a_training_that_lost_its_lock_keeps_no_state(tmp_path, monkeypatch):
    now = time.time()

    def sleep(*args):  # the machine, while another job trains
        (tmp_path / ".m.lock").unlink()
        monkeypatch.setattr(time, "time", lambda: now + 3600)

    monkeypatch.setattr("distrf.pipeline.training.prepare", sleep)
    monkeypatch.setattr(
        "distrf.pipeline.training.fit_prepared",
        lambda *args: make_pipeline(StreamingRidge(1.0)).fit(X, X[:, 0]),
    )
    with pytest.raises(InUseError, match="no longer holds"):
        train(X, X[:, 0], out=tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
