"""`plan(..., measure=True)`, and what a plan says of work that can be done at once."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import distrf
from distrf.errors import InputError, MemoryPlanError
from distrf.execution import passes
from distrf.execution.memory import Workers
from distrf.execution.planned import Phase, PlannedRows
from distrf.planning.job import plan_job
from distrf.planning.measured import measured_seconds


def fourier(D=64):
    return distrf.RandomFourierFeatures(gamma=0.05, n_components=D, random_state=0)


def made_rows(n, block, d=16):
    X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    return da.from_array(X, chunks=(block, d)), da.from_array(y, chunks=block)


MODEL = make_pipeline(fourier(), distrf.StreamingRidgeClassifier(1.0))

# ---- seconds ----------------------------------------------------------------------------------------


@pytest.mark.clock
def test_a_ridge_takes_about_as_long_as_was_measured(monkeypatch):
    """On one thread, so that other work on this machine slows both alike."""
    monkeypatch.setattr("dask.system.CPU_COUNT", 1)
    X, y = made_rows(160_000, 8192)
    model = make_pipeline(fourier(1024), distrf.StreamingRidgeClassifier(1e-6))
    made = distrf.plan(model, X, y, cluster="none", measure=True)
    with dask.config.set(scheduler="synchronous"):
        began = time.perf_counter()
        model.fit(X, y)
        took = time.perf_counter() - began
    print(f"{made.notes[-1]}: measured {made.seconds:.2f} s, whole {took:.2f} s")
    assert made.threads == 1
    assert made.seconds / 3 < took < 3 * made.seconds


def test_passes_are_multiplied_by_segments_and_epochs_by_rows(monkeypatch):
    """64 segments on 24 threads take three times that of one; each of ten epochs of SGD reads all rows."""
    ran = []

    def run(job, steps, X, y):
        ran.append(len(X))
        return {"passes": 1.0, "batches": 2.0, "once": 0.5}

    monkeypatch.setattr("distrf.planning.measured._run", run)
    X, y = made_rows(128_000, 2000)
    made = replace(distrf.plan(distrf.StreamingRidge(1.0), X, y), workers=Workers(24, 1, 0))
    phases = Phase.of_passes(1, 64), Phase(10, 1000, 10.0, 4, 500)
    for count, rows, expected in ((1, 2000, 3.0), (2, 20_000, 0.3 + 2.0 * 10 * 6.4)):
        seconds, note = measured_seconds(replace(made, phases=phases[:count]), [], X, y)
        assert seconds == pytest.approx(expected + 0.5)
        assert f"{rows:,} rows, multiplied" in note
    assert ran == [2000] * 2 + [20_000] * 2  # a short run is measured twice


@pytest.mark.parametrize(("job", "ran"), [("featurize", 500), ("predict", 500), ("evaluate", 4000)])
def test_every_job_is_measured(tmp_path, job, ran):
    X, y = made_rows(4000, 500)
    distrf.write_rows(X, tmp_path / "rows.zarr", y)
    model = make_pipeline(distrf.StreamingScaler(), fourier())
    if job != "featurize":
        model = make_pipeline(*model, distrf.StreamingRidgeClassifier(1.0)).fit(X, y)
    options = {"job": job, "cluster": "none"}
    made = distrf.plan(model, tmp_path / "rows.zarr", **options, measure=True)
    assert made.seconds > 0
    assert made.to_dict()["seconds_measured"] == round(made.seconds, 2)
    assert "time, measured" in str(made)
    assert f"{ran:,} rows, multiplied" in made.notes[-1]
    silent = distrf.plan(model, tmp_path / "rows.zarr", **options)
    assert silent.seconds is silent.to_dict()["seconds_measured"] is None
    assert silent.passes == made.passes == (2 if job == "featurize" else 1)


def test_it_runs_on_the_client_in_use_and_on_rows_in_memory(client):
    X, y = made_rows(8000, 500)
    for rows, ran in (((X, y), "8,000"), (dask.compute(X, y), "500")):
        made = distrf.plan(MODEL, *rows, measure=True)
        assert made.seconds > 0
        assert f"{ran} rows, multiplied" in made.notes[-1]


def test_a_checkpoint_is_left_alone(tmp_path):
    X, y = dask.compute(*made_rows(2000, 500))
    tefm = distrf.TEFM(fourier(), 4, checkpoint=str(tmp_path / "passes"), random_state=0)
    options = {"alpha": 1e-4, "n_epochs": 1, "resume": True, "random_state": 0}
    sgd = distrf.StreamingSGDClassifier(checkpoint=str(tmp_path / "state"), **options)
    for steps in ([tefm], [tefm, sgd]):
        assert distrf.plan(make_pipeline(*steps), X, y, measure=True).seconds > 0
    assert not any(tmp_path.iterdir())
    assert not hasattr(tefm, "map_")


def test_what_does_not_fit_is_not_run(monkeypatch):
    monkeypatch.setattr("distrf.planning.job.measured_seconds", lambda *given: pytest.fail("it ran"))
    monkeypatch.setattr("distrf.planning.job.planned_workers", lambda *given: Workers(1, 1, 2**20))
    with pytest.raises(MemoryPlanError, match="fit was refused"):
        distrf.plan(MODEL, *made_rows(4000, 500), cluster="none", measure=True)


def test_sorted_labels_are_not_measured():
    X, y = made_rows(64_000, 1000)
    labels = da.concatenate([da.zeros_like(y[:32_000]), y[32_000:]])
    with pytest.raises(InputError, match=r"first 16,000 rows, which failed: .*at least 2 classes.*shuffle"):
        distrf.plan(MODEL, X, labels, cluster="none", measure=True)


def test_the_command_measures(cli, tmp_path):
    distrf.write_rows(made_rows(4000, 500)[0], tmp_path / "rows.zarr", made_rows(4000, 500)[1])
    words = ["plan", tmp_path / "rows.zarr", "-D", 64, "--set", "map__gamma=0.1", "--json"]
    for more in (True, False):
        seconds = json.loads(cli(*words, *["--measure"] * more).out)["seconds_measured"]
        assert seconds > 0 if more else seconds is None


# ---- at once ----------------------------------------------------------------------------------------


def planned(steps, X, workers=4, job="featurize"):
    return plan_job(job, steps, PlannedRows.of(X, Workers(workers, 1, 0)))


RIDGE, SGD = distrf.StreamingRidge(1.0), distrf.StreamingSGDClassifier(alpha=1e-4, n_epochs=2, batch_size=500)
FEW = "1 of 4 threads work at once in the narrowest pass: the rows are stored in 1 block(s)"
#: Rows, rows of a block, steps, workers, segments that work at once, and what is said where that is not all threads.
AT_ONCE = [
    (1000, 1000, [fourier(), RIDGE], 4, 1, FEW),
    (1000, 1000, [fourier()], 4, 1, FEW),
    (1000, 100, [fourier()], 4, 10, ""),
    (160_000, 5000, [fourier(2048), RIDGE], 40, 16, "16 of 40 threads work at once .* moving their states"),
    (100_000, 5000, [fourier(), SGD], 100, None, "a batch has no more gradients"),
]  # fmt: skip


@pytest.mark.parametrize(("n", "block", "steps", "workers", "at_once", "said"), AT_ONCE)
def test_work_at_once(n, block, steps, workers, at_once, said):
    made = planned(steps, made_rows(n, block)[0], workers, "fit" if len(steps) > 1 else "featurize")
    assert at_once is None or made.to_dict()["tasks_at_once"] == [at_once, at_once]
    assert (made.idle == "") == (said == "")
    assert all(part in made.idle for part in said.split(" .* "))


def test_who_is_told_of_idle_threads():
    X, _ = made_rows(1000, 1000)
    lazy, held = (distrf.plan(fourier(), rows, workers=10**4).notes for rows in (X, X.compute()))
    assert "work at once" in lazy[0]
    assert not any("at once" in note for note in held)  # all threads work on rows in memory


def test_a_parquet_file_of_pandas_is_one_block(tmp_path):
    """It has a single row group. Where much is computed with a row, several segments read it."""
    values = np.random.default_rng(0).normal(size=(60_000, 4)).astype(np.float32)
    pd.DataFrame(values, columns=list("abcd")).to_parquet(tmp_path / "rows.parquet")
    X, _ = distrf.open_rows(tmp_path / "rows.parquet")
    few, made = planned([fourier(8)], X), planned([fourier(4096)], X)
    assert few.at_once == (1, 1)
    assert "row groups of Parquet" in few.idle
    assert made.blocks > 4
    assert made.at_once == (made.blocks, made.blocks)
    assert made.bytes_read == made.blocks * few.bytes_read


@pytest.mark.slow
@pytest.mark.parametrize("D", [64, 2048])
def test_rows_that_workers_hold(client, D, monkeypatch):
    """As many segments as the pass has, and nothing is read."""
    X = da.zeros((2000, 8), chunks=(10, 8), dtype=np.float32).persist()
    Z = fourier(D).fit(X).transform(X)
    made = distrf.plan(distrf.StreamingRidge(1.0), Z)
    assert made.bytes_read == 0
    counted, real = [], passes.compute

    def counting(task, *more):
        counted.append(sum("gram" in str(key) and "-segment-" in str(key) for key in dict(task.dask)))
        return real(task, *more)

    monkeypatch.setattr(passes, "compute", counting)
    distrf.StreamingRidge(1.0).fit(Z, np.arange(2000.0))
    assert made.at_once == (counted[-1], counted[-1])
