"""Where the rows of comma-separated text begin: a line break inside quotes ends none.

Quotes count where Arrow's reader lets them count: at the start of a value. An empty line is no row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .jit import jit

_LF, _CR, _QUOTE = 10, 13, 34
# Where in a row a byte stands.
_ROW_START, _VALUE_START, _VALUE, _QUOTED, _QUOTE_IN_QUOTED = range(5)
# The entries of a state: where in a row, whether the last byte was a carriage return, rows and lines that ended, bytes seen,
# where the last mark is, where the last row began, and in which line.
_PLACE, _RETURNED, _ROWS, _LINES, _SEEN, _MARKED, _ROW_AT, _LINE_AT = range(8)


#: Bytes that are counted together.
_CELL = 4096


@jit
def _count(values: np.ndarray, before: np.ndarray, counts: np.ndarray) -> None:
    """Quotes, rows and lines that end in each cell of some bytes, each byte with the one before it."""
    for k in range(len(counts)):
        quotes = rows = lines = 0
        first, last = k * _CELL, min((k + 1) * _CELL, len(values))
        cell, cell_before = values[first:last], before[first:last]
        for i in range(len(cell)):  # without a branch: many bytes in an instruction
            c, p = cell[i], cell_before[i]
            ends, ended = (c == _LF) | (c == _CR), (p == _LF) | (p == _CR)
            quotes += c == _QUOTE
            rows += ends & ~ended
            lines += (c == _CR) | ((c == _LF) & (p != _CR))
        counts[k, 0], counts[k, 1], counts[k, 2] = quotes, rows, lines


@jit
def _scan(
    data: np.ndarray,
    counts: np.ndarray,
    delimiter: int,
    state: np.ndarray,
    step: int,
    most_rows: int,
    marks: np.ndarray,
) -> int:
    """The number of marks that were written. Stops where a row begins after `most_rows` rows."""
    place, returned, rows, lines, seen, marked, row_at, line_at = state
    n, i = 0, 0
    while i < data.size:
        k = (i - 1) // _CELL
        last = min(1 + (k + 1) * _CELL, data.size)
        # Without a quote, only line breaks matter.
        plain = i > 0 and place < _QUOTED and counts[k, 0] == 0
        if plain and rows + counts[k, 1] < most_rows and seen + last - i - marked < step:
            rows += counts[k, 1]
            lines += counts[k, 2]
            at = last  # where the last row begins
            while at > i and data[at - 1] != _LF and data[at - 1] != _CR:
                at -= 1
            if at < last and (at > i or place == _ROW_START):
                row_at, line_at = seen + at - i, lines
            place = _ROW_START if at == last else _VALUE_START if data[last - 1] == delimiter else _VALUE
            returned = data[last - 1] == _CR
            seen += last - i
            i = last
            continue
        while i < last:
            c = data[i]
            if c in (_LF, _CR):
                if c == _LF and returned:
                    returned = 0
                else:
                    returned = c == _CR
                    lines += 1
                    if place != _QUOTED:
                        rows += place != _ROW_START
                        place = _ROW_START
            else:
                returned = 0
                if place == _ROW_START:
                    row_at, line_at = seen, lines
                    if rows >= most_rows:
                        state[:] = place, returned, rows, lines, seen, marked, row_at, line_at
                        return n
                    if row_at - marked >= step and n < len(marks):
                        marks[n, 0], marks[n, 1], marks[n, 2] = row_at, rows, lines
                        marked = row_at
                        n += 1
                if place == _QUOTED:
                    if c == _QUOTE:
                        place = _QUOTE_IN_QUOTED
                elif c == delimiter:
                    place = _VALUE_START
                elif c == _QUOTE and place != _VALUE:
                    place = _QUOTED
                else:
                    place = _VALUE
            i += 1
            seen += 1
    state[:] = place, returned, rows, lines, seen, marked, row_at, line_at
    return n


@dataclass
class RowScan:
    """Reads text from its first byte on, in buffers of any size, and finds its rows.

    Parameters
    ----------
    delimiter : str
        One character of one byte.
    step : int
        Bytes from a mark to the next, at least.
    start : int
        Of the first byte, in the file.

    Attributes
    ----------
    rows, lines : int
        That have ended.
    row_at : int
        Where the first row begins that has not ended; the end of what was looked at, where there is none.
    line_at : int
        Lines before `row_at`.
    quoted : bool
        Whether a quote is open.
    """

    delimiter: str
    step: int = 2**62
    start: int = 0

    def __post_init__(self) -> None:
        self._state = np.array([_ROW_START, 0, 0, 0, self.start, self.start, self.start, 0])

    def add(self, data: bytes, most_rows: int = 2**62) -> np.ndarray:
        """Look at the next bytes.

        Parameters
        ----------
        data : bytes
        most_rows : int
            Stop where the next row begins, once so many rows have ended.

        Returns
        -------
        int64 array of shape (k, 3)
            The marks: where a row begins, and how many rows and lines have ended there.
        """
        values = np.frombuffer(data, np.uint8)
        marks = np.empty((min(len(data), len(data) // self.step + 1), 3), np.int64)
        counts = np.empty((-(-(len(data) - 1) // _CELL), 3), np.int64)
        _count(values[1:], values[:-1], counts)
        n = _scan(values, counts, ord(self.delimiter), self._state, self.step, most_rows, marks)
        return marks[:n]

    def finish(self) -> None:
        """The text has ended: so has a last row without a line break."""
        self._state[_ROWS] += self._state[_PLACE] != _ROW_START
        self._state[_PLACE] = _ROW_START

    @property
    def rows(self) -> int:
        """Rows that have ended."""
        return int(self._state[_ROWS])

    @property
    def lines(self) -> int:
        """Lines that have ended."""
        return int(self._state[_LINES])

    @property
    def row_at(self) -> int:
        """Where the first row begins that has not ended."""
        return int(self._state[_SEEN if self._state[_PLACE] == _ROW_START else _ROW_AT])

    @property
    def line_at(self) -> int:
        """Lines before `row_at`."""
        return int(self._state[_LINES if self._state[_PLACE] == _ROW_START else _LINE_AT])

    @property
    def quoted(self) -> bool:
        """Whether a quote is open."""
        return bool(self._state[_PLACE] == _QUOTED)
