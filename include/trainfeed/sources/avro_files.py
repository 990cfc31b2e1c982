"""Avro files as files of columns: blocks of datums, which a schema in the header describes.

Datums of a block follow each other without a mark. They are walked first, one by one, to find where
each ends, and are then read column by column, each from its own beginning to its own end.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

import cramjam
import numpy as np
import pyarrow as pa

from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.sources.column_footers import RowGroup, groups_of, read_at
from trainfeed.sources.landing import BATCH_ROWS
from trainfeed.value_formats import SchemaError, WriterSchema
from trainfeed.value_formats.avro import AvroFormat
from trainfeed.value_formats.avro_schema import AvroType, parse_avro
from trainfeed.value_formats.datums import Cursor, Datums
from trainfeed.value_formats.framed import DatumReader

# --- The file: a header with schema and codec, and blocks with a mark behind each

AVRO_MAGIC: Final = b"Obj\x01"
_MARK_BYTES: Final = 16
# A header with the schema of thousands of fields takes less.
_MOST_HEADER_BYTES: Final = 16 << 20
_HEADER_BYTES: Final = 64 << 10
# Count and size of a block take at most so many bytes.
_HEAD_BYTES: Final = 20
_MOST_BLOCK_BYTES: Final = 64 << 20
# Blocks are small; so many bytes of them are read at once, as one group of rows.
_GROUP_BYTES: Final = 1 << 20


class _Block(NamedTuple):
    """A block: its first byte, the number of its records, and where its data lie."""

    first_byte: int
    num_records: int
    start: int
    num_bytes: int


class _Container:
    """The blocks of an Avro file of records, whatever the types of their fields."""

    def __init__(self, file: BinaryIO, file_bytes: int) -> None:
        self._file, self._file_bytes = file, file_bytes
        self._metadata, self._mark, self._start = _header(file, file_bytes)
        self._text = self._metadata.get("avro.schema", b"").decode()
        codec = self._metadata.get("avro.codec", b"null").decode()
        if codec not in _CODECS:
            raise FormatError(f"expected one of the codecs {sorted(_CODECS)}, got {codec!r}")
        self._decompress = _CODECS[codec]
        try:
            schema = parse_avro(self._text)
        except SchemaError as error:
            raise FormatError(f"the schema in the header: {error}") from error
        if schema.kind != "record":
            raise FormatError(f"expected records of Avro, got {schema}")
        self._walk = _walk_of(schema, {})

    def check(self) -> None:
        """Walk all records; nothing is decoded.

        Raises:
            FormatError: A length or a count is wrong.
        """
        for block in self._iter_blocks(self._start):
            stored = read_at(self._file, block.start, block.num_bytes, self._file_bytes)
            self._add(bytearray(), [], self._decompress(stored), block)

    def _add(self, data: bytearray, starts: list[int], content: bytes, block: _Block) -> None:
        """Append the datums of a block, and where each begins."""
        place, base = 0, len(data)
        try:
            for _ in range(block.num_records):
                starts.append(base + place)
                place = self._walk(content, place)
        except (IndexError, RecursionError):
            place = len(content) + 1
        if place != len(content):
            raise FormatError(
                f"expected {block.num_records} records in the block at byte {block.first_byte},"
                f" which end with its {len(content)} bytes; they do not"
            )
        data += content

    def _iter_blocks(self, start: int) -> Iterator[_Block]:
        head = self._read(start, _HEAD_BYTES)
        while head:
            try:
                count, place = _long(head, 0)
                num_bytes, place = _long(head, place)
            except IndexError as error:
                raise TruncatedError(f"expected a block at byte {start}, got less") from error
            if count < 0 or not 0 <= num_bytes <= _MOST_BLOCK_BYTES:
                raise FormatError(
                    f"expected a block at byte {start}, got one of {count} records in {num_bytes}"
                    " bytes"
                )
            end = start + place + num_bytes
            # The mark behind the block, and the head of the next one.
            behind = self._read(end, _MARK_BYTES + _HEAD_BYTES)
            if behind[:_MARK_BYTES] != self._mark:
                raise TruncatedError(
                    f"expected the mark of the file behind the block at byte {start}, got another"
                )
            yield _Block(start, count, start + place, num_bytes)
            start, head = end + _MARK_BYTES, behind[_MARK_BYTES:]

    def _read(self, start: int, num_bytes: int) -> bytes:
        """Return bytes of the file, fewer at its end."""
        return read_at(
            self._file, start, max(0, min(num_bytes, self._file_bytes - start)), self._file_bytes
        )


def check_container(file: BinaryIO, file_bytes: int) -> None:
    """Walk a whole Avro file, for a reader that believes its lengths and counts.

    Args:
        file: The file.
        file_bytes: Its length.

    Raises:
        FormatError: It is not whole, or no Avro file of records.
    """
    try:
        _Container(file, file_bytes).check()
    except (IndexError, ValueError, RecursionError) as error:
        raise FormatError(f"expected a whole Avro file, got {type(error).__name__}") from error


class AvroFile(_Container):
    """An Avro file: about 1 MiB of it, as stored, is in memory at a time.

    Attributes:
        schema: Names and types of the fields of the records.
        groups: Neighbouring blocks of about 1 MiB together, in order of their rows.
    """

    def __init__(self, file: BinaryIO, file_bytes: int) -> None:
        super().__init__(file, file_bytes)
        try:
            self.schema = pa.schema(list(AvroFormat(self._text).type))
        except SchemaError as error:
            raise FormatError(f"the schema in the header: {error}") from error
        self._blocks = _runs(self._iter_blocks(self._start))
        parts = ((run[0].first_byte, sum(each.num_records for each in run)) for run in self._blocks)
        self.groups: list[RowGroup] = groups_of(parts, file_bytes)

    def iter_group(self, number: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some blocks, in parts."""
        data, starts = bytearray(), list[int]()
        for block in self._blocks[number]:
            stored = read_at(self._file, block.start, block.num_bytes, self._file_bytes)
            self._add(data, starts, self._decompress(stored), block)
        ends = np.array([*starts[1:], len(data)], np.int64)
        cursor = Cursor(Datums.of(data), np.array(starts, np.int64), ends)
        columns = self._reader(names).read(cursor)
        wrong = np.flatnonzero(cursor.why)
        if len(wrong):
            why = cursor.datums.messages[int(cursor.why[wrong[0]])]
            row = self.groups[number].first_row + int(wrong[0])
            raise FormatError(f"row {row}: {why}")
        batch = pa.RecordBatch.from_struct_array(columns)
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)

    def copy_head(self, target: BinaryIO, most_records: int) -> int:
        """Write a file with the first records, not compressed; return their number."""
        metadata = {**self._metadata, "avro.codec": b"null"}
        target.write(AVRO_MAGIC + _encoded(len(metadata)))
        texts = (data for key, value in metadata.items() for data in (key.encode(), value))
        target.writelines(_encoded(len(data)) + data for data in texts)
        target.write(b"\0" + self._mark)
        left = most_records
        for block in (each for run in self._blocks for each in run):
            stored = read_at(self._file, block.start, block.num_bytes, self._file_bytes)
            content, starts = bytearray(), list[int]()
            self._add(content, starts, self._decompress(stored), block)
            count = min(left, block.num_records)
            some = bytes(content[: [*starts, len(content)][count]])
            target.write(_encoded(count) + _encoded(len(some)) + some + self._mark)
            left -= count
            if not left:
                break
        return most_records - left

    def _reader(self, names: Sequence[str]) -> DatumReader:
        writer = WriterSchema("AVRO", self._text, {})
        try:
            return AvroFormat(_with_fields(self._text, names)).datum_reader(writer)
        except SchemaError:
            # A field that is left out may hold the definition of a type that another one names.
            return AvroFormat(self._text).datum_reader(writer)


