"""The same flights in one topic in every format: equal samples, from a real broker and registry."""

from __future__ import annotations

import json
import socket
import uuid

import pytest

from examples.flights.events import read_events
from services.registry import Registry as Service
from tests.integration.registry.conftest import Registry
from tests.integration.registry.flights import (
    DAYS,
    AvroWriter,
    JsonSchemaWriter,
    Project,
    ProtobufWriter,
    framed,
    produce,
    rows_of,
)
from tests.unit.flights.conftest import a_few_days, install
from trainfeed.errors import SchemaChangedError, SourceUnreachableError

WRITERS = {"avro": AvroWriter, "protobuf": ProtobufWriter, "json_schema": JsonSchemaWriter}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return install(tmp_path_factory.mktemp("nycflights13"), a_few_days())


@pytest.fixture(scope="module")
def rows(data):
    return rows_of(read_events(data))


def as_json(_, row):
    return json.dumps(row).encode()


def topic_of(broker, name=None):
    return broker.create(name, partitions=4, message_timestamp_type="CreateTime")


def digests(project):
    for day in DAYS:
        project.build(day)
    return [
        (found.content_digest, found.ledger_records, found.filtered)
        for found in map(_Counted, map(project.manifest, DAYS))
    ]


class _Counted:
    """What is equal in every format: samples, and which records they are of; bytes are not."""

    def __init__(self, manifest):
        self.content_digest = manifest.content_digest
        self.filtered = manifest.filtered
        self.ledger_records = {
            source: {part: (leaf["records"], leaf["l1"], leaf["l2"])
                     for part, leaf in account.items() if part != "filtered"}
            for source, account in manifest.ledger.items()
        }  # fmt: skip


def project_of(path, data, broker, registry, topic, writer, **options):
    name = next(name for name, kind in WRITERS.items() if isinstance(writer, kind))
    value = f", value: {{format: {name}, schema: flight.schema}}"
    project = Project.make(path, data, broker, registry, topic, value=value, **options)
    (project.env.datasets / "flights" / "flight.schema").write_text(writer.reader)
    return project


@pytest.mark.parametrize("mode", ["batch", "record"])
def test_the_same_flights_in_every_format_have_equal_content(
    broker, registry, data, rows, tmp_path, mode
):
    # Samples are ordered by the name of their topic, so all have the same one.
    topic = topic_of(broker)
    produce(broker, topic, rows, as_json)
    of_json = Project.make(tmp_path / "json", data, broker, registry, topic, mode=mode)
    expected = digests(of_json)
    assert sum(of_json.manifest(day).num_samples() for day in DAYS) > 100
    for name, kind in WRITERS.items():
        broker.delete(topic)
        topic_of(broker, topic)
        writer = kind(registry, f"{topic}-{mode}-{name}", rows)
        produce(broker, topic, rows, writer.value)
        found = project_of(tmp_path / name, data, broker, registry, topic, writer, mode=mode)
        assert digests(found) == expected, name
        met = {each["id"] for day in DAYS for each in found.manifest(day).schemas["writers"]}
        assert met == set(writer.ids)

        # Again, without a registry.
        found.env.registries["registry_default"] = {"url": f"http://127.0.0.1:{free_port()}"}
        for day in DAYS:
            assert found.build(day, rebuild="again").verdict == "built"
        assert digests(found) == expected, name


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_damaged_values_are_quarantined_and_their_neighbours_are_not_touched(
    broker,
    registry,
    data,
    rows,
    tmp_path,
):
    topic = topic_of(broker)
    writer = AvroWriter(registry, topic, rows)
    whole = Project.make(tmp_path / "json", data, broker, registry, topic)
    produce(broker, topic, rows, as_json)
    expected = digests(whole)
    broker.delete(topic)
    topic_of(broker, topic)
    numbers = iter(range(10**6))
    unknown = max(writer.ids) + 100_000

    def value(stamp, row):
        good = writer.value(stamp, row)
        broken = {0: good + b"\0", 1: good[:-1], 2: b"{}", 3: framed(unknown, good[5:])}
        return broken.get(next(numbers) % 50, good)

    produce(broker, topic, rows, value)
    project = project_of(tmp_path / "avro", data, broker, registry, topic, writer)
    folder = project.env.datasets / "flights" / "dataset.yaml"
    folder.write_text(
        folder.read_text().replace("max: 0.01, severity: block", "max: 0.2, severity: block")
    )
    found = digests(project)
    for day, (_, before, _), (_, after, _) in zip(DAYS, expected, found, strict=True):
        reasons = project.manifest(day).quarantine["reasons"]
        assert set(reasons) == {"bad_datum", "no_schema_id", "unknown_schema"}
        for source in before:
            assert after[source]["read"] == before[source]["read"]


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path / "service")
    service.install()
    service.start()
    service.wait()
    yield service
    service.stop()


def test_a_registry_that_is_down_in_mid_build_and_one_that_was_built_anew(
    broker,
    service,
    data,
    rows,
    tmp_path,
):
    registry = Registry(service.url)
    topic = topic_of(broker, f"test-{uuid.uuid4().hex[:12]}")
    writer = AvroWriter(registry, topic, rows)
    produce(broker, topic, rows, writer.value)
    project = project_of(tmp_path / "avro", data, broker, registry, topic, writer)
    service.kill("registry")
    with pytest.raises(SourceUnreachableError, match="gives no answer"):
        project.build(DAYS[0])
    # What landed stays; the next attempt asks for the schemas alone.
    service.start()
    service.wait()
    for schema in (writer.old, writer.new):
        registry.register(f"{topic}-value", json.dumps(schema))
    assert project.build(DAYS[0]).source_reads == 0
    digest = project.manifest(DAYS[0]).content_digest

    # Built anew: the ids are given to others.
    service.kill("registry")
    service.start()
    service.wait()
    registry.register("other-value", '"string"')
    registry.register("others-value", '"long"')
    with pytest.raises(SchemaChangedError):
        project.build(DAYS[1])
    assert project.build(DAYS[0], rebuild="again").verdict == "built"
    assert project.manifest(DAYS[0]).content_digest == digest
