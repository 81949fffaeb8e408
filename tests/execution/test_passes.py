"""Passes: the same bits everywhere, a bounded number of blocks in memory, faults."""

from __future__ import annotations

import errno
import itertools
import os
import pickle
import signal
import time
from contextlib import contextmanager

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from reductions import (
    HiccupFold,
    ListFold,
    Live,
    RefusingFold,
    SlowSumFold,
    StackFold,
    StragglerFold,
    SumFold,
    count_calls,
    make_live,
    refuse_row,
)
from strategies import chunked, row_chunks, schedulers, small_seeds

from distrf.errors import InputError
from distrf.execution import segments
from distrf.execution.block_graphs import BlockGraphs
from distrf.execution.passes import count_segments, cut_segments, run_pass
from distrf.execution.progress import listening
from distrf.execution.row_blocks import (
    ARRAYS_PREFIX,
    check_dask_rows,
    map_rows,
    merge_rows,
    merged_chunks,
    split_chunk,
    split_rows,
)
from distrf.execution.sampling import sampled_rows, take_rows
from distrf.maps import ScalingMap

SCHEDULERS = ["sync", "threads"]
#: Folds whose states are so small or so large for their arithmetic that every block is a segment, or all are one.
MANY_SEGMENTS = {"nbytes": 8, "flops_per_row": 1.0e6}
ONE_SEGMENT = {"nbytes": 10**6, "flops_per_row": 1.0}


#: Uneven, one-row and empty chunks, and a few columns.
uneven = chunked(least=0, most=17, blocks=12, columns=5)


def data(n, d, dtype=np.float32):
    return np.random.default_rng(n).normal(size=(n, d)).astype(dtype)


# ---- what a pass computes ---------------------------------------------------------------------------


@given(shape=uneven, nbytes=st.integers(1, 4000), scheduler=schedulers)
def test_pass_sees_every_row_once_and_in_order(shape, nbytes, scheduler):
    chunks, d = shape
    X, y = data(sum(chunks), d), np.arange(sum(chunks))
    dX = da.from_array(X, chunks=(chunks, d))
    with dask.config.set(scheduler=scheduler):
        blocks = run_pass(StackFold(nbytes), [dX])
        listed = [e for e in run_pass(ListFold(nbytes), [dX, y]) if e != "|"]
    np.testing.assert_array_equal(np.concatenate(blocks), X)
    starts = np.concatenate([[0], np.cumsum(chunks)])[:-1]
    assert listed == [(int(a), n) for a, n in zip(starts, chunks, strict=True)]


@given(shape=uneven, nbytes=st.integers(1, 4000))
def test_pass_equals_the_direct_sum(shape, nbytes):
    chunks, d = shape
    X, y = data(sum(chunks), d), np.arange(sum(chunks), dtype=np.float32)
    direct = np.append(X.sum(axis=0, dtype=np.float64), y.sum())
    size = np.append(abs(X).sum(axis=0, dtype=np.float64), y.sum())
    fold = SumFold(d + 1, nbytes)
    for made in (
        run_pass(fold, [X, y], block_rows=7),
        run_pass(fold, [da.from_array(X, chunks=(chunks, d)), y]),
        run_pass(fold, [X, da.from_array(y, chunks=5).rechunk((chunks,))]),
    ):
        assert (abs(made - direct) <= len(X) * 2.0**-24 * size).all()


@given(n=st.integers(1, 200), step=st.integers(1, 60), nbytes=st.integers(1, 4000))
def test_same_bits_in_memory_and_by_any_scheduler(n, step, nbytes):
    """Equal blocks, hence equal segments and equal order of additions."""
    X = data(n, 3)
    dX = da.from_array(X, chunks=(step, 3))
    fold = SumFold(3, nbytes)
    made = [run_pass(fold, [X], block_rows=step)]
    for scheduler in SCHEDULERS:
        with dask.config.set(scheduler=scheduler):
            made.append(run_pass(fold, [dX]))
    assert len({m.tobytes() for m in made}) == 1


