"""Simulated nights with landing files on a real HDFS and the root on a real CephFS."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.retention.nights import Nights
from tests.retention.two_sets import Rules
from tests.retention.year import placed
from tests.unit.pipeline.clicks import Project
from trainfeed.files.stores import Location


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    assert os.environ["TEST_HDFS_URI"]
    assert os.environ["TEST_CEPHFS_PATH"]
    project = placed(tmp_path, f"nights-{uuid.uuid4().hex[:8]}")
    yield project
    Location.parse(project.env.landing).delete(recursive=True)
    shutil.rmtree(project.env.root)


def test_some_nights_on_the_services_agree_with_the_model(project: Project) -> None:
    nights = Nights(project, 2, Rules(landing=2, views_landing=3), with_training=False)
    nights.prepare(5)
    seen = list(nights.play(5))
    assert seen[-1].landing < seen[-1].landing_ever
    assert seen[-1].removed > 0
