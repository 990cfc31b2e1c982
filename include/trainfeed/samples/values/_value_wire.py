"""The wire format of the value codec: MessagePack with extension types.

::

    record   := c1 01 value                     c1 starts no MessagePack value, 01 is the version
    value    := nil | bool | int | float64 | str | bin                      as MessagePack has them
              | ext 1: an integer beyond 64 bits, signed, little-endian
              | array: a list
              | array of ext 2 and items: a tuple
              | array of ext 3, shape and items: an array of Python objects
              | map: a dict, in its order; keys are values too
              | ext 4: an array             u32 length of its head, head, data in C order
              | ext 5: a scalar             as an array without shape
              | ext 6: a numpy.str_         as UTF-8
              | ext 7: a numpy.bytes_
    head     := array of dtype and lengths, as MessagePack
    dtype    := text                                    as numpy writes a simple dtype
              | {"base": dtype, "shape": [length, …]}
              | {"fields": [[name, dtype, offset, title], …], "itemsize": n, "aligned": bool}

Text is UTF-8, in which lone surrogates are allowed. Decoding checks every length and type.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Final

import numpy as np

from trainfeed.errors import FormatError

__all__ = ["MAX_DEPTH", "PREFIX", "SURROGATES", "Ext", "dtype_of_wire", "wire_of_dtype"]

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
