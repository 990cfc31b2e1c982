"""A data set whose days have one record each, and a recorded topic of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from services._home import REPOSITORY
from trainfeed.files.stores import Location
from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.versions import init_root

__all__ = ["DATASET", "FIRST", "lay_out", "make_ground"]

DATASET: Final = "ones"
FIRST: Final = datetime(2024, 1, 1, tzinfo=UTC)
_UUID: Final = "00000000-0000-4000-8000-000000000001"
_CREATE_TIME: Final = 1
_SPEC: Final = """\
name: ones
description: One record a day
schedule: "@daily"
start: 2024-01-01
end: 2024-12-31                # long ago, so that the scheduler makes no run of its own
source: {kafka: {connection: kafka_default, topic: ones, settle: 1m}}
preprocess: {function: "preprocess:one"}
schema: {number: {dtype: int64}}
split: {train: 1.0}
output: {codec: zstd, samples_per_shard: 1000}
quality:
  - {check: count, min: 1}
resources: {max_active_runs: 10}
"""
_FUNCTION: Final = '''\
"""The number of a record."""


def one(record, lookups):
    return {"number": int(record.value)}
'''


def make_ground(home: Path, days: int) -> Path:
    """Write the data set, its topic, an empty root and the folder of DAG files; return the last.

    Args:
        home: Folder of all of it.
        days: Records, one a day; another one after them shows that the last day is over.
    """
    moments = [FIRST + timedelta(days=day, hours=12) for day in range(days + 1)]
    place = Location.parse(str(home / "recorded" / DATASET))
    place.make_dir()
    record_topic(place, DATASET, _UUID, {0: [_records(moments)]}, 1000)
    return lay_out(home, _SPEC, _FUNCTION)


def lay_out(home: Path, spec: str, function: str) -> Path:
    """Write a data set, an empty root and the folder of DAG files; return the last.

    Args:
        home: Folder of all of it.
        spec: Content of dataset.yaml.
        function: Content of preprocess.py.
    """
    folder = home / "datasets" / DATASET
    folder.mkdir(parents=True)
    (folder / "dataset.yaml").write_text(spec)
    (folder / "preprocess.py").write_text(function)
    init_root(home / "root")
    return _dag_files(home)


def _records(moments: list[datetime]) -> pa.RecordBatch:
    rows = [
        {
            "offset": number,
            "timestamp": round(moment.timestamp() * 1000),
            "timestamp_type": _CREATE_TIME,
            "key": None,
            "value": str(number).encode(),
            "headers": [],
        }
        for number, moment in enumerate(moments)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA)


def _dag_files(home: Path) -> Path:
    """Return a folder of links to all DAG files, which Airflow reads as ever, and the empty one."""
    folder = home / "dags"
    folder.mkdir()
    for file in (REPOSITORY / "dags").iterdir():
        if file.is_file():
            (folder / file.name).symlink_to(file)
    (folder / "empty_interval.py").symlink_to(Path(__file__).with_name("empty_interval.py"))
    return folder
