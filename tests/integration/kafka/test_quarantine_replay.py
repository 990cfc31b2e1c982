"""Records of a real broker that is gone: shown whole, previewed and replayed from landing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.pipeline.clicks import CODE, SPEC, Project
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.pipeline.quarantine_access import quarantine_of_version, read_raw
from trainfeed.pipeline.review import inspect_records, preview_quarantine
from trainfeed.versions import init_root

START_MS = int(datetime(2024, 3, 1, tzinfo=UTC).timestamp() * 1000)
DAY_MS = 86_400_000
LARGE = b"\x00\xff" * 450_000
KEYED = 'row = {"value": len(record.value), "copies": 1 + (record.key == b"twice")}'


@pytest.fixture
def project(broker, tmp_path):
    """A data set over a topic of the broker, with one day of records."""
    topic = broker.create(message_timestamp_type="CreateTime", max_message_bytes=2_000_000)
    good = [{"value": json.dumps({"value": n}).encode(), "key": b"good"} for n in range(50)]
    bad = [{"value": LARGE, "key": b"twice"}, {"value": b"\xff\xfe", "key": b"once"}]
    rows = [*good[:20], *bad, *good[20:]]
    stamped = [{**row, "timestamp": START_MS + 1000 * n} for n, row in enumerate(rows)]
    broker.produce(topic, [*stamped, {"value": b"{}", "timestamp": START_MS + DAY_MS + 1}])
    folder = tmp_path / "datasets" / "clicks"
    folder.mkdir(parents=True)
    (folder / "dataset.yaml").write_text(SPEC.replace("topic: clicks", f"topic: {topic}"))
    (folder / "preprocess.py").write_text(CODE)
    init_root(tmp_path / "root")
    client = {"bootstrap.servers": broker.servers}
    env = Environment(
        root=str(tmp_path / "root"),
        landing=str(tmp_path / "landing"),
        work=str(tmp_path / "work"),
        kafka={"kafka_default": KafkaSettings(client=client)},
        datasets=tmp_path / "datasets",
    )
    project = Project(tmp_path, env)
    project.build()
    broker.delete(topic)
    return project


def cut_off(project):
    """The same project behind a port where nothing answers."""
    gone = KafkaSettings(client={"bootstrap.servers": "127.0.0.1:9"})
    return Project(project.path, replace(project.env, kafka={"kafka_default": gone}))


def test_a_topic_that_was_deleted_is_replayed_from_landing(project):
    project.edit("row = record.json()", f"{KEYED} if record.key != b'good' else record.json()",
                 "preprocess.py")  # fmt: skip
    alone = cut_off(project)
    found = quarantine_of_version(alone.version())
    records = list(read_raw(alone.folder.root, found, "show", limit=10))
    shown = inspect_records(alone.env, None, found, records)
    assert [each.value for each in shown] == [LARGE, b"\xff\xfe"]
    assert [each.time_ms for each in shown] == [START_MS + 20_000, START_MS + 21_000]
    report = preview_quarantine(alone.spec, alone.env, found, limit=10)
    assert (report.valid, report.notes) == (2, [])
    built = alone.build(replay=True)
    assert (built["verdict"], built["source_reads"], built["quarantined"]) == ("built", 0, 0)
    assert built["samples"] == 53
    assert alone.build(replay=True)["verdict"] == "identical"
