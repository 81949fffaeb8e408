"""Tables drawn at random: a training ends with a model that predicts and can be saved, or says why not in one line."""

from __future__ import annotations

import datetime as dt
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import distrf
from distrf.cli.console import training
from distrf.errors import DistrfError, InputError
from distrf.tables.kinds import ColumnWarning

pa = pytest.importorskip("pyarrow")
dd = pytest.importorskip("dask.dataframe")
parquet = pytest.importorskip("pyarrow.parquet")

DATES = (
    "%y-%m-%d", "%d-%m-%y", "%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%m/%d/%y", "%d-%b-%Y", "%B %d, %Y", "%a, %d %b %Y %H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
)  # fmt: skip
numbers, whole = st.floats(-1e6, 1e6, width=32), st.integers(0, 10**6)
days = st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1))
ENTRIES = {
    "number": st.floats(allow_nan=True, allow_infinity=True, width=64),
    "whole": st.integers(-(2**40), 2**40),
    "count": st.integers(0, 3),
    "big": st.integers(2**60, 2**60 + 9),
    "snowflake": st.integers(2**60, 2**62),
    "text": st.text(max_size=5),
    "sentence": st.lists(st.text(min_size=1, max_size=4), min_size=4, max_size=6).map(" ".join),
    "level": st.sampled_from(["", "é", "zwei Wörter", "日本", "null", "1"]),
    "boolean": st.booleans(),
    "date": st.datetimes(),
    "nothing": st.none(),
    "constant": st.just(7.5),
    "clock": days.map("{:%H:%M:%S}".format),
    "money": numbers.map("${:,.2f}".format),
    "euros": numbers.map(lambda v: f"{v:,.2f} €".translate(str.maketrans(",.", ".,"))),
    "percent": whole.map("{}%".format),
    "unit": numbers.map("{:.1f} kg".format),
    "stray": st.sampled_from([*map(str, range(40)), "?"]),
    **{form: days.map(("{:" + form + "}").format) for form in DATES},
}
#: Without NUL, where Arrow's stream interface ends a name.
NAMES = st.text(min_size=1, max_size=4).filter(lambda name: "\0" not in name) | st.sampled_from(
    ["a,b", "a b", " id", "0", "2019", "ä=1", "[x]", "'q'", '"', "id", "index", "size, mm"]
)
TARGETS = [
    "number",
    "whole",
    "count",
    "text",
    "level",
    "boolean",
    "constant",
    "money",
    "percent",
    "stray",
    "big",
]
#: How a table is given.
GIVEN = ["parquet", "csv", "unlike files", "folders", "pandas", "stream"]


@st.composite
def columns(draw, n, kinds):
    entries = ENTRIES[draw(st.sampled_from(kinds))]
    if draw(st.booleans()):
        entries = st.none() | entries
    return draw(st.lists(entries, min_size=n, max_size=n))


@st.composite
def tables(draw):
    n = draw(st.sampled_from([1, 2, 3, 7, 30, 90]))
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    table = {name: draw(columns(n, sorted(ENTRIES))) for name in names}
    target = draw(NAMES.filter(lambda name: name not in names))
    return table | {target: draw(columns(n, TARGETS))}, target, draw(st.sampled_from(GIVEN))


