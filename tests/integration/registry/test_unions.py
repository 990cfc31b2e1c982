"""A topic behind a real schema registry as a member of a union, beside files and a table."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS
from tests.unit.pipeline.inputs.avro_clicks import NEW, OLD, framed
from tests.unit.pipeline.unions.every_kind import (
    DAYS,
    all_keys,
    keys,
    make_union_project,
    read_keys,
    rows_of,
)
from trainfeed.core.config import KafkaSettings
from trainfeed.errors import SourceUnreachableError

AWAY = {"registry_default": {"url": "http://127.0.0.1:1"}}


def records_of(ids):
    """The records of the member on all days; the second writer begins on the second day."""
    for day in range(len(DAYS)):
        stamps = range(START_MS + day * DAY_MS, START_MS + (day + 1) * DAY_MS, 1000)
        for key, row, stamp in zip(keys("framed", day), rows_of("framed", day), stamps):  # noqa: B905
            is_new = day and key % 2
            schema, more = (NEW, {"page": "p"}) if is_new else (OLD, {})
            value = framed(schema, ids[bool(is_new)], {**more, **row})
            yield {"value": value, "timestamp": stamp}
    end = START_MS + len(DAYS) * DAY_MS + 5000
    last = framed(OLD, ids[0], {"value": None, "copies": 1})
    yield {"value": last, "timestamp": end}


@pytest.fixture
def ids(registry):
    """The ids of both writers' schemas."""
    return [registry.register("clicks-of-unions-value", json.dumps(each)) for each in (OLD, NEW)]


@pytest.fixture
def project(tmp_path, broker, registry, ids):
    topic = broker.create(partitions=1, message_timestamp_type="CreateTime")
    broker.produce(topic, list(records_of(ids)), 0)
    project = make_union_project(tmp_path)
    project.edit("connection: framed, topic: clicks", f"connection: framed, topic: {topic}")
    cluster = KafkaSettings({"bootstrap.servers": broker.servers})
    registries = {"registry_default": {"url": registry.url}}
    kafka = {**project.env.kafka, "framed": cluster}
    return replace(project, env=replace(project.env, kafka=kafka, registries=registries))


def test_a_union_has_the_values_of_both_writers_once_and_is_built_again_without_the_registry(
    project, ids
):
    for day in DAYS:
        assert project.build(day)["verdict"] == "built"
    assert read_keys(project) == all_keys()
    met = [each["id"] for each in project.version(DAYS[1]).manifest.schemas["writers"]]
    assert met == sorted(ids)
    before = project.version(DAYS[1]).manifest.content_digest
    away = replace(project, env=replace(project.env, registries=AWAY))
    assert away.build(DAYS[1], rebuild="again")["verdict"] == "built"
    assert project.version(DAYS[1]).manifest.content_digest == before


def test_a_registry_that_is_away_stops_the_first_build_and_what_landed_stays(project):
    away = replace(project, env=replace(project.env, registries=AWAY))
    with pytest.raises(SourceUnreachableError, match="registry_default"):
        away.build()
    assert not project.folder.interval(DAYS[0]).exists()
    report = project.build()
    assert report["verdict"] == "built"
    assert read_keys(project, DAYS[0]) == all_keys([0])
