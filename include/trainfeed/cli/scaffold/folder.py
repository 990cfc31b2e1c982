"""Makes the folder of a new data set with its first records, complete or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from trainfeed.cli.scaffold.texts import BATCH_EDITS, BATCH_FUNCTION, PREPROCESS, SPEC, TRAIN
from trainfeed.core.datacenters import local_target
from trainfeed.errors import ConflictError
from trainfeed.files import FilePath
from trainfeed.files.stores import Location, posix
from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.specification import SPEC_FILE, check_dataset_name, json_schema_text

# --- The first records of a new data set: a small recorded topic, the same at every call

FIRST_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
NUM_DAYS: Final = 3

_PER_DAY: Final = 200
_PARTITIONS: Final = 2
_SEED: Final = 20260101
_NOT_JSON: Final = 97  # every 97th record
_NO_SECONDS: Final = 61
_BOT: Final = 23
_CREATE_TIME: Final = 1  # the producer set the timestamp, as in Kafka


class TimedLine(NamedTuple):
    """A line that becomes a record, and its time."""

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
    return record_lines(folder, topic, _visits())


def record_lines(folder: Path, topic: str, lines: Iterable[TimedLine]) -> int:
    """Write lines as a recorded topic; arguments and result are those of ``record_sample``."""
    visits = list(lines)
    digest = hashlib.sha256(topic.encode())
    for visit in visits:
        digest.update(visit.timestamp_ms.to_bytes(8, "little") + visit.value)
    partitions = {number: [_batch(visits[number::_PARTITIONS])] for number in range(_PARTITIONS)}
    location = Location.parse(str(folder.absolute()))
    topic_uuid = str(uuid.UUID(bytes=digest.digest()[:16]))
    record_topic(location, topic, topic_uuid, partitions, rows_per_file=len(visits))
    return len(visits)


def _visits() -> Iterator[TimedLine]:
    draw = random.Random(_SEED)  # noqa: S311 - made-up visits, the same at every call
    for number in range(NUM_DAYS * _PER_DAY):
        at = FIRST_DAY + number * timedelta(days=1) / _PER_DAY
        row = _row(draw, number)
        value = b"{broken" if number % _NOT_JSON == _NOT_JSON - 1 else json.dumps(row).encode()
        yield TimedLine(int(at.timestamp() * 1000), value)


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


def _batch(visits: Sequence[TimedLine]) -> pa.RecordBatch:
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


# --- Makes the folder of a new data set, complete or not at all

# With ``_model`` behind it, the name of a data set stays within the 63 characters of a name.
_NAME_CHARS: Final = 57
_SCHEMA_FILE: Final = "dataset.schema.json"
# In a checkout, seen from the data sets in include/datasets.
_COMMITTED: Final = Path("..", "..", "docs", _SCHEMA_FILE)


def new_dataset(datasets: FilePath, name: str, *, batch: bool = False) -> dict[str, Any]:
    """Make a data set that can be built at once.

    Args:
        datasets: The folder of data sets; made when it is not there.
        name: Name of the data set.
        batch: Whether its function gets many records at once; both modes give the same samples.

    Returns:
        ``dataset``, ``folder``, ``files``, ``records`` (number of records in the sample) and
        ``interval`` (name of the first interval).

    Raises:
        SpecError: ``name`` is not valid as the name of a data set.
        ConflictError: The name is taken. Nothing was changed.
        StorageError: The file system refused or failed.
    """

    def fill(folder: Path, schema: str) -> tuple[int, str]:
        return _fill(folder, name, schema, batch=batch), f"{FIRST_DAY:%Y-%m-%d}"

    return make_dataset(datasets, name, fill)


def make_dataset(
    datasets: FilePath, name: str, fill: Callable[[Path, str], tuple[int, str]]
) -> dict[str, Any]:
    """Make the folder of a data set, complete or not at all; see ``new_dataset``.

    Args:
        datasets: The folder of data sets.
        name: Name of the data set.
        fill: Writes the files into a folder, given the path of the schema of specifications from
            there; returns the number of records, and the name of the first interval.
    """
    check_dataset_name(name)
    datasets = Path(local_target(datasets))
    folder = datasets / name
    if folder.is_symlink() or folder.exists():
        raise ConflictError(f"{folder}: the name is taken; nothing was changed; choose another one")
    with posix.map_errors(datasets):
        datasets.mkdir(parents=True, exist_ok=True)
        # Folders whose names begin with a dot are no data sets, so the unfinished one is not seen.
        staging = datasets / f".{name}.{uuid.uuid4().hex}"
        staging.mkdir()
        try:
            records, interval = fill(staging, _schema(datasets))
            posix.rename_directory(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return {
        "dataset": name,
        "folder": str(folder),
        "files": sorted(str(path.relative_to(folder)) for path in folder.iterdir()),
        "records": records,
        "interval": interval,
    }


def _fill(folder: Path, name: str, schema: str, *, batch: bool) -> int:
    last = FIRST_DAY + timedelta(days=NUM_DAYS - 1)
    values = {
        "@NAME@": name,
        "@MODEL@": f"{name[:_NAME_CHARS]}_model",
        "@SCHEMA@": schema,
        "@FIRST@": f"{FIRST_DAY:%Y-%m-%d}",
        "@LAST@": f"{last:%Y-%m-%d}",
    }
    edits = [*(BATCH_EDITS if batch else ()), *values.items()]
    function = PREPROCESS + BATCH_FUNCTION if batch else PREPROCESS
    for file, text in ((SPEC_FILE, SPEC), ("preprocess.py", function), ("train.py", TRAIN)):
        for mark, value in edits:
            text = text.replace(mark, value)  # noqa: PLW2901 - filled in mark by mark
        (folder / file).write_text(text, encoding="utf-8")
    return record_sample(folder / "sample", name)


def _schema(datasets: Path) -> str:
    """Return the path of the schema for specifications, relative to a data set's folder.

    In a checkout this is the committed schema; elsewhere a copy is written beside the data sets.
    """
    if (datasets / _COMMITTED).is_file():
        return os.path.join("..", _COMMITTED)  # noqa: PTH118 - Path would keep the dots as well
    posix.replace_file(datasets / _SCHEMA_FILE, json_schema_text().encode())
    return f"../{_SCHEMA_FILE}"
