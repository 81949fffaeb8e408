"""`plan(..., measure=True)`, and what a plan says of work that can be done at once."""

from __future__ import annotations

import json
import re
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
from distrf.execution.planned import Phase
from distrf.planning.job import plan_job
from distrf.planning.measured import measured_seconds


def fourier(D=64):
    return distrf.RandomFourierFeatures(gamma=0.05, n_components=D, random_state=0)


def made_rows(n, block, d=16):
    X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    return da.from_array(X, chunks=(block, d)), da.from_array(y, chunks=block)


# ---- seconds ----------------------------------------------------------------------------------------


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


def test_passes_are_multiplied_by_segments_and_batches_by_rows(monkeypatch):
    """64 segments on 24 threads take three times that of one; ten epochs of SGD read all rows, of which two read some."""
    ran = []

    def run(job, steps, X, y):
        ran.append(len(X))
        return {"passes": 1.0, "batches": 2.0, "rows": 2 * len(X), "once": 0.5}

    monkeypatch.setattr("distrf.planning.measured._run", run)
    X, y = made_rows(128_000, 2000)
    made = replace(distrf.plan(distrf.StreamingRidge(1.0), X, y), workers=Workers(24, 1, 0))
    passes, epochs = Phase.of_passes(1, 64), Phase(10, 1000, 10.0, 4, 500)
    seconds, note = measured_seconds(replace(made, phases=(passes,)), [], X, y)
    assert seconds == pytest.approx(1.0 * 3 + 2.0 + 0.5)
    assert "2,000 rows, multiplied" in note
    seconds, _ = measured_seconds(replace(made, phases=(passes, epochs)), [], X, y)
    assert seconds == pytest.approx(1.0 * 3 * 2000 / 20_000 + 2.0 * (10 * 128) / (2 * 20) + 0.5)
    assert ran == [2000, 20_000]


MODEL = make_pipeline(fourier(), distrf.StreamingRidgeClassifier(1.0))


@pytest.mark.parametrize("job", ["featurize", "predict", "evaluate"])
def test_every_job_is_measured(tmp_path, job):
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
    assert f"{4000 if job == 'evaluate' else 500:,} rows, multiplied" in made.notes[-1]
    silent = distrf.plan(model, tmp_path / "rows.zarr", **options)
    assert silent.seconds is silent.to_dict()["seconds_measured"] is None
    assert silent.passes == made.passes == (2 if job == "featurize" else 1)


def test_it_runs_on_the_client_in_use(client):
    assert distrf.plan(MODEL, *made_rows(4000, 500), measure=True).seconds > 0


def test_rows_in_memory_are_measured_on_some_of_them():
    made = distrf.plan(MODEL, *dask.compute(*made_rows(8000, 500)), measure=True)
    assert made.seconds > 0
    assert "500 rows, multiplied" in made.notes[-1]


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
    X, y = made_rows(4000, 500)
    monkeypatch.setattr("distrf.planning.job.measured_seconds", lambda *given: pytest.fail("it ran"))
    monkeypatch.setattr("distrf.planning.job.planned_workers", lambda *given: Workers(1, 1, 2**20))
    with pytest.raises(MemoryPlanError, match="fit was refused"):
        distrf.plan(distrf.StreamingRidgeClassifier(1.0), X, y, cluster="none", measure=True)


def test_sorted_labels_take_more_rows():
    """The first segments have one class; rows are doubled until there are two."""
    X, y = made_rows(64_000, 1000)
    for first, least in ((0, 1000), (15_000, 15_000), (63_900, 63_900)):
        labels = da.from_array((np.arange(64_000) >= first).astype(int) * y.compute(), chunks=1000)
        note = distrf.plan(MODEL, X, labels, cluster="none", measure=True).notes[-1]
        ran = int(re.search("([0-9,]+) rows, multiplied", note)[1].replace(",", ""))
        assert least <= ran <= max(2 * least, 16_000)
    with pytest.raises(InputError, match=r"does not run on the first 64,000 rows: .*at least 2 classes"):
        distrf.plan(MODEL, X, da.zeros_like(y), cluster="none", measure=True)


def test_the_command_measures(cli, tmp_path):
    X, y = made_rows(4000, 500)
    distrf.write_rows(X, tmp_path / "rows.zarr", y)
    words = ["plan", tmp_path / "rows.zarr", "-D", 64, "--gamma", 0.1]
    assert json.loads(cli(*words, "--measure", "--json").out)["seconds_measured"] > 0
    assert "time, measured" in cli(*words, "--measure").out
    assert json.loads(cli(*words, "--json").out)["seconds_measured"] is None


# ---- at once ----------------------------------------------------------------------------------------


def planned(steps, X, workers=4, job="featurize"):
    return plan_job(job, steps, X, Workers(workers, 1, 0), labelled=False)


#: Rows, rows of a block, steps, workers, segments that work at once, and what is said where that is not all threads.
AT_ONCE = [
    (1000, 1000, [fourier(), distrf.StreamingRidge(1.0)], 4, 1,
     "1 of 4 threads work at once in the narrowest pass, 3 idle: the rows are stored in 1 block(s)"),
    (1000, 1000, [fourier()], 4, 1, "1 of 4 threads work at once in the narrowest pass, 3 idle: the rows are stored in 1 block(s)"),
    (1000, 100, [fourier()], 4, 10, None),
    (160_000, 5000, [fourier(2048), distrf.StreamingRidge(1.0)], 40, 16,
     "it has 16 segment(s), so that moving their states takes little beside the work"),
    (100_000, 5000, [fourier(), distrf.StreamingSGDClassifier(alpha=1e-4, n_epochs=2, batch_size=500)], 100, None,
     "the others read rows and make features ahead"),
]  # fmt: skip


@pytest.mark.parametrize(("n", "block", "steps", "workers", "at_once", "said"), AT_ONCE)
def test_work_at_once(n, block, steps, workers, at_once, said):
    made = planned(steps, made_rows(n, block)[0], workers, "fit" if len(steps) > 1 else "featurize")
    if at_once is not None:
        assert made.at_once == (at_once, at_once)
        assert made.to_dict()["tasks_at_once"] == [at_once, at_once]
    assert said in made.notes[0] if said else "at once" not in " ".join(made.notes)


def test_a_parquet_file_of_pandas_is_one_block(tmp_path):
    """It has a single row group. Where much is computed with a row, several segments read it."""
    values = np.random.default_rng(0).normal(size=(60_000, 4)).astype(np.float32)
    pd.DataFrame(values, columns=list("abcd")).to_parquet(tmp_path / "rows.parquet")
    X, _ = distrf.open_rows(tmp_path / "rows.parquet")
    few = planned([fourier(8)], X)
    assert few.at_once == (1, 1)
    assert "row groups of Parquet" in few.notes[0]
    made = planned([fourier(4096)], X)
    assert made.blocks > 4
    assert made.at_once == (made.blocks, made.blocks)
    assert made.bytes_read == made.blocks * few.bytes_read


def test_rows_in_memory_have_no_idle_threads():
    X = np.zeros((1000, 8), np.float32)
    assert not any("at once" in note for note in distrf.plan(fourier(), X, workers=4).notes)


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


def test_no_rows():
    with pytest.raises(InputError, match=r"Found array with 0 sample\(s\)"):
        distrf.plan(distrf.StreamingRidge(1.0), da.zeros((0, 3)))
