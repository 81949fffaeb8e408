"""Hashed text: CSR rows of a million columns are never made dense, and are planned by the entries that they have."""

from __future__ import annotations

import pickle

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

import distrf
from distrf.execution.graph import stored_row_bytes
from distrf.execution.memory import Workers
from distrf.execution.planned import PlannedRows
from distrf.execution.row_blocks import row_bytes
from distrf.execution.writing import write_rows
from distrf.planning import plan_job
from distrf.store import Selection, open_source

N, D, ENTRIES, BLOCK = 1200, 2**20, 20, 400
MIB = 2**20


def text(n=N):
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, D, (n, ENTRIES)), axis=1).ravel()
    values = rng.normal(size=n * ENTRIES).astype(np.float32)
    return sp.csr_array((values, columns, np.arange(0, n * ENTRIES + 1, ENTRIES)), shape=(n, D))


LABELS = np.arange(N) % 2


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("text") / "rows.zarr")
    X = text()
    blocks = [da.from_array(X[a : a + BLOCK], chunks=(BLOCK, D), asarray=False) for a in range(0, N, BLOCK)]
    arrays = {"X": da.concatenate(blocks), "y": da.from_array(LABELS, chunks=BLOCK)}
    write_rows(path, arrays, kind="rows", spec={})
    return distrf.open_rows(path)


SKETCH = distrf.TensorSketchFeatures(2, n_components=64, random_state=0)
each_model = pytest.mark.parametrize(
    "model",
    [
        distrf.StreamingRidgeClassifier(1e-3),
        distrf.StreamingSGDClassifier(alpha=1e-3, n_epochs=2, tol=None, random_state=0),
    ],
    ids=["ridge", "sgd"],
)


@each_model
@pytest.mark.parametrize("lazy", [False, True])
def test_no_row_becomes_dense(stored, model, lazy, monkeypatch):
    def refused(self, *args, **kwargs):
        raise AssertionError(f"{self.shape} became dense")

    for kind in (sp.csr_array, sp.csr_matrix):
        monkeypatch.setattr(kind, "toarray", refused)
    X, y = stored if lazy else (text(), LABELS)
    pipeline = make_pipeline(SKETCH, model).fit(X, y)
    assert np.isfinite(pipeline[-1].coef_).all()


@each_model
def test_a_plan_counts_entries(stored, model):
    X, _ = stored
    assert 8 * ENTRIES <= row_bytes(X) < 100 * ENTRIES
    assert row_bytes(X[BLOCK:]) == row_bytes(X)
    planned = plan_job("fit", [SKETCH, model], PlannedRows.of(X, Workers(2, 1, 2**31)))
    planned.check()
    assert planned.rows == N
    assert planned.memory.peak < 520 * MIB  # a dense block has 1.6 GiB
    assert planned.client_peak < 64 * MIB


def written(path, lazy):
    write_rows(str(path), {"X": lazy}, kind="rows", spec={})
    return distrf.open_rows(path)[0]


def test_entries_are_counted_not_files(tmp_path):
    """Counts compress to a few bytes an entry; in memory each takes a number and a column."""
    rows = sp.random(600, 200, 0.1, format="csr", dtype=np.float32, random_state=0)
    rows.data[:] = 1
    X = written(tmp_path / "r.zarr", da.from_array(sp.csr_array(rows), chunks=(200, 200), asarray=False))
    assert stored_row_bytes(X) == pytest.approx(8 * rows.nnz / 600 + 4, rel=1e-3)
    assert row_bytes(X) == int(2 * stored_row_bytes(X))
    assert stored_row_bytes(X[:500]) == stored_row_bytes(X)
    assert open_source(tmp_path / "r.zarr", Selection()).nbytes == pytest.approx(
        8 * rows.nnz + 4 * 600, rel=1e-3
    )


def test_entries_are_known_for_good(tmp_path):
    """After the rows were pickled too."""
    X = written(tmp_path / "r.zarr", da.from_array(text(600), chunks=(200, D), asarray=False))
    travelled = pickle.loads(pickle.dumps(X))
    for rows in (X, travelled, travelled[200:], pickle.loads(pickle.dumps(travelled))):
        assert stored_row_bytes(rows) == pytest.approx(8 * ENTRIES + 4, rel=1e-3)
