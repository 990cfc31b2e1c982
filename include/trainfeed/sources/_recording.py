"""Writes recorded topics: a folder of landing files that stands in for a broker.

::

    <folder>/p=<partition>/<start>-<end>.arrow    ranges follow one another without a hole
    <folder>/TOPIC.json                           {topic, uuid, partitions: [{start, end}]}

``TOPIC.json`` is written last: a folder without it is no topic yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.errors import ConflictError
from trainfeed.sources._topic import check_topic_name
from trainfeed.sources.landing import LANDING_SCHEMA, LandingWriter, landing_name, partition_folder
from trainfeed.storage import Location

__all__ = ["TOPIC_FILE", "record_topic"]

TOPIC_FILE = "TOPIC.json"


def record_topic(
    location: Location,
    topic: str,
    uuid: str,
    partitions: Mapping[int, Iterable[pa.RecordBatch]],
    rows_per_file: int,
) -> None:
    """Write a recorded topic into a folder that is new or empty; on an error, remove it.

    Args:
        location: The folder.
        topic: Name of the topic.
        uuid: Id that distinguishes this recording from others of the same name.
        partitions: By partition number, from 0 without a hole: batches of ``LANDING_SCHEMA`` by
            ascending offset.
        rows_per_file: Most records of one landing file.

    Raises:
        ConflictError: The folder is not empty.
        ConfigError: ``topic`` or ``uuid`` is no safe name.
        ValueError: Partition numbers have a hole, offsets do not ascend, or a record has no
            offset or timestamp.
        StorageError: The file system failed.
    """
    if sorted(partitions) != list(range(len(partitions))) or rows_per_file < 1:
        raise ValueError(
            f"expected partitions 0 to {len(partitions) - 1} and rows_per_file >= 1, got"
            f" {sorted(partitions)} and {rows_per_file}"
        )
    names = {"topic": check_topic_name(topic), "uuid": check_topic_name(uuid)}
    location.make_dir()
    if there := location.list():
        raise ConflictError(
            f"expected an empty folder for a recorded topic, found {there[0].name!r} in"
            f" {location.uri}; remove it or choose another folder"
        )
    try:
        _record_all(location, names, partitions, rows_per_file)
    except BaseException:
        location.delete(recursive=True)  # half a recording would be in the way of the next attempt
        raise


def _record_all(
    location: Location,
    names: Mapping[str, str],
    partitions: Mapping[int, Iterable[pa.RecordBatch]],
    rows_per_file: int,
) -> None:
    ranges = [
        _record_partition(location / partition_folder(number), partitions[number], rows_per_file)
        for number in range(len(partitions))
    ]
    text = json.dumps(
        {**names, "partitions": [{"start": start, "end": end} for start, end in ranges]},
        ensure_ascii=False,
        separators=(",", ":"),
        sort_keys=True,
    )
    (location / TOPIC_FILE).write_atomic(lambda file: _write_all(file, text.encode()))


def _record_partition(
    folder: Location, batches: Iterable[pa.RecordBatch], rows_per_file: int
) -> tuple[int, int]:
    """Write the files of one partition and return its range; ``(0, 0)`` without records."""
    folder.make_dir()
    first, end = None, 0
    for table in _cut(batches, rows_per_file):
        offsets = table.column("offset")
        # A file begins where the last one ended, even if offsets in between have no record.
        start = offsets[0].as_py() if first is None else end
        first = start if first is None else first
        end = _check_ascending(offsets, start)
        (folder / landing_name(start, end)).write_atomic(partial(_write, table=table))
    return (first or 0), end


def _cut(batches: Iterable[pa.RecordBatch], rows_per_file: int) -> Iterator[pa.Table]:
    pending = LANDING_SCHEMA.empty_table()
    for batch in batches:
        _check_stamped(batch)
        pending = pa.concat_tables([pending, pa.Table.from_batches([batch], LANDING_SCHEMA)])
        while pending.num_rows >= rows_per_file:
            yield pending.slice(0, rows_per_file)
            pending = pending.slice(rows_per_file)
    if pending.num_rows:
        yield pending


def _check_stamped(batch: pa.RecordBatch) -> None:
    for name in ("offset", "timestamp", "timestamp_type"):
        column = batch.column(name)
        if column.null_count:
            row = column.is_null().index(pa.scalar(value=True)).as_py()
            raise ValueError(f"expected every record to have its {name}, got null in row {row}")


def _check_ascending(offsets: pa.ChunkedArray, start: int) -> int:
    """Check that offsets ascend, and return the end of the range."""
    values = offsets.combine_chunks()
    ascending = pc.all(pc.greater(values[1:], values[:-1])).as_py() is not False
    if values[0].as_py() < start or not ascending:
        raise ValueError(f"expected offsets to ascend from {start} on")
    return int(values[-1].as_py()) + 1


def _write(file: BinaryIO, table: pa.Table) -> None:
    writer = LandingWriter(file)
    for batch in table.combine_chunks().to_batches():
        writer.write(batch)
    writer.close({})


def _write_all(file: BinaryIO, data: bytes) -> None:
    file.write(data)
