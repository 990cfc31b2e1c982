"""The first records of a new data set: a small recorded topic, the same at every call.

The records are visits of a made-up shop over some days. A few are no JSON, a few lack a field, and
a few are of bots, so that quarantine and filter have something to show.
"""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.storage import Location

__all__ = ["FIRST_DAY", "NUM_DAYS", "record_sample"]

FIRST_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
NUM_DAYS: Final = 3

_PER_DAY: Final = 200
_PARTITIONS: Final = 2
_SEED: Final = 20260101
_NOT_JSON: Final = 97  # every 97th record
_NO_SECONDS: Final = 61
_BOT: Final = 23
_CREATE_TIME: Final = 1  # the producer set the timestamp, as in Kafka


class _Visit(NamedTuple):
    timestamp_ms: int
    value: bytes


def record_sample(folder: Path, topic: str) -> int:
    """Write the recorded topic into ``folder``, which must be new.

    Args:
        folder: Folder of the topic.
        topic: Name of the topic; its id follows from the name and the records.

    Returns:
        The number of records.
    """
    visits = list(_visits())
    digest = hashlib.sha256(topic.encode())
    for visit in visits:
        digest.update(visit.timestamp_ms.to_bytes(8, "little") + visit.value)
    partitions = {number: [_batch(visits[number::_PARTITIONS])] for number in range(_PARTITIONS)}
    location = Location.parse(str(folder.absolute()))
    topic_uuid = str(uuid.UUID(bytes=digest.digest()[:16]))
    record_topic(location, topic, topic_uuid, partitions, rows_per_file=len(visits))
    return len(visits)


def _visits() -> Iterator[_Visit]:
    draw = random.Random(_SEED)  # noqa: S311 - made-up visits, the same at every call
    for number in range(NUM_DAYS * _PER_DAY):
        at = FIRST_DAY + number * timedelta(days=1) / _PER_DAY
        row = _row(draw, number)
        value = b"{broken" if number % _NOT_JSON == _NOT_JSON - 1 else json.dumps(row).encode()
        yield _Visit(int(at.timestamp() * 1000), value)


def _row(draw: random.Random, number: int) -> dict[str, Any]:
    pages, seconds, returning = draw.randint(1, 20), draw.uniform(5, 600), draw.random() < 0.3
    interest = pages / 10 + seconds / 300 + returning
    row: dict[str, Any] = {
        "visitor": draw.randint(1, 150),
        "pages": pages,
        "seconds": round(seconds, 1),
        "returning": returning,
        "bought": interest + draw.uniform(-1, 1) > 2.5,
    }
    if number % _NO_SECONDS == _NO_SECONDS - 1:
        del row["seconds"]
    if number % _BOT == _BOT - 1:
        row["bot"] = True
    return row


def _batch(visits: Sequence[_Visit]) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {
            "offset": offset,
            "timestamp": visit.timestamp_ms,
            "timestamp_type": _CREATE_TIME,
            "key": None,
            "value": visit.value,
            "headers": [],
        }
        for offset, visit in enumerate(visits)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA)