class Stream:
    """A frame of a library that speaks Arrow's stream interface alone, with texts as Polars has them."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def nullable(made):
    """A pandas frame of nullable types and categories of integers, with numbers for names."""
    frame = made.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get)
    few = [name for name in frame if frame[name].dtype == "Int64" and frame[name].nunique() < 5]
    frame[few] = frame[few].astype("category")
    return frame.rename(columns={"0": 0, "2019": 2019})


def unlike(made, target):
    """The second half of a table as another program writes it: doubles, other text, and a column less."""
    types = {pa.int64(): pa.float64(), pa.string(): pa.large_string(), pa.timestamp("us"): pa.timestamp("ns")}
    names = made.column_names
    half = made.slice(len(made) // 2)
    for j, name in enumerate(names):
        with suppress(pa.ArrowInvalid):
            half = half.set_column(
                j, name, half.column(j).cast(types.get(half.column(j).type, half.column(j).type))
            )
    return half.drop_columns([name for name in names if name != target][1:2])


def give(made, target, given, folder):
    """The rows as `train` takes them, and the names of their columns."""
    path, names = folder / "rows.parquet", made.column_names
    if given == "pandas":
        return nullable(made), names
    if given == "stream":
        return Stream(made), names
    if given == "csv":
        made.to_pandas().to_csv(folder / "rows.csv", index=False)
        return folder / "rows.csv", names
    if given == "parquet":
        parquet.write_table(made, path)
        return path, names
    path.mkdir()
    if given == "unlike files":
        parquet.write_table(made.slice(0, len(made) // 2), path / "a.parquet")
        parquet.write_table(unlike(made, target), path / "b.parquet")
        return path, names
    places = pa.array([f"p{k % 2}" for k in range(len(made))])
    parquet.write_to_dataset(made.append_column("place?", places), path, partition_cols=["place?"])
    return path, [*names, "place?"]


def check_accounts(model, made, names, target, warned):
    """Every column has a line, which says what it is read as, and a warning where it has values and is left out by a guess."""
    told = {column["name"]: column for column in model[0].columns_}
    assert {*told, model.training_.target} == {*names}
    assert model.training_.target == target
    for name, column in told.items():
        assert column["why"]
        assert column["encoding"]
        if column["kind"] in ("id", "text") and "in ascending order" not in column["why"]:
            assert any(text.startswith("left out: ") and repr(name) in text for text in warned), column
        if name in made.column_names and made.schema.field(name).type == pa.string():
            other = column["kind"] in ("number", "date", "clock")
            assert not other or "text that reads as" in column["why"] or column["why"] != "string"
    printed = training("model", {"columns": model[0].columns_, **model.training_.to_dict()})
    assert all(name in printed for name in told if name.isprintable() and name.strip() == name)


def check(table, target, given, folder):
    """Whether the table became a model."""
    try:
        made = pa.table(table)
    except (pa.ArrowInvalid, UnicodeEncodeError):  # surrogates: no Arrow table either
        return False
    rows, names = give(made, target, given, folder)
    options = {"header": True} if given == "csv" else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        why, drop = "", None in table[target]
        try:
            model = distrf.train(rows, target=target, n_components=32, drop_missing_target=drop, **options)
        except DistrfError as error:
            why = str(error)
        assert "\n" not in why
        assert len(why) < 700
        if why:
            return False
        check_accounts(model, made, names, target, [str(one.message) for one in caught])
        predicted = np.asarray(distrf.predict(model, rows, **options))
        assert len(predicted) == len(made)
        assert predicted.dtype.kind not in "fc" or np.isfinite(predicted).all()
        distrf.save_model(model, folder / "model")
        again = distrf.predict(distrf.load_model(folder / "model"), rows, **options)
        np.testing.assert_array_equal(np.asarray(again), predicted)
    return True


def drawn(examples):
    phases, checks = [Phase.explicit, Phase.generate], list(HealthCheck)
    return settings(max_examples=examples, deadline=None, phases=phases, suppress_health_check=checks)


@drawn(25)
@given(tables())
def test_any_table(drawn):
    with tempfile.TemporaryDirectory() as folder:
        check(*drawn, Path(folder))


@pytest.mark.slow
@pytest.mark.timeout(2400)
@drawn(500)
@given(tables())
def test_many_tables(drawn):
    with tempfile.TemporaryDirectory() as folder:
        check(*drawn, Path(folder))


K = np.arange(120)
DAYS = pd.Timestamp("2020-01-01") + pd.to_timedelta(K * 7919 % 900, "D")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        *[(DAYS.strftime(form), "date") for form in DATES],
        ([f"${k * 37.5:,.2f}" for k in K], "number"),
        ([f"{k / 8:.3f} kg" for k in K], "number"),
        ([f"{k}%" for k in K], "number"),
        (pd.array([None, *(K[1:] % 7)], "Int64"), "code"),
        (pd.array(["none yet", "?!", *(str(k * 7919 % 101) for k in K[2:])], "string"), "code"),
        (pd.Categorical(K % 5), "category"),
        (2**60 + K % 5, "category"),
    ],
)
def test_what_text_tells_is_learned(values, kind, tmp_path):
    """From frames, Parquet and CSV alike; rows to predict are read as those of the training, one at a time too."""
    frame = pd.DataFrame({"c": values, "x": np.cos(K)})
    levels = {v: float(i) for i, v in enumerate(sorted(set(frame["c"].dropna()), key=str))}
    frame["y"] = (
        (DAYS - DAYS[0]).days.to_numpy() * 1.0
        if kind == "date"
        else frame["c"].map(levels).astype(float).fillna(0.0)
    )
    places = frame, tmp_path / "a.parquet", tmp_path / "a.csv"
    frame.to_parquet(places[1])
    frame.to_csv(places[2], index=False)
    options = {"kinds": {"c": "category"}} if kind == "category" else {}
    for place in places:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnWarning)  # of the texts that are none
            model = distrf.train(place, target="y", map=None, **options)
        found = model[0].columns_[0]["kind"]
        assert found == kind or (kind, found) == (
            "code",
            "category",
        )  # codes of few levels may be taken for these alone
        same = distrf.predict(model, frame)
        for rows, wanted in ((frame.iloc[5:6], same[5:6]), (places[2], same)):
            np.testing.assert_allclose(np.asarray(distrf.predict(model, rows)), wanted, rtol=1e-4, atol=1e-3)
        assert kind != "date" or distrf.evaluate(model, frame)["r2"] > 0.9


@pytest.mark.parametrize(
    "table",
    [
        {"a": [1.0, 2.0, 3.0, 4.0] * 5, "y": [1.0, 2.0, 3.0, 4.0] * 5},
        {"é": ["a", "b", None, "b"] * 5, "y": ["no", "yes", "no", "yes"] * 5},
        {"a": [float("inf"), 1.0, None, 2.0] * 5, "b": [None] * 20, "y": [0, 1, 0, 1] * 5},
    ],
)  # fmt: skip
@pytest.mark.parametrize("given", GIVEN)
def test_these_become_models(table, given, tmp_path):
    assert check(table, "y", given, tmp_path)


def _polars(table):
    return pytest.importorskip("polars").DataFrame(table)


@pytest.mark.parametrize("frame_of", [Stream, _polars, lambda table: table], ids=["stream", "polars", "arrow"])
def test_text_views(rng, frame_of, tmp_path):
    texts = pa.array(["x", "yy", None, "z"] * 30, pa.string_view())
    columns = {"a": rng.normal(size=120), "t": texts, "y": pa.array(["no", "yes"] * 60, pa.string_view())}
    frame = frame_of(pa.table(columns))
    model = distrf.train(frame, target="y", map=None)
    parquet.write_table(pa.table(columns), path := tmp_path / "a.parquet")
    same = distrf.train(path, target="y", map=None).predict(frame).tolist()
    nested = pa.StructArray.from_arrays([texts], ["t"])  # which Arrow does not filter
    gaps = pa.table(columns | {"nested": nested, "y": pa.array([None, "yes", "no", None, "no", "yes"] * 20)})
    with pytest.warns(UserWarning, match="'nested'"), pytest.warns(ColumnWarning, match="40 of 120 rows"):
        distrf.train(gaps, target="y", map=None, drop_missing_target=True)
    assert same == distrf.predict(model, frame).tolist() == model.predict(frame).tolist() == ["no", "yes"] * 60


def test_names_of_columns_that_are_numbers_or_several():
    frame = pd.DataFrame(np.arange(180).reshape(90, 2) % 3)
    frame["y"] = frame[1] * 1.0
    model = distrf.train(frame, target="y", map=None)
    distrf.evaluate(model, frame, sample_weight="1")
    with pytest.raises(InputError, match=r"'7' is no column of the table; columns: \['0', '1', 'y'\]"):
        distrf.evaluate(model, frame, sample_weight="7")
    with pytest.raises(InputError, match=r"target= is the name of one column; received \['b', 'c'\]"):
        distrf.train(frame, target=["b", "c"])


@pytest.mark.parametrize("lazy", [False, True])
def test_labels_as_text_of_any_width(rng, lazy, tmp_path):
    """NumPy's StringDType."""
    X = rng.normal(size=(80, 2))
    labels = np.where(X[:, 0] > 0, "yes", "nope")
    y = told = labels.astype(np.dtypes.StringDType())
    rows = da.from_array(X, chunks=40) if lazy else X
    if lazy:
        told = da.from_array(y, chunks=40)
    model = distrf.train(rows, told, map=None)
    assert set(model.predict(X)) == {"yes", "nope"}
    assert distrf.evaluate(model, rows, told)["rows"] == 80
    distrf.write_rows(rows, tmp_path / "b.zarr", y=told)
    assert distrf.open_rows(tmp_path / "b.zarr", target="y")[1].compute().tolist() == labels.tolist()
    assert distrf.evaluate(model, tmp_path / "b.zarr", target="y")["rows"] == 80


