"""Python and numpy values to MessagePack; refuses values that decoding would change."""

from __future__ import annotations

from typing import Any, Final

import msgpack
import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.samples.values._value_wire import (
    MAX_DEPTH,
    PREFIX,
    SURROGATES,
    Ext,
    wire_of_dtype,
)

__all__ = ["encode_value"]

_MIN_INT, _MAX_INT = -(1 << 63), (1 << 64) - 1
_PLAIN: Final = frozenset({bool, float, str, bytes, type(None)})
_SCALARS: Final = frozenset(
    {
        np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
        np.float16, np.float32, np.float64, np.complex64, np.complex128,
        np.datetime64, np.timedelta64, np.void,
    }
)  # fmt: skip
# Initial buffer of the packer; a larger default would cost more than small values.
_BUFFER_BYTES: Final = 1 << 10


def encode_value(value: object) -> bytes:
    """Return the record of a value; see ``ValueCodec.encode``.

    Raises:
        SampleShapeError: The value, or one in it, cannot be stored.
    """
    return _Encoder().encode(value)


class _Encoder:
    def __init__(self) -> None:
        self._packer = msgpack.Packer(
            autoreset=False,
            strict_types=True,
            unicode_errors=SURROGATES,
            buf_size=_BUFFER_BYTES,
        )

    def encode(self, value: object) -> bytes:
        try:
            self._put(value, 0)
        except SampleShapeError:
            raise
        except (ValueError, MemoryError) as error:
            # The packer raises these for a length beyond 4 GiB.
            raise SampleShapeError(f"expected a value below 4 GiB, got one with {error}") from error
        return PREFIX + self._packer.bytes()  # type: ignore[no-any-return]

    def _put(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self._packer.pack(value)
        elif kind is int:
            self._put_int(value)
        elif kind is list or kind is tuple:
            self._put_items(value, depth)
        elif kind is dict:
            self._put_dict(value, depth)
        elif kind is np.ndarray:
            self._put_array(value, depth)
        elif kind in _SCALARS:
            self._put_packed(Ext.SCALAR, np.asarray(value))
        elif kind is np.str_:
            self._packer.pack_ext_type(Ext.STR, str.encode(value, "utf-8", SURROGATES))
        elif kind is np.bytes_:
            self._packer.pack_ext_type(Ext.BYTES, bytes(value))
        else:
            raise SampleShapeError(
                "expected int, float, str, bytes, bool, None, list, tuple, dict, or a numpy array"
                f" or scalar, got a {kind.__module__}.{kind.__qualname__}; convert it"
            )

    def _put_int(self, value: int) -> None:
        if _MIN_INT <= value <= _MAX_INT:
            self._packer.pack(value)
            return
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        self._packer.pack_ext_type(Ext.LARGE_INT, data)

    def _put_items(self, items: list[Any] | tuple[Any, ...], depth: int) -> None:
        _require_shallow(depth)
        is_tuple = type(items) is tuple
        if not is_tuple and _is_plain(items):
            self._packer.pack(items)
            return
        self._packer.pack_array_header(len(items) + is_tuple)
        if is_tuple:
            self._packer.pack_ext_type(Ext.TUPLE, b"")
        for i, item in enumerate(items):
            try:
                self._put(item, depth + 1)
            except SampleShapeError as error:
                raise _inside(error, f"[{i}]") from error.__cause__

    def _put_dict(self, items: dict[Any, Any], depth: int) -> None:
        _require_shallow(depth)
        self._packer.pack_map_header(len(items))
        for key, value in items.items():
            try:
                self._put(key, depth + 1)
                self._put(value, depth + 1)
            except SampleShapeError as error:
                raise _inside(error, f"[{key!r}]"[:60]) from error.__cause__

    def _put_array(self, array: NDArray[Any], depth: int) -> None:
        if array.dtype.kind != "O":
            self._put_packed(Ext.ARRAY, array)
            return
        _require_shallow(depth)
        self._packer.pack_array_header(array.size + 2)
        self._packer.pack_ext_type(Ext.OBJECTS, b"")
        self._packer.pack(list(array.shape))
        for i, item in enumerate(array.ravel().tolist()):
            try:
                self._put(item, depth + 1)
            except SampleShapeError as error:
                raise _inside(error, f".flat[{i}]") from error.__cause__

    def _put_packed(self, code: Ext, array: NDArray[Any]) -> None:
        try:
            head = msgpack.packb([wire_of_dtype(array.dtype), *array.shape])
        except TypeError as error:
            raise SampleShapeError(f"expected a dtype that can be stored, got {error}") from error
        data = len(head).to_bytes(4, "little") + head + array.tobytes()
        self._packer.pack_ext_type(code, data)


def _is_plain(items: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether the packer can store all items directly."""
    kinds = set(map(type, items))
    if kinds == {int}:
        return bool(min(items) >= _MIN_INT and max(items) <= _MAX_INT)
    return kinds <= _PLAIN


def _require_shallow(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise SampleShapeError(
            f"expected at most {MAX_DEPTH} nested containers, got more, or a container that holds"
            " itself"
        )


def _inside(error: SampleShapeError, place: str) -> SampleShapeError:
    """Return the error with the place of the value in its container added in front."""
    message = str(error.args[0])
    if message.startswith("at "):
        return SampleShapeError(f"at {place}{message[3:]}")
    return SampleShapeError(f"at {place}: {message}")
