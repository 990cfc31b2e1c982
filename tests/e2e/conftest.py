"""Three days of real events, on a real broker and recorded, each with its producer's ledger."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from examples.flights.events import read_events, select_days
from examples.flights.producer import produce
from examples.flights.recording import record
from tests.e2e.shared import shared_airflow
from tests.e2e.ways import FLIGHTS_DATA, TOPIC

SERVICES = ("TEST_KAFKA_BOOTSTRAP_SERVERS", "TEST_WEBHDFS_URI")


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
    first, last = date(2013, 1, 1), date(2013, 1, 3)
    return select_days(read_events(FLIGHTS_DATA), first, last, following=200)


@pytest.fixture(scope="session")
def on_broker(events, tmp_path_factory):
    servers = os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]
    ledger = tmp_path_factory.mktemp("broker") / "ledger.sqlite"
    produce(events, bootstrap_servers=servers, topic=TOPIC, ledger_path=ledger)
    yield Produced({"bootstrap.servers": servers}, ledger)
    delete_topic(servers)


@pytest.fixture(scope="session")
def recorded(events, tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded")
    record(events, path / TOPIC, topic=TOPIC, ledger_path=path / "ledger.sqlite")
    return Produced({"recorded": str(path)}, path / "ledger.sqlite")


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """The Airflow of all tests that end none of its parts."""
    with shared_airflow(tmp_path_factory.mktemp("shared") / "data") as airflow:
        yield airflow


def delete_topic(servers):
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([TOPIC])[TOPIC].result(timeout=20)
