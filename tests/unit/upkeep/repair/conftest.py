"""A published version, its bytes, and ways to damage it."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import make_project
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.upkeep.repair import RepairWish, repair

DAY = "2024-03-01"


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A folder with the data set and one version of four shards; tests copy it."""
    path = tmp_path_factory.mktemp("built")
    make_project(path).build()
    return path


@pytest.fixture
def published(built, tmp_path):
    """The data set with one version of four shards."""
    path = tmp_path / "published"
    shutil.copytree(built, path)
    places = {name: str(path / name) for name in ("root", "landing", "work")}
    kafka = {"kafka_default": KafkaSettings(recorded=str(path / "recorded"))}
    return Project(path, Environment(**places, kafka=kafka, datasets=path / "datasets"))


def contents(project, generation=1):
    """Path → bytes and permissions of every file of a version."""
    path = project.folder.version(DAY, generation)
    return {
        each.relative_to(path).as_posix(): (each.read_bytes(), each.stat().st_mode & 0o777)
        for each in path.rglob("*")
        if each.is_file()
    }


def shards(project):
    splits = project.version().manifest.splits.values()
    return [shard.name for split in splits for shard in split.shards]


def flip(path, at=0.5):
    """Flip one bit of a file, at a share of its length."""
    data = bytearray(path.read_bytes())
    data[min(len(data) - 1, int(len(data) * at))] ^= 1
    mode = path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(mode)


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def lengthen(path):
    mode = path.stat().st_mode
    path.chmod(0o600)
    with path.open("ab") as file:
        file.write(b"more")
    path.chmod(mode)


def replace_by_link(path):
    path.unlink()
    path.symlink_to("/etc/hostname")


def replace_by_folder(path):
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("x")


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


def repaired(project, generation=None, **wish):
    return repair(project.spec, project.env, DAY, generation, RepairWish(**wish))


def outcomes(report):
    return {each.finding.name: (str(each.finding.kind), each.outcome) for each in report.files}