@pytest.mark.slow
def test_same_bits_for_one_and_two_workers(client, one_worker_client):
    X = data(3001, 40)
    fold = SumFold(40)
    made, segments = [], []
    for chunks in (37, 500, (1, 2900, 100)):
        dX = da.from_array(X, chunks=(chunks, 40)).map_blocks(np.square)
        results, orders = [], []
        for worker in (client, one_worker_client):
            with worker.as_current():
                results.append(run_pass(fold, [dX]).tobytes())
                orders.append(run_pass(ListFold(), [dX]))
        with dask.config.set(scheduler="sync"):
            results.append(run_pass(fold, [dX]).tobytes())
            orders.append(run_pass(ListFold(), [dX]))
        assert len(set(results)) == 1
        assert orders[0] == orders[1] == orders[2]
        made.append(results[0])
        segments.append(orders[0].count("|"))
    assert len(set(made)) > 1  # the test can see the order of additions
    assert max(segments) > 8  # and there was something to order


def test_sparse_blocks():
    X = sp.random_array((90, 7), density=0.3, rng=np.random.default_rng(1), format="csr")
    for block_rows in (None, 13):
        sums = run_pass(SumFold(7), [X], block_rows=block_rows)
        np.testing.assert_allclose(sums, X.sum(axis=0), rtol=1e-5)
    blocks = da.from_array(X.toarray(), chunks=(20, 7)).map_blocks(sp.csr_array)
    np.testing.assert_allclose(run_pass(SumFold(7), [blocks]), X.sum(axis=0), rtol=1e-5)


def test_arrays_are_aligned_to_the_first():
    X, y = data(50, 3), np.arange(50)
    dX = da.from_array(X, chunks=((20, 30), 3))
    for other in (y, da.from_array(y, chunks=7), list(y)):
        assert run_pass(ListFold(**ONE_SEGMENT), [dX, other]) == [(0, 20), (20, 30)]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.ones((5, 2)), np.ones(4)], r"same number of rows, got \[5, 4\]"),
        ([da.ones((5, 2)), np.ones(4)], "array 1 must have as many rows as X, got 4 and 5"),
        ([da.ones((5, 2)), da.ones(4)], "array 1 must have as many rows as X, got 4 and 5"),
        ([da.ones((5, 2)), (lambda a: a[a > 0])(da.ones(5))], "array 1's chunks must be known; call"),
        (
            [(lambda a: a[a[:, 0] > 0])(da.ones((5, 2)))],
            "chunks must be known; call array 0.compute_chunk_sizes",
        ),
    ],
)
def test_misaligned_arrays(arrays, message):
    with pytest.raises(InputError, match=message):
        run_pass(SumFold(3), arrays)


def test_other_collections():
    with pytest.raises(InputError, match="must be an array, a SciPy CSR matrix, a data frame, or a Dask array"):
        check_dask_rows(dask.delayed(1))


def test_no_rows_at_all():
    for X in (np.empty((0, 3), np.float32), da.empty((0, 3), dtype=np.float32)):
        np.testing.assert_array_equal(run_pass(SumFold(3), [X]), np.zeros(3))


# ---- segments ---------------------------------------------------------------------------------------


@given(
    rows=row_chunks(least=0, most=50, blocks=60, rows=0),
    n_segments=st.integers(1, 80),
    data=st.data(),
)
def test_cut_runs(rows, n_segments, data):
    inner = data.draw(st.sets(st.integers(1, max(1, len(rows) - 1)), max_size=len(rows)))
    edges = [0, *sorted(i for i in inner if i < len(rows))]
    segments = cut_segments(rows, edges, n_segments)
    assert segments[0][0] == 0
    assert segments[-1][1] == len(rows)
    assert all(a < b for a, b in segments)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(segments))
    assert {a for a, _ in segments} <= set(edges)
    assert len(segments) <= n_segments


def test_runs_are_even():
    segments = cut_segments([10] * 1000, range(1000), 64)
    assert len(segments) == 64
    assert {b - a for a, b in segments} == {15, 16}
    lengths = [sum(r) for r in ([1, 99, 50, 50, 100],)]
    assert lengths == [300]
    assert cut_segments([1, 99, 50, 50, 100], range(5), 3) == [(0, 2), (2, 4), (4, 5)]


def test_cutting_many_blocks_is_quick():
    started = time.thread_time()
    assert len(cut_segments([100] * 200_000, range(200_000), 5000)) == 5000
    assert time.thread_time() - started < 5


