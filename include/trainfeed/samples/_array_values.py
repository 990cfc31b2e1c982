"""Arrays of values that no schema describes: numpy chooses the type, and no value may change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError

__all__ = ["array_of"]

# Kinds of numpy types whose values an array of the same type holds as they are. Texts are not
# among them: numpy takes the zeros off their ends.
_KEPT_KINDS: Final = frozenset("biufcmM")
_LISTS: Final = (list, tuple)
_ARRAYS: Final = (np.ndarray, np.generic)


def array_of(value: object) -> NDArray[Any]:
    """Return the array that numpy makes of a value, if each number and text in it stays as it is.

    In lists, numpy rounds whole numbers beside floats to float64, makes numbers of bools and texts
    of numbers, and cuts zeros at the end of texts. It also drops masks.

    Args:
        value: An array, a number, or nested lists; other objects give an array of objects.

    Raises:
        SampleShapeError: A value would change, or is masked.
        ValueError: Lists have different lengths.
    """
    if not isinstance(value, _LISTS):
        if isinstance(value, np.ma.MaskedArray):
            _require_whole(value)
        return np.asarray(value)
    kinds = _kinds(value)
    array: NDArray[Any] = np.asarray(value)
    if not _is_surely_kept(kinds, array):
        _require_kept(value, array)
    return array


def _is_surely_kept(kinds: set[Any], array: NDArray[Any]) -> bool:
    """Return whether the types alone tell that no value changes; true of nearly all lists."""
    if array.dtype.kind == "O":
        return True
    if len(kinds) > 1:
        return False
    return all(
        kind in {float, bool, complex}
        or (kind is int and array.dtype.kind in "iu")
        or (isinstance(kind, np.dtype) and kind.kind in _KEPT_KINDS)
        for kind in kinds
    )


def _kinds(level: Sequence[Any]) -> set[Any]:
    """Return the types of what nested lists hold, of arrays their dtypes.

    A list of numbers is as long as numpy can make it: no step here is one of Python for each.
    """
    kinds: set[Any] = set()
    while True:
        types = set(map(type, level))
        lists = {each for each in types if issubclass(each, _LISTS)}
        arrays = {each for each in types if issubclass(each, _ARRAYS)}
        kinds |= types - lists - arrays
        if arrays:
            for each in level:
                if isinstance(each, np.ma.MaskedArray):
                    _require_whole(each)
                if isinstance(each, _ARRAYS):
                    kinds.add(each.dtype)
        if not lists:
            return kinds
        level = [*chain.from_iterable(each for each in level if isinstance(each, _LISTS))]


def _require_whole(array: NDArray[Any]) -> None:
    if np.ma.is_masked(array):
        raise SampleShapeError(
            "expected values that are all there, got a masked array; fill it, and give the mask as"
            " a field of its own"
        )


def _require_kept(value: object, array: NDArray[Any]) -> None:
    given = np.array(value, dtype=object).ravel().tolist()
    for before, after in zip(given, array.ravel().tolist(), strict=True):
        if not _is_same(before, after):
            raise SampleShapeError(
                f"expected values that one type holds, got {before!r:.80}, which would become"
                f" {after!r:.80}; give arrays of the type that you need, or fields of their own"
            )


def _is_same(before: Any, after: Any) -> bool:
    if isinstance(before, np.generic):
        # Numbers of Python are compared exactly, those of numpy in a common type.
        before = before.item()
    if isinstance(before, bool) is not isinstance(after, bool):
        return False
    # NaN differs from itself.
    return bool(before == after) or bool(before != before and after != after)  # noqa: PLR0124
