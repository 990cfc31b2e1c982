"""Python values to the lists of a feature; refuses values that a list cannot represent."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.tfrecord.examples._features import ListKind
from trainfeed.tfrecord.examples._protobuf_wire import encode_varints

__all__ = ["list_of_value", "packed_floats", "packed_integers"]

_BYTES_TYPES: Final = (bytes, bytearray, memoryview)
_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1


def list_of_value(value: Any) -> tuple[ListKind | None, list[bytes]]:
    """Return the kind of list for a value, and its content in the form of ``feature_message``.

    Raises:
        TypeError: No list can represent values of this type.
        ValueError: A number is out of range.
    """
    if value is None:
        return None, []
    if isinstance(value, np.ndarray | np.generic):
        return _of_array(np.asarray(value))
    return _of_list(value if isinstance(value, list | tuple) else [value])


def packed_integers(values: NDArray[Any]) -> bytes:
    """Return integers of any shape, in the range of int64, as packed varints."""
    return encode_varints(values.reshape(-1).astype(np.int64, copy=False))


def packed_floats(values: NDArray[Any]) -> bytes:
    """Return floats of any shape as packed float32."""
    return values.astype("<f4", copy=False).tobytes()


def _of_array(array: NDArray[Any]) -> tuple[ListKind, list[bytes]]:
    if array.dtype in (np.float32, np.float16):
        return ListKind.FLOAT, [packed_floats(array)]
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"expected an array of integers, float16 or float32, got {array.dtype}; convert it, or"
            " store its bytes"
        )
    if array.size and int(array.max()) > _MAX_INT64:
        raise ValueError(f"expected integers up to {_MAX_INT64}, got {array.max()}")
    return ListKind.INT64, [packed_integers(array)]


def _of_list(values: list[Any] | tuple[Any, ...]) -> tuple[ListKind, list[bytes]]:
    if all(isinstance(value, _BYTES_TYPES) for value in values):
        return ListKind.BYTES, [bytes(value) for value in values]
    if all(_is_integer(value) for value in values):
        if outside := [value for value in values if not _MIN_INT64 <= value <= _MAX_INT64]:
            raise ValueError(f"expected integers of 64 bits, got {outside[0]}")
        return ListKind.INT64, [packed_integers(np.array(values, np.int64))]
    if all(isinstance(value, float | np.floating) for value in values):
        return ListKind.FLOAT, [_rounded(values)]
    kinds = sorted({type(value).__name__ for value in values})
    raise TypeError(f"expected bytes, int or float alone, got {' and '.join(kinds)}")


def _is_integer(value: Any) -> bool:
    # bool is a subclass of int, but a boolean is not meant as a number.
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _rounded(values: list[Any] | tuple[Any, ...]) -> bytes:
    exact = np.array(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(np.float32)
    if np.any(np.isinf(rounded) & np.isfinite(exact)):
        raise ValueError(f"expected floats up to {np.finfo(np.float32).max}, got a larger one")
    return packed_floats(rounded)
