"""The plan against what a job really does: tasks, bytes, and the peak of real worker processes."""

from __future__ import annotations

import json

import dask.array as da
import numpy as np
import pytest
from peaks import MIB, cluster_file, distrf, make_store, peak

from distrf import RandomFourierFeatures, ingest, open_rows, plan
from distrf.errors import MemoryPlanError
from distrf.execution.memory import (
    MOST_SEGMENTS,
    PROCESS_BYTES,
    PassMemory,
    Workers,
    check_client,
    machine_memory,
)
from distrf.execution.passes import count_segments, pass_memory
from distrf.execution.planned import Phase
from distrf.planning import Plan
from distrf.ridge.gram import FoldRule, GramReduction
from distrf.store import Selection, info, open_source
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
        assert made["bytes_read"] == 3 * open_source(store, Selection()).nbytes == 3 * 20_000 * 64 * 4
        assert made["bytes_written"] == 8 * D * 10
    assert made["block_rows"] * D * 4 <= 128 * MIB < 2 * made["block_rows"] * D * 4


def test_featurize_does_what_was_planned(cli, store, tmp_path):
    made = plan(RandomFourierFeatures(n_components=128, gamma=0.1), store).to_dict()
    cli("featurize", store, tmp_path / "f.zarr", "-D", 128, "--set", "map__gamma=0.1", "--quiet", cluster=True)
    written = info(tmp_path / "f.zarr")
    assert (written.n_blocks, written.block_rows) == (made["blocks"], made["block_rows"])
    features = 20_000 * 128 * 4
    assert made["bytes_written"] == features + 8 * 20_000
    stored = sum(file.stat().st_size for file in (tmp_path / "f.zarr").rglob("*"))
    assert stored == pytest.approx(features, rel=0.05)  # labels, checksums, marks


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
    [([], 7, True), (["--classes", 30], 30, False), (["--model", "ridge"], 1, False)],
)  # fmt: skip
def test_classes_are_counted_in_a_sample_of_the_labels(cli, labelled, words, outputs, counted):
    made = planned(cli, labelled, "-D", 64, *words)
    notes = [note for note in made["notes"] if "classes" in note]
    assert notes == (["classes: at least 7, in 800 sampled rows"] if counted else [])
    assert made["bytes_written"] == 8 * 64 * outputs


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
    features = RandomFourierFeatures(n_components=4096, gamma=0.1)
    made = plan(features, store, cluster=cluster[1]).to_dict()
    measured = peak(distrf("featurize", store, tmp_path / "f.zarr", *options, *cluster))
    cli("train", store, tmp_path / "m", *options, "--alpha", "1e-6", "--quiet", cluster=True)
    predicted = peak(distrf("predict", tmp_path / "m", store, tmp_path / "p.zarr", *cluster))
    check_below(made, max(measured, predicted), measured)


# ---- refusals ---------------------------------------------------------------------------------------


def small_memory(**parts):
    return PassMemory(**{"block": 10 * MIB, "scratch": 5 * MIB, "partial": 20 * MIB, **parts})


def test_parts_grow_with_threads_and_runs():
    one, two = small_memory(segments=20), small_memory(segments=20, threads=2)
    assert two.parts["blocks"] == 2 * one.parts["blocks"]
    assert two.parts["partial results"] > one.parts["partial results"]
    waiting = [small_memory(segments=n).parts["partial results"] for n in (64, 128, MOST_SEGMENTS)]
    assert waiting == pytest.approx([n / 8 * waiting[0] for n in (8, 9, 14)])  # one for each level of the tree
    assert one.parts["process"] == PROCESS_BYTES


def test_the_plan_does_not_grow_with_the_rows():
    fold = GramReduction(1024, Targets(None, np.zeros(10)), FoldRule())
    peaks = []
    for n in (10**6, 10**8, 10**10):
        X, y = (da.zeros((n, *tail), chunks=(2**17, *tail), dtype=np.float32) for tail in ((1024,), ()))
        peaks.append(pass_memory(fold, [X, y], count_segments(n, fold), Workers(2, 1, 0)).peak)
    assert peaks[0] < peaks[1] < peaks[2] < 1.05 * peaks[0]  # by one state for twice as many segments
    assert count_segments(10**13, fold) == count_segments(10**15, fold) == MOST_SEGMENTS


def test_the_client_is_checked_too(monkeypatch):
    have = machine_memory()
    check_client(have, "a solve")
    with pytest.raises(MemoryPlanError, match=r"final solve needs .* in the client, this machine has .*Remedy"):
        check_client(have + 1, "a solve")
    made = Plan("train", 1, 1, 1, (Phase(1, 1, 1.0, 1),), 0, 0, small_memory(), have + 1, Workers(1, 1, 0))
    with pytest.raises(MemoryPlanError, match="final solve"):
        made.check()
    assert made.to_dict()["fits"] is False
