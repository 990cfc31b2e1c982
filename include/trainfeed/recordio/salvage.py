"""What is found again after damage, and chunks that other writers made."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from isal import isal_zlib

from trainfeed.damage import DamageGap, SearchBudget
from trainfeed.errors import BadMagicError, FormatError, TruncatedError, UnsupportedCodecError
from trainfeed.recordio.chunk import (
    ByteSource,
    ChunkBuffers,
    ChunkReader,
    ReadableFile,
    check_left,
    open_source,
)
from trainfeed.recordio.format import (
    HEADER_BYTES,
    LENGTH,
    MAGIC,
    MAX_RAW_BYTES,
    Codec,
    Header,
    iter_records,
    located,
    record_bounds,
)

# --- Finds the place after damage where reading can go on: by magic, and by checksum

_MAGIC_BYTES: Final = LENGTH.pack(MAGIC)
_WORDS: Final = Struct("<5I")
_WINDOW_BYTES: Final = 1 << 20


class _Words(NamedTuple):
    magic: int
    crc32: int
    codec: int
    stored_bytes: int
    num_records: int


class ChunkResync:
    """Searches one file for whole chunks after damaged places.

    Args:
        source: The file.
        reader: Reads chunks of the file, up to a limit of size.
        end_bytes: Size of the file.

    Attributes:
        end_bytes: As above.
    """

    def __init__(self, source: ByteSource, reader: ChunkReader, end_bytes: int) -> None:
        self._source = source
        self._reader = reader
        self.end_bytes = end_bytes
        self._budget = SearchBudget(end_bytes, "chunk")

    def starts_chunk(self, offset_bytes: int) -> bool:
        """Return whether a magic is here, or its beginning at the end of the file."""
        left_bytes = min(len(_MAGIC_BYTES), self.end_bytes - offset_bytes)
        return self._read(offset_bytes, left_bytes) == _MAGIC_BYTES[:left_bytes]

    def is_torn(self, offset_bytes: int, gap: DamageGap) -> bool:
        """Return whether a chunk starts here, and no whole chunk is in or after it."""
        return (
            self.starts_chunk(offset_bytes) and gap.end_bytes == self.end_bytes and not gap.is_whole
        )

    def gap_at(self, offset_bytes: int) -> DamageGap:
        """Find the end of the damaged place that starts at ``offset_bytes``.

        Raises:
            FormatError: The bytes are built so that the search would take too long.
        """
        words = self._words(offset_bytes)
        if words is None:
            return DamageGap(self.next_chunk(offset_bytes))
        num_records: int | None = words.num_records
        if words.num_records * LENGTH.size > max(MAX_RAW_BYTES, self._reader.max_stored_bytes):
            # So many records fit into no chunk: the word is damaged.
            num_records = None
        start_bytes = offset_bytes + HEADER_BYTES
        stated_bytes = start_bytes + words.stored_bytes
        is_here = words.magic == MAGIC
        # A hole of zeros reads as an empty payload with the matching checksum 0 at every place, so
        # an empty payload is evidence only after a magic.
        if (is_here or words.stored_bytes) and self._fits(start_bytes, stated_bytes, words.crc32):
            return DamageGap(stated_bytes, num_records, is_whole=True)
        if is_here:
            # The length is damaged: try the places where the next chunk may start as the end.
            found = self._end_by_checksum(start_bytes, words.crc32)
            if found is not None:
                return DamageGap(found, num_records, is_whole=True)
            # The payload is damaged, but a chunk (or the end of the file) follows at the stated
            # end.
            if self._is_boundary(stated_bytes):
                return DamageGap(stated_bytes, num_records)
        end_bytes = self.next_chunk(offset_bytes)
        # A chunk cut off at the end of the file: its header tells the number of lost records.
        is_tail = is_here and stated_bytes > self.end_bytes == end_bytes
        return DamageGap(end_bytes, num_records if is_tail else None)

    def next_chunk(self, offset_bytes: int) -> int:
        """Return the start of the first chunk after ``offset_bytes`` that is wholly readable.

        Returns the end of the file if there is no such chunk.

        Raises:
            FormatError: The bytes are built so that the search would take too long.
        """
        for candidate in self._iter_magics(offset_bytes + 1, self.end_bytes):
            self._budget.spend_candidate()
            if self._is_chunk(candidate):
                return candidate
        return self.end_bytes

    def _fits(self, start_bytes: int, stop_bytes: int, crc32: int) -> bool:
        return stop_bytes <= self.end_bytes and self._crc32(start_bytes, stop_bytes) == crc32

    def _is_boundary(self, offset_bytes: int) -> bool:
        if offset_bytes >= self.end_bytes:
            return offset_bytes == self.end_bytes
        return self._read(offset_bytes, len(_MAGIC_BYTES)) == _MAGIC_BYTES

    def _end_by_checksum(self, start_bytes: int, crc32: int) -> int | None:
        """Find the end of a payload with a damaged length and an intact checksum."""
        limit = min(self.end_bytes, start_bytes + self._reader.max_stored_bytes)
        # The CRC is continued from boundary to boundary, so every byte is read once.
        value, done_bytes = 0, start_bytes
        for boundary in self._iter_boundaries(start_bytes, limit):
            value = self._crc32(done_bytes, boundary, value)
            done_bytes = boundary
            if value == crc32:
                return boundary
        return None

    def _is_chunk(self, offset_bytes: int) -> bool:
        words = self._words(offset_bytes)
        if words is None or words.codec not in Codec.__members__.values():
            return False
        start_bytes = offset_bytes + HEADER_BYTES
        # A chunk without payload is not accepted: a magic before zeros looks the same.
        if not 0 < words.stored_bytes <= self._reader.max_stored_bytes:
            return False
        if not self._fits(start_bytes, start_bytes + words.stored_bytes, words.crc32):
            return False
        try:
            info, framing = self._reader.read(offset_bytes, self.end_bytes)
            record_bounds(framing, info.num_records)
        except FormatError:
            return False
        return True

    def _iter_boundaries(self, start_bytes: int, stop_bytes: int) -> Iterator[int]:
        yield from self._iter_magics(start_bytes, stop_bytes)
        if stop_bytes == self.end_bytes:
            yield stop_bytes

    def _iter_magics(self, start_bytes: int, stop_bytes: int) -> Iterator[int]:
        """Yield the starts of magics that lie completely in the range."""
        while start_bytes + len(_MAGIC_BYTES) <= stop_bytes:
            window = self._read(start_bytes, min(_WINDOW_BYTES, stop_bytes - start_bytes))
            if not window:  # the file became shorter while it was read
                return
            place = window.find(_MAGIC_BYTES)
            while place >= 0:
                yield start_bytes + place
                place = window.find(_MAGIC_BYTES, place + 1)
            self._budget.spend(len(window))
            # The last three bytes are searched again: a magic may begin in this window and end in
            # the next one.
            start_bytes += max(len(window), len(_MAGIC_BYTES)) - len(_MAGIC_BYTES) + 1

    def _crc32(self, start_bytes: int, stop_bytes: int, value: int = 0) -> int:
        self._budget.spend(stop_bytes - start_bytes)
        while start_bytes < stop_bytes:
            data = self._read(start_bytes, min(_WINDOW_BYTES, stop_bytes - start_bytes))
            if not data:
                break
            value = isal_zlib.crc32(data, value)
            start_bytes += len(data)
        return value

    def _words(self, offset_bytes: int) -> _Words | None:
        data = self._read(offset_bytes, HEADER_BYTES)
        return _Words(*_WORDS.unpack(data)) if len(data) == HEADER_BYTES else None

    def _read(self, offset_bytes: int, num_bytes: int) -> bytes:
        data = bytearray(num_bytes)
        return bytes(data[: self._source.read_into(offset_bytes, memoryview(data))])


# --- Reads the Fluid layout, which has the same name, magic and framing, but other header words

_CODECS: Final = {0: Codec.NONE, 1: Codec.SNAPPY}


class FluidScanner:
    """The records of a file in the Fluid layout, as bytes; can be iterated again.

    No current software writes this layout, and no other class here reads it. The first damage ends
    the scan with an error.

    Args:
        file: A path, a descriptor, or a seekable binary file.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused. The
            layout itself has no limit.
    """

    def __init__(self, file: ReadableFile, *, max_raw_bytes: int = MAX_RAW_BYTES) -> None:
        self._file = file
        self._max_raw_bytes = max_raw_bytes

    def __iter__(self) -> Iterator[bytes]:
        """Read the file.

        Raises:
            TruncatedError: The file ends inside a chunk.
            BadMagicError: No chunk starts where one should.
            ChecksumError: A payload is damaged.
            UnsupportedCodecError: The layout does not have the codec.
            FormatError: The content of a chunk differs from its header, or the chunk is too large,
                or has the Go layout.
        """
        with open_source(self._file) as source:
            reader = _FluidReader(source, ChunkBuffers(), self._max_raw_bytes)
            end_bytes, offset_bytes, number = source.num_bytes(), 0, 0
            while offset_bytes < end_bytes:
                with located(source.path, offset_bytes, number):
                    info, framing = reader.read(offset_bytes, end_bytes)
                    bounds = record_bounds(framing, info.num_records)
                yield from map(bytes, iter_records(framing, bounds))
                offset_bytes, number = info.end_bytes, number + 1


class _FluidReader(ChunkReader):
    def _read_header(self, offset_bytes: int, end_bytes: int) -> Header:
        data = bytearray(HEADER_BYTES)
        if (got := self._source.read_into(offset_bytes, memoryview(data))) < HEADER_BYTES:
            raise TruncatedError(
                f"expected a chunk header of {HEADER_BYTES} bytes, the file has {got}"
            )
        magic, num_records, crc32, codec, stored_bytes = _WORDS.unpack(data)
        if magic != MAGIC:
            raise BadMagicError(f"expected magic {MAGIC:#010x}, got {magic:#010x}")
        if codec not in _CODECS:
            _refuse_go_layout(self._source, offset_bytes, end_bytes, self._max_raw_bytes)
            raise UnsupportedCodecError(
                f"expected codec 0 or 1 of the Fluid layout, got {codec}: the header is damaged"
            )
        header = Header(crc32, _CODECS[codec], stored_bytes, num_records)
        check_left(header, offset_bytes, end_bytes)
        return header


def _refuse_go_layout(
    source: ByteSource, offset_bytes: int, end_bytes: int, max_raw_bytes: int
) -> None:
    """Raise if a whole chunk of the Go layout is here."""
    try:
        ChunkReader(source, ChunkBuffers(), max_raw_bytes).read(offset_bytes, end_bytes)
    except FormatError:
        return
    raise FormatError(
        "expected the Fluid layout of RecordIO, this is the Go layout; read it with RecordScanner"
    )
