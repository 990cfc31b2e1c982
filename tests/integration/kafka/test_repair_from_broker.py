"""A shard on CephFS is damaged and its landing files are lost: the real broker has the records."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import CODE, SPEC, Project
from tests.unit.upkeep.repair.conftest import DAY, contents, flip, outcomes, repaired, shards
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.versions import init_root

START_MS = int(datetime(2024, 3, 1, tzinfo=UTC).timestamp() * 1000)
DAY_MS = 86_400_000


@pytest.fixture
def root():
    """A publication root on the real CephFS."""
    path = Path(os.environ["TEST_CEPHFS_PATH"]) / f"repair-{uuid.uuid4().hex}"
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def topic(broker):
    return broker.create(message_timestamp_type="CreateTime")


@pytest.fixture
def project(broker, topic, root, tmp_path):
    """A data set over a topic of the broker, with one published day."""
    rows = [
        {"value": json.dumps({"value": n}).encode(), "timestamp": START_MS + 1000 * n}
        for n in range(200)
    ]
    broker.produce(topic, [*rows, {"value": b"{}", "timestamp": START_MS + DAY_MS + 1}])
    folder = tmp_path / "datasets" / "clicks"
    folder.mkdir(parents=True)
    (folder / "dataset.yaml").write_text(SPEC.replace("topic: clicks", f"topic: {topic}"))
    (folder / "preprocess.py").write_text(CODE)
    init_root(root)
    env = Environment(
        root=str(root),
        landing=str(tmp_path / "landing"),
        work=str(tmp_path / "work"),
        kafka={"kafka_default": KafkaSettings(client={"bootstrap.servers": broker.servers})},
        datasets=tmp_path / "datasets",
    )
    project = Project(tmp_path, env)
    project.build()
    return project


def test_lost_landing_comes_from_the_broker_and_the_shard_has_its_bytes_again(project):
    before = contents(project)
    name = shards(project)[0]
    flip(project.folder.version(DAY, 1) / name)
    shutil.rmtree(project.path / "landing")
    report = repaired(project)
    assert outcomes(report) == {name: ("changed", "repaired")}
    assert (report.effort.records, report.effort.source_reads) == (200, 200)
    assert contents(project) == before
    project.version().verify()


def test_without_landing_and_topic_the_damaged_version_stays_as_it_is(project, broker, topic):
    flip(project.folder.version(DAY, 1) / shards(project)[0])
    damaged = contents(project)
    shutil.rmtree(project.path / "landing")
    broker.delete(topic)
    report = repaired(project)
    assert not report.is_whole
    assert contents(project) == damaged
