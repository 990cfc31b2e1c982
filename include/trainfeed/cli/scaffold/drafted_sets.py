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
from trainfeed.cli.scaffold.framed_topics import FramedDraft
from trainfeed.cli.scaffold.from_records import DatedFolder, RecordsDraft
from trainfeed.conversion.foreign_input import iter_lines, open_content
from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.files import FilePath
from trainfeed.files.stores import Location
from trainfeed.sources import Topic
from trainfeed.sources.column_files import column_layout
from trainfeed.specification import SPEC_FILE

# --- What of the records becomes the source: a folder's rule, lines of a file, records of a topic

_MOST_BYTES: Final = 32 << 20
# As long as a nightly job may pause between two files.
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
    """Return the rule by which folders like this one are complete, and whether it holds it back.

    The rule is that of nightly runs: a folder that changed minutes ago, such as a copy, has to wait
    for as long as any other.
    """
    if (folder / _MARKER).exists():
        return f"    done: {_MARKER}", False
    changed = max((path.stat().st_mtime for path in folder.iterdir()), default=0.0)
    advice = f"or done: {_MARKER}, a file that is written last"
    return f"    stable: 10m                  # {advice}", time.time() - changed < _STABLE_S


# --- The folder of the data set


def dataset_of_file(
    datasets: FilePath, name: str, file: Path, records: RecordsDraft, *, rows: int, logs: str
) -> dict[str, Any]:
    """Make a data set for records like those of a file, that can be built at once.

    A file in a folder with a date in its path is a log file, and the folders beside it are the
    intervals; the lines of any other one are recorded as a topic in the data set. Rows of a file of
    columns are no lines, so such a file has to be in a folder with a date.

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
        ``just_changed``: whether the folder of logs changed so lately that a build waits for it.

    Raises:
        ConfigError: A file of columns is in no folder with a date.
        As of ``new_dataset``.
    """
    dated = DatedFolder.of(file.absolute().parent)
    logs_from, has_to_wait = None, False
    if dated is None and records.draft.is_typed:
        raise ConfigError(
            f"{file}: expected a folder with a date in its path, such as"
            " rides/dt=2026-01-31/part-0.parquet, because the folders are the intervals of a data"
            " set of such files; nothing was made; move it there, or write its rows as lines:"
            f" trainfeed file convert {file.name} {file.stem}.jsonl"
        )

    def fill(folder: Path, schema: str) -> tuple[int, str]:
        nonlocal logs_from, has_to_wait
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
            rule, has_to_wait = complete_rule(file.parent)
            source += [rule, *_columns_of(file, records)]
            number, interval = records.draft.records, dated.interval
            start, schedule = dated.start, dated.schedule
        _write(folder, name, records, records.spec_lines(name, source, start, schedule), schema)
        return number, interval

    made = make_dataset(datasets, name, fill)
    source = "recorded" if dated is None else "logs"
    return made | {"source": source, "logs_from": logs_from, "just_changed": has_to_wait}


def _columns_of(file: Path, records: RecordsDraft) -> Iterator[str]:
    """Yield the lines of dataset.yaml about files of columns; none for lines of text."""
    draft = records.draft
    if not draft.is_typed:
        return
    size = file.stat().st_size
    layout = column_layout(Location.parse(str(file.absolute())), draft.file_format, size)
    num_rows = sum(group.num_rows for group in layout.groups)
    yield f"    format: {draft.file_format}"
    yield "    # Only these columns are read."
    names = [json.dumps(each.name) for each in draft.columns if each.field is not None]
    yield f"    columns: [{', '.join(names)}]"
    yield f"    bytes_per_record: {max(1, size // num_rows)}B"


def dataset_of_topic(
    datasets: FilePath,
    name: str,
    topic: str,
    records: RecordsDraft,
    *,
    first: datetime,
    framed: FramedDraft | None = None,
) -> dict[str, Any]:
    """Make a data set for the records of a topic of the connection ``kafka_default``.

    Args:
        datasets: The folder of data sets; made when it is not there.
        name: Name of the data set.
        topic: The topic.
        records: What was drafted from its last records.
        first: The time of the first of these, whose day is the first interval.
        framed: The schema of its values; None for values of JSON.

    Returns:
        As of ``new_dataset``, and ``source``: kafka.

    Raises:
        As of ``new_dataset``.
    """
    day = f"{first:%Y-%m-%d}"
    value = "" if framed is None else f", value: {framed.value}"
    source = [
        f"  kafka: {{connection: kafka_default, topic: {topic}, settle: 30m{value}}}",
        "  # settle: how long after the end of an interval its last records may still arrive",
    ]

    def fill(folder: Path, schema: str) -> tuple[int, str]:
        if framed is not None:
            (folder / framed.file).write_text(framed.schema, encoding="utf-8")
        _write(folder, name, records, records.spec_lines(name, source, day, "@daily"), schema)
        return records.draft.records, day

    return make_dataset(datasets, name, fill) | {"source": "kafka"}


def _write(folder: Path, name: str, records: RecordsDraft, spec: str, schema: str) -> None:
    (folder / SPEC_FILE).write_text(spec.replace("@SCHEMA@", schema), encoding="utf-8")
    (folder / "preprocess.py").write_text(records.function(name), encoding="utf-8")
