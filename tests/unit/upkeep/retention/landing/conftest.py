"""Two published days with landing files, built once and copied for each test."""

import shutil
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import make_project
from tests.unit.upkeep.retention.landing.landings import DAY, NEXT, NOW, published
from trainfeed.core.config import KafkaSettings


@pytest.fixture(scope="package")
def template(tmp_path_factory):
    """Two published days whose landing files are kept for thirty days."""
    project = make_project(tmp_path_factory.mktemp("template"))
    project.edit("seed: 7", "seed: 7\nretention: {landing: {keep_days: 30}}")
    for number, name in enumerate((DAY, NEXT)):
        project.prebuilt(name)
        published(project, name, NOW - timedelta(days=40 - 20 * number))
    return project


@pytest.fixture
def built(template, tmp_path):
    """A copy of them: a build of its own for each test would take most of its time."""
    path = tmp_path / "copy"
    shutil.copytree(template.path, path)
    env = replace(
        template.env,
        root=str(path / "root"),
        landing=str(path / "landing"),
        work=str(path / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(path / "recorded"))},
        datasets=path / "datasets",
    )
    return Project(path, env)
