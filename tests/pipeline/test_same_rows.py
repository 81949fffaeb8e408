"""A later command reads rows as the training did, and takes no old answers for those of other rows."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import distrf
from distrf.errors import SpecMismatchError
from distrf.store.csv_format import USUAL, current_format

OPTIONS = {"decimal": ",", "na_values": ["?"]}
#: Nothing is chosen.
LINEAR = {"map": None, "model": distrf.StreamingRidge(1e-8)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    a = rng.integers(1000, 9_000_000, size=1500)
    return pd.DataFrame({"a": a, "b": rng.normal(size=1500).round(3), "y": (a / 1e6).round(4)})


def german(table, path):
    texts = {"a": [f"{v:,}".replace(",", ".") for v in table.a]}
    texts |= {name: [str(v).replace(".", ",") for v in table[name]] for name in ("b", "y")}
    pd.DataFrame(texts).replace({"b": {"0,0": "?"}}).to_csv(path, sep=";", index=False)
    return path


def test_a_model_knows_how_its_csv_was_read(tmp_path, table):
    path = german(table, tmp_path / "t.csv")
    table.to_parquet(tmp_path / "t.parquet")
    made = distrf.train(path, target="y", out=tmp_path / "m", **LINEAR, **OPTIONS)
    for model in (made, tmp_path / "m"):
        for rows in (path, tmp_path / "t.parquet"):
            assert distrf.evaluate(model, rows)["r2"] > 0.999
            assert current_format() == USUAL
    assert distrf.evaluate(made, path, na_values=["-"])["r2"] > 0.999  # the others stay
    copy = german(table, tmp_path / "t.dat")  # no name of CSV
    assert distrf.evaluate(tmp_path / "m", copy)["r2"] > 0.999
    table.to_csv(tmp_path / "e.csv", index=False)  # of another country
    assert distrf.evaluate(made, tmp_path / "e.csv", decimal=".")["r2"] > 0.999


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_that_changed_are_not_taken_for_those_of_before(tmp_path, table, kind):
    """Neither size nor edges of the CSV tell."""
    source = tmp_path / f"t.{kind}"
    more = pd.concat([table.assign(b=[f"{v:+.3f}" for v in table.b])] * 8)

    def write(changed):
        rows = more.assign(b=more.b.iloc[::-1].to_numpy()) if changed else more
        (rows.to_csv if kind == "csv" else rows.astype({"b": float}).to_parquet)(source, index=False)

    write(changed=False)
    model = distrf.train(source, target="y", **LINEAR)
    for out in (tmp_path / "p.parquet", tmp_path / "p.zarr"):
        write(changed=False)
        distrf.predict(model, source, out)
        distrf.predict(model, source, out)
        write(changed=True)
        with pytest.raises(SpecMismatchError, match=r"spec\.input\.version: .* -> "):
            distrf.predict(model, source, out)


def _frame():
    rng = np.random.default_rng(3)
    x, k = rng.normal(size=900), rng.integers(0, 5, 900)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 900), "D")
    return pd.DataFrame({
        "id": 2**60 + rng.permutation(900), "x": np.where(k == 3, np.nan, x), "z": x + rng.normal(size=900),
        "city": np.array(["Ulm", "Bonn", None, "Köln", "Rom"], object)[k], "day": days, "code": 2**61 + k,
        "y": x + k + (days - days[0]).days / 300,
    })  # fmt: skip


def _layouts(frame, folder):
    """The same table in every form, those with columns of any type first."""
    frame.to_parquet(folder / "a.parquet", row_group_size=200)
    for name in ("a.csv", "a.csv.gz"):
        frame.to_csv(folder / name, index=False)
    return {"parquet": folder / "a.parquet", "csv": folder / "a.csv", "csv.gz": folder / "a.csv.gz"}


def test_the_same_table_is_the_same_model_and_has_the_same_keys(tmp_path):
    """As a frame, of Polars, Parquet, CSV and CSV.gz with columns of any type; as arrays, Zarr and ingested rows too, of numbers."""
    frame = _frame()
    files = _layouts(frame, tmp_path)
    with suppress(ImportError):
        import polars

        files["polars"] = polars.from_pandas(frame)
    kinds, made, keys = {"id": "drop", "code": "category"}, {}, {}
    for name, rows in {"frame": frame, "arrow": pa.Table.from_pandas(frame), **files}.items():
        model = distrf.train(rows, target="y", kinds=kinds, random_state=0, n_components=64)
        made[name] = np.asarray(distrf.predict(model, frame))
        if isinstance(rows, Path):
            distrf.predict(model, rows, tmp_path / "p.parquet", keys=["id", "day"], overwrite=True)
            keys[name] = pd.read_parquet(tmp_path / "p.parquet")
    for name, values in made.items():
        np.testing.assert_allclose(values, made["frame"], rtol=1e-6, atol=1e-6, err_msg=name)
    for found in keys.values():
        assert found["id"].tolist() == frame["id"].tolist()
        assert pd.to_datetime(found["day"]).tolist() == frame["day"].tolist()
    numbers = frame[["z", "y"]].assign(w=frame["z"] ** 2)
    files = _layouts(numbers, tmp_path)
    distrf.ingest(files["csv"], tmp_path / "ingested.zarr", target="y")
    X, y = numbers[["z", "w"]].to_numpy(), numbers["y"].to_numpy()
    distrf.write_rows(X, tmp_path / "b.zarr", y)
    places = {"ingested": (tmp_path / "ingested.zarr",), "zarr": (tmp_path / "b.zarr",), "arrays": (X, y)}
    made = {
        name: np.asarray(distrf.train(*rows, scale="standard", **options, **LINEAR).predict(X))
        for name, rows, options in [
            *((name, (path,), {"target": "y"}) for name, path in files.items()),
            *((name, rows, {}) for name, rows in places.items()),
        ]
    }
    for name, values in made.items():
        np.testing.assert_allclose(values, made["arrays"], rtol=1e-6, atol=1e-6, err_msg=name)
