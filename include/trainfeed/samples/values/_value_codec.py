"""Values of any kind as records, each exactly as it was."""

from __future__ import annotations

from typing import Any

from trainfeed.samples.values._value_decoder import decode_value
from trainfeed.samples.values._value_encoder import encode_value

__all__ = ["ValueCodec"]


class ValueCodec:
    """Encodes and decodes samples that have no schema; threads may share it.

    A value is an int of any size, float, str, bytes, bool, None; a list, tuple or dict of values;
    a numpy array or scalar. Arrays hold booleans, integers, floats up to 64 bits, complex numbers,
    times and time spans, text, bytes, structures of these, or values as Python objects; not long
    doubles, whose bytes depend on the machine. Exactly these types: what is derived from them, such
    as a named tuple or a masked array, would come back as something else and is refused.

    What comes back has the same value, type, dtype and shape; arrays are in C order and of their
    own memory. NaN is NaN, -0.0 is -0.0, dicts keep their order. An object that is in a value twice
    comes back as two.
    """

    def encode(self, value: object) -> bytes:
        """Return the record of a value; equal values of equal types give equal bytes.

        Raises:
            SampleShapeError: The value, or one in it, is of another type, or too deep; says where.
        """
        return encode_value(value)

    def decode(self, record: bytes | bytearray | memoryview) -> Any:
        """Return the value of a record, in memory of its own.

        Takes memory in proportion to the record's length, whatever it says.

        Raises:
            FormatError: The record is none of a value.
        """
        return decode_value(bytes(record))
