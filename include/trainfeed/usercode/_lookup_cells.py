"""Cells of a CSV lookup as a column of a declared type; a cell of another form is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

__all__ = ["CellColumn", "typed_cells"]

_WHOLE: Final = re.compile(r"-?[0-9]+")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BOOLS: Final = {"true": True, "false": False}


def typed_cells(name: str, cells: Sequence[str], dtype: str) -> pa.Array:
    """Return the cells of a column of texts as values of a type.

    Raises:
        ValueError: A cell is not of the type.
    """
    column = CellColumn(name, dtype)
    column.add(cells)
    return column.finish()


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
            ValueError: A cell is not of the type; has the row.
        """
        values = [self._value(row, cell) for row, cell in enumerate(cells, self._rows + 1)]
        self._parts.append(pa.array(values, self._kind))
        self._rows += len(cells)

    def finish(self) -> pa.Array:
        """Return the whole column."""
        whole = pa.concat_arrays([pa.array([], self._kind), *self._parts])
        if self._dtype is None:
            with suppress(pa.ArrowInvalid):
                return whole.cast(pa.string())
        return whole

    @property
    def _kind(self) -> pa.DataType:
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
            told = f": {error}" if isinstance(error, _CellError) else ""
            raise ValueError(
                f"row {row}, column {self._name!r}: expected {self._dtype}, as dataset.yaml says,"
                f" got {cell!r:.60}{told}; correct the cell or the type"
            ) from error


class _CellError(ValueError):
    """Why a cell of the right form has no value."""


def _text(cell: str, _: str) -> str:
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        raise _CellError("the file is not UTF-8; save it as UTF-8") from error
    return cell


def _number(cell: str, dtype: str) -> int | float:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        if not _WHOLE.fullmatch(cell):
            raise ValueError(cell)
        value, limits = int(cell), np.iinfo(kind)
        if not limits.min <= value <= limits.max:
            raise _CellError(f"it is outside {limits.min} to {limits.max}")
        return value
    if cell in _NOT_FINITE:
        return _NOT_FINITE[cell]
    if not _NUMBER.fullmatch(cell):
        raise ValueError(cell)
    with np.errstate(over="ignore"):
        found = kind.type(cell)
    if not np.isfinite(found):
        raise _CellError(f"it is beyond {np.finfo(kind).max}")
    if _WHOLE.fullmatch(cell) and int(found) != int(cell):
        raise _CellError(f"it would become {int(found)}")
    return float(found)


_CONVERTERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "str": _text,
    "bool": lambda cell, _: _BOOLS[cell.lower()],
}
