"""Passes: the same bits everywhere, a bounded number of blocks in memory, faults."""

from __future__ import annotations

import errno
import pickle
from dataclasses import replace

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
import reductions as folds
import scipy.sparse as sp
from distributed import SchedulerPlugin
from fits import own_cluster
from hypothesis import given
from hypothesis import strategies as st
from strategies import chunked, row_chunks, schedulers, small_seeds

from distrf.errors import InputError
from distrf.execution import passes, row_blocks, segments
from distrf.execution.memory import states_held, tree_height
from distrf.execution.passes import count_segments, cut_segments, run_pass, tree_sum
from distrf.execution.row_blocks import map_rows, split_rows
from distrf.execution.sampling import sampled_rows, take_rows
from distrf.execution.segments import BlockGraphs
from distrf.kernels import Gaussian
from distrf.maps import FourierMap, ScalingMap

same = np.testing.assert_array_equal
SCHEDULERS = ["sync", "threads"]
#: Folds whose states are so small or so large for their arithmetic that every block is a segment, or all are one.
MANY_SEGMENTS = {"nbytes": 8, "flops_per_row": 1.0e6}
ONE_SEGMENT = {"nbytes": 10**6, "flops_per_row": 1.0}


#: Uneven, one-row and empty chunks, and a few columns.
uneven = chunked(least=0, most=17, blocks=12, columns=5)


def data(n, d, dtype=np.float32):
    return np.random.default_rng(n).normal(size=(n, d)).astype(dtype)


def lazy(n, d, rows):
    return da.from_array(data(n, d), chunks=(rows, d))


def stacked(*arrays, **segments):
    return np.concatenate(run_pass(folds.StackFold(**segments), arrays))


# ---- what a pass computes ---------------------------------------------------------------------------


@given(shape=uneven, nbytes=st.integers(1, 4000), scheduler=schedulers)
def test_pass_sees_every_row_once_and_in_order(shape, nbytes, scheduler):
    chunks, d = shape
    X, y = data(sum(chunks), d), np.arange(sum(chunks))
    dX = da.from_array(X, chunks=(chunks, d))
    with dask.config.set(scheduler=scheduler):
        blocks = run_pass(folds.StackFold(nbytes), [dX])
        listed = [e for e in run_pass(folds.ListFold(nbytes), [dX, y]) if e != "|"]
    same(np.concatenate(blocks), X)
    starts = np.concatenate([[0], np.cumsum(chunks)])[:-1]
    assert listed == [(int(a), n) for a, n in zip(starts, chunks, strict=True)]


@given(shape=uneven, nbytes=st.integers(1, 4000))
def test_pass_equals_the_direct_sum(shape, nbytes):
    chunks, d = shape
    X, y = data(sum(chunks), d), np.arange(sum(chunks), dtype=np.float32)
    direct = np.append(X.sum(axis=0, dtype=np.float64), y.sum())
    size = np.append(abs(X).sum(axis=0, dtype=np.float64), y.sum())
    fold = folds.SumFold(d + 1, nbytes)
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
    fold = folds.SumFold(3, nbytes)
    made = [run_pass(fold, [X], block_rows=step)]
    for scheduler in SCHEDULERS:
        with dask.config.set(scheduler=scheduler):
            made.append(run_pass(fold, [dX]))
    assert len({m.tobytes() for m in made}) == 1


def test_sparse_blocks():
    X = sp.random_array((90, 7), density=0.3, rng=np.random.default_rng(1), format="csr")
    for block_rows in (None, 13):
        sums = run_pass(folds.SumFold(7), [X], block_rows=block_rows)
        np.testing.assert_allclose(sums, X.sum(axis=0), rtol=1e-5)
    blocks = da.from_array(X.toarray(), chunks=(20, 7)).map_blocks(sp.csr_array)
    np.testing.assert_allclose(run_pass(folds.SumFold(7), [blocks]), X.sum(axis=0), rtol=1e-5)


def test_arrays_are_aligned_to_the_first():
    X, y = data(50, 3), np.arange(50)
    dX = da.from_array(X, chunks=((20, 30), 3))
    for other in (y, da.from_array(y, chunks=7), list(y)):
        assert run_pass(folds.ListFold(**ONE_SEGMENT), [dX, other]) == [(0, 20), (20, 30)]


