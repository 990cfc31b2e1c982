"""The digest in a landing file's trailer: which records, in which order, with all they hold.

A trailer of kind 2 holds the XXH3-128 of the digests of twelve streams, each an XXH3-128 too (16
bytes, most significant first). A stream has the values of all records, one after the other,
integers little-endian, however the records are batched; a length of -1 stands for null::

    offset i64; timestamp i64; timestamp_type i8;
    length of key i32; bytes of keys; length of value i32; bytes of values;
    number of headers i32; of all headers: length of key i32; bytes of keys;
    length of value i32; bytes of values

Columns are digested where they lie. The digest finds damage; it is no proof against a person who
may write the file, as no digest is that lies in the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.sources.landing._legacy_digest import LegacyDigest

__all__ = ["CONTENT", "KIND", "TRAILER", "ContentDigest", "Digest", "digest_of"]

CONTENT: Final = "content"
# The key of the number, and the number of trailers that are written now.
TRAILER: Final = "trailer"
KIND: Final = "2"
_NUMBERS: Final = ("offset", "timestamp", "timestamp_type")
_KEYS: Final = 3
_VALUES: Final = 5
_HEADERS: Final = 7
_HEADER_KEYS: Final = 8
_HEADER_VALUES: Final = 10
_NUM_STREAMS: Final = 12


class Digest(Protocol):
    """A running digest of records."""

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in the records of a batch of ``LANDING_SCHEMA``."""

    def hexdigest(self) -> str:
        """Return the digest of everything so far in hex digits."""
        ...


class ContentDigest:
    """The running digest of a trailer of kind 2."""

    def __init__(self) -> None:
        self._streams = [xxhash.xxh3_128() for _ in range(_NUM_STREAMS)]

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in the records of a batch of ``LANDING_SCHEMA``."""
        for stream, name in enumerate(_NUMBERS):
            self._streams[stream].update(_numbers(batch, name).data)
        self._update_texts(_KEYS, batch.column("key"))
        self._update_texts(_VALUES, batch.column("value"))
        headers = batch.column("headers")
        self._streams[_HEADERS].update(_counts(headers, _ends(headers)).data)
        items = headers.flatten()
        self._update_texts(_HEADER_KEYS, pc.struct_field(items, "key"))
        self._update_texts(_HEADER_VALUES, pc.struct_field(items, "value"))

    def hexdigest(self) -> str:
        """Return the digest of everything so far as 32 hex digits."""
        digests = b"".join(stream.digest() for stream in self._streams)
        return str(xxhash.xxh3_128_hexdigest(digests))

    def _update_texts(self, stream: int, column: pa.Array) -> None:
        """Take in a column of texts: lengths in one stream, bytes in the next."""
        ends = _ends(column)
        lengths = _counts(column, ends)
        if column.null_count and int(lengths[lengths > 0].sum()) != int(ends[-1] - ends[0]):
            # Arrow allows bytes behind a null, which belong to no record.
            column = pc.fill_null(column, pa.scalar(b"", column.type))
            ends = _ends(column)
        self._streams[stream].update(lengths.data)
        _, _, data = column.buffers()
        if data is not None:
            self._streams[stream + 1].update(memoryview(data)[ends[0] : ends[-1]])


def digest_of(metadata: Mapping[str, str], path: str | None) -> Digest:
    """Return the digest with which the records of a file are compared.

    Args:
        metadata: The metadata of the trailer.
        path: The file, for messages.

    Raises:
        FormatError: A later release wrote the file.
    """
    kind = metadata.get(TRAILER)
    if kind is None:
        return LegacyDigest()
    if kind != KIND:
        raise FormatError(
            f"expected a trailer of kind {KIND} or none, got {kind!r}; a later release wrote the"
            " file; read it with that release",
            path=path,
        )
    return ContentDigest()


def _ends(column: pa.Array) -> NDArray[Any]:
    """Return the boundaries of the items of a column: one more than it has items."""
    _, ends, *_ = column.buffers()
    if ends is None or not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(ends, "<i4", len(column) + 1, column.offset * 4)


def _counts(column: pa.Array, ends: NDArray[Any]) -> NDArray[np.int32]:
    """Return the lengths of the items of a column, -1 for null."""
    lengths = np.diff(ends)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return lengths


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    return np.ascontiguousarray(batch.column(name).to_numpy())
