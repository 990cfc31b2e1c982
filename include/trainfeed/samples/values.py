"""Values of any kind as records, and back with every length checked."""

from __future__ import annotations

import math
import re
import sys
from enum import IntEnum
from typing import Any, Final

import msgpack
import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError

# --- The wire format of the value codec: MessagePack with extension types

PREFIX: Final = b"\xc1\x01"
SURROGATES: Final = "surrogatepass"
# Depth of nested containers. Python itself compares and prints values up to about twice as deep.
MAX_DEPTH: Final = 256
# Booleans, integers, floats, complex numbers, times, text, bytes, and void. Not long doubles,
# whose size and padding depend on the machine; not Python objects.
_SIMPLE: Final = re.compile(
    r"[<>|](?:b1|[iu][1248]|f[248]|c(?:8|16)|[mM]8(?:\[\w+\])?|[SUV]\d{1,9})"
)
_MAX_DTYPE_DEPTH: Final = 16
_SUBARRAY_KEYS: Final = {"base", "shape"}
_RECORD_KEYS: Final = {"fields", "itemsize", "aligned"}


class Ext(IntEnum):
    """The extension types; their numbers are stored."""

    LARGE_INT = 1
    TUPLE = 2
    OBJECTS = 3
    ARRAY = 4
    SCALAR = 5
    STR = 6
    BYTES = 7


def wire_of_dtype(dtype: np.dtype[Any]) -> Any:
    """Return a dtype as text, lists and dicts.

    Raises:
        TypeError: The dtype holds Python objects, depends on the machine, or has a property that
            would be lost.
    """
    wire = _wire(dtype)
    # Decoded at once: a dtype that would come back changed is refused on writing, not noticed on
    # reading.
    same = dtype_of_wire(wire)
    if same != dtype or (dtype.kind == "V" and same.type is not dtype.type) or dtype.metadata:
        raise TypeError(f"dtype {dtype} would not come back as it is")
    return wire


def dtype_of_wire(wire: Any) -> np.dtype[Any]:
    """Return the dtype that ``wire_of_dtype`` described.

    Raises:
        FormatError: ``wire`` is not the description of a dtype.
    """
    try:
        return _dtype(wire, _MAX_DTYPE_DEPTH)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise FormatError(f"expected a dtype, got {str(wire)[:60]!r}: {error}") from error


def _wire(dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": _wire(base), "shape": list(shape)}
    if dtype.fields is None:
        if type(dtype).__module__.startswith("numpy") and _SIMPLE.fullmatch(dtype.str):
            return dtype.str
        raise TypeError(f"dtype {dtype} cannot be stored")
    fields = []
    for name in dtype.names or ():
        inner, offset_bytes, *title = dtype.fields[name]
        fields.append([name, _wire(inner), offset_bytes, title[0] if title else None])
    return {"fields": fields, "itemsize": dtype.itemsize, "aligned": dtype.isalignedstruct}


def _dtype(wire: Any, depth: int) -> np.dtype[Any]:
    if isinstance(wire, str) and _SIMPLE.fullmatch(wire):
        dtype = np.dtype(wire)
        if dtype.str != wire:
            raise TypeError(f"expected the dtype as numpy writes it, {dtype.str}")
        return dtype
    if not isinstance(wire, dict) or not depth:
        raise TypeError("no dtype of this kind is stored")
    if wire.keys() == _SUBARRAY_KEYS:
        shape = wire["shape"]
        if not isinstance(shape, list) or not all(type(length) is int for length in shape):
            raise TypeError("a shape is a list of lengths")
        return np.dtype((_dtype(wire["base"], depth - 1), tuple(shape)))
    if wire.keys() != _RECORD_KEYS:
        raise TypeError("no dtype has such keys")
    return _record_dtype(wire, depth - 1)


def _record_dtype(wire: dict[str, Any], depth: int) -> np.dtype[Any]:
    names, formats, offsets, titles = [], [], [], []
    for name, inner, offset_bytes, title in wire["fields"]:
        if not isinstance(name, str) or not isinstance(title, str | None):
            raise TypeError("names are text")
        names.append(name)
        formats.append(_dtype(inner, depth))
        offsets.append(offset_bytes)
        titles.append(title)
    return np.dtype(
        {
            "names": names,
            "formats": formats,
            "offsets": offsets,
            "titles": titles,
            "itemsize": wire["itemsize"],
        },
        align=bool(wire["aligned"]),
    )


# --- MessagePack to Python and numpy values; every length, type and depth is checked

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


# --- Python and numpy values to MessagePack; refuses values that decoding would change

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
        # One bit more than the number has, for the sign.
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        self._packer.pack_ext_type(Ext.LARGE_INT, data)

    def _put_items(self, items: list[Any] | tuple[Any, ...], depth: int) -> None:
        _require_shallow(depth)
        is_tuple = type(items) is tuple
        if not is_tuple and _is_plain(items):
            self._packer.pack(items)
            return
        # MessagePack has no tuples: they are arrays that begin with an empty extension.
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
        # An array of objects: a marker, the shape, then the values in C order.
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
        # Length of the head, head (dtype and shape), values in C order.
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


# --- Values of any kind as records, decoded to exactly equal values


class ValueCodec:
    """Encodes and decodes samples without a schema; threads may share the object.

    A value is an int of any size, float, str, bytes, bool, None; a list, tuple or dict of values;
    a numpy array or scalar. Arrays hold booleans, integers, floats up to 64 bits, complex numbers,
    times and time spans, text, bytes, structures of these, or values as Python objects; not long
    doubles, whose bytes depend on the machine. Subclasses of these types, such as a named tuple or
    a masked array, are refused, because decoding would give the base type.

    A decoded value has the same value, type, dtype and shape; arrays are in C order and have
    memory of their own. NaN stays NaN, -0.0 stays -0.0, dicts keep their order. An object that a
    value contains twice is decoded to two objects.
    """

    def encode(self, value: object) -> bytes:
        """Return the record of a value; equal values of equal types give equal bytes.

        Raises:
            SampleShapeError: The value, or one in it, has another type, or is nested too deep; the
                message says where.
        """
        return encode_value(value)

    def decode(self, record: bytes | bytearray | memoryview) -> Any:
        """Return the value of a record, in memory of its own.

        Decoding takes memory in proportion to the length of the record, whatever lengths it
        announces.

        Raises:
            FormatError: The record does not hold a value.
        """
        return decode_value(bytes(record))