def _header(file: BinaryIO, file_bytes: int) -> tuple[dict[str, bytes], bytes, int]:
    """Return the metadata of a file, its mark, and where its blocks begin."""
    room = _HEADER_BYTES
    while True:
        data = read_at(file, 0, min(room, file_bytes), file_bytes)
        if not data.startswith(AVRO_MAGIC):
            raise FormatError("expected the mark of Avro at the beginning of the file")
        try:
            metadata, place = _metadata(data)
            if place + _MARK_BYTES <= len(data):
                return metadata, data[place : place + _MARK_BYTES], place + _MARK_BYTES
        except IndexError:
            pass
        if len(data) == file_bytes or room >= _MOST_HEADER_BYTES:
            raise TruncatedError("expected a header of Avro, got less")
        room *= 4


def _metadata(data: bytes) -> tuple[dict[str, bytes], int]:
    found: dict[str, bytes] = {}
    count, place = _long(data, len(AVRO_MAGIC))
    while count:
        if count < 0:
            _, place = _long(data, place)
        for _ in range(abs(count)):
            key, place = _bytes(data, place)
            found[key.decode()], place = _bytes(data, place)
        count, place = _long(data, place)
    return found, place


def _bytes(data: bytes, place: int) -> tuple[bytes, int]:
    length, place = _long(data, place)
    if length < 0 or place + length > len(data):
        raise IndexError(place)
    return data[place : place + length], place + length


def _long(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), place
        shift += 7
        if shift > 63:
            raise FormatError("expected a number of 64 bits, got a longer one")


def _encoded(value: int) -> bytes:
    """Return a number that is not negative as Avro writes it."""
    value, data = value << 1, bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes([*data, value])


def _runs(blocks: Iterator[_Block]) -> list[list[_Block]]:
    """Return blocks in runs of about ``_GROUP_BYTES``; they follow from the file alone."""
    runs: list[list[_Block]] = []
    full = _GROUP_BYTES
    for block in blocks:
        if full >= _GROUP_BYTES:
            runs.append([])
            full = 0
        runs[-1].append(block)
        full += block.num_bytes
    return runs


