"""Makes the folder of a data set that was drafted from a file, or from a topic."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from trainfeed.cli.scaffold.folder import (
    FIRST_DAY,
    NUM_DAYS,
    TimedLine,
    make_dataset,
    record_lines,
)
from trainfeed.cli.scaffold.from_records import DatedFolder, RecordsDraft
from trainfeed.conversion.foreign_input import iter_lines, open_content
from trainfeed.core.printable_text import printable
from trainfeed.errors import NotFoundError
from trainfeed.files import FilePath
from trainfeed.sources import Topic
from trainfeed.specification import SPEC_FILE

# --- What of the records becomes the source: a folder's rule, lines of a file, records of a topic

_MOST_BYTES: Final = 32 << 20
_STABLE_S: Final = 600.0
_MARKER: Final = "_SUCCESS"
_OWN: Final = "your own source has its place here: kafka, logs"


def sample_lines(file: Path, rows: int) -> list[bytes]:
    """Return the first lines of a file as they are, at most ``rows`` of them."""
    found, num_bytes = list[bytes](), 0
    with open_content(file) as content:
        for line in iter_lines(content):
            if len(found) == rows or num_bytes > _MOST_BYTES:
                break
            if line.data is not None and line.data.strip():
                found.append(line.data)
                num_bytes += len(line.data)
    return found


def last_records(topic: Topic, number: int) -> list[tuple[int, bytes | None]]:
    """Return time in milliseconds and value of the last records of a topic, of each partition.

    Raises:
        NotFoundError: The topic has no records.
        TrainFeedError: As of the methods of ``Topic``.
    """
    found: list[tuple[int, bytes | None]] = []
    partitions = topic.partitions()
    for partition in partitions:
        start, end = topic.log_range(partition)
        first = max(start, end - -(-number // len(partitions)))
        for batch in topic.iter_batches(partition, first, end) if first < end else ():
            columns = (batch.column(name).to_pylist() for name in ("timestamp", "value"))
            found += zip(*columns, strict=True)
    if not found:
        raise NotFoundError(
            f"expected records in topic {topic.identity.topic!r}, got none; nothing was made; send"
            " some, or name a file"
        )
    return found


def sample_times(number: int) -> Iterator[datetime]:
    """Yield as many times, evenly over the first days."""
    for each in range(number):
        yield FIRST_DAY + each * timedelta(days=NUM_DAYS) / max(1, number)


def complete_rule(folder: Path) -> tuple[str, bool]:
    """Return the rule by which folders like this one are complete, and whether it is a stopgap.

    A folder that changed minutes ago, such as a copy, could not be built for as long otherwise.
    """
    if (folder / _MARKER).exists():
        return f"    done: {_MARKER}", False
    changed = max((path.stat().st_mtime for path in folder.iterdir()), default=0.0)
    if time.time() - changed < _STABLE_S:
        advice = f"it changed just now; for logs that still grow 10m, or done: {_MARKER}"
        return f"    stable: 1s                   # {advice}", True
    advice = f"or done: {_MARKER}, a file that is written last"
    return f"    stable: 10m                  # {advice}", False


# --- The folder of the data set


def dataset_of_file(
    datasets: FilePath, name: str, file: Path, records: RecordsDraft, *, rows: int, logs: str
) -> dict[str, Any]:
    """Make a data set for records like those of a file, that can be built at once.

    A file in a folder with a date in its path is a log file, and the folders beside it are the
    intervals; the lines of any other one are recorded as a topic in the data set.

    Args:
        datasets: The folder of data sets; made when it is not there.
        name: Name of the data set.
        file: The file.
        records: What was drafted from it.
        rows: How many of its lines are recorded, at most.
        logs: The place at which the paths of log files start.

    Returns:
        As of ``new_dataset``, and ``source``: logs or recorded; ``logs_from``: the folder at which
        the path of the logs starts, None if ``logs`` is that or there are no logs;
        ``just_changed``: whether the folder of logs may still grow.

    Raises:
        As of ``new_dataset``.
    """
    dated = DatedFolder.of(file.absolute().parent)
    logs_from, is_stopgap = None, False

    def fill(folder: Path, schema: str) -> tuple[int, str]:
        nonlocal logs_from, is_stopgap
        if dated is None:
            lines = sample_lines(file, rows)
            pairs = zip(sample_times(len(lines)), lines, strict=True)
            timed = [TimedLine(int(at.timestamp() * 1000), line) for at, line in pairs]
            number = record_lines(folder / "sample", name, timed)
            source = [
                f"  # The first {number:,} lines of {printable(file.name)}, to begin with; {_OWN}"
            ]
            source.append("  recorded: {path: ./sample}")
            start = interval = f"{FIRST_DAY:%Y-%m-%d}"
            schedule = "@daily"
        else:
            path = dated.template.removeprefix("" if logs == "/" else logs.rstrip("/"))
            logs_from = "/" if path == dated.template and logs != "/" else None
            source = ["  logs:", "    connection: hdfs_default", f"    path: {json.dumps(path)}"]
            rule, is_stopgap = complete_rule(file.parent)
            source.append(rule)
            number, interval = records.draft.records, dated.interval
            start, schedule = dated.start, dated.schedule
        _write(folder, name, records, records.spec_lines(name, source, start, schedule), schema)
        return number, interval

    made = make_dataset(datasets, name, fill)
    source = "recorded" if dated is None else "logs"
    return made | {"source": source, "logs_from": logs_from, "just_changed": is_stopgap}


def dataset_of_topic(
    datasets: FilePath, name: str, topic: str, records: RecordsDraft, *, first: datetime
) -> dict[str, Any]:
    """Make a data set for the records of a topic of the connection ``kafka_default``.

    Args:
        datasets: The folder of data sets; made when it is not there.
        name: Name of the data set.
        topic: The topic.
        records: What was drafted from its last records.
        first: The time of the first of these, whose day is the first interval.

    Returns:
        As of ``new_dataset``, and ``source``: kafka.

    Raises:
        As of ``new_dataset``.
    """
    day = f"{first:%Y-%m-%d}"
    source = [
        f"  kafka: {{connection: kafka_default, topic: {topic}, settle: 30m}}",
        "  # settle: how long after the end of an interval its last records may still arrive",
    ]

    def fill(folder: Path, schema: str) -> tuple[int, str]:
        _write(folder, name, records, records.spec_lines(name, source, day, "@daily"), schema)
        return records.draft.records, day

    return make_dataset(datasets, name, fill) | {"source": "kafka"}


def _write(folder: Path, name: str, records: RecordsDraft, spec: str, schema: str) -> None:
    (folder / SPEC_FILE).write_text(spec.replace("@SCHEMA@", schema), encoding="utf-8")
    (folder / "preprocess.py").write_text(records.function(name), encoding="utf-8")
