"""Tables drawn at random: a training ends with a model that predicts and can be saved, or says why not in one line."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import distrf
from distrf.errors import InputError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ENTRIES = {
    "number": st.floats(allow_nan=True, allow_infinity=True, width=64),
    "whole": st.integers(-(2**40), 2**40),
    "count": st.integers(0, 3),
    "text": st.text(max_size=5),
    "level": st.sampled_from(["", "é", "zwei Wörter", "日本", "null", "1"]),
    "boolean": st.booleans(),
    "date": st.datetimes(),
    "nothing": st.none(),
    "constant": st.just(7.5),
}


@st.composite
def columns(draw, n, kinds):
    kind = draw(st.sampled_from(kinds))
    entries = ENTRIES[kind]
    if draw(st.booleans()):
        entries = st.none() | entries
    return draw(st.lists(entries, min_size=n, max_size=n))


@st.composite
def tables(draw):
    n = draw(st.sampled_from([1, 2, 3, 7, 30, 90]))
    names = draw(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=5, unique=True))
    table = {name: draw(columns(n, sorted(ENTRIES))) for name in names}
    target = draw(st.text(min_size=1, max_size=4).filter(lambda name: name not in names))
    table[target] = draw(columns(n, ["number", "whole", "count", "text", "level", "boolean", "constant"]))
    return table, target


def check(table, target, folder):
    """Whether the table became a model."""
    try:
        made = pa.table(table)
    except (pa.ArrowInvalid, UnicodeEncodeError):  # surrogates: no Arrow table either
        return False
    parquet.write_table(made, folder / "rows.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = distrf.train(str(folder / "rows.parquet"), target=target, n_components=32)
        except InputError as error:
            why = str(error)
        else:
            why = ""
        assert "\n" not in why
        assert len(why) < 600
        if why:
            return False
        rows = made.drop_columns([target])
        predicted = np.asarray(model.predict(rows))
        assert len(predicted) == len(made)
        assert predicted.dtype.kind not in "fc" or np.isfinite(predicted).all()
        distrf.save_model(model, folder / "model")
        loaded = distrf.load_model(folder / "model")
        np.testing.assert_array_equal(
            np.asarray(distrf.predict(loaded, str(folder / "rows.parquet"))), predicted
        )
    return True


def drawn(examples):
    return settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@drawn(15)
@given(tables())
def test_any_table(drawn):
    with tempfile.TemporaryDirectory() as folder:
        check(*drawn, Path(folder))


@pytest.mark.slow
@drawn(200)
@given(tables())
def test_many_tables(drawn):
    with tempfile.TemporaryDirectory() as folder:
        check(*drawn, Path(folder))


@pytest.mark.parametrize(
    "table",
    [
        {"a": [1.0, 2.0, 3.0, 4.0] * 5, "y": [1.0, 2.0, 3.0, 4.0] * 5},
        {"é": ["a", "b", None, "b"] * 5, "y": ["no", "yes", "no", "yes"] * 5},
        {"a": [float("inf"), 1.0, None, 2.0] * 5, "b": [None] * 20, "y": [0, 1, 0, 1] * 5},
    ],
)  # fmt: skip
def test_these_become_models(table, tmp_path):
    assert check(table, "y", tmp_path)
