"""Builds whose landing and work files HDFS refuses: message, outcome, and files that are left.

Every case ends with the same build after the fault is removed: nothing was lost.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import pytest
import requests

from services.hdfs import Hdfs
from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import project as project  # noqa: PLC0414 - a fixture
from trainfeed.errors import (
    AccessDeniedError,
    NotFoundError,
    Outcome,
    QuotaExceededError,
    StorageError,
)
from trainfeed.files.stores import Location
from trainfeed.files.stores import hdfs as _hdfs
from trainfeed.pipeline import Build
from trainfeed.pipeline import run_stage as _stage
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.run_stage import PATIENCE

PROTOCOLS = ["TEST_WEBHDFS_URI", "TEST_HDFS_URI"]


@dataclass(frozen=True)
class Ground:
    """A project whose landing and work are in a folder of HDFS."""

    project: Project
    folder: Location

    def web(self, operation: str, **parameters: str) -> None:
        """Ask the NameNode for what no file system of ours offers."""
        uri = urlsplit(os.environ["TEST_WEBHDFS_URI"])
        answer = requests.put(
            f"http://{uri.hostname}:{uri.port}/webhdfs/v1{self.folder.path}",
            params={"op": operation, "user.name": "hdfs", **parameters},
            timeout=10,
        )
        answer.raise_for_status()

    def refuse(self, kind: type[StorageError]) -> StorageError:
        """Build, be refused, and see that nothing is published."""
        with pytest.raises(kind) as caught:
            self.project.build()
        with pytest.raises(NotFoundError):
            self.project.version()
        return caught.value

    def build_after_all(self) -> None:
        assert self.project.build()["verdict"] == "built"
        assert list(self.project.version().problems()) == []


def at(project: Project, folder: str) -> Ground:
    env = replace(project.env, landing=f"{folder}/landing", work=f"{folder}/work")
    return Ground(Project(project.path, env), Location.parse(folder))


@pytest.fixture(autouse=True)
def superuser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    # What a stage is patient about is of no interest here.
    monkeypatch.setattr(_stage, "PATIENCE", replace(PATIENCE, calls=1))
    _hdfs._connect.cache_clear()
    yield
    _hdfs._connect.cache_clear()


@pytest.fixture
def ground(project: Project) -> Iterator[Ground]:
    made = at(project, f"{os.environ['TEST_WEBHDFS_URI']}/trainfeed-test/{uuid.uuid4()}")
    made.folder.make_dir()
    yield made
    made.folder.delete(recursive=True)


def test_a_landing_folder_of_somebody_else_is_told_with_both_accounts(
    ground: Ground,
) -> None:
    """HD-16."""
    ground.web("SETPERMISSION", permission="700")
    mallory = at(ground.project, ground.folder.uri.replace("//hdfs@", "//mallory@"))
    error = mallory.refuse(AccessDeniedError)
    assert error.outcome is Outcome.FAIL
    assert "mallory" in str(error)
    assert ground.folder.list() == []
    ground.build_after_all()


@pytest.mark.parametrize(
    "quota",
    [
        {"namespacequota": "-1", "storagespacequota": "1000"},
        {"namespacequota": "3", "storagespacequota": "-1"},
    ],
    ids=["space", "names"],
)
def test_a_full_quota_is_told_and_leaves_no_half_file(
    ground: Ground, quota: dict[str, str]
) -> None:
    """HD-14."""
    ground.web("SETQUOTA", **quota)
    error = ground.refuse(QuotaExceededError)
    assert error.outcome is Outcome.FAIL
    assert ground.folder.path in str(error)
    assert "free space or raise the quota" in str(error)
    assert [name for name in files(ground.folder) if name.endswith(".arrow")] == []
    ground.web("SETQUOTA", namespacequota="-1", storagespacequota="-1")
    ground.build_after_all()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_name_node_in_safe_mode_is_told_and_tried_again(
    own_cluster: Hdfs, project: Project, protocol: str
) -> None:
    """HD-06."""
    ground = at(project, f"{own_cluster.exports()[protocol]}/{uuid.uuid4()}")
    own_cluster.admin("-safemode", "enter")
    try:
        error = ground.refuse(StorageError)
    finally:
        own_cluster.admin("-safemode", "leave")
    assert error.outcome is Outcome.RETRY
    assert "safe mode" in str(error).lower()
    ground.build_after_all()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("node", ["namenode", "datanode"])
def test_a_node_that_is_started_again_while_a_stage_is_at_work_costs_no_try(
    own_cluster: Hdfs, project: Project, protocol: str, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A DataNode's first answer after a restart of the NameNode is "End of File", too."""
    ground = at(project, f"{own_cluster.exports()[protocol]}/{uuid.uuid4()}")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        own_cluster.start()
        own_cluster.wait()

    monkeypatch.setattr(_stage, "PATIENCE", replace(PATIENCE, pause=pause))
    ref = plan(project.spec, project.interval(), ground.project.env).ref
    own_cluster.kill(node)
    assert ingest(Build(project.spec, ground.project.env, ref), 0).verdict == "built"
    assert pauses
    ground.build_after_all()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_build_goes_on_after_hdfs_was_down(
    own_cluster: Hdfs, project: Project, protocol: str
) -> None:
    """HD-05."""
    ground = at(project, f"{own_cluster.exports()[protocol]}/{uuid.uuid4()}")
    own_cluster.kill("namenode")
    error = ground.refuse(StorageError)
    assert type(error) is StorageError
    assert error.outcome is Outcome.RETRY
    assert f"127.0.0.1:{urlsplit(ground.folder.uri).port}" in str(error)
    assert "retry when the file system answers again" in str(error)
    own_cluster.start()
    own_cluster.wait()
    ground.build_after_all()


def files(folder: Location) -> list[str]:
    """Paths of all files below a folder."""
    found = []
    for info in folder.list():
        inner = folder / info.name
        found += files(inner) if info.is_dir else [inner.path]
    return found