def positive(a):
    return a[(a if a.ndim == 1 else a[:, 0]) > 0]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.ones((5, 2)), np.ones(4)], r"same number of rows, got \[5, 4\]"),
        ([da.ones((5, 2)), np.ones(4)], "array 1 must have as many rows as X, got 4 and 5"),
        ([da.ones((5, 2)), da.ones(4)], "array 1 must have as many rows as X, got 4 and 5"),
        ([da.ones((5, 2)), positive(da.ones(5))], "array 1's chunks must be known; call"),
        ([dask.delayed(1)], "must be an array, a SciPy CSR matrix, a data frame, or a Dask array"),
        ([positive(da.ones((5, 2)))], "chunks must be known; call array 0.compute_chunk_sizes"),
    ],
)
def test_misaligned_arrays(arrays, message):
    with pytest.raises(InputError, match=message):
        run_pass(folds.SumFold(3), arrays)


def test_no_rows_at_all():
    for X in (np.empty((0, 3), np.float32), da.empty((0, 3), dtype=np.float32)):
        same(run_pass(folds.SumFold(3), [X]), np.zeros(3))


# ---- the tree on which states are added: fixed, balanced, and few states wait -----------------------


def nested(n):
    """The sum as a nest of pairs, and the most states that waited at one time."""
    waiting, most = [0], [0]

    def state(i):
        waiting[0] += 1
        most[0] = max(most[0], waiting[0])
        return i

    def combine(left, right):
        waiting[0] -= 1
        return left, right

    return tree_sum(state, 0, n, combine), most[0]


def test_the_tree():
    assert nested(1)[0] == 0
    assert nested(5)[0] == (((0, 1), (2, 3)), 4)
    assert nested(7)[0] == (((0, 1), (2, 3)), ((4, 5), 6))


@given(n=st.integers(1, 600))
def test_every_state_once_and_few_wait(n):
    def listed(total):
        return [total] if isinstance(total, int) else [i for part in total for i in listed(part)]

    total, most = nested(n)
    assert listed(total) == list(range(n))
    assert most <= tree_height(n) + 1
    assert max(most, 3) <= states_held(n)
    assert 2 ** tree_height(n) >= n > 2 ** (tree_height(n) - 1)


# ---- segments ---------------------------------------------------------------------------------------


@given(rows=row_chunks(least=0, most=50, blocks=60, rows=0), n_segments=st.integers(1, 80), data=st.data())
def test_cut_segments(rows, n_segments, data):
    inner = data.draw(st.sets(st.integers(1, max(1, len(rows) - 1)), max_size=len(rows)))
    edges = [0, *sorted(i for i in inner if i < len(rows))]
    segments = cut_segments(rows, edges, n_segments)
    firsts, lasts = zip(*segments, strict=True)
    assert (firsts[0], *lasts) == (*firsts, len(rows))
    assert all(a < b for a, b in segments)
    assert set(firsts) <= set(edges)
    assert len(segments) <= n_segments


def test_segments_are_even():
    segments = cut_segments([10] * 1000, range(1000), 64)
    assert len(segments) == 64
    assert {b - a for a, b in segments} == {15, 16}
    assert cut_segments([1, 99, 50, 50, 100], range(5), 3) == [(0, 2), (2, 4), (4, 5)]


@pytest.mark.parametrize(
    ("nbytes", "flops_per_row", "counts"),
    [
        # 1,000 rows a segment at least, then as the root of n
        (1000 * 2**10, 2.0**20, {0: 1, 999: 1, 2000: 2, 5000: 4, 64_000: 64, 6_400_000: 640, 16 * 10**7: 3200}),
        (1000 * 2**10, 2.0**20, {640_000_000: 4096}),
        (0, 0.0, {50: 32, 10**5: 64, 10**6: 64, 10**9: 931}),  # cheap passes have few
    ],
)
def test_how_many_segments(nbytes, flops_per_row, counts):
    fold = folds.SumFold(3, nbytes, flops_per_row)
    assert {n: count_segments(n, fold) for n in counts} == counts


# ---- splitting --------------------------------------------------------------------------------------


