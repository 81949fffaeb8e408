"""What becomes of errors that libraries raise."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import zarr
from sklearn.preprocessing import FunctionTransformer

import distrf
from distrf import StreamingRidge, load_model, open_rows, open_table, registry, save_model, write_rows
from distrf.checkpoint import Checkpoint
from distrf.cli import console
from distrf.errors import InputError, StoreError, reworded
from distrf.maps.blockwise import BlockwiseMap


def lacking(*args, **kwargs):
    raise MemoryError("Unable to allocate 8.00 GiB")


def unpicklable(rows):
    return rows


def test_what_is_reworded_and_what_passes():
    with pytest.raises(StoreError, match="damaged") as caught, reworded(lambda e: StoreError(f"damaged: {e}")):
        raise KeyError("a")
    assert isinstance(caught.value.__cause__, KeyError)
    for error in (MemoryError("m"), InputError("i")):
        with pytest.raises(type(error)), reworded(lambda e: StoreError(f"damaged: {e}")):
            raise error


def stored(folder):
    write_rows(np.arange(20.0).reshape(10, 2), folder / "a.zarr")
    save_model(StreamingRidge(1e-3).fit(np.eye(3), np.arange(3.0)), folder / "m")
    Checkpoint(folder / "c", {"job": 1}).run(lambda _: {"w": np.arange(3.0)})
    return folder


@pytest.mark.parametrize(
    ("target", "use"),
    [
        (np.lib.npyio.NpzFile, lambda f: load_model(f / "m")),
        (zarr.Array, lambda f: open_rows(f / "a.zarr")[0].compute(scheduler="sync")),
        (np.lib.npyio.NpzFile, lambda f: Checkpoint(f / "c", {"job": 1})),
    ],
    ids=["model", "rows", "checkpoint"],
)
def test_where_memory_lacks_nothing_is_called_damaged(tmp_path, monkeypatch, target, use):
    stored(tmp_path)
    monkeypatch.setattr(target, "__getitem__", lacking)
    with pytest.raises(MemoryError, match="Unable to allocate"):
        use(tmp_path)


def test_memory_lacks_while_a_table_is_read(tmp_path, monkeypatch):
    from distrf.store import table_reader

    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pytest.importorskip("pyarrow").table({"a": [1.0]}), tmp_path / "a.parquet")
    monkeypatch.setattr(pq, "ParquetFile", lacking)
    monkeypatch.setattr(table_reader.pq, "ParquetFile", lacking, raising=False)
    with pytest.raises(MemoryError):
        open_table(tmp_path / "a.parquet")


def test_memory_lacks_while_a_transformer_is_pickled(monkeypatch):
    transformer = FunctionTransformer(unpicklable)
    monkeypatch.setattr(FunctionTransformer, "__getstate__", lacking)
    with pytest.raises(MemoryError):
        BlockwiseMap.of_transformer(transformer, 2, 2)


def test_memory_lacks_while_a_plugin_is_imported(monkeypatch):
    class Entry:
        name, load = "own", lacking

    monkeypatch.setattr(registry, "entry_points", lambda group: [Entry()])
    registry.load_plugins.cache_clear()
    with pytest.raises(MemoryError):
        registry.load_plugins()


def test_the_command_line_says_what_lacks(capsys):
    assert console.print_error(MemoryError("Unable to allocate 8.00 GiB")) == 1
    assert "not enough memory: Unable to allocate 8.00 GiB" in capsys.readouterr().err


#: Functions that may raise another error in place of any: each lets MemoryError through, or says why not.
REWORDING = {("errors.py", "reworded"), ("store/zarr_source.py", "read"), ("store/files.py", "explained"), ("cluster.py", "_client")}  # fmt: skip


def test_no_other_function_rewords_any_error():
    root, found = Path(distrf.__file__).parent, set()
    for path in root.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for handler in (node for node in ast.walk(function) if isinstance(node, ast.ExceptHandler)):
                wide = handler.type is None or ast.unparse(handler.type) in ("Exception", "BaseException")
                if wide and any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(handler)):
                    found.add((path.relative_to(root).as_posix(), function.name))
    assert found == REWORDING
