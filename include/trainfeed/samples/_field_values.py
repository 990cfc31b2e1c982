"""Values of a sample as arrays of their field's dtype and shape, without loss.

Integers must be in range, floats in place of integers must be whole numbers, and booleans do not
count as numbers. Floats are rounded to the precision of the field; NaN and infinity are accepted,
but a finite value must not become infinite.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.samples._schema import Field

__all__ = ["as_array", "as_bytes", "refuse"]

_MAX_TEXT: Final = 60  # characters of a value in a message
_NOT_WHOLE: Final = "a value is no whole number"
_ACCEPTED: Final = {"b": "b", "i": "iuf", "u": "iuf", "f": "iuf"}
_LEAVES: Final[dict[str, tuple[type, ...]]] = {
    "b": (bool, np.bool_),
    "i": (int, float, np.integer, np.floating),
    "u": (int, float, np.integer, np.floating),
    "f": (int, float, np.integer, np.floating),
}


def as_array(field: Field, value: object, *leading: int) -> NDArray[Any]:
    """Return a value as an array of the field's dtype and shape.

    Args:
        field: A field of numbers.
        value: An array, a number, or nested lists of numbers.
        leading: Dimensions of ``value`` before those of the field.

    Returns:
        Shape ``(*leading, *field.shape)``, the field's dtype, contiguous; ``value`` itself if it
        has these properties.

    Raises:
        SampleShapeError: ``value`` has another shape or type, or a number that the dtype cannot
            hold.
    """
    shape = (*leading, *field.shape)
    # The common case first: nothing to convert.
    if type(value) is np.ndarray and value.shape == shape and value.dtype == field.values_dtype:
        return np.ascontiguousarray(value)
    if isinstance(value, np.ma.MaskedArray):
        refuse(field, value, "samples hold no masked values; fill them")
    if isinstance(value, np.ndarray | np.generic):
        array: NDArray[Any] = np.asarray(value)
    else:
        array = _from_python(field, value)
    if array.dtype.kind not in _ACCEPTED[field.values_dtype.kind]:
        refuse(field, value)
    return np.ascontiguousarray(_cast(field, _fit(field, array, shape, value), value))


def as_bytes(field: Field, value: object) -> bytes:
    """Return a value of a field of bytes or str as bytes, text in UTF-8.

    Raises:
        SampleShapeError: The value has another type, or is text with a lone surrogate.
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
    """Raise the error with the field, its expected type, and the value.

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
        return _short(value)
    return f"a {type(value).__name__}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _from_python(field: Field, value: object) -> NDArray[Any]:
    """Return Python numbers as an array that holds each of them exactly."""
    try:
        # As objects, because numpy would round large integers to floats, and turn bools into
        # numbers.
        objects = np.array(value, dtype=object)
    except ValueError:
        refuse(field, value, "rows of different length")
    leaves = objects.ravel().tolist()
    kind = field.values_dtype.kind
    if any(isinstance(leaf, list | tuple | np.ndarray) for leaf in leaves):
        refuse(field, value, "rows of different length")
    for leaf in leaves:
        # bool is a subclass of int; stored as 1, a wrong value would be noticed late or never.
        if not isinstance(leaf, _LEAVES[kind]) or (kind != "b" and isinstance(leaf, bool)):
            refuse(field, value, f"{_short(leaf)} is no {field.dtype}")
    if kind in "iu":
        leaves = [_to_int(field, leaf, value) for leaf in leaves]
    try:
        # All floats go through float64, so that they are rounded to the field's precision once.
        dtype = np.dtype(np.float64) if kind == "f" else field.values_dtype
        return np.array(leaves, dtype).reshape(objects.shape)
    except OverflowError:
        refuse(field, value, _limits(field))


def _to_int(field: Field, leaf: Any, value: object) -> int:
    if isinstance(leaf, float | np.floating) and not leaf.is_integer():
        refuse(field, value, _NOT_WHOLE)
    return int(leaf)


def _fit(
    field: Field, array: NDArray[Any], shape: tuple[int | None, ...], value: object
) -> NDArray[Any]:
    if array.shape == shape:
        return array
    if len(array.shape) == len(shape) and all(
        length in {None, actual} for length, actual in zip(shape, array.shape, strict=True)
    ):
        return array
    # The shape of an empty list tells nothing about the length of its rows.
    if array.shape == (0,) and shape[:1] == (None,):
        return array.reshape(0, *field.item_shape)
    refuse(field, value, f"the shape is {array.shape}")


def _cast(field: Field, array: NDArray[Any], value: object) -> NDArray[Any]:
    dtype = field.values_dtype
    if array.dtype == dtype:
        return array
    if dtype.kind == "f":
        # An overflow becomes infinity, which is refused below unless the value was infinite
        # already. A signalling NaN of another precision is a NaN like others.
        with np.errstate(over="ignore", invalid="ignore"):
            result = array.astype(dtype)
        if not np.isfinite(result).all() and np.any(np.isinf(result) & np.isfinite(array)):
            refuse(field, value, _limits(field))
        return result
    if array.dtype.kind == "f":
        return _whole(field, array, value)
    result = array.astype(dtype)
    if not np.can_cast(array.dtype, dtype) and not np.array_equal(result, array):
        refuse(field, value, _limits(field))
    return result


def _whole(field: Field, array: NDArray[Any], value: object) -> NDArray[Any]:
    if not np.all(np.isfinite(array) & (array == np.rint(array))):
        refuse(field, value, _NOT_WHOLE)
    limits = np.iinfo(field.values_dtype)
    # Compared as Python numbers: a float64 cannot represent the largest int64 exactly.
    if array.size and (int(array.min()) < limits.min or int(array.max()) > limits.max):
        refuse(field, value, _limits(field))
    return array.astype(field.values_dtype)


def _limits(field: Field) -> str:
    if field.values_dtype.kind == "f":
        return f"a value is beyond {np.finfo(field.values_dtype).max}"
    limits = np.iinfo(field.values_dtype)
    return f"a value is outside {limits.min} to {limits.max}"
