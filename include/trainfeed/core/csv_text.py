"""Rows of CSV text, read strictly: no cell is guessed, and no row is left out.

Python's reader of CSV does most of it. It cannot tell a quoted cell from a bare one, it leaves out
blank lines, and it accepts headers that no file means; these are here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Final, Self

from trainfeed.core.thread_ties import new_lock

# A bare cell with this text is an absent value; a quoted one is the text.
ABSENT: Final = "\\N"

_MAX_CELL_CHARS: Final = 8 << 20
_QUOTE: Final = '"'
_BYTE_ORDER_MARK: Final = "\ufeff"
_EXCEL: Final = "sep="
_limit_lock: Final = new_lock()


class CsvRows:
    """The rows of CSV text, as lists of cells; blank lines are skipped.

    Args:
        lines: Lines with their ends, from a file that was opened with ``newline=""``.
        delimiter: One character between cells.
        quote: One character around cells.

    Attributes:
        line: Number of the last line of the last row, from 1.

    Raises:
        csv.Error: While iterating: a quote is not closed, or text follows a closed one; or a cell
            is longer than 8 MiB.
        ValueError: While iterating: a blank line may be a row with an empty text.
    """

    def __init__(self, lines: Iterable[str], *, delimiter: str = ",", quote: str = _QUOTE) -> None:
        self._delimiter = delimiter
        self._quote = quote
        self._lines: list[str] = []
        self._reader = csv.reader(
            self._noted(lines), delimiter=delimiter, quotechar=quote, strict=True
        )
        self._width = 0
        self._blank = 0

    @property
    def line(self) -> int:
        """Number of the last line of the last row, from 1."""
        return self._reader.line_num

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[str]:
        self._lines.clear()
        while not (cells := self._row()):
            # Among rows of one cell, a blank line may be a row, too. At the end it is none.
            self._blank = self._blank or self.line
            self._lines.clear()
        self._width = self._width or len(cells)
        if self._blank and self._width == 1:
            raise ValueError(
                f"line {self._blank} is blank, which may be a row with an empty text; write the"
                f" text as {self._quote}{self._quote}, or remove the line"
            )
        return cells

    def _row(self) -> list[str]:
        # All readers of a process have one limit of cells, so it is raised only for the while.
        with _limit_lock:
            limit = csv.field_size_limit()
            if limit >= _MAX_CELL_CHARS:
                return next(self._reader)
            csv.field_size_limit(_MAX_CELL_CHARS)
            try:
                return next(self._reader)
            finally:
                csv.field_size_limit(limit)

    def is_bare(self, place: int) -> bool:
        """Return whether a cell of the last row, by its place from 0, stands without quotes."""
        text, start = "".join(self._lines), 0
        for _ in range(place):
            start = self._end_of(text, start) + 1
        return text[start : start + 1] != self._quote

    def _end_of(self, text: str, start: int) -> int:
        """Return where the delimiter behind a cell stands."""
        if text[start : start + 1] != self._quote:
            return text.index(self._delimiter, start)
        end = start + 1
        while True:
            end = text.index(self._quote, end) + 1
            if text[end : end + 1] != self._quote:
                return end
            end += 1

    def _noted(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self._lines.append(line)
            yield line


def require_names(header: list[str] | None) -> list[str]:
    """Return the names in a header.

    Raises:
        ValueError: There is no header, or its names are empty or not different.
    """
    if header is None:
        raise ValueError("expected a header with the names of the columns, got nothing")
    if header[0].startswith(_EXCEL):
        raise ValueError(
            f"expected a header with the names of the columns, got {','.join(header)!r:.60}, the"
            " line by which Excel is told the delimiter; remove the line, and name the delimiter"
        )
    if "" in header:
        place = header.index("") + 1
        raise ValueError(
            f"expected a name for every column, got none for column {place} of {header!r:.200};"
            " name the column, or remove it, or the delimiter at the end of every line"
        )
    if len(set(header)) < len(header):
        raise ValueError(f"expected different names of columns, got {header!r:.200}")
    return header


def csv_row(cells: Iterable[str | None], *, delimiter: str) -> str:
    """Return a row with its end; None is an absent value.

    Every text is read back as it is: also one with an end of line, or that of an absent value.
    """
    found = [ABSENT if cell is None else _cell(cell, delimiter) for cell in cells]
    return f"{delimiter.join(found) if found != [''] else _QUOTE * 2}\n"


def _cell(text: str, delimiter: str) -> str:
    is_plain = not (
        delimiter in text
        or _QUOTE in text
        or "\n" in text
        or "\r" in text
        or text == ABSENT
        or text.startswith(_BYTE_ORDER_MARK)
    )
    return text if is_plain else f"{_QUOTE}{text.replace(_QUOTE, _QUOTE * 2)}{_QUOTE}"
