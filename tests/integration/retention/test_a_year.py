"""Simulated nights with landing files on a real HDFS and the root on a real CephFS."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.retention.__main__ import placed
from tests.retention.measured import require_bounded
from tests.retention.nights import Nights
from tests.retention.two_sets import Rules
from tests.unit.pipeline.clicks import Project
from trainfeed.storage import Location

_ALL = {
    "builds that stopped",
    "leases",
    "readers that were killed",
    "rebuilds",
    "tags",
    "trainings",
    "trainings that failed",
    "waivers",
    "withdrawals",
    "withdrawals of what is in use",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    assert os.environ["TEST_HDFS_URI"]
    assert os.environ["TEST_CEPHFS_PATH"]
    project = placed(tmp_path)
    yield project
    Location.parse(project.env.landing).delete(recursive=True)
    shutil.rmtree(project.env.root)


@pytest.mark.nightly
def test_a_year_of_nights_stays_bounded_and_removes_nothing_in_use(project: Project) -> None:
    nights = Nights(project, seed=1)
    nights.prepare(366)
    seen = list(nights.play(366, every=6))
    require_bounded(seen, nights.rules)
    assert seen[-1].landing_ever > 300 * seen[0].landing
    assert seen[-1].versions_ever > 300 * seen[0].versions // 2
    assert {what for what, number in nights.people.counts.items() if number} >= _ALL


def test_some_nights_on_the_services_agree_with_the_model(project: Project) -> None:
    nights = Nights(project, 2, Rules(landing=2, views_landing=3), with_training=False)
    nights.prepare(5)
    seen = list(nights.play(5))
    assert seen[-1].landing < seen[-1].landing_ever
    assert seen[-1].removed > 0
