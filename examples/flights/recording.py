"""Writes events as a recorded topic: the same records at the same offsets, without a broker."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from examples.flights.events import NUM_PARTITIONS, with_offsets
from examples.flights.ledger import Ledger
from trainfeed.errors import ConflictError, TopicNotFoundError
from trainfeed.files.stores import Location
from trainfeed.sources import LANDING_SCHEMA, RecordedTopic, record_topic

__all__ = ["record"]

_CREATE_TIME: Final = 1  # the producer set the timestamp, as in Kafka
_ROWS_PER_FILE: Final = 10_000  # about eleven days of one partition


def record(
    events: pa.Table, folder: Path, *, topic: str, ledger_path: Path | None = None
) -> dict[str, Any]:
    """Write a recorded topic, unless the folder holds just this one.

    The topic's id is derived from its content, so recording the same events again gives the same
    topic, and other events give another one. The folder appears complete or not at all.

    Args:
        events: As ``EVENT_SCHEMA``; offsets count from 0 in every partition.
        folder: Where it goes.
        topic: Name of the topic.
        ledger_path: Where to keep a ledger of it, if anywhere.

    Returns:
        ``topic``, ``uuid``, ``events``, ``planted`` and ``verdict``: ``recorded`` or ``identical``.

    Raises:
        ConflictError: The folder holds something else.
    """
    placed = with_offsets(events)
    topic_uuid = str(uuid.UUID(bytes=_content(placed)[:16]))
    is_there = _is_recorded(folder, topic, topic_uuid)
    if not is_there:
        _write(placed, folder, topic, topic_uuid)
    if ledger_path is not None:
        with closing(Ledger(ledger_path, topic, topic_uuid)) as ledger:
            ledger.add(
                (event["partition"], event["offset"], event)
                for batch in ledger.without_known(placed).to_batches()
                for event in batch.to_pylist()
            )
    return {
        "topic": topic,
        "uuid": topic_uuid,
        "verdict": "identical" if is_there else "recorded",
        "events": len(events),
        "planted": len(events) - events["planted"].null_count,
    }


def _content(placed: pa.Table) -> bytes:
    digest = hashlib.sha256()
    for batch in placed.select(["partition", "timestamp_ms", "key", "value"]).to_batches():
        for column in batch.columns:
            if pa.types.is_binary(column.type):
                pieces = column.to_pylist()
                digest.update(np.array([len(piece) for piece in pieces], "<i4").tobytes())
                digest.update(b"".join(pieces))
            else:
                digest.update(column.to_numpy().astype("<i8").tobytes())
    return digest.digest()


def _is_recorded(folder: Path, topic: str, topic_uuid: str) -> bool:
    if not folder.exists():
        return False
    try:
        found = RecordedTopic(_location(folder)).identity
    except TopicNotFoundError:
        found = None
    if found is None or (found.topic, found.uuid) != (topic, topic_uuid):
        what = "no recorded topic" if found is None else f"topic {found.topic} with id {found.uuid}"
        raise ConflictError(
            f"expected {folder} to be free, or to hold topic {topic} with id {topic_uuid}, it holds"
            f" {what}; nothing was written; remove it or choose another folder"
        )
    return True


def _write(placed: pa.Table, folder: Path, topic: str, topic_uuid: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        staging = Path(temporary) / folder.name
        partitions = {number: _batches(placed, number) for number in range(NUM_PARTITIONS)}
        record_topic(_location(staging), topic, topic_uuid, partitions, _ROWS_PER_FILE)
        shutil.move(staging, folder)


def _batches(placed: pa.Table, partition: int) -> Iterator[pa.RecordBatch]:
    mine = placed.filter(placed["partition"].to_numpy() == partition)
    for batch in mine.to_batches(max_chunksize=_ROWS_PER_FILE):
        headers = pa.array([[]] * len(batch), LANDING_SCHEMA.field("headers").type)
        kinds = pa.array(np.full(len(batch), _CREATE_TIME, np.int8))
        stamps, keys, values = (batch[name] for name in ("timestamp_ms", "key", "value"))
        yield pa.RecordBatch.from_arrays(
            [batch["offset"], stamps, kinds, keys, values, headers], schema=LANDING_SCHEMA
        )


def _location(folder: Path) -> Location:
    return Location.parse(str(folder.resolve()))
