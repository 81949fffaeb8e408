"""A format of rows from outside the package: one class, registered, is opened and fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from distrf import StreamingRidge, evaluate, open_rows
from distrf.errors import InputError, StoreError
from distrf.execution.open_rows import open_column
from distrf.store import RowSource, describe, find_format, fingerprint, formats, register_format
from distrf.store.row_source import BLOCK_BYTES


@dataclass(frozen=True, kw_only=True)
class TextRows(RowSource):
    """Lines of numbers with a line of names before them; the last column is the target, and gaps are "nan"."""

    numbers: tuple[int, ...]  # of the columns read

    @classmethod
    def recognises(cls, path):
        return path.endswith(".rows")

    @classmethod
    def open(cls, path, selection):
        with open(path) as file:
            *names, target = file.readline().split()
            n = sum(1 for _ in file)
        numbers = tuple(names.index(c) if c in names else c for c in selection.columns or range(len(names)))
        step = selection.rows_per_block or BLOCK_BYTES // (8 * len(names))
        return cls(
            path=path,
            shape=(n, len(numbers)),
            dtype=np.dtype(np.float64),
            block_lengths=tuple(min(step, n - first) for first in range(0, n, step)),
            columns=[names[j] for j in numbers],
            target=target,
            numbers=numbers,
        )

    def target_source(self):
        return replace(self, shape=self.shape[:1], numbers=(-1,), columns=None)

    def read(self, first, last):
        rows = np.loadtxt(self.path, skiprows=1 + first, max_rows=last - first, ndmin=2)[:, self.numbers]
        return rows[:, 0] if len(self.shape) == 1 else rows


N, RNG = 60, np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -2.0, 0.5]


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "REGISTERED", list(formats.REGISTERED))
    register_format(TextRows)
    np.savetxt(tmp_path / "a.rows", np.c_[X, Y], header="p q r t", comments="")
    return tmp_path / "a.rows"


def run(x):
    return x.compute(scheduler="sync")


def test_open_rows_and_describe(path):
    assert find_format(path) is TextRows
    info = describe(path)
    assert (info.n, info.d, info.dtype, info.columns, info.target) == (N, 3, "float64", ["p", "q", "r"], "t")
    assert info.nbytes == X.nbytes
    rows, y = open_rows(path, rows_per_block=25)
    assert rows.chunks == ((25, 25, 10), (3,))
    np.testing.assert_array_equal(run(rows), X)
    np.testing.assert_array_equal(run(y), Y)
    np.testing.assert_array_equal(run(open_rows(path, columns=["r", "p"])[0]), X[:, [2, 0]])
    assert fingerprint(path) == fingerprint(str(path))


def test_a_column_to_tell_rows_apart(path):
    np.testing.assert_array_equal(run(open_column(path, "r")), X[:, [2]])
    rows, y = open_rows(path, rows_per_block=25)
    model = StreamingRidge(alpha=1e-6).fit(rows, y)
    scored = evaluate(model, path, by="q")["slices"]
    assert [piece["rows"] for piece in scored] == [15, 15, 15, 15]


def test_fit_on_lazy_rows(path):
    rows, y = open_rows(path, rows_per_block=25)
    lazy, whole = StreamingRidge(1e-6).fit(rows, y), StreamingRidge(1e-6).fit(X, Y)
    np.testing.assert_allclose(lazy.coef_, whole.coef_, rtol=1e-9)


def test_what_a_format_need_not_know(path):
    source = TextRows.open(str(path), formats.Selection())
    with pytest.raises(InputError, match="need rows that come from a table"):
        source.key_blocks(["p"])
    with pytest.raises(StoreError, match="no such store"):
        open_rows(path.with_suffix(".other"))
