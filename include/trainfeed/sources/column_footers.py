"""Footers of ORC and Arrow files, as far as Arrow does not show them: where groups of rows lie."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple

import cramjam

from trainfeed.errors import FormatError, TruncatedError


class RowGroup(NamedTuple):
    """Rows of a file that are stored together: a row group, a stripe, a batch or a chunk.

    Attributes:
        first_byte: Where it begins in the file; it belongs to the range with this byte.
        first_row: Number of rows before it.
        num_rows: Number of its rows.
    """

    first_byte: int
    first_row: int
    num_rows: int


def groups_of(parts: Iterator[tuple[int, int]], file_bytes: int) -> list[RowGroup]:
    """Return groups in the order of their rows; some may have none.

    Args:
        parts: First byte and number of rows of every group, in the order of the rows.
        file_bytes: Length of the file.

    Raises:
        FormatError: A group lies beyond the end of the file, or has less than no rows.
    """
    groups, num_rows = list[RowGroup](), 0
    for first_byte, rows in parts:
        if not 0 <= first_byte < file_bytes or rows < 0:
            raise FormatError(
                f"expected groups of rows within {file_bytes} bytes, got one of {rows} rows at"
                f" byte {first_byte}"
            )
        groups.append(RowGroup(first_byte, num_rows, rows))
        num_rows += rows
    return groups


def read_at(file: BinaryIO, start: int, num_bytes: int, file_bytes: int) -> bytes:
    """Return bytes of a file.

    Raises:
        TruncatedError: The file ends before them, or they begin before it.
    """
    if start < 0 or num_bytes < 0 or start + num_bytes > file_bytes:
        raise TruncatedError(
            f"expected {num_bytes} bytes at {start}, got a file of {file_bytes} bytes"
        )
    file.seek(start)
    parts, left = [], num_bytes
    while left and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    if left:
        raise TruncatedError(f"expected {num_bytes} bytes at {start}, got {num_bytes - left}")
    return b"".join(parts)


# --- ORC: a footer of Protocol Buffers, compressed, before a postscript and its length

_ORC: Final = b"ORC"
# The largest footer and the largest block of compression: other writers use 256 KiB.
_MOST_FOOTER_BYTES: Final = 256 << 20
_MOST_BLOCK_BYTES: Final = 8 << 20
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_SHIFT: Final = 63
_POSTSCRIPT_BYTES: Final = 256
_Values = dict[int, list[int | bytes]]


def orc_groups(file: BinaryIO, file_bytes: int) -> list[RowGroup]:
    """Return the stripes of an ORC file.

    Raises:
        FormatError: The file is no ORC file, damaged, or cut.
    """
    tail_bytes = min(file_bytes, _POSTSCRIPT_BYTES)
    tail = read_at(file, file_bytes - tail_bytes, tail_bytes, file_bytes)
    length = tail[-1] if tail else 0
    if not tail[:-1].endswith(_ORC) or length >= len(tail):
        raise TruncatedError("expected the mark of ORC at the end of the file")
    postscript = _message(tail[-1 - length : -1])
    footer_bytes, kind, block_bytes = (_number(postscript, key) for key in (1, 2, 3))
    if not 0 < footer_bytes <= _MOST_FOOTER_BYTES or block_bytes > _MOST_BLOCK_BYTES:
        raise FormatError(f"expected a footer of ORC, got one of {footer_bytes} bytes")
    stored = read_at(file, file_bytes - 1 - length - footer_bytes, footer_bytes, file_bytes)
    footer = _message(b"".join(_orc_blocks(stored, kind, block_bytes or _MOST_BLOCK_BYTES)))
    stripes = [_message(each) for each in footer.get(3, []) if isinstance(each, bytes)]
    found = groups_of(((_number(s, 1), _number(s, 5)) for s in stripes), file_bytes)
    if (rows := sum(group.num_rows for group in found)) != _number(footer, 6):
        raise FormatError(f"expected {_number(footer, 6)} rows in stripes, got {rows}")
    return found


def _orc_blocks(stored: bytes, kind: int, block_bytes: int) -> Iterator[bytes]:
    if not kind:
        yield stored
        return
    decompress = _ORC_CODECS.get(kind)
    if decompress is None:
        raise FormatError(f"expected a compression of ORC that is known here, got number {kind}")
    place = 0
    while place < len(stored):
        head = int.from_bytes(stored[place : place + 3], "little")
        place += 3
        part = stored[place : place + (head >> 1)]
        if len(part) < head >> 1:
            raise TruncatedError("expected a block of the footer of ORC, got less")
        place += len(part)
        yield part if head & 1 else decompress(part, block_bytes)


def _inflated(data: bytes, most_bytes: int) -> bytes:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, most_bytes)
    except zlib.error as error:
        raise FormatError(f"the footer does not decompress: {error}") from error


def _into(decompress: Callable[..., int]) -> Callable[[bytes, int], bytes]:
    """Return a decompression that refuses to make more than it is allowed to."""

    def decompressed(data: bytes, most_bytes: int) -> bytes:
        room = bytearray(most_bytes)
        try:
            return bytes(room[: decompress(data, room)])
        except cramjam.DecompressionError as error:
            raise FormatError(f"the footer does not decompress: {error}") from error

    return decompressed


_ORC_CODECS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    1: _inflated,
    2: _into(cramjam.snappy.decompress_raw_into),
    4: _into(cramjam.lz4.decompress_block_into),
    5: _into(cramjam.zstd.decompress_into),
}


def _message(data: bytes) -> _Values:
    """Return the values of a message of Protocol Buffers by the numbers of their fields."""
    found: _Values = {}
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        value: int | bytes
        if tag & 7 == _VARINT:
            value, place = _varint(data, place)
        elif tag & 7 == _BYTES:
            length, place = _varint(data, place)
            value, place = data[place : place + length], place + length
        elif tag & 7 in {_FIXED64, _FIXED32}:
            length = 8 if tag & 7 == _FIXED64 else 4
            value, place = data[place : place + length], place + length
        else:
            raise FormatError(f"expected a footer of ORC, got a field of kind {tag & 7}")
        if place > len(data):
            raise TruncatedError("expected a whole footer of ORC, got less")
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while place < len(data) and shift <= _MOST_SHIFT:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise TruncatedError("expected a whole number in the footer of ORC, got less")


def _number(values: _Values, key: int) -> int:
    found = values.get(key, [0])[-1]
    if not isinstance(found, int):
        raise FormatError(f"expected a number as field {key} of the footer of ORC, got bytes")
    return found


# --- Arrow: a footer of FlatBuffers before its length, with the place of every batch

_ARROW: Final = b"ARROW1"
_TAIL: Final = struct.Struct("<i6s")
_BLOCK: Final = struct.Struct("<qi4xq")
_CONTINUES: Final = b"\xff\xff\xff\xff"
_RECORD_BATCH: Final = 3


def arrow_groups(file: BinaryIO, file_bytes: int) -> list[RowGroup]:
    """Return the batches of an Arrow file.

    Raises:
        FormatError: The file is no Arrow file, damaged, or cut.
    """
    tail = read_at(file, file_bytes - _TAIL.size, _TAIL.size, file_bytes)
    length, magic = _TAIL.unpack(tail)
    if magic != _ARROW:
        raise TruncatedError("expected the mark of Arrow at the end of the file")
    try:
        footer = _Table.root(read_at(file, file_bytes - _TAIL.size - length, length, file_bytes))
        blocks = footer.structs(3, _BLOCK)
        return groups_of(_batches(file, blocks, file_bytes), file_bytes)
    except (struct.error, IndexError) as error:
        raise FormatError(f"the footer is damaged: {error}") from error


def _batches(
    file: BinaryIO, blocks: list[tuple[int, ...]], file_bytes: int
) -> Iterator[tuple[int, int]]:
    for offset, metadata_bytes, _body_bytes in blocks:
        data = read_at(file, offset, metadata_bytes, file_bytes)
        # A length, since Arrow 0.15 behind a mark.
        message = _Table.root(data[8 if data.startswith(_CONTINUES) else 4 :])
        if message.number(1, "B") != _RECORD_BATCH:
            raise FormatError(f"expected a batch at byte {offset}")
        yield offset, message.table(2).number(0, "q")


class _Table:
    """A table of FlatBuffers.

    Args:
        data: The buffer.
        place: Where the table is.
    """

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._fields = place - self._at("i", place)
        if not 0 <= self._fields < len(data):
            raise FormatError("expected a table of fields, got a place outside of the footer")

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def number(self, field: int, code: str) -> int:
        """Return a number, 0 if it is not there."""
        place = self._field(field)
        return self._at(code, place) if place else 0

    def table(self, field: int) -> _Table:
        place = self._field(field)
        if not place:
            raise FormatError(f"expected field {field} in the footer of Arrow, got none")
        return _Table(self._data, place + self._at("I", place))

    def structs(self, field: int, layout: struct.Struct) -> list[tuple[int, ...]]:
        """Return a vector of structs."""
        place = self._field(field)
        if not place:
            return []
        start = place + self._at("I", place)
        count = self._at("I", start)
        if count * layout.size > len(self._data):
            raise FormatError(f"expected a footer with {count} batches, got fewer")
        return [
            layout.unpack_from(self._data, start + 4 + number * layout.size)
            for number in range(count)
        ]

    def _field(self, field: int) -> int:
        """Return the place of a field, 0 if it is not there."""
        size = self._at("H", self._fields)
        entry = 4 + 2 * field
        offset = self._at("H", self._fields + entry) if entry + 2 <= size else 0
        return self._place + offset if offset else 0

    def _at(self, code: str, place: int) -> int:
        if place < 0:
            raise FormatError("expected a place within the footer of Arrow")
        found: int = struct.unpack_from(f"<{code}", self._data, place)[0]
        return found
