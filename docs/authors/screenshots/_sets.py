"""The four data sets of the walk: flights, digits, one of log files and one of a topic.

Each has three good days, one whose records its gates refuse until a file is repaired, and
one that is built while its training is paused.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from examples.daily import places
from examples.digits.images import read_digits
from examples.digits.writer import write_days
from services._home import REPOSITORY

__all__ = ["SETS", "WalkedSet", "make_places"]

BROKER: Final = "TEST_KAFKA_BOOTSTRAP_SERVERS"
_DATASETS: Final = REPOSITORY / "include" / "datasets"
_UUID: Final = "7d5c5f0e-5a53-4c39-9a11-6d0f2b0c6a10"
_DAY_MS: Final = 86_400_000
_FIRST: Final = datetime(2026, 1, 1, tzinfo=UTC)
_RECORDS: Final = 1_000

_SPEC: Final = """\
name: {name}
description: {description}
schedule: "@daily"
start: 2026-01-01
end: 2026-01-05
source:
  {source}
preprocess: {{function: "preprocess:sample"}}
schema:
  user:  {{dtype: int64}}
  price: {{dtype: float32, optional: true}}
  label: {{dtype: float32}}
split: {{train: 0.9, eval: 0.1}}
quality:
  - {{check: count, min: 1}}
  - {{check: quarantine_ratio, max: 0.05}}
