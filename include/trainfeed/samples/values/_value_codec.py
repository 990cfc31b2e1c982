"""Values of any kind as records, decoded to exactly equal values."""

from __future__ import annotations

from typing import Any

from trainfeed.samples.values._value_decoder import decode_value
from trainfeed.samples.values._value_encoder import encode_value

__all__ = ["ValueCodec"]


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
