"""The places of the records of TFRecord files, found once and kept for later loaders.

A TFRecord file has no index. The place of a record follows from the lengths of all records before
it, and each length stands at the start of its record: unless records are long, finding the places
means reading the whole file. So the places are kept: in memory for the next loader of the same
files, and in a folder, if the user names one, for other processes and the next training.

Kept places are valid while size and modification time of the file are unchanged. Data are verified
in the same way with kept places and without.
"""

from __future__ import annotations

import logging
import os
import time
from collections import OrderedDict
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from trainfeed.datacenters import local_target
from trainfeed.errors import ConfigError, ConflictError, FormatError, TruncatedError
from trainfeed.paths import FilePath, NewFile, make_folders, open_plain, os_errors, write_all
from trainfeed.tfrecord import MAX_RECORD_BYTES, TFRecordIndex

__all__ = [
    "FOOT_BYTES",
    "HEAD_BYTES",
    "PlaceFinder",
    "RecordPlaces",
    "Stamp",
    "packed_places",
    "parsed_places",
]

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