def test_run_count_grows_as_the_root_of_n():
    fold = SumFold(3, nbytes=1000 * 2**10, flops_per_row=2.0**20)  # 1,000 rows a segment at least
    assert [count_segments(n, fold) for n in (0, 999, 2000, 5000, 64_000)] == [1, 1, 2, 4, 64]
    assert count_segments(6_400_000, fold) == 640
    assert count_segments(160_000_000, fold) == 3200
    assert count_segments(640_000_000, fold) == 4096


def test_cheap_passes_have_few_segments():
    cheap = SumFold(3, nbytes=0, flops_per_row=0.0)
    assert [count_segments(n, cheap) for n in (50, 10**5, 10**6, 10**9)] == [32, 64, 64, 931]


# ---- splitting --------------------------------------------------------------------------------------


@given(rows=st.integers(1, 10_000), limit=st.integers(1, 3000))
def test_split_chunk(rows, limit):
    step = split_chunk(rows, limit)
    assert 1 <= step <= limit or rows <= limit
    blocks = -(-rows // step)
    assert blocks <= 2 * -(-rows // limit)


@given(shape=uneven, limit=st.integers(1, 20))
def test_split_rows(shape, limit):
    chunks, d = shape
    X = data(sum(chunks), d)
    dX = da.from_array(X, chunks=(chunks, d))
    out = split_rows(dX, limit)
    assert max(out.chunks[0]) <= limit
    edges = set(np.cumsum(out.chunks[0]).tolist())
    assert edges >= {e for e in np.cumsum(chunks).tolist() if e}  # cut, never merged
    np.testing.assert_array_equal(out.compute(scheduler="sync"), X)
    if max(chunks) <= limit and min(chunks) > 0:
        assert out is dX


@given(chunks=row_chunks(least=1, most=50, blocks=400, rows=1), width=st.integers(1, 10**6))
def test_tiny_blocks_are_merged(chunks, width):
    merged = merged_chunks(chunks, width)
    edges = set(np.cumsum(chunks).tolist())
    assert set(np.cumsum(merged).tolist()) <= edges  # merged, never cut
    assert sum(merged) == sum(chunks)
    assert len(merged) >= min(len(chunks), 64)
    if len(chunks) <= 64 or width > 2**20:
        assert merged == tuple(chunks)


def test_merged_blocks_hold_the_same_rows():
    X = data(1000, 4)
    merged = merge_rows(da.from_array(X, chunks=(5, 4)))
    assert merged.numblocks == (67, 1)
    np.testing.assert_array_equal(merged.compute(scheduler="sync"), X)


# ---- upstream graphs --------------------------------------------------------------------------------


def upstreams():
    """Lazy arrays whose blocks share upstream tasks in different ways, all equal to `data(240, 4)`."""
    X = data(240, 4)
    source = da.from_array(X, chunks=(30, 4)).map_blocks(np.array)
    return {
        "split": source.rechunk({0: 10}, method="tasks"),
        "merged": source.rechunk({0: 90}, method="tasks"),
        "shifted": source[5:].rechunk({0: 30}, method="tasks"),
        "global": source - (source.mean(axis=0) - source.mean(axis=0)),
        "delayed": da.concatenate(
            [
                da.from_delayed(
                    dask.delayed(lambda a, i: a[i : i + 40], pure=True)(dask.delayed(X), i), (40, 4), X.dtype
                )
                for i in range(0, 240, 40)
            ]
        ),
        "sliced": da.from_array(X, chunks=(7, 4))[3:200:2],
        "overlap": da.overlap.overlap(source, {0: 2}, boundary="none").map_blocks(lambda b: b),
        "twice": da.where(source > 0, source, source),
        "one": source.rechunk({0: -1}),
    }


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("name", list(upstreams()))
@pytest.mark.parametrize("segments", [MANY_SEGMENTS, ONE_SEGMENT], ids=["many", "one"])
def test_shared_upstream(name, scheduler, segments):
    array = upstreams()[name]
    with dask.config.set(scheduler=scheduler):
        made = np.concatenate(run_pass(StackFold(**segments), [array]))
        np.testing.assert_array_equal(made, array.compute())
        both = run_pass(SumFold(8, **segments), [array, array])
    np.testing.assert_array_equal(both[:4], both[4:])


@pytest.mark.slow
def test_shared_upstream_distributed(client):
    for array in upstreams().values():
        np.testing.assert_array_equal(np.concatenate(run_pass(StackFold(), [array])), array.compute())


def test_shared_tasks_run_once(tmp_path):
    """Blocks cut from one chunk stay in one segment: the chunk is made once."""
    source = da.from_array(data(240, 4), chunks=(40, 4)).map_blocks(
        count_calls, str(tmp_path), dtype=np.float32
    )
    array = source.rechunk({0: 10}, method="tasks")
    before = len(list(tmp_path.iterdir()))  # Dask may try the function on an empty block
    run_pass(SumFold(8), [array, array])
    assert len(list(tmp_path.iterdir())) - before == 6
    assert BlockGraphs([array]).edges == [0, 4, 8, 12, 16, 20]


@pytest.mark.slow
def test_many_blocks_that_share_everything():
    """A global reduction upstream of more than 64 blocks: Dask runs it, and each block is a segment."""
    source = da.from_array(data(198, 2), chunks=(3, 2)).map_blocks(np.array)
    array = source - source.mean(axis=0)
    assert len(BlockGraphs([array]).edges) == 66
    np.testing.assert_array_equal(np.concatenate(run_pass(StackFold(), [array])), array.compute())


@pytest.mark.slow
def test_persisted_arrays(client, one_worker_client):
    """Blocks held as futures: same answer, the same bits for one or two workers, and each block is a segment."""
    X, y = data(900, 5), np.arange(900, dtype=np.float32)
    fold = SumFold(6)
    made = []
    for worker in (client, one_worker_client):
        with worker.as_current():
            lazy = da.from_array(X, chunks=(30, 5))
            held = lazy.persist()
            assert BlockGraphs([held]).held
            np.testing.assert_array_equal(np.concatenate(run_pass(StackFold(), [held])), X)
            np.testing.assert_array_equal(np.concatenate(run_pass(StackFold(), [held[10:] * 2])), X[10:] * 2)
            made += [run_pass(fold, [held, y]), run_pass(fold, [held, y])]
            assert run_pass(ListFold(), [held]).count("|") == 29
            assert (
                run_pass(ListFold(nbytes=30 * 5 * 4 * 10, flops_per_row=1.0), [held]).count("|") == 2
            )  # ten blocks are as large as a state
    assert len({m.tobytes() for m in made}) == 1
    np.testing.assert_allclose(made[0], run_pass(fold, [lazy, y]), rtol=1e-4)


def test_persisted_locally():
    X = data(200, 3)
    held = da.from_array(X, chunks=(30, 3)).map_blocks(np.array).persist(scheduler="sync")
    np.testing.assert_array_equal(np.concatenate(run_pass(StackFold(), [held])), X)


# ---- what travels, what is resident -----------------------------------------------------------------


def scaled(n_blocks, d=500, rows=2):
    map_ = ScalingMap(d, d, "standard", 1.0, np.arange(d, dtype=float), np.full(d, 2.0))
    X = da.zeros((rows * n_blocks, d), chunks=(rows, d), dtype=np.float32)
    return map_rows(map_, X, d, np.float32)


def pass_graph(arrays, fold, monkeypatch):
    """The graph that `run_pass` would run."""
    from distrf.execution import passes

    caught = []
    with monkeypatch.context() as patch:
        patch.setattr(passes, "compute", lambda task, *_: caught.append(task))
        run_pass(fold, arrays)
    return dict(caught[0].__dask_graph__())


def test_learned_arrays_travel_under_one_key(monkeypatch):
    lazy = scaled(100)
    assert sum(str(k).startswith(ARRAYS_PREFIX) for k in dict(lazy.__dask_graph__())) == 1
    graph = pass_graph([lazy, lazy], SumFold(1000), monkeypatch)
    assert sum(str(k).startswith(ARRAYS_PREFIX) for k in graph) == 1
    arrays = len(pickle.dumps(np.zeros((2, 500))))
    whole = sum(len(cloudpickle.dumps(node)) for node in graph.values())
    segments = sum("segment" in str(k) for k in graph)
    assert segments > 8
    assert arrays < whole < arrays + 100_000


def test_learned_arrays_travel_once_beside_persisted_blocks(client, monkeypatch):
    map_ = ScalingMap(500, 500, "standard", 1.0, np.arange(500.0), np.full(500, 2.0))
    X = da.ones((40, 500), chunks=(4, 500)).persist()
    graph = pass_graph([map_rows(map_, X, 500, float)], SumFold(500), monkeypatch)
    sizes = [len(cloudpickle.dumps(n)) for k, n in graph.items() if "segment" in str(k)]
    assert len(sizes) == 10
    assert max(sizes) < 4000  # the arrays alone are 8,000 bytes
    assert sum(str(k).startswith(ARRAYS_PREFIX) for k in graph) == 1
    made = run_pass(SumFold(500, nbytes=10**7), [map_rows(map_, X, 500, float)])
    np.testing.assert_allclose(made, 40 * map_(np.ones((1, 500)))[0], rtol=1e-5)


def test_two_scalings_are_two_keys(monkeypatch):
    X = da.zeros((40, 3), chunks=(4, 3))
    maps = [ScalingMap(3, 3, "maxabs", 1.0, np.zeros(3), np.full(3, s)) for s in (1.0, 2.0)]
    graph = pass_graph([map_rows(m, X, 3, float) for m in maps], SumFold(6), monkeypatch)
    assert sum(str(k).startswith(ARRAYS_PREFIX) for k in graph) == 2


def test_graph_stays_small(monkeypatch):
    """A thousand featurised blocks: below 300 bytes a block, and fewer tasks than blocks."""
    from distrf.kernels import Gaussian
    from distrf.maps import FourierMap

    map_ = FourierMap(100_000, 8192, Gaussian(), 1.0, "dense", "paired", 0)
    X = da.zeros((10_000, 100_000), chunks=(10, 100_000), dtype=np.float32)
    graph = pass_graph([map_rows(map_, X, 8192, np.float32)], SumFold(8192, nbytes=10**6), monkeypatch)
    assert len(graph) < 250
    assert sum(len(cloudpickle.dumps(node)) for node in graph.values()) < 300_000


@pytest.mark.parametrize(("scheduler", "workers"), [("sync", 1), ("threads", 2)])
@pytest.mark.parametrize("name", ["plain", "mapped", "split", "two"])
def test_one_block_per_thread_is_resident(scheduler, workers, name):
    Live.now = Live.most = Live.made = 0
    source = da.from_array(data(400, 3), chunks=(10, 3)).map_blocks(
        make_live, dtype=np.float32, meta=np.empty((0, 0), np.float32)
    )
    arrays = {
        "plain": [source],
        "mapped": [(source * 2).map_blocks(np.cos)],
        "split": [source.rechunk({0: 2}, method="tasks")],
        "two": [source, source * 2],
    }[name]
    with dask.config.set(scheduler=scheduler, num_workers=workers):
        fold = SumFold(3 * len(arrays), nbytes=100)
        assert count_segments(400, fold) == 2  # of twenty blocks each
        run_pass(fold, arrays)
    assert Live.made == 40
    assert Live.now == 0
    assert Live.most <= workers


def test_one_block_is_resident_in_memory():
    """Blocks of in-memory rows are views; nothing is copied by the pass."""
    X = data(100, 3)
    blocks = run_pass(ViewFold(), [X], block_rows=10)
    assert all(block.base is X for block in blocks)
    assert len(blocks) == 10


class ViewFold(StackFold):
    def update(self, state, first_row, *blocks):
        return [*state, *blocks]


# ---- faults -----------------------------------------------------------------------------------------


@contextmanager
def where(name, client=None):
    with dask.config.set(scheduler=name) if client is None else client.as_current():
        yield


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_error_names_the_rows(scheduler, monkeypatch):
    monkeypatch.setattr(segments, "PAUSES", (0.0,))
    X = np.arange(100.0).reshape(100, 1)
    dX = da.from_array(X, chunks=(30, 1))
    with where(scheduler):
        with pytest.raises(InputError, match=r"this block is refused \[block: rows 60 to 89\]"):
            run_pass(RefusingFold(1, row=77), [dX])
        with pytest.raises(InputError, match=r"this block is refused \[block: from row 60 on\]"):
            run_pass(SumFold(1), [dX.map_blocks(refuse_row, 77.0, dtype=float)])
        with pytest.raises(ZeroDivisionError) as caught:
            run_pass(RefusingFold(1, row=77, error=ZeroDivisionError), [dX])
        assert caught.value.__notes__ == ["[block: rows 60 to 89]"]
        with pytest.raises(OSError, match="refused") as caught:
            run_pass(SumFold(1), [dX.map_blocks(refuse_row, 77.0, OSError, dtype=float)])
        assert caught.value.__notes__ == ["[block: from row 60 on]"]
    with pytest.raises(InputError, match=r"\[block: rows 60 to 89\]"):
        run_pass(RefusingFold(1, row=77), [X], block_rows=30)


def test_an_error_names_the_rows_distributed(client):
    dX = da.from_array(np.arange(100.0).reshape(100, 1), chunks=(30, 1))
    for array in (dX, dX.persist()):
        with pytest.raises(InputError, match=r"this block is refused \[block: rows 60 to 89\]"):
            run_pass(RefusingFold(1, row=77), [array])
        with pytest.raises(ZeroDivisionError) as caught:
            run_pass(RefusingFold(1, row=77, error=ZeroDivisionError), [array])
        assert caught.value.__notes__ == ["[block: rows 60 to 89]"]
    with pytest.raises(InputError, match=r"\[block: from row 60 on\]"):
        run_pass(SumFold(1), [dX.map_blocks(refuse_row, 77.0, dtype=float)])
    assert run_pass(SumFold(1), [dX])[0] == 4950  # the cluster is as before


def test_after_an_error_a_pass_starts_afresh(client, tmp_path):
    """States of a failed pass, kept alive by its traceback, are not taken for those of the next."""
    held = da.ones((60, 1), chunks=(5, 1), dtype=np.float32).persist()
    fold = HiccupFold(1, **ONE_SEGMENT, row=58, cured=str(tmp_path / "cured"))
    with pytest.raises(OSError, match="a hiccup") as caught:
        run_pass(fold, [held])
    (tmp_path / "cured").touch()
    assert run_pass(fold, [held])[0] == 60
    assert caught.traceback


def test_a_full_disk_is_no_hiccup(client, tmp_path):
    """It does not pass by waiting: the error comes at once."""
    array = da.ones((60, 1), chunks=(5, 1), dtype=np.float32)
    fold = HiccupFold(
        1, **ONE_SEGMENT, row=33, cured=str(tmp_path / "cured"), once=True, error=(errno.ENOSPC, "full")
    )
    with pytest.raises(OSError, match="full"):
        run_pass(fold, [array])


@pytest.mark.parametrize("kind", ["lazy", "persisted"])
def test_a_hiccup_never_counts_rows_twice(client, tmp_path, kind):
    """A segment that raised is tried again from an empty state; a state changed in place is not."""
    array = da.ones((60, 1), chunks=(5, 1), dtype=np.float32)
    fold = HiccupFold(1, **ONE_SEGMENT, row=33, cured=str(tmp_path / "cured"), once=True)
    assert run_pass(fold, [array if kind == "lazy" else array.persist()])[0] == 60
    assert (tmp_path / "cured").exists()


@pytest.mark.parametrize("kind", ["lazy", "persisted"])
def test_worker_killed_in_a_pass(client, kind, one_worker_client):
    X = data(1600, 10)
    dX = da.from_array(X, chunks=(20, 10))
    fold = SlowSumFold(10, nbytes=1, seconds=0.04)  # a worker tells of its rows once a second
    array = dX if kind == "lazy" else dX.persist()
    undisturbed = run_pass(SumFold(10, nbytes=1), [array])
    pids = client.run(os.getpid)
    victim, killed = next(iter(pids.values())), []

    def kill(label, done, total):
        if 0 < done < total and not killed:
            killed.append(done)
            os.kill(victim, signal.SIGKILL)

    with listening(kill):
        disturbed = run_pass(fold, [array])
    assert killed
    assert killed[0] < 1600
    client.wait_for_workers(2, timeout=30)
    assert victim not in client.run(os.getpid).values()
    assert disturbed.tobytes() == undisturbed.tobytes()


# ---- progress ---------------------------------------------------------------------------------------


@contextmanager
def events():
    heard = []
    with listening(lambda label, done, total: heard.append((label, done, total))):
        yield heard


def check_events(heard, label, total):
    assert heard[0] == (label, 0, total)
    assert heard[-1] == (label, total, total)
    done = [d for _, d, _ in heard]
    assert all(a < b for a, b in itertools.pairwise(done))
    assert {e[0] for e in heard} == {label}
    assert {e[2] for e in heard} == {total}


@pytest.mark.parametrize("scheduler", [None, *SCHEDULERS])
def test_progress(scheduler):
    X = data(110, 2)
    with events() as heard:
        if scheduler is None:
            run_pass(SumFold(2), [X], label="sums", block_rows=10)
        else:
            with dask.config.set(scheduler=scheduler):
                run_pass(SumFold(2), [da.from_array(X, chunks=(10, 2))], label="sums")
    check_events(heard, "sums", 110)
    assert len(heard) == 12
    assert {b[1] - a[1] for a, b in itertools.pairwise(heard)} == {10}
    run_pass(SumFold(2), [X])  # nobody listens any more
    assert len(heard) == 12


@pytest.mark.slow
def test_progress_distributed(client):
    dX = da.from_array(data(200, 2), chunks=(10, 2))
    for array in (dX, dX.persist()):
        with events() as heard:
            run_pass(SlowSumFold(2, seconds=0.3), [array], label="sums")
        time.sleep(0.3)  # late events must not be heard
        check_events(heard, "sums", 200)
        assert len(heard) > 3


def test_progress_of_a_failed_pass():
    X = data(100, 2)
    with events() as heard, pytest.raises(InputError):
        run_pass(RefusingFold(2, row=55), [X], block_rows=10)
    assert heard[-1][1] == 50


# ---- sampled rows -----------------------------------------------------------------------------------


@given(shape=uneven, size=st.integers(1, 40), seed=small_seeds)
def test_take_rows(shape, size, seed):
    chunks, d = shape
    X = data(sum(chunks), d)
    rows = sampled_rows(len(X), size, seed, "test")
    assert len(rows) == min(size, len(X))
    for array in (X, sp.csr_array(X), da.from_array(X, chunks=(chunks, d))):
        np.testing.assert_array_equal(take_rows(array, rows), X[rows])
    np.testing.assert_array_equal(
        take_rows(da.from_array(X, chunks=(chunks, d)).map_blocks(sp.csr_array), rows), X[rows]
    )


@given(n=st.integers(64_001, 10**12), size=st.integers(8, 1000), seed=small_seeds)
def test_rows_of_large_data_come_in_groups(n, size, seed):
    rows = sampled_rows(n, size, seed, "test")
    assert len(rows) == size // 8 * 8
    assert (np.diff(rows) > 0).all()
    assert rows[-1] < n
    assert (np.diff(rows.reshape(-1, 8), axis=1) == 1).all()


def test_take_rows_reads_only_their_blocks(tmp_path):
    source = da.from_array(data(100, 2), chunks=(10, 2)).map_blocks(
        count_calls, str(tmp_path), dtype=np.float32, meta=np.empty((0, 0), np.float32)
    )
    np.testing.assert_array_equal(take_rows(source, np.array([3, 8, 71])), data(100, 2)[[3, 8, 71]])
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
@pytest.mark.parametrize("where", ["cluster", "threads"])
@pytest.mark.parametrize("nbytes", [2**26 + 8, 8])
def test_a_slow_segment_holds_back_few_others(client, tmp_path, nbytes, where):
    """While one segment is slow, the others are made and added: their sums wait, and not their states."""
    X = da.zeros((64, 2), chunks=(1, 2))
    fold = StragglerFold(2, folder=str(tmp_path), seconds=3.0, nbytes=nbytes, flops_per_row=1e12)
    assert count_segments(64, fold) > 30
    with dask.config.set(**({} if where == "cluster" else {"scheduler": "threads", "num_workers": 2})):
        np.testing.assert_array_equal(run_pass(fold, [X]), 0)
    assert int((tmp_path / "before").read_text()) >= 20
