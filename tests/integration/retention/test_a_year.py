"""Simulated nights with landing files on a real HDFS and the root on a real CephFS."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.retention.__main__ import placed
from tests.retention.nights import LANDING_DAYS, Nights
from tests.unit.pipeline.clicks import Project
from trainfeed.storage import Location


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
    seen = [nights.run(number) for number in range(366)]
    a_night = seen[0].landing
    for night in seen:
        assert night.landing <= (2 * LANDING_DAYS) * a_night
    assert seen[-1].landing_ever > 300 * a_night
    assert nights.counts.keys() >= {"rebuilds", "tags", "leases", "trainings", "withdrawals"}


def test_some_nights_on_the_services_agree_with_the_model(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.retention.nights.LANDING_DAYS", 2)
    monkeypatch.setattr("tests.retention.nights.RULES", "retention: {landing: {keep_days: 2}}")
    nights = Nights(project, seed=2, with_training=False)
    nights.prepare(5)
    seen = [nights.run(number) for number in range(5)]
    assert seen[-1].landing < seen[-1].landing_ever
    assert seen[-1].removed > 0