@pytest.mark.parametrize("place", ["frame", "dask", "parquet", "csv"])
@pytest.mark.filterwarnings("ignore:left out")
def test_columns_that_were_left_out_may_be_missing_or_of_another_type(rng, tmp_path, place):
    """They were demanded, and of the type that they had: an id, one without values, and one that does not vary."""
    frame = pd.DataFrame(
        {"id": [f"a{i}" for i in range(300)], "x": rng.normal(size=300), "empty": np.nan, "same": 1}
    )
    model = distrf.train(frame.assign(y=2 * frame["x"]), target="y", map=None)
    wanted = model.predict(frame)
    for other in (
        frame[["x"]],
        frame.assign(empty="now filled", same="one", id=range(300))[["same", "x", "id", "empty"]],
    ):
        rows = {"frame": other, "dask": dd.from_pandas(other, npartitions=3)}.get(
            place, str(tmp_path / f"rows.{place}")
        )
        if isinstance(rows, str):
            getattr(other, f"to_{place}")(rows, index=False)
        else:
            np.testing.assert_array_equal(np.asarray(model.predict(rows)), wanted)
        out = tmp_path / "out.parquet"
        distrf.predict(model, rows, out, overwrite=True)
        np.testing.assert_array_equal(pd.read_parquet(out)["prediction"], wanted)