train: {{entry: "train:main", window: 1}}
"""
_PREPROCESS: Final = '''\
"""Events of a shop, as JSON → samples."""

from trainfeed.preprocessing import Filtered, Reject

_WORDS = {}


def sample(record, lookups):
    row = record.json()
    user = _WORDS.get(row.get("user"), row.get("user"))
    if type(user) is not int:
        raise Reject("bad_user", f"expected a number, got {user!r}")
    if row.get("bot"):
        return Filtered("bot")
    return {"user": user, "price": row.get("price"), "label": float(row.get("bought", False))}
'''
_TRAIN: Final = '''\
"""Counts its samples: the walk does not test trainings."""


def main(job):
    blocks = job.open("train").iter_arrays()
    return {"samples": sum(len(block["label"]) for block in blocks)}
'''


@dataclass(frozen=True)
class WalkedSet:
    """A data set of the walk.

    Attributes:
        name: The data set.
        days: Triggered, backfilled from and to, refused, built while the training is paused.
        spoil: File, and what stands there in place of what: the gates refuse the fourth day.
        repair: The same for what makes it pass again.
        limit: What ``dataset.yaml`` says about the most records that may be quarantined.
    """

    name: str
    days: tuple[str, str, str, str, str]
    spoil: tuple[str, str, str] | None
    repair: tuple[str, str, str]
    limit: str


def _days(month: str) -> tuple[str, str, str, str, str]:
    first, second, third, fourth, fifth = (f"{month}-{day:02}" for day in range(1, 6))
    return first, second, third, fourth, fifth


def _gated(name: str, month: str, limit: str) -> WalkedSet:
    file, good, bad = "dataset.yaml", f"ratio, max: {limit}", "ratio, max: 0.0001"
    return WalkedSet(name, _days(month), (file, good, bad), (file, bad, good), limit)


def _own(name: str) -> WalkedSet:
    repair = ("preprocess.py", "_WORDS = {}", '_WORDS = {"six": 6}')
    return WalkedSet(name, _days("2026-01"), None, repair, "0.05")


SETS: Final = (
    _gated("flights", "2013-01", "0.01"),
    _gated("digits", "2024-01", "0.05"),
    _own("visits"),
    _own("orders"),
)


def make_places(home: Path) -> tuple[places.Places, dict[str, str]]:
    """Make data sets, logs and topics below a folder; return places and environment of Airflow.

    The topic of ``orders`` is on the broker that ``services run kafka`` has started, and recorded
    where there is none.
    """
    from trainfeed.files.stores import Location

    place = places.embedded(home)
    folder = home / "datasets"
    for name in ("flights", "digits"):
        shutil.copytree(_DATASETS / name, folder / name)
    logs = home / "logs"
    write_days(
        read_digits(REPOSITORY / "data" / "scikit-learn"),
        Location.parse(str(logs / "logs" / "digits")),
        home / "digits.sqlite",
    )
    _write(folder, "visits", 'logs: {path: "/visits/dt={start:%Y-%m-%d}", done: _SUCCESS}')
    _write(folder, "orders", "kafka: {connection: kafka_orders, topic: orders, settle: 0s}")
    _write_logs(logs / "visits")
    environ = dict(place.environ)
    hdfs = json.loads(environ["AIRFLOW_CONN_HDFS_DEFAULT"])
    hdfs["extra"]["logs"] = str(logs)
    environ["AIRFLOW_CONN_HDFS_DEFAULT"] = json.dumps(hdfs)
    servers = os.environ.get(BROKER)  # noqa: TID251 - what `services run` exports
    extra = _produce(servers) if servers else _record(home / "orders")
    environ["AIRFLOW_CONN_KAFKA_ORDERS"] = json.dumps({"conn_type": "kafka", "extra": extra})
    environ["TRAINFEED_DATASETS"] = str(folder)
    return place, environ


def _write(datasets: Path, name: str, source: str) -> None:
    folder = datasets / name
    folder.mkdir()
    description = f"{name.capitalize()} of a shop, one JSON object each"
    spec = _SPEC.format(name=name, description=description, source=source)
    (folder / "dataset.yaml").write_text(spec)
    (folder / "preprocess.py").write_text(_PREPROCESS)
    (folder / "train.py").write_text(_TRAIN)


def _events(day: int) -> Iterator[bytes]:
    """Yield the events of a day: some broken, and of the fourth day every fifth."""
    for number in range(_RECORDS):
        if day == 3 and number % 5 == 0:
            row: Any = {"user": "six", "price": 1.5, "password": "shown nowhere"}
        elif number % 97 == 0:
            yield b"{no JSON <b>at all</b>"
            continue
        elif number % 50 == 7:
            row = {"user": number, "bot": True}
        else:
            price = None if number % 11 == 0 else number / 3
            row = {"user": number, "price": price, "bought": number % 2 == 0}
        yield json.dumps(row).encode()


def _write_logs(logs: Path) -> None:
    for day in range(5):
        folder = logs / f"dt=2026-01-{day + 1:02}"
        folder.mkdir(parents=True)
        (folder / "part-0.jsonl").write_bytes(b"".join(line + b"\n" for line in _events(day)))
        (folder / "_SUCCESS").touch()


def _stamped() -> Iterator[tuple[int, bytes]]:
    """Yield all events with their time; one after the last day shows where that ends."""
    first_ms = int(_FIRST.timestamp() * 1000)
    for day in range(5):
        for number, value in enumerate(_events(day)):
            yield first_ms + day * _DAY_MS + number * (_DAY_MS // _RECORDS), value
    yield first_ms + 5 * _DAY_MS, b'{"user": 0}'


def _record(home: Path) -> dict[str, str]:
    import pyarrow as pa

    from trainfeed.files.stores import Location
    from trainfeed.sources import LANDING_SCHEMA, record_topic

    rows: list[dict[str, Any]] = [
        {"offset": offset, "timestamp": stamp, "timestamp_type": 0, "key": None, "headers": [],
         "value": value}
        for offset, (stamp, value) in enumerate(_stamped())
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA)
    place = Location.parse(str(home)) / "orders"
    record_topic(place, "orders", _UUID, {0: [batch]}, rows_per_file=_RECORDS)
    return {"recorded": str(home)}


def _produce(servers: str) -> dict[str, str]:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for ended in admin.delete_topics(["orders"]).values():
        ended.exception()  # that there was none is fine
    topic = NewTopic("orders", 1, 1, config={"retention.ms": "-1"})
    for made in admin.create_topics([topic]).values():
        made.result()
    producer = Producer({"bootstrap.servers": servers})
    for stamp, value in _stamped():
        producer.produce("orders", value, timestamp=stamp)
    if producer.flush(60):
        raise SystemExit("the broker did not take all events of the topic orders within 60 s")
    return {"bootstrap.servers": servers}
