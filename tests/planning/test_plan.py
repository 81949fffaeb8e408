"""The plan against what a job really does: tasks, bytes, and the peak of real worker processes."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from dask.sizeof import sizeof
from peaks import MIB, cluster_file, distrf, make_store, peak
from reductions import SumFold, count_calls

from distrf import RandomFourierFeatures, ingest, open_rows
from distrf.errors import MemoryPlanError
from distrf.execution import passes
from distrf.execution.memory import (
    MOST_SEGMENTS,
    PROCESS_BYTES,
    PassMemory,
    Workers,
    check_client,
    machine_memory,
)
from distrf.execution.passes import count_segments, pass_memory, run_pass
from distrf.execution.planned import Costs, Phase
from distrf.features.moments import MomentsReduction
from distrf.planning.summary import Plan
from distrf.ridge.gram import FoldRule, GramReduction
from distrf.sgd.batch_plan import BatchMemory
from distrf.store import describe, info
from distrf.targets import Targets


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("plan") / "rows.zarr", 20_000, 64, 4096)


def planned(cli, *arguments, code=0):
    return json.loads(cli("plan", *arguments, "--set", "map__gamma=0.1", "--json", code=code).out)


# ---- counts and bytes -------------------------------------------------------------------------------


def test_blocks_and_bytes(cli, store):
    X, _ = open_rows(store)
    for D in (512, 16_384):
        map_ = RandomFourierFeatures(length_scale=1.0, n_components=D, random_state=0)
        features, made = map_.fit(X[:1]).transform(X), planned(cli, store, "-D", D)
        assert (made["blocks"], made["block_rows"]) == (features.numblocks[0], max(features.chunks[0]))
        # The sample may touch every block; then come the fit, with the linear model beside it, and calibration.
        assert made["rows"] == 20_000
        assert made["bytes_read"] == 3 * describe(store).nbytes == 3 * 20_000 * 64 * 4
        assert made["bytes_written"] == 8 * D * 10
    assert made["block_rows"] * D * 4 <= 128 * MIB < 2 * made["block_rows"] * D * 4


def test_featurize_does_what_was_planned(cli, store, tmp_path):
    made = planned(cli, store, "-D", 128, "--for", "featurize")
    cli("featurize", store, tmp_path / "f.zarr", "-D", 128, "--set", "map__gamma=0.1", "--quiet", cluster=True)
    written = info(tmp_path / "f.zarr", measure=True)
    assert (written.n_blocks, written.block_rows) == (made["blocks"], made["block_rows"])
    features = 20_000 * 128 * 4
    assert made["bytes_written"] == features + 8 * 20_000
    assert written.stored_bytes == pytest.approx(features, rel=0.05)  # labels, checksums, marks


@pytest.mark.slow
def test_train_runs_the_tasks_that_were_planned(cli, store, tmp_path, monkeypatch):
    """Tasks of the plan: those of both passes, as Dask sees them."""
    every = []
    real = passes.compute
    monkeypatch.setattr(passes, "compute", lambda task, *to: every.extend(dict(task.dask)) or real(task, *to))
    for D in (64, 512):
        words = f"--map fourier -D {D} --scale none --alpha 1e-6 --set map__gamma=0.1".split()
        made = planned(cli, store, *words)
        every.clear()
        cli("train", store, tmp_path / str(D), *words, "--quiet", cluster=True)
        # not the row numbers of a sample
        sent = [key for key in every if re.search("-segment-|-sum-", key)]
        counts = Counter(re.search("[0-9a-f]{32}", key)[0] for key in sent)
        assert len(counts) == made["passes"]
        assert len(sent) == made["tasks"]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Sorted labels 0 ... 6 in 20 blocks, as a store of numbers."""
    path = tmp_path_factory.mktemp("labelled")
    X = np.random.default_rng(0).normal(size=(2000, 3))
    np.savez(path / "rows.npz", X=X, y=np.arange(2000) * 7 // 2000)
    ingest(path / "rows.npz", path / "rows.zarr", block_rows=100)
    return path / "rows.zarr"


@pytest.mark.parametrize(
    ("words", "outputs", "counted"),
    [([], 7, True), (["--classes", 30], 30, False), (["--model", "ridge"], 1, False), (["--for", "featurize"], None, False)],
)  # fmt: skip
def test_classes_are_counted_in_a_sample_of_the_labels(cli, labelled, words, outputs, counted):
    made = planned(cli, labelled, "-D", 64, *words)
    notes = [note for note in made["notes"] if "classes" in note]
    assert notes == (["classes: at least 7, in 800 sampled rows"] if counted else [])
    assert outputs is None or made["bytes_written"] == 8 * 64 * outputs


def test_train_is_refused_by_the_classes_of_its_labels(cli, labelled, tmp_path, monkeypatch):
    def refused(job, steps, rows):
        raise MemoryPlanError(f"{job} of {rows.outputs} outputs")

    monkeypatch.setattr("distrf.planning.job.plan_job", refused)
    assert "train of 7 outputs" in cli("train", labelled, tmp_path / "m", "-D", 64, code=1).err


@pytest.mark.parametrize(
    ("option", "values", "more"),
    [
        ("-D", (256, 1024, 4096), ()),
        ("--set", [f"model__cv={cv}" for cv in ("holdout", 3, 10)], ("-D", 1024, "--alpha", "1e-6,1e-5")),
        ("--classes", (2, 100, 10_000), ("-D", 1024)),
    ],
)
def test_more_of_everything_costs_more(cli, store, option, values, more):
    words = [store, *more, "--cluster", "local", option]
    got = [planned(cli, *words, value)["peak_bytes_per_worker"] for value in values]
    assert all(a < b for a, b in itertools.pairwise(got)), got


# ---- memory -----------------------------------------------------------------------------------------

CASES = {
    "narrow": (["-D", 256], 1),
    "wide": (["-D", 4096, "--alpha", "1e-6"], 1),
    "folds": (["-D", 2048, "--alpha", "1e-6,1e-5", "--set", "model__cv=5"], 1),
    "holdout-threads": (["-D", 2048, "--alpha", "1e-6,1e-5", "--set", "model__cv=holdout"], 2),
    "offset": (["-D", 3000, "--set", "map__phase=offset"], 1),
}


def check_below(plan, measured, lower=None):
    """Below the figure, and the figure is no more than three times what the job adds to a bare process."""
    made = plan["peak_bytes_per_worker"]
    print(f"plan {made / MIB:.0f} MiB, peak {measured / MIB:.0f} MiB")
    assert measured <= made
    assert made - PROCESS_BYTES <= 3 * max((lower or measured) - 0.9 * PROCESS_BYTES, 20 * MIB)


@pytest.mark.clock
@pytest.mark.parametrize("case", CASES)
def test_training_stays_below_the_plan(cli, store, tmp_path, case):
    options, threads = CASES[case]
    cluster = ["--cluster", cluster_file(tmp_path / "c.json", threads=threads)]
    measured = peak(distrf("train", store, tmp_path / "m", *options, "--set", "map__gamma=0.1", *cluster))
    check_below(planned(cli, store, *options, *cluster), measured)


@pytest.mark.clock
def test_featurizing_and_predicting_stay_below_the_plan(cli, store, tmp_path):
    cluster = ["--cluster", cluster_file(tmp_path / "c.json")]
    options = ["-D", 4096, "--set", "map__gamma=0.1"]
    made = planned(cli, store, "-D", 4096, "--for", "featurize", *cluster)
    measured = peak(distrf("featurize", store, tmp_path / "f.zarr", *options, *cluster))
    cli("train", store, tmp_path / "m", *options, "--alpha", "1e-6", "--quiet", cluster=True)
    predicted = peak(distrf("predict", tmp_path / "m", store, tmp_path / "p.zarr", *cluster))
    check_below(made, max(measured, predicted), measured)


# ---- refusals ---------------------------------------------------------------------------------------


def small_memory(**parts):
    return PassMemory(**{"block": 10 * MIB, "scratch": 5 * MIB, "partial": 20 * MIB, **parts})


@pytest.mark.parametrize("part", [{}, {"partial": 900 * MIB}, {"scratch": 900 * MIB}, {"weights": 900 * MIB}])
def test_the_threshold_is_the_peak(part):
    memory = small_memory(segments=8, **part)
    memory.check(Workers(2, 1, memory.peak), "a pass")
    memory.check(Workers(2, 1, 0), "a pass")  # a limit that nobody knows refuses nothing
    message = r"a pass was refused: it needs .*iB on each worker.*Remedy: fewer components.*smaller blocks.*of at least"
    with pytest.raises(MemoryPlanError, match=message):
        memory.check(Workers(2, 1, memory.peak - 1), "a pass")


def test_parts_grow_with_threads_and_runs():
    one, two = small_memory(segments=20), small_memory(segments=20, threads=2)
    assert two.parts["blocks"] == 2 * one.parts["blocks"]
    assert two.parts["partial results"] > one.parts["partial results"]
    waiting = [small_memory(segments=n).parts["partial results"] for n in (64, 128, MOST_SEGMENTS)]
    assert waiting == pytest.approx([n / 8 * waiting[0] for n in (8, 9, 14)])  # one for each level of the tree
    assert one.parts["process"] == PROCESS_BYTES


def test_records_of_small_tasks_stay_for_the_passes_behind():
    small, batches = Costs(memory=small_memory()), Costs(memory=BatchMemory(0, 0, 0, records=MIB))
    wide = Costs(memory=small_memory(block=100 * MIB))
    assert batches.memory.parts["process"] == PROCESS_BYTES + MIB
    assert (batches + wide).memory.peak == wide.memory.peak + MIB
    assert (wide + batches).memory.peak == wide.memory.peak
    larger = max(batches.memory, replace(small.memory, records=MIB), key=lambda memory: memory.peak)
    assert (batches + small).memory == larger


def test_the_plan_does_not_grow_with_the_rows():
    fold = GramReduction(1024, Targets(None, np.zeros(10)), FoldRule())
    peaks = []
    for n in (10**6, 10**8, 10**10):
        X, y = (da.zeros((n, *tail), chunks=(2**17, *tail), dtype=np.float32) for tail in ((1024,), ()))
        peaks.append(pass_memory(fold, [X, y], count_segments(n, fold), Workers(2, 1, 0)).peak)
    assert peaks[0] < peaks[1] < peaks[2] < 1.05 * peaks[0]  # by one state for twice as many segments
    assert count_segments(10**13, fold) == count_segments(10**15, fold) == MOST_SEGMENTS


def test_a_pass_is_refused_before_it_reads(client, tmp_path, monkeypatch):
    meta = np.empty((0, 0))
    X = da.zeros((100, 4), chunks=(10, 4)).map_blocks(count_calls, str(tmp_path), dtype=float, meta=meta)
    monkeypatch.setattr(Workers, "of_client", classmethod(lambda cls, client: cls(2, 1, PROCESS_BYTES)))
    with pytest.raises(MemoryPlanError, match="sums was refused"):
        run_pass(SumFold(4, nbytes=MIB), [X], label="sums")
    assert list(tmp_path.iterdir()) == []


def test_the_client_is_checked_too(monkeypatch):
    have = machine_memory()
    check_client(have, "a solve")
    with pytest.raises(MemoryPlanError, match=r"final solve needs .* in the client, this machine has .*Remedy"):
        check_client(have + 1, "a solve")
    made = Plan("train", 1, 1, 1, (Phase(1, 1, 1.0, 1),), 0, 0, 0, small_memory(), have + 1, Workers(1, 1, 0))
    with pytest.raises(MemoryPlanError, match="final solve"):
        made.check()
    assert made.to_dict()["fits"] is False


@pytest.mark.parametrize("fold", [GramReduction(64, Targets(None, np.zeros(2))), MomentsReduction(500)])
def test_dask_sees_the_size_of_a_state(fold):
    """It places, sends and spills by it."""
    assert fold.nbytes <= sizeof(fold.initial()) + 8 * 64 <= 1.1 * fold.nbytes + 1000


@pytest.mark.slow
def test_wide_blocks_are_counted_thrice_while_they_are_read(tmp_path):
    """What came from storage, decoded, and where it goes; features are not there yet."""
    store = make_store(tmp_path / "wide.zarr", 600, 8000, 300)
    planned = distrf("plan", store, "--model", "ridge", "--n-components", "64", "--set", "map__gamma=1e-5")[
        "peak_parts"
    ]
    assert planned["blocks"] + planned["scratch"] >= 3 * 300 * 8000 * 4
