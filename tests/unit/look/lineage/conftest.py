"""A chain that was built, trained and promoted once; every test gets a copy of it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import make_project
from tests.unit.training.promotion.test_promotion import judge, lift, make
from trainfeed.core.config import KafkaSettings


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A version, the job that read it, its model with two aliases; and the name of the job."""
    project = make_project(tmp_path_factory.mktemp("chain"))
    job = make(project)
    lift(project, judge(project, job)["version"])
    return project, job["job"]


@pytest.fixture
def project(original, tmp_path):
    path = tmp_path / "copy"
    shutil.copytree(original[0].path, path)
    places = {name: str(path / name) for name in ("root", "landing", "work")}
    kafka = {"kafka_default": KafkaSettings(recorded=str(path / "recorded"))}
    return Project(
        path, replace(original[0].env, **places, kafka=kafka, datasets=Path(path / "datasets"))
    )


@pytest.fixture
def job(original):
    return original[1]


@pytest.fixture
def chain(project, job):
    """The copy with a second generation of the version, and the id of the job."""
    project.edit('row["value"] < 0', 'row["value"] < 1', "preprocess.py")
    project.prebuilt(rebuild="no zeros")
    return project, f"job {job}"