@given(shape=uneven, limit=st.integers(1, 20))
def test_split_rows(shape, limit):
    chunks, d = shape
    dX = lazy(sum(chunks), d, chunks)
    out = split_rows(dX, limit)
    assert max(out.chunks[0]) <= limit
    assert len(out.chunks[0]) <= sum(2 * -(-rows // limit) for rows in chunks)
    edges = set(np.cumsum(out.chunks[0]).tolist())
    assert edges >= {e for e in np.cumsum(chunks).tolist() if e}  # cut, never merged
    same(out.compute(scheduler="sync"), data(*dX.shape))
    if max(chunks) <= limit and min(chunks) > 0:
        assert out is dX


# ---- upstream graphs --------------------------------------------------------------------------------


def upstreams():
    """Lazy arrays whose blocks share upstream tasks in different ways."""
    X = data(240, 4)
    source = da.from_array(X, chunks=(30, 4)).map_blocks(np.array)
    cut = dask.delayed(lambda a, i: a[i : i + 40], pure=True)
    parts = [da.from_delayed(cut(dask.delayed(X), i), (40, 4), X.dtype) for i in range(0, 240, 40)]
    return {
        "split": source.rechunk({0: 10}, method="tasks"),
        "merged": source.rechunk({0: 90}, method="tasks"),
        "shifted": source[5:].rechunk({0: 30}, method="tasks"),
        "global": source - (source.mean(axis=0) - source.mean(axis=0)),
        "delayed": da.concatenate(parts),
        "sliced": da.from_array(X, chunks=(7, 4))[3:200:2],
        "overlap": da.overlap.overlap(source, {0: 2}, boundary="none").map_blocks(lambda b: b),
        "twice": da.where(source > 0, source, source),
        "one": source.rechunk({0: -1}),
        "persisted": source.persist(scheduler="sync"),
    }


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("name", list(upstreams()))
@pytest.mark.parametrize("segments", [MANY_SEGMENTS, ONE_SEGMENT], ids=["many", "one"])
def test_shared_upstream(name, scheduler, segments):
    array = upstreams()[name]
    with dask.config.set(scheduler=scheduler):
        same(stacked(array, **segments), array.compute())
        both = run_pass(folds.SumFold(8, **segments), [array, array])
    same(both[:4], both[4:])


def counted(n, d, rows, folder):
    """Lazy rows that leave a file in a folder whenever a block is made."""
    meta = np.empty((0, 0), np.float32)
    return lazy(n, d, rows).map_blocks(folds.count_calls, str(folder), dtype=np.float32, meta=meta)


def test_shared_tasks_run_once(tmp_path):
    """Blocks cut from one chunk stay in one segment: the chunk is made once."""
    array = counted(240, 4, 40, tmp_path).rechunk({0: 10}, method="tasks")
    run_pass(folds.SumFold(8), [array, array])
    assert len(list(tmp_path.iterdir())) == 6
    assert BlockGraphs([array]).edges == [0, 4, 8, 12, 16, 20]


# ---- what travels, what is resident -----------------------------------------------------------------


def pass_graph(arrays, fold, monkeypatch):
    """The graph that `run_pass` would run, and its learned arrays, whole and in all nodes."""
    caught = []
    with monkeypatch.context() as patch:
        patch.setattr(passes, "compute", lambda task, *_: caught.append(task))
        run_pass(fold, arrays)
    graph = dict(caught[0].__dask_graph__())
    return graph, sum(str(k).startswith(row_blocks.ARRAYS_PREFIX) for k in graph)


def sent(graph, part=""):
    """Bytes of the nodes of a graph whose keys have this part."""
    return [len(cloudpickle.dumps(node)) for key, node in graph.items() if part in str(key)]


SCALING = ScalingMap(500, 500, "standard", 1.0, np.arange(500.0), np.full(500, 2.0))


def test_learned_arrays_travel_under_one_key(monkeypatch):
    rows = map_rows(SCALING, da.zeros((200, 500), chunks=(2, 500), dtype=np.float32), 500, np.float32)
    assert sum(str(k).startswith(row_blocks.ARRAYS_PREFIX) for k in dict(rows.__dask_graph__())) == 1
    graph, n_arrays = pass_graph([rows, rows], folds.SumFold(1000), monkeypatch)
    assert n_arrays == 1
    assert len(sent(graph, "segment")) > 8
    arrays = len(pickle.dumps(np.zeros((2, 500))))
    assert arrays < sum(sent(graph)) < arrays + 100_000


def test_graph_stays_small(monkeypatch):
    """A thousand featurised blocks: below 300 bytes a block, and fewer tasks than blocks."""
    map_ = FourierMap(100_000, 8192, Gaussian(), 1.0, "dense", "paired", 0)
    X = da.zeros((10_000, 100_000), chunks=(10, 100_000), dtype=np.float32)
    graph, _ = pass_graph([map_rows(map_, X, 8192, np.float32)], folds.SumFold(8192, nbytes=10**6), monkeypatch)
    assert len(graph) < 250
    assert sum(sent(graph)) < 300_000


@pytest.mark.parametrize(("scheduler", "workers"), [("sync", 1), ("threads", 2)])
@pytest.mark.parametrize("name", ["plain", "mapped", "split", "two"])
def test_one_block_per_thread_is_resident(scheduler, workers, name):
    folds.Live.now = folds.Live.most = folds.Live.made = 0
    meta = np.empty((0, 0), np.float32)
    source = lazy(400, 3, 10).map_blocks(folds.make_live, dtype=np.float32, meta=meta)
    arrays = {
        "plain": [source],
        "mapped": [(source * 2).map_blocks(np.cos)],
        "split": [source.rechunk({0: 2}, method="tasks")],
        "two": [source, source * 2],
    }[name]
    with dask.config.set(scheduler=scheduler, num_workers=workers):
        fold = folds.SumFold(3 * len(arrays), nbytes=100)
        assert count_segments(400, fold) == 2  # of twenty blocks each
        run_pass(fold, arrays)
    assert folds.Live.made == 40
    assert folds.Live.now == 0
    assert folds.Live.most <= workers


# ---- faults -----------------------------------------------------------------------------------------

ROWS = da.from_array(np.arange(100.0).reshape(100, 1), chunks=(30, 1))


@pytest.mark.parametrize("where", [None, *SCHEDULERS, "distributed", "persisted"])
def test_an_error_names_the_rows(where, monkeypatch, request):
    monkeypatch.setattr(segments, "PAUSES", (0.0,))
    if where in ("distributed", "persisted"):
        request.getfixturevalue("client")
    X = {None: ROWS.compute(), "persisted": ROWS.persist()}.get(where, ROWS)
    cases = []
    for error in (InputError, ZeroDivisionError):
        cases.append((folds.RefusingFold(1, row=77, error=error), X, "rows 60 to 89", error))
    for error in (InputError, OSError) if where in SCHEDULERS else (InputError,) if where else ():
        rows = X.map_blocks(folds.refuse_row, 77.0, error, dtype=float)
        cases.append((folds.SumFold(1), rows, "from row 60 on", error))
    with dask.config.set({"scheduler": where} if where in SCHEDULERS else {}):
        for fold, rows, said, error in cases:
            with pytest.raises(error, match="this block is refused") as caught:
                run_pass(fold, [rows], block_rows=None if where else 30)
            assert f"[block: {said}]" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert run_pass(folds.SumFold(1), [X])[0] == 4950  # the cluster is as before


def test_after_an_error_a_pass_starts_afresh(client, tmp_path):
    """States of a failed pass, kept alive by its traceback, are not taken for those of the next."""
    held = da.ones((60, 1), chunks=(5, 1), dtype=np.float32).persist()
    fold = folds.HiccupFold(1, **ONE_SEGMENT, row=58, cured=str(tmp_path / "cured"))
    with pytest.raises(OSError, match="a hiccup") as caught:
        run_pass(fold, [held])
    (tmp_path / "cured").touch()
    assert run_pass(fold, [held])[0] == 60
    assert caught.traceback


@pytest.mark.parametrize("kind", ["lazy", "persisted", "full disk"])
def test_a_hiccup_never_counts_rows_twice(client, tmp_path, kind):
    """A segment that raised is tried again from an empty state; a state changed in place is not. A full disk is no hiccup."""
    array = da.ones((60, 1), chunks=(5, 1), dtype=np.float32)
    fold = folds.HiccupFold(1, **ONE_SEGMENT, row=33, cured=str(tmp_path / "cured"), once=True)
    if kind == "full disk":
        with pytest.raises(OSError, match="full"):
            run_pass(replace(fold, error=(errno.ENOSPC, "full")), [array])
    else:
        assert run_pass(fold, [array if kind == "lazy" else array.persist()])[0] == 60
    assert (tmp_path / "cured").exists()


# ---- progress ---------------------------------------------------------------------------------------


# ---- sampled rows -----------------------------------------------------------------------------------


@given(shape=uneven, size=st.integers(1, 40), seed=small_seeds)
def test_take_rows(shape, size, seed):
    chunks, d = shape
    X, dX = data(sum(chunks), d), lazy(sum(chunks), d, chunks)
    rows = sampled_rows(len(X), size, seed, "test")
    assert len(rows) == min(size, len(X))
    for array in (X, sp.csr_array(X), dX, dX.map_blocks(sp.csr_array)):
        same(take_rows(array, rows), X[rows])


def test_dask_queues_segments_whatever_they_depend_on():
    """It would send tasks that need six results to workers at once, were they not marked; the mark is private to Dask."""
    X, states = lazy(640, 4, 10), []
    for shift in range(6):
        X = map_rows(ScalingMap(4, 4, "standard", 1.0, np.full(4, shift - 2.5), np.ones(4)), X, 4, np.float32)

    class States(SchedulerPlugin):
        def transition(self, key, start, finish, *args, **kwargs):
            states.append(finish if "segment" in str(key) else "")

    with own_cluster(1, processes=False) as client:
        client.cluster.scheduler.add_plugin(States())
        np.testing.assert_allclose(stacked(X, **MANY_SEGMENTS), data(640, 4), atol=1e-5)
    assert states.count("queued") > 32
