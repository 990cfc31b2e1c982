"""What the value codec writes, as MessagePack with extension types.

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

Text is UTF-8, lone surrogates included as they are.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = ["MAX_DEPTH", "PREFIX", "SURROGATES", "Ext"]

PREFIX: Final = b"\xc1\x01"
SURROGATES: Final = "surrogatepass"
# Containers in each other. Python itself compares and prints values up to about twice as deep.
MAX_DEPTH: Final = 256


class Ext(IntEnum):
    """The extension types; their numbers are stored."""

    LARGE_INT = 1
    TUPLE = 2
    OBJECTS = 3
    ARRAY = 4
    SCALAR = 5
    STR = 6
    BYTES = 7
