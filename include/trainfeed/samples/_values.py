"""Values of a sample as arrays of their field's dtype and shape; refuses what would be lost.

Integers must fit, floats given for integers must be whole, booleans are no numbers. Floats are
rounded to the field's precision, NaN and infinity pass, but no finite value becomes infinite.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.samples._schema import Field

__all__ = ["as_array", "as_bytes", "refuse"]

_ACCEPTED: Final = {"b": "b", "i": "iuf", "u": "iuf", "f": "iuf"}
_LEAVES: Final[dict[str, tuple[type, ...]]] = {
    "b": (bool, np.bool_),
    "i": (int, float, np.integer, np.floating),
    "u": (int, float, np.integer, np.floating),
    "f": (int, float, np.integer, np.floating),
}


def as_array(field: Field, value: object, *leading: int) -> NDArray[Any]:
    """Return a value as the field stores it.

    Args:
        field: A field of numbers.
        value: An array, a number, or nested lists of numbers.
        leading: Lengths that ``value`` has before the field's own shape.

    Returns:
        Shape ``(*leading, *field.shape)``, the field's dtype, contiguous; ``value`` itself where it
        is that already.

    Raises:
        SampleShapeError: Shape or type are others, or a number would not survive.
    """
    shape = (*leading, *field.shape)
    if type(value) is np.ndarray and value.shape == shape and value.dtype == field.values_dtype:
        return np.ascontiguousarray(value)
    if isinstance(value, np.ma.MaskedArray):
        refuse(field, value, "masked values have no place in a sample")
    if isinstance(value, np.ndarray | np.generic):
        array: NDArray[Any] = np.asarray(value)
    else:
        array = _from_python(field, value)
    if array.dtype.kind not in _ACCEPTED[field.values_dtype.kind]:
        refuse(field, value)
    return np.ascontiguousarray(_cast(field, _fit(field, array, shape)))


def as_bytes(field: Field, value: object) -> bytes:
    """Return the value of a field of bytes or str as stored, text in UTF-8.

    Raises:
        SampleShapeError: It is something else, or text with a lone surrogate.
    """
    if field.dtype == "str":
        if not isinstance(value, str):
            refuse(field, value)
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            refuse(field, value, str(error))
    if not isinstance(value, bytes | bytearray | memoryview):
        refuse(field, value)
    return bytes(value)


def refuse(field: Field, value: object, reason: str = "") -> NoReturn:
    """Raise the error that says which field, what it expects, and what it got.

    Raises:
        SampleShapeError: Always.
    """
    because = f": {reason}" if reason else ""
    raise SampleShapeError(
        f"field {field.name!r}: expected {field}, got {_describe(value)}{because}"
    )


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    if isinstance(value, list | tuple):
        kinds = sorted({type(item).__name__ for item in value})
        return f"a {type(value).__name__} of {len(value)} {' and '.join(kinds) or 'items'}"
    if isinstance(value, bool | int | float | np.generic) or value is None:
        return f"{value!r}"
    return f"a {type(value).__name__}"


def _from_python(field: Field, value: object) -> NDArray[Any]:
    """Return numbers as an array that holds each of them exactly."""
    try:
        objects = np.array(value, dtype=object)
    except ValueError:
        refuse(field, value, "rows of different length")
    leaves = objects.ravel().tolist()
    kind = field.values_dtype.kind
    for leaf in leaves:
        # A bool is an int to Python; stored as 1 it would be found out much later, if at all.
        if not isinstance(leaf, _LEAVES[kind]) or (kind != "b" and isinstance(leaf, bool)):
            refuse(field, value, f"{leaf!r} is no {field.dtype}"[:200])
    whole = kind in "iu" and all(isinstance(leaf, int | np.integer) for leaf in leaves)
    try:
        if whole:
            numbers = np.array([int(leaf) for leaf in leaves], dtype=field.values_dtype)
        else:
            numbers = np.array(leaves, dtype=bool if kind == "b" else np.float64)
    except OverflowError:
        refuse(field, value, _limits(field))
    return numbers.reshape(objects.shape)


def _fit(field: Field, array: NDArray[Any], shape: tuple[int | None, ...]) -> NDArray[Any]:
    if array.shape == shape:
        return array
    if len(array.shape) == len(shape) and all(
        length in {None, actual} for length, actual in zip(shape, array.shape, strict=True)
    ):
        return array
    # An empty list cannot show how long its rows would be.
    if array.shape == (0,) and shape[:1] == (None,):
        return array.reshape(0, *field.item_shape)
    refuse(field, array, "the shape differs")


def _cast(field: Field, array: NDArray[Any]) -> NDArray[Any]:
    dtype = field.values_dtype
    if array.dtype == dtype:
        return array
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            result = array.astype(dtype)
        if not np.isfinite(result).all() and np.any(np.isinf(result) & np.isfinite(array)):
            refuse(field, array, _limits(field))
        return result
    if array.dtype.kind == "f":
        return _whole(field, array)
    result = array.astype(dtype)
    if not np.can_cast(array.dtype, dtype) and not np.array_equal(result, array):
        refuse(field, array, _limits(field))
    return result


def _whole(field: Field, array: NDArray[Any]) -> NDArray[Any]:
    if not np.all(np.isfinite(array) & (array == np.rint(array))):
        refuse(field, array, "a value is no whole number")
    limits = np.iinfo(field.values_dtype)
    # As Python numbers: a float64 cannot hold the largest int64, so comparing as floats is wrong.
    if array.size and (int(array.min()) < limits.min or int(array.max()) > limits.max):
        refuse(field, array, _limits(field))
    return array.astype(field.values_dtype)


def _limits(field: Field) -> str:
    if field.values_dtype.kind == "f":
        return f"a value is beyond {np.finfo(field.values_dtype).max}"
    limits = np.iinfo(field.values_dtype)
    return f"a value is outside {limits.min} to {limits.max}"