def _with_fields(text: str, names: Sequence[str]) -> str:
    """Return a schema of records with some of their fields."""
    schema = json.loads(text)
    wanted = set(names)
    return json.dumps({**schema, "fields": [f for f in schema["fields"] if f["name"] in wanted]})


# --- Codecs, of which none makes more than a block may have


def _inflated(data: bytes) -> bytes:
    return _bounded(zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, _MOST_BLOCK_BYTES + 1))


def _snappy(data: bytes) -> bytes:
    if len(data) <= 4:
        raise TruncatedError("expected a block of snappy, got less")
    if cramjam.snappy.decompress_raw_len(data[:-4]) > _MOST_BLOCK_BYTES:
        return _bounded(bytes(_MOST_BLOCK_BYTES + 1))
    content = bytes(cramjam.snappy.decompress_raw(data[:-4]))
    if zlib.crc32(content) != int.from_bytes(data[-4:], "big"):
        raise ChecksumError("a block has another CRC-32 than it says")
    return content


def _zstd(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return _bounded(stream.read(_MOST_BLOCK_BYTES + 1))


def _bzip2(data: bytes) -> bytes:
    return _bounded(bz2.BZ2Decompressor().decompress(data, _MOST_BLOCK_BYTES + 1))


def _xz(data: bytes) -> bytes:
    return _bounded(lzma.LZMADecompressor().decompress(data, _MOST_BLOCK_BYTES + 1))


def _bounded(content: bytes) -> bytes:
    if len(content) > _MOST_BLOCK_BYTES:
        raise FormatError(f"expected blocks of at most {_MOST_BLOCK_BYTES} bytes, got a larger one")
    return content


def _checked(decompress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def checked(data: bytes) -> bytes:
        try:
            return decompress(data)
        except (zlib.error, lzma.LZMAError, cramjam.DecompressionError, OSError, EOFError) as error:
            raise FormatError(f"a block does not decompress: {error}") from error

    return checked


_CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _checked(_inflated),
    "snappy": _checked(_snappy),
    "zstandard": _checked(_zstd),
    "bzip2": _checked(_bzip2),
    "xz": _checked(_xz),
}


# --- The walk: where a datum ends, without its values

_Walk = Callable[[bytes, int], int]
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS: Final = frozenset({"int", "long", "enum"})


def _walk_of(kind: AvroType, known: dict[int, _Walk]) -> _Walk:
    """Return a function from a buffer and the place of a value to the place behind it.

    The function raises IndexError for a value that does not end within the buffer.
    """
    if kind.kind in _SIZES or kind.kind == "fixed":
        size = _SIZES.get(kind.kind, kind.size)
        return lambda _, place: place + size
    if kind.kind in _NUMBERS:
        return _behind_number
    if kind.kind in {"bytes", "string"}:
        return _behind_bytes
    if kind.kind == "union":
        return _walk_of_union([_walk_of(branch, known) for branch in kind.branches])
    if kind.kind in {"array", "map"}:
        items = [_walk_of(kind.items, known)] if kind.items is not None else []
        return _walk_of_items([_behind_bytes, *items] if kind.kind == "map" else items)
    if id(kind) not in known:
        steps: list[_Walk] = []

        def record(data: bytes, place: int) -> int:
            for step in steps:
                place = step(data, place)
            return place

        known[id(kind)] = record
        steps.extend(_walk_of(field.type, known) for field in kind.fields)
    return known[id(kind)]


def _behind_number(data: bytes, place: int) -> int:
    while data[place] > 127:
        place += 1
    return place + 1


def _behind_bytes(data: bytes, place: int) -> int:
    length = data[place]
    if length < 128:
        if length & 1:
            raise IndexError(place)
        return place + 1 + (length >> 1)
    found, place = _long(data, place)
    if found < 0:
        raise IndexError(place)
    return place + found


def _walk_of_union(branches: list[_Walk]) -> _Walk:
    # Zigzag: branch n has the number 2n.
    by_byte = {2 * number: branch for number, branch in enumerate(branches)}

    def union(data: bytes, place: int) -> int:
        branch = by_byte.get(data[place])
        if branch is not None:
            return branch(data, place + 1)
        number, place = _long(data, place)
        if not 0 <= number < len(branches):
            raise IndexError(place)
        return branches[number](data, place)

    return union


def _walk_of_items(steps: list[_Walk]) -> _Walk:
    def items(data: bytes, place: int) -> int:
        while True:
            count, place = _long(data, place)
            if not count:
                return place
            if count < 0:
                _, place = _long(data, place)
                count = -count
            if count > len(data) - place:  # an item has at least one byte
                raise IndexError(place)
            for _ in range(count):
                for step in steps:
                    place = step(data, place)

    return items
