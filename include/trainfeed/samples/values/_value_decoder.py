"""MessagePack to Python and numpy values; every length, type and depth is checked."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

import msgpack
import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.samples.values._value_wire import (
    MAX_DEPTH,
    PREFIX,
    SURROGATES,
    Ext,
    dtype_of_wire,
)

__all__ = ["decode_value"]

_CONTAINERS: Final = frozenset({list, tuple, dict})
_HEAD_LENGTH_BYTES: Final = 4
_REFUSALS: Final = (
    msgpack.UnpackException,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    MemoryError,
)


class _Mark:
    """First item of a MessagePack array: marks it as a tuple, or as an array of objects."""

    def __init__(self, code: Ext) -> None:
        self.code = code


_MARKS: Final = {Ext.TUPLE: _Mark(Ext.TUPLE), Ext.OBJECTS: _Mark(Ext.OBJECTS)}


def decode_value(record: bytes) -> Any:
    """Return the value of a record; see ``ValueCodec.decode``.

    Raises:
        FormatError: The record does not hold a value.
    """
    if record[: len(PREFIX)] != PREFIX:
        raise FormatError(
            f"expected a record that starts with {PREFIX.hex()}, got {record[:2].hex()}: it holds"
            " no value, or a newer version wrote it"
        )
    data = record[len(PREFIX) :]
    try:
        _require_whole(data)
        return _Decoder().decode(data)
    except _REFUSALS as error:
        raise FormatError(f"record holds no value: {error or type(error).__name__}") from error


def _require_whole(data: bytes) -> None:
    """Walk through the record without building values.

    Afterwards every announced length is known to fit into the record, so that decoding allocates
    no more than its bytes justify.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=len(data) or 1, strict_map_key=False)
    unpacker.feed(data)
    unpacker.skip()
    if unpacker.tell() != len(data):
        raise ValueError(f"{len(data) - unpacker.tell()} bytes follow the value")


class _Decoder:
    def __init__(self) -> None:
        # Depths of the decoded containers that are not yet inside another one, in order: hooks are
        # called from the innermost container outwards.
        self._depths: list[int] = []

    def decode(self, data: bytes) -> Any:
        value = msgpack.unpackb(
            data,
            list_hook=self._list,
            object_pairs_hook=self._dict,
            ext_hook=_extension,
            unicode_errors=SURROGATES,
            strict_map_key=False,
            timestamp=0,
        )
        _require_values({type(value)})
        return value

    def _list(self, items: list[Any]) -> Any:
        mark = items.pop(0) if items and type(items[0]) is _Mark else None
        if mark is not None and mark.code is Ext.OBJECTS:
            if not items:
                raise ValueError("an array of objects has no shape")
            shape = items.pop(0)
            array = _objects(shape, items)
            # The list of lengths was counted as a container, before the items; it is not a value.
            del self._depths[-1 - sum(map(_is_counted, items))]
            self._enter(items)
            return array
        self._enter(items)
        return items if mark is None else tuple(items)

    def _dict(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self._enter([item for pair in pairs for item in pair])
        items = dict(pairs)
        if len(items) < len(pairs):
            raise ValueError("a dict has a key twice")
        return items

    def _enter(self, items: list[Any]) -> None:
        """Check a container's items and note its depth, in place of the depths of its items."""
        kinds = set(map(type, items))
        _require_values(kinds)
        depth = 1
        if kinds & _CONTAINERS or np.ndarray in kinds:
            num_inner = sum(map(_is_counted, items))
            if num_inner:
                depth += max(self._depths[-num_inner:])
                del self._depths[-num_inner:]
        if depth > MAX_DEPTH:
            raise ValueError(f"containers are nested more than {MAX_DEPTH} deep")
        self._depths.append(depth)


def _is_counted(item: Any) -> bool:
    kind = type(item)
    return kind in _CONTAINERS or (kind is np.ndarray and item.dtype.kind == "O")


def _require_values(kinds: set[type]) -> None:
    # Times of MessagePack are not values of this codec, and marks are allowed as first items only.
    if _Mark in kinds or msgpack.Timestamp in kinds:
        raise ValueError("an extension type stands where its values are not allowed")


def _extension(code: int, data: bytes) -> Any:
    if code in _MARKS and not data:
        return _MARKS[Ext(code)]
    if code == Ext.LARGE_INT:
        return int.from_bytes(data, "little", signed=True)
    if code == Ext.ARRAY:
        return _array(data)
    if code == Ext.SCALAR:
        array = _array(data)
        if array.shape:
            raise ValueError(f"a scalar has the shape {array.shape}")
        return array[()]
    if code == Ext.STR:
        return np.str_(str(data, "utf-8", SURROGATES))
    if code == Ext.BYTES:
        return np.bytes_(data)
    raise ValueError(f"extension type {code} is unknown, or has content that it cannot have")


def _array(data: bytes) -> NDArray[Any]:
    # u32 length of the head, head, data; ``start`` is the offset of the data.
    start = _HEAD_LENGTH_BYTES + int.from_bytes(data[:_HEAD_LENGTH_BYTES], "little")
    if start > len(data):
        raise ValueError("the head of an array runs past its end")
    head = msgpack.unpackb(data[_HEAD_LENGTH_BYTES:start])
    if not isinstance(head, list) or not head:
        raise ValueError("an array has no dtype")
    dtype, shape = dtype_of_wire(head[0]), _shape(head[1:])
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes != len(data) - start or (not dtype.itemsize and math.prod(shape) > len(data)):
        raise ValueError(f"{len(data) - start} bytes are no {dtype} {shape}")
    array = np.empty(shape, dtype)
    if num_bytes:
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8, num_bytes, start)
    _require_valid(array)
    return array


def _require_valid(array: NDArray[Any]) -> None:
    """Refuse bytes that numpy accepts, and that are not valid booleans or text."""
    for name in array.dtype.names or ():
        _require_valid(array[name])
    if array.dtype.kind == "b" and np.any(array.view(np.uint8) > 1):
        raise ValueError("a boolean is neither 0 nor 1")
    if array.dtype.kind == "U" and array.dtype.itemsize:
        letters = np.ascontiguousarray(array).reshape(-1).view(array.dtype.byteorder + "u4")
        if np.any(letters > sys.maxunicode):
            raise ValueError("text holds a code point that is not a character")


def _shape(lengths: Any) -> tuple[int, ...]:
    if type(lengths) is not list or not all(type(n) is int and n >= 0 for n in lengths):
        raise ValueError("a shape is a list of lengths")
    return tuple(lengths)


def _objects(lengths: Any, items: list[Any]) -> NDArray[Any]:
    shape = _shape(lengths)
    if math.prod(shape) != len(items):
        raise ValueError(f"{len(items)} objects are no array {shape}")
    # Item by item: numpy would treat lists as further dimensions.
    flat = np.empty(len(items), object)
    for i, item in enumerate(items):
        flat[i] = item
    return flat.reshape(shape)
