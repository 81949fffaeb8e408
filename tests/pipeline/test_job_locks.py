"""What writes an output holds its lock: other processes that are started at the same time, or after it was killed."""

from __future__ import annotations

from contextvars import Context

import dask
import dask.array as da
import fsspec
import numpy as np
import pytest

from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    featurize,
    ingest,
    open_rows,
    predict,
    train,
    write_rows,
)
from distrf.errors import InUseError
from distrf.store.outputs import hold

X = np.random.default_rng(0).normal(size=(60, 3))
MAP = RandomFourierFeatures(n_components=8, length_scale=2.0, random_state=0)


def test_who_writes_holds_the_lock(tmp_path):
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
    }
    with hold(out, tmp_path / "out.parquet"):
        before = sorted(tmp_path.rglob("*"))
        for name, job in jobs.items():
            with pytest.raises(InUseError, match="being written by another job"):
                Context().run(job)
            assert sorted(tmp_path.rglob("*")) == before, name
    Context().run(jobs["write_rows"])


def test_a_job_whose_output_another_one_takes_writes_no_more(tmp_path):
    """On an object store `overwrite` takes its place; its blocks are written in tasks, which look for themselves."""
    out, taken = f"memory://taken-{tmp_path.name}/out.zarr", []
    fs, root = fsspec.core.url_to_fs(out)

    def take(block):
        if not taken and len(fs.glob(f"{root}/X/c/*")) == 2:
            taken.append(None)
            taken.append(Context().run(write_rows, X[:20], out, overwrite=True).info)
        return block

    rows = da.from_array(X, chunks=(10, 3)).map_blocks(take, dtype=X.dtype, name="rows")
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(InUseError, match="another job has made it anew, or finished it"):
            featurize(MAP, rows, out)
        np.testing.assert_array_equal(open_rows(out)[0].compute(), X[:20])
