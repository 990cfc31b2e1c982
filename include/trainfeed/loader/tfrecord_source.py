"""Places of the records of TFRecord files, found once, and runs of these records as a source."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from operator import ne
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from trainfeed.core.datacenters import local_target
from trainfeed.errors import ConfigError, ConflictError, FormatError, TruncatedError
from trainfeed.files import FilePath, NewFile, make_folders, open_plain, os_errors, write_all
from trainfeed.loader.chunk_samples import RECORD
from trainfeed.loader.chunks import Verified, Verify
from trainfeed.loader.columns import Columns, Dense, Ragged, Rows
from trainfeed.loader.files import ShardFiles
from trainfeed.loader.memory import ALIGNMENT_BYTES, FreshMemory, Memory
from trainfeed.loader.order import Span
from trainfeed.loader.windows import Loaded, count_spans, rows_before, try_each
from trainfeed.samples import Schema, absent_rows
from trainfeed.tfrecord import MAX_RECORD_BYTES, ExampleCodec, TFRecordIndex, iter_records

# --- The places of the records of TFRecord files, found once and kept for later loaders

# A record: u64 length, u32 checksum of the length, the data, u32 checksum of the data.
HEAD_BYTES: Final = 12
FOOT_BYTES: Final = 4
# Header of a kept file: magic, size and modification time (ns) of the TFRecord file, number of
# records n, CRC-32C of the rest. The rest: n sizes of records, then n checksums of their data, all
# u32. Everything is little-endian.
_KEPT: Final = Struct("<8sQqQI")
_MAGIC: Final = b"TFRPLCS1"
_RECORD_BYTES: Final = 8
# Enough for about 800,000 records.
_MAX_REMEMBERED_BYTES: Final = 16 << 20
# A file that changes twice within the resolution of its time stamp may keep the same stamp.
_SETTLED_NS: Final = 2_000_000_000
_LOG: Final = logging.getLogger(__name__)


class RecordPlaces(NamedTuple):
    """The places of the records of a file.

    Attributes:
        bounds: Offsets of start and end of each record's data, shape ``(n, 2)``.
        checksums: Stored checksum of each record's data, shape ``(n,)``.
    """

    bounds: NDArray[np.int64]
    checksums: NDArray[np.uint32]

    @property
    def num_bytes(self) -> int:
        """Size of the arrays in bytes."""
        return self.bounds.nbytes + self.checksums.nbytes


class Stamp(NamedTuple):
    """Size and modification time of a file; a change of either shows that the file has changed."""

    num_bytes: int
    mtime_ns: int


class PlaceFinder:
    """Finds the places of records, and keeps them.

    Args:
        folder: Folder that keeps the places between processes, made when it is missing; None to
            keep them in this process only.
    """

    def __init__(self, folder: FilePath | None) -> None:
        self._folder = None if folder is None else Path(local_target(folder))
        self._known: OrderedDict[str, tuple[Stamp, RecordPlaces]] = OrderedDict()

    def find(self, path: str) -> RecordPlaces:
        """Return the places of the records of a file.

        Raises:
            FormatError: The file is compressed, or is not a TFRecord file, or a record is too long.
            StorageError: A file cannot be read, or the folder cannot be written to.
        """
        stamp, now_ns = _stamp(path)
        stamp_known, known = self._known.get(path, (None, None))
        if known is not None and stamp == stamp_known:
            return known
        places = self._load(path, stamp)
        if places is None:
            places = _scanned(path)
            # Not kept if the file changed just now, or while it was read.
            if stamp.mtime_ns > now_ns - _SETTLED_NS or _stamp(path)[0] != stamp:
                return places
            self._save(path, stamp, places)
        self._remember(path, stamp, places)
        return places

    def _remember(self, path: str, stamp: Stamp, places: RecordPlaces) -> None:
        self._known[path] = stamp, places
        num_bytes = sum(known.num_bytes for _, known in self._known.values())
        while num_bytes > _MAX_REMEMBERED_BYTES:
            num_bytes -= self._known.popitem(last=False)[1][1].num_bytes

    def _load(self, path: str, stamp: Stamp) -> RecordPlaces | None:
        """Return the places that the folder keeps for the present state of a file; None if none."""
        kept = self._kept_path(path)
        if kept is None or not kept.exists():
            return None
        with open_plain(kept, follow=True, buffering=0) as file:
            num_bytes = os.fstat(file.fileno()).st_size
            # An upper limit: the size of places if every record of the file were empty.
            most = _KEPT.size + stamp.num_bytes // (HEAD_BYTES + FOOT_BYTES) * _RECORD_BYTES
            data = file.read(num_bytes) if _KEPT.size <= num_bytes <= most else b""
        places = parsed_places(data, stamp)
        if places is None:
            _LOG.info("%s does not belong to %s as it is now; made again", kept, path)
        return places

    def _save(self, path: str, stamp: Stamp, places: RecordPlaces) -> None:
        kept = self._kept_path(path)
        if kept is None:
            return
        with os_errors(str(kept)):
            make_folders(kept.parent)
            kept.unlink(missing_ok=True)
        # ConflictError: another rank wrote the same places first.
        with suppress(ConflictError), NewFile(kept) as new:
            write_all(new.file, packed_places(stamp, places))

    def _kept_path(self, path: str) -> Path | None:
        if self._folder is None:
            return None
        name = sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
        return self._folder / f"{name}.places"


def _stamp(path: str) -> tuple[Stamp, int]:
    """Return the stamp of a file, and the present time in ns."""
    with open_plain(path, follow=True, buffering=0) as file:
        found = os.fstat(file.fileno())
    return Stamp(found.st_size, found.st_mtime_ns), time.time_ns()


def packed_places(stamp: Stamp, places: RecordPlaces) -> bytes:
    """Return the places of a file as the bytes that are kept."""
    sizes = places.bounds[:, 1] - places.bounds[:, 0]
    body = sizes.astype("<u4").tobytes() + places.checksums.astype("<u4").tobytes()
    return _KEPT.pack(_MAGIC, *stamp, len(sizes), crc32c(body)) + body


def parsed_places(data: bytes, stamp: Stamp) -> RecordPlaces | None:
    """Return kept places, or None if they are damaged or belong to another state of the file."""
    if len(data) < _KEPT.size:
        return None
    magic, num_bytes, mtime_ns, num_records, checksum = _KEPT.unpack_from(data)
    body = memoryview(data)[_KEPT.size :]
    if (magic, num_bytes, mtime_ns) != (_MAGIC, *stamp) or checksum != crc32c(body):
        return None
    if len(body) != num_records * _RECORD_BYTES:
        return None
    sizes, checksums = np.frombuffer(body, "<u4").reshape(2, num_records)
    # Each record takes head + size + foot; the sum up to record i, less its foot, is the end of
    # its data.
    ends = np.cumsum(sizes.astype(np.int64) + HEAD_BYTES + FOOT_BYTES) - FOOT_BYTES
    if num_bytes != (int(ends[-1]) + FOOT_BYTES if num_records else 0):
        return None
    if sizes.max(initial=0) > MAX_RECORD_BYTES:
        return None
    return RecordPlaces(np.stack([ends - sizes, ends], axis=1), checksums.astype(np.uint32))


def _scanned(path: str) -> RecordPlaces:
    """Find the records of a file by their lengths."""
    try:
        index = TFRecordIndex.load(path)
    except ConfigError as error:
        raise FormatError(
            "a compressed TFRecord file cannot be read from the middle; iterate"
            " trainfeed.readers.tfrecord over it, or convert it",
            path=path,
        ) from error
    if (large := index.sizes > MAX_RECORD_BYTES).any():
        number = int(large.argmax())
        raise FormatError(
            f"expected a record of at most {MAX_RECORD_BYTES} bytes, it announces"
            f" {index.sizes[number]}",
            path=path,
            offset_bytes=int(index.offsets[number]),
        )
    starts = index.offsets + HEAD_BYTES
    bounds = np.stack([starts, starts + index.sizes], axis=1)
    with open_plain(path, follow=True, buffering=0) as file:
        ends = bounds[:, 1].tolist()
        feet = b"".join([os.pread(file.fileno(), FOOT_BYTES, end) for end in ends])
    if len(feet) < FOOT_BYTES * len(ends):
        raise TruncatedError("expected a file that does not change, it was cut", path=path)
    return RecordPlaces(bounds, np.frombuffer(feet, "<u4").astype(np.uint32))


# --- Runs of records of TFRecord files as a source

_CHUNK_BYTES: Final = 1 << 20


class TFRecordSource:
    """Runs of records of TFRecord files.

    Args:
        files: The files.
        fields: Fields of the Examples; None for plain records.
        places: Per file the places of its records.
        verify: When checksums are compared.
    """

    def __init__(
        self,
        files: ShardFiles,
        fields: Schema | None,
        places: Sequence[RecordPlaces],
        *,
        verify: Verify,
    ) -> None:
        self._files = files
        self._codec = None if fields is None else ExampleCodec(fields)
        digest = hashlib.sha256(b"tfrecord")
        starts, shards, firsts = [], [], [0]
        for shard, (bounds, checksums) in enumerate(places):
            digest.update(bounds.tobytes() + checksums.tobytes())
            cuts = _cuts(bounds)
            base = firsts[-1]
            firsts += [base + int(cut) for cut in cuts[1:]]
            shards += [shard] * (len(cuts) - 1)
            starts.append(bounds)
        # Per record of all files the start and end of its data; per chunk the number of its first
        # record. A chunk is a run of records of one file, about _CHUNK_BYTES long.
        self._places: NDArray[np.int64] = (
            np.concatenate(starts) if starts else np.empty((0, 2), np.int64)
        )
        self._shards, self._firsts = np.array(shards, np.int64), np.array(firsts, np.int64)
        self.num_samples: NDArray[np.int64] = np.diff(self._firsts)
        self.num_bytes = self._chunk_bytes()
        self.natural_window_bytes = 4 * _CHUNK_BYTES
        digest.update(self.num_samples.tobytes())
        self.digest = digest.hexdigest()[:16]
        self._verified = Verified(verify, len(self._shards))

    def load(self, spans: Sequence[Span], rows: Rows, memory: Memory, /) -> Loaded:
        """Read spans and return ``rows`` of their samples; see ``Source``."""
        sizes = [int(self.num_bytes[span.chunk]) for span in spans]
        # A worker's slot gets the values when they are packed; the raw records need no place in it.
        own = memory if memory.is_lazy else FreshMemory()
        own.reserve(sum(size + ALIGNMENT_BYTES for size in sizes))
        buffers: list[memoryview] = []

        def read(span: Span) -> None:
            data = own.array((sizes[len(buffers)],), np.uint8).data
            self._read(span.chunk, data)
            buffers.append(data)

        self.expect(spans)
        error = try_each(spans, read)
        spans = spans[: len(buffers)]
        if error is not None:
            rows = rows_before(rows, count_spans(spans), error)
        places = [
            np.column_stack(
                [
                    # Rows of (number of the buffer, start, end); places are relative to the
                    # chunk's first byte.
                    np.full(span.stop - span.start, i),
                    self._places_in(span.chunk)[span.start : span.stop],
                ]
            )
            for i, span in enumerate(spans)
        ]
        chosen = np.concatenate(places)[rows]
        if self._codec is None:
            columns: Columns = {RECORD: Ragged(buffers, chosen, "bytes")}
            return Loaded(columns, len(chosen), error)
        records = [buffers[b][start:end] for b, start, end in chosen.tolist()]
        arrays = None
        with suppress(FormatError):
            arrays = self._codec.decode_records(records)
        if arrays is None:
            good, error = self._first_bad(self._codec, records, chosen, spans)
            # Raises unless the rows before it are those of natural order.
            rows_before(rows, rows.start + good if isinstance(rows, slice) else 0, error)
            records = records[:good]
            arrays = self._codec.decode_records(records)
        return Loaded({name: _dense(array) for name, array in arrays.items()}, len(records), error)

    def _first_bad(
        self,
        codec: ExampleCodec,
        records: Sequence[memoryview],
        chosen: NDArray[np.int64],
        spans: Sequence[Span],
    ) -> tuple[int, FormatError]:
        """Return how many records come before the first that does not match, and its error.

        Args:
            codec: Decodes the records, of which one does not match.
            records: The records.
            chosen: For each record the number of its span, and start and end in the span's chunk.
            spans: The spans.
        """
        for row, record in enumerate(records):
            try:
                codec.decode(record)
            except FormatError as error:
                number, start = int(chosen[row, 0]), int(chosen[row, 1])
                chunk = spans[number].chunk
                shard = int(self._shards[chunk])
                # Places relative to the chunk become those in the file.
                start += self._range(chunk)[0]
                first = self._firsts[np.searchsorted(self._shards, shard)]
                last = self._firsts[np.searchsorted(self._shards, shard, "right")]
                of_file = self._places[first:last, 0]
                error.args = (f"record {np.searchsorted(of_file, start)}: {error.args[0]}",)
                error.path = self._files.paths[shard]
                error.offset_bytes = start + (error.offset_bytes or 0)
                return row, error
        raise AssertionError("the records match one by one, and not together")

    def expect(self, spans: Sequence[Span], /) -> None:
        """Let the kernel begin to read spans; see ``Source``."""
        for span in spans:
            start, end = self._range(span.chunk)
            self._files.expect(int(self._shards[span.chunk]), start, end - start)

    def output_bytes(self, _window_bytes: int, /) -> int | None:
        """Return None: the size is not known before the records are read."""
        return None

    def num_reread(self) -> int:
        """Return how often reads were repeated."""
        return self._files.num_retries

    def close(self) -> None:
        """Close files; a later load opens them again."""
        self._files.close()

    def _read(self, chunk: int, data: memoryview) -> None:
        """Fill ``data`` with a chunk."""
        start, _ = self._range(chunk)
        shard = int(self._shards[chunk])
        self._files.read(shard, start, [data])
        if self._verified.is_due(chunk):
            try:
                self._require_places(chunk, iter_records(io.BytesIO(data), compression=""))
            except FormatError as error:
                error.path = self._files.paths[shard]
                error.offset_bytes = start + (error.offset_bytes or 0)
                raise
            self._verified.add(chunk)

    def _require_places(self, chunk: int, records: Iterator[bytes]) -> None:
        """Read the records of a chunk, which verifies them; compare lengths with the index."""
        expected = np.diff(self._places_in(chunk))[:, 0].tolist()
        if (found := [len(record) for record in records]) != expected:
            # The first length that differs; if one list is a prefix of the other, its end.
            number = [*map(ne, found, expected), True].index(True)
            raise FormatError(
                f"expected {len(expected)} records with the lengths of the index, got {len(found)}"
                f" records, and another length from record {number} of these on; open the file"
                " again, with an empty index_folder"
            )

    def _range(self, chunk: int) -> tuple[int, int]:
        first, last = self._firsts[chunk], self._firsts[chunk + 1] - 1
        # Places are those of the data: a chunk also has the first record's header and the last
        # one's checksum.
        start = int(self._places[first, 0]) - HEAD_BYTES
        return start, int(self._places[last, 1]) + FOOT_BYTES

    def _places_in(self, chunk: int) -> NDArray[np.int64]:
        first, last = self._firsts[chunk], self._firsts[chunk + 1]
        return np.asarray(self._places[first:last] - self._range(chunk)[0])

    def _chunk_bytes(self) -> NDArray[np.int64]:
        ranges = [self._range(chunk) for chunk in range(len(self._shards))]
        return np.array([end - start for start, end in ranges], np.int64)


def _cuts(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of each chunk's first record, and at the end the number of records."""
    if not len(places):
        return np.zeros(1, np.int64)
    # A record belongs to the stretch of _CHUNK_BYTES in which it starts; a chunk starts where that
    # number changes.
    chunks = (places[:, 0] - HEAD_BYTES) // _CHUNK_BYTES
    return np.concatenate([[0], np.flatnonzero(np.diff(chunks)) + 1, [len(places)]])


def _dense(array: NDArray[Any]) -> Dense:
    if not isinstance(array, np.ma.MaskedArray):
        return Dense(array)
    return Dense(array.data, absent_rows(array))
