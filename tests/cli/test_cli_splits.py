"""`--split` and `--by` from Parquet to the saved model, the job file and the plan."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from distrf import load_model

N, CUSTOMERS = 480, 30


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """Orders of customers, each with a level of its own that `mark` gives away, over a year."""
    rng = np.random.default_rng(0)
    customer = rng.integers(0, CUSTOMERS, N)
    x = rng.normal(size=N)
    table = pa.table(
        {
            "customer": [f"customer {c}" for c in customer],
            "number": customer * 7.0,
            "date": pa.array((np.datetime64("2024-01-01") + rng.integers(0, 365, N)).astype("datetime64[us]")),
            "written": [str(d) for d in np.datetime64("2024-01-01") + rng.integers(0, 365, N)],
            "mark": rng.normal(size=CUSTOMERS)[customer],
            "x": x,
            "y": 3 * rng.normal(size=CUSTOMERS)[customer] + x,
        }
    )
    path = tmp_path_factory.mktemp("orders") / "orders.parquet"
    pq.write_table(table, path, row_group_size=130)
    return path


def trained(cli, orders, out, *words):
    return json.loads(
        cli("train", orders, out, "--target", "y", "--quiet", "--json", "--cluster", "none", *words).out
    )


def choice(result):
    return next((c for c in result["choices"] if c["what"] == "split"), None)


def test_train_by_group(cli, orders, tmp_path):
    said = ("--map", "none", "--exclude", "number", "--exclude", "written", "--exclude", "date")
    by_group = trained(cli, orders, tmp_path / "g", "--split", "group", "--by", "customer", *said)
    at_random = trained(cli, orders, tmp_path / "r", *said)
    assert choice(by_group)["value"] == "group"
    assert "30 groups of 'customer' in 5 folds" in choice(by_group)["why"]
    assert choice(at_random) is None
    assert by_group["baseline"][0]["machine"] < 0.5 < 0.9 < at_random["baseline"][0]["machine"]
    assert "customer" not in [column["name"] for column in by_group["columns"]]
    assert "customer" in [column["name"] for column in at_random["columns"]]
    assert "as said" not in [column["why"] for column in at_random["columns"]]  # nothing was
    saved = load_model(tmp_path / "g")
    assert saved.training_.chosen("split") == "group"
    scored = json.loads(cli("evaluate", tmp_path / "g", orders, "--quiet", "--json").out)
    assert scored["rows"] == N


def test_groups_are_a_feature_where_they_are_said_to_be(cli, orders, tmp_path):
    said = ("--split", "group", "--by", "number", "--map", "none")
    names = [c["name"] for c in trained(cli, orders, tmp_path / "a", *said)["columns"]]
    assert "number" not in names
    names = [c["name"] for c in trained(cli, orders, tmp_path / "b", *said, "--numeric", "number")["columns"]]
    assert "number" in names


@pytest.mark.parametrize("by", ["date", "written"])
def test_train_by_time(cli, orders, tmp_path, by):
    result = trained(cli, orders, tmp_path / "t", "--map", "none", "--split", "time", "--by", by)
    assert choice(result)["value"] == "time"
    assert f"latest of 480 rows, '{by}' from 2024-10-" in choice(result)["why"]
    assert by in [column["name"] for column in result["columns"]]  # it stays a feature


@pytest.mark.parametrize("words", [("--scale", "standard"), ("--exclude", "customer")])
def test_by_a_column_that_is_no_feature(cli, orders, tmp_path, words):
    chosen = ("--columns", "mark", "--columns", "x")
    more = chosen if "--scale" in words else ()
    result = trained(
        cli, orders, tmp_path / "m", "--split", "group", "--by", "customer", "--map", "none", *words, *more
    )
    assert "30 groups of 'customer'" in choice(result)["why"]


def test_resume_knows_the_split(cli, orders, tmp_path):
    said = ("--map", "none", "--split", "group", "--by", "customer")
    trained(cli, orders, tmp_path / "m", *said)
    assert trained(cli, orders, tmp_path / "m", *said, "--resume")["done"]
    other = cli(
        "train", orders, tmp_path / "m", "--target", "y", "--cluster", "none", "--map", "none", "--quiet", "--resume", "--split", "group", "--by", "number",
        code=1,
    )  # fmt: skip
    assert "another job" in " ".join(other.err.split())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sgd_stops_by_group(cli, orders, tmp_path):
    words = ["--model", "sgd-regressor", "--set", "model__early_stopping=true", "--set", "model__n_epochs=3"]
    words += ["--split", "group", "--by", "customer"]
    result = trained(cli, orders, tmp_path / "m", *words)
    held = {entry["rows"] for entry in result["history"]}
    assert len(held) == 1
    assert 0.7 * N < held.pop() < 0.9 * N
    scores = [entry["validation_score"] for entry in result["history"]]
    assert max(scores) < 0.6  # of new customers


def test_tune_writes_the_split_into_the_job(cli, orders, tmp_path):
    job = tmp_path / "best.yaml"
    words = ["--map", "fourier", "-D", "32", "--columns", "mark,x", "--alpha", "1e-6,1e-2", "--cluster", "none"]
    result = json.loads(
        cli("tune", orders, "--target", "y", "--out", job, "--model-out", tmp_path / "model", *words, "--split", "group", "--by", "customer", "--quiet", "--json").out
    )  # fmt: skip
    assert result["split"].startswith("group: 30 groups in 5 folds")
    assert result["best"]["score"] < 0.6
    written = yaml.safe_load(job.read_text())
    assert (written["split"], written["by"]) == ("group", "customer")
    cli("train", "--job", job)
    assert load_model(tmp_path / "model").training_.chosen("split") == "group"
    again = json.loads(
        cli("tune", orders, "--target", "y", "--out", job, *words, "--split", "time", "--by", "date", "--overwrite", "--quiet",
            "--json").out
    )  # fmt: skip
    assert again["split"].startswith("time: the ")


def test_plan_leaves_the_column_out(cli, orders):
    words = ("plan", orders, "--target", "y", "--json", "--quiet")
    plain, split = (
        json.loads(cli(*words, *more).out) for more in ((), ("--split", "group", "--by", "customer"))
    )
    assert split["bytes_read"] < plain["bytes_read"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--split group", 1, "by="),
        ("--by date", 1, "split"),
        ("--split weekly", 2, "--split must be"),
        ("--split group --by nobody", 1, "no column"),
        ("--split time --by customer", 1, "customer"),
        ("--split stratified", 1, "the target is numbers"),
    ],
)
def test_what_cannot_be_split(cli, orders, tmp_path, words, code, said):
    printed = cli("train", orders, tmp_path / "m", "--target", "y", "--quiet", *words.split(), code=code)
    assert said in " ".join(printed.err.split())
    assert not (tmp_path / "m").exists()
