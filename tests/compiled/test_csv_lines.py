"""Rows of comma-separated text: against a reader of one byte at a time, and against Arrow's."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.csv
from hypothesis import given
from hypothesis import strategies as st

from distrf.compiled import csv_lines
from distrf.compiled.csv_lines import RowScan


def reference(text, delimiter):
    """Starts of the rows, the lines before each, whether the last one has ended, and all lines that ended."""
    starts, lines, place, i = [], 0, "row", 0
    while i < len(text):
        c = text[i : i + 1]
        if c in b"\r\n":
            i += text[i : i + 2] == b"\r\n"
            lines += 1
            if place != "quoted":
                place = "row"
        else:
            if place == "row":
                starts.append((i, len(starts), lines))
            if place == "quoted":
                place = "quote" if c == b'"' else place
            elif c == delimiter:
                place = "start"
            elif c == b'"' and place != "value":
                place = "quoted"
            else:
                place = "value"
        i += 1
    return starts, place, lines


pieces = st.lists(st.sampled_from(["a", "bc", ",", '"', "\n", "\r\n", "\r", ";", "é", ",,", '""']), max_size=12)


@st.composite
def texts(draw):
    """Texts longer than the bytes that are counted together, of few different pieces."""
    parts = [("".join(draw(pieces)) * draw(st.integers(1, 900))) for _ in range(draw(st.integers(0, 4)))]
    return "".join(parts).encode()


@given(
    text=texts(), cuts=st.lists(st.integers(0, 20_000), max_size=4), step=st.sampled_from([1, 7, 4096, 10_000])
)
def test_rows_are_found_in_any_buffers(text, cuts, step):
    starts, place, lines = reference(text, b",")
    scan, marks = RowScan(",", step), []
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for first, last in itertools.pairwise(edges):
        marks += scan.add(text[first:last]).tolist()
    begun = len(starts) - (place != "row")
    assert (scan.rows, scan.lines, scan.quoted) == (begun, lines, place == "quoted")
    assert scan.row_at == (len(text) if place == "row" else starts[-1][0])
    assert scan.line_at == (lines if place == "row" else starts[-1][2])
    expected, last = [], 0
    for start in starts:
        if start[0] - last >= step:
            expected.append(list(start))
            last = start[0]
    assert marks == expected
    scan.finish()
    assert (scan.rows, scan.row_at) == (len(starts), len(text))


@given(text=texts(), rows=st.integers(0, 3000))
def test_a_scan_stops_where_a_row_begins(text, rows):
    starts, place, _ = reference(text, b",")
    scan = RowScan(",")
    scan.add(text, rows)
    ended = len(starts) - (place != "row")
    assert scan.rows == min(rows, ended)
    if rows < len(starts) and rows <= ended:
        assert (scan.row_at, scan.lines) == (starts[rows][0], starts[rows][2])


@given(st.lists(st.lists(st.text('a",\n\r;é ', max_size=4), min_size=2, max_size=2), min_size=1, max_size=8),
       st.sampled_from(["\n", "\r\n"]))  # fmt: skip
def test_arrow_reads_as_many_rows(rows, end):
    quoted = [['"' + value.replace('"', '""') + '"' for value in row] for row in rows]
    text = end.join(",".join(row) for row in quoted).encode()
    options = pa.csv.ReadOptions(column_names=["a", "b"], block_size=2**20)
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    assert pa.csv.read_csv(io.BytesIO(text), options, parse).num_rows == len(rows)
    scan = RowScan(",")
    scan.add(text)
    scan.finish()
    assert scan.rows == len(rows)


@given(st.text('a"\n\r b', max_size=30))
def test_arrow_reads_quotes_inside_values_alike(text):
    scan = RowScan(",")
    scan.add(text.encode())
    if scan.quoted:
        return
    scan.finish()
    options = pa.csv.ReadOptions(column_names=["a"], block_size=2**20)
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    table = pa.csv.read_csv(io.BytesIO(text.encode()), options, parse) if scan.rows else pa.table({"a": []})
    assert table.num_rows == scan.rows


def test_loops_without_compilation_agree():
    text = b'a,b\n1,"x\n"\n\r\n' * 700 + b"1,2"
    scan = RowScan(",", 5000)
    marks = scan.add(text)
    state = np.zeros(8, np.int64)
    values, counts = np.frombuffer(text, np.uint8), np.empty((-(-(len(text) - 1) // 4096), 3), np.int64)
    csv_lines._count.py_func(values[1:], values[:-1], counts)
    plain = np.empty((10, 3), np.int64)
    n = csv_lines._scan.py_func(values, counts, ord(","), state, 5000, 2**62, plain)
    np.testing.assert_array_equal(plain[:n], marks)
    assert state[csv_lines._ROWS] == scan.rows == 1400
