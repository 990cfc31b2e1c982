"""A run of Airflow on a topic of Avro: a real broker, a real registry, from a trigger to a version.

The writer's schema changes in mid-day. The connection to the registry is one of Airflow's; its
tasks get it as they get the broker's.
"""

from __future__ import annotations

import json
import os

import pytest

from tests.e2e.ways import BUILD, NAMES, LocalGround
from tests.integration.kafka.conftest import Broker
from tests.integration.registry.conftest import Registry
from tests.integration.registry.flights import AvroWriter, produce, rows_of

pytestmark = [
    pytest.mark.timeout(1500),
    pytest.mark.skipif("TEST_REGISTRY_URL" not in os.environ, reason="no registry is configured"),
]
DAY = NAMES[1]


@pytest.fixture
def broker():
    broker = Broker(os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"])
    yield broker
    broker.clean_up()


def test_a_triggered_run_publishes_a_day_of_avro_of_two_writers(tmp_path, events, broker):
    registry = Registry(os.environ["TEST_REGISTRY_URL"])
    rows = rows_of(events)
    topic = broker.create(None, partitions=4, message_timestamp_type="CreateTime")
    writer = AvroWriter(registry, topic, rows)
    produce(broker, topic, rows, writer.value)
    kafka = {"bootstrap.servers": broker.servers}
    value = "value: {format: avro, schema: flight.avsc}"
    edits = [("topic: flights, settle: 30m", f"topic: {topic}, settle: 0s, {value}")]
    (tmp_path / "avro").mkdir()
    ground = LocalGround.make(tmp_path / "avro", kafka, edits=edits)
    (ground.datasets / "flights" / "flight.avsc").write_text(writer.reader)
    place = {"conn_type": "generic", "extra": {"url": registry.url}}
    ground.environ["AIRFLOW_CONN_REGISTRY_DEFAULT"] = json.dumps(place)
    with ground.airflow() as stack:
        stack.client.unpause(BUILD)
        (run,) = stack.succeed([stack.client.trigger(BUILD, {"window_start": DAY})])
        report = stack.report(run)
    version = ground.versions([DAY])[DAY]
    assert report["verdict"] == "built"
    assert report["samples"] == version.manifest.num_samples() > 500
    met = {(each["registry"], each["id"]) for each in version.manifest.schemas["writers"]}
    assert met == {("registry_default", number) for number in writer.ids}
    assert version.manifest.quarantine["records"] == 0
