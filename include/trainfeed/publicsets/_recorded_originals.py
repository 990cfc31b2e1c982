"""Originals as a recorded topic: the source of the builds of public sets.

The id of the topic is a digest of all records, so equal originals are the same topic on every
machine, and a build of other originals is never taken for the published one.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from trainfeed.errors import FormatError
from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.storage import Location

__all__ = ["record_originals"]

_CREATE_TIME: Final = 1
_ROWS_PER_FILE: Final = 16_384


def record_originals(
    records: Iterable[bytes], again: Iterable[bytes], folder: Path, topic: str, start: datetime
) -> int:
    """Write originals as a topic of one partition, one millisecond apart.

    Args:
        records: The records, for the digest that becomes the topic's id.
        again: The same records once more, to be written: both are read one at a time.
        folder: Folder of the topic; new or empty.
        topic: Name of the topic.
        start: Time of the first record, aware.

    Returns:
        Number of records.

    Raises:
        FormatError: There is no record, or the second reading gave others.
        StorageError: The folder cannot be written.
    """
    digest, count = hashlib.sha256(), 0
    for record in records:
        _add(digest, record)
        count += 1
    if not count:
        raise FormatError("expected records among the originals, found none; nothing was built")
    name = str(uuid.UUID(bytes=digest.digest()[:16]))
    written = hashlib.sha256()
    batches = _batches(_digested(again, written), int(start.timestamp() * 1000))
    record_topic(Location.parse(str(folder.absolute())), topic, name, {0: batches}, _ROWS_PER_FILE)
    if written.digest() != digest.digest():
        raise FormatError(
            "expected equal records of the originals when they are read twice, got others;"
            " nothing was built; the originals were changed meanwhile: build again"
        )
    return count


def _digested(records: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for record in records:
        _add(digest, record)
        yield record


def _add(digest: hashlib._Hash, record: bytes) -> None:
    digest.update(len(record).to_bytes(4, "little"))
    digest.update(record)


def _batches(records: Iterable[bytes], start_ms: int) -> Iterator[pa.RecordBatch]:
    numbered = enumerate(records)
    while rows := list(itertools.islice(numbered, _ROWS_PER_FILE)):
        offsets = [offset for offset, _ in rows]
        columns = {
            "offset": offsets,
            "timestamp": [start_ms + offset for offset in offsets],
            "timestamp_type": [_CREATE_TIME] * len(rows),
            "key": [None] * len(rows),
            "value": [record for _, record in rows],
            "headers": [[]] * len(rows),
        }
        yield pa.RecordBatch.from_pydict(columns, schema=LANDING_SCHEMA)
