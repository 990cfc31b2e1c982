"""The small data set that every stage test starts from."""

import pytest

from tests.unit.pipeline.clicks import CODE, SPEC, Project, batch, day
from tests.unit.pipeline.inputs.avro_clicks import fake_registry
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.pipeline.workers import pool as _engine
from trainfeed.versions import init_root


@pytest.fixture
def no_worker():
    """No worker process, neither when a test begins nor when it has ended."""
    _engine.stop_workers()
    yield
    _engine.stop_workers()


@pytest.fixture
def registry(monkeypatch):
    return fake_registry(monkeypatch)


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path)


def environment_of(tmp_path):
    """Where a project below a folder has its data sets, its topic, and what it builds."""
    return Environment(
        root=str(tmp_path / "root"),
        landing=str(tmp_path / "landing"),
        work=str(tmp_path / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(tmp_path / "recorded"))},
        datasets=tmp_path / "datasets",
    )


def make_project(tmp_path):
    """Make the data set, its topic and a root below a folder."""
    datasets = tmp_path / "datasets"
    (datasets / "clicks").mkdir(parents=True)
    (datasets / "clicks" / "dataset.yaml").write_text(SPEC)
    (datasets / "clicks" / "preprocess.py").write_text(CODE)
    init_root(tmp_path / "root")
    project = Project(tmp_path, environment_of(tmp_path))
    project.record({p: [batch(day(0, 60 + p) + day(1, 40 + p) + day(2, 30))] for p in range(3)})
    return project
