"""Cells of CSV text as a column of a declared type; a cell of another form is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

_INTEGER: Final = re.compile(r"-?[0-9]+")
_DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BOOLS: Final = {"true": True, "false": False}


def typed_cells(name: str, cells: Sequence[str], dtype: str) -> pa.Array:
    """Return the cells of a column of texts as values of a type.

    Raises:
        CellError: A cell is not of the type.
    """
    column = CellColumn(name, dtype)
    column.add(cells)
    return column.finish()


class CellError(ValueError):
    """A cell is not of the type of its column.

    Args:
        row: Number of the row of the column, from 1.
        message: The message, which has the row.

    Attributes:
        row: As above.
    """

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class CellColumn:
    """A column that gets its cells part by part.

    Args:
        name: Name of the column, for messages.
        dtype: Type of the column, as in ``schema``; None for text. Then cells that are not UTF-8
            make it a column of bytes: no other type has all of its values.
    """

    def __init__(self, name: str, dtype: str | None) -> None:
        self._name = name
        self._dtype = dtype
        self._parts: list[pa.Array] = []
        self._rows = 0

    def add(self, cells: Sequence[str]) -> None:
        """Append cells; an empty one is a null, unless the column is text.

        Raises:
            CellError: A cell is not of the type.
        """
        values = [self._value(row, cell) for row, cell in enumerate(cells, self._rows + 1)]
        self._parts.append(pa.array(values, self._arrow_type))
        self._rows += len(cells)

    def finish(self) -> pa.Array:
        """Return the whole column."""
        whole = pa.concat_arrays([pa.array([], self._arrow_type), *self._parts])
        if self._dtype is None:
            with suppress(pa.ArrowInvalid):
                return whole.cast(pa.string())
        return whole

    @property
    def _arrow_type(self) -> pa.DataType:
        if self._dtype is None:
            return pa.binary()
        return pa.string() if self._dtype == "str" else pa.from_numpy_dtype(self._dtype)

    def _value(self, row: int, cell: str) -> Any:
        if self._dtype is None:
            return cell.encode(errors="surrogateescape")
        if not cell and self._dtype != "str":
            return None
        try:
            return _CONVERTERS.get(self._dtype, _number)(cell, self._dtype)
        except (ValueError, KeyError) as error:
            detail = f": {error}" if isinstance(error, _NoValueError) else ""
            raise CellError(
                row,
                f"row {row}, column {self._name!r}: expected {self._dtype}, as dataset.yaml says,"
                f" got {cell!r:.60}{detail}; correct the cell or the type",
            ) from error


class _NoValueError(ValueError):
    """Why a cell of the right form has no value."""


def _text(cell: str, _: str) -> str:
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        raise _NoValueError("the file is not UTF-8; save it as UTF-8") from error
    return cell


def _number(cell: str, dtype: str) -> int | float:
    number_type = np.dtype(dtype)
    if number_type.kind in "iu":
        if not _INTEGER.fullmatch(cell):
            raise ValueError(cell)
        whole, limits = int(cell), np.iinfo(number_type)
        if not limits.min <= whole <= limits.max:
            raise _NoValueError(f"it is outside {limits.min} to {limits.max}")
        return whole
    if cell in _NOT_FINITE:
        return _NOT_FINITE[cell]
    if not _DECIMAL.fullmatch(cell):
        raise ValueError(cell)
    with np.errstate(over="ignore"):
        value = number_type.type(cell)
    if not np.isfinite(value):
        raise _NoValueError(f"it is beyond {np.finfo(number_type).max}")
    if _INTEGER.fullmatch(cell) and int(value) != int(cell):
        raise _NoValueError(f"it would become {int(value)}")
    return float(value)


_CONVERTERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "str": _text,
    "bool": lambda cell, _: _BOOLS[cell.lower()],
}
