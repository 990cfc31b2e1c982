"""A data set whose root is in a bucket, with the folder that follows it, and commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import make_project
from tests.unit.processes import LIMIT_S
from trainfeed.core import faults
from trainfeed.errors import NotFoundError
from trainfeed.files.stores import Location
from trainfeed.versions import Version, bucket_root
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.bucket_root import (
    BUCKET,
    FOLLOWED,
    FollowedBucket,
    init_bucket_root,
    require_bucket_root,
)
from trainfeed.versions.bucket_versions import publish_folder
from trainfeed.versions.decision_files import decision_files, read_decision
from trainfeed.versions.decision_log import DecisionLog, LogState
from trainfeed.versions.layout import MANIFEST, DatasetFolder
from trainfeed.versions.root import data_sets_of
from trainfeed.versions.state_folder import make_state, publish_staged

DAY = "2024-03-01"
NEXT_DAY = "2024-03-02"


def make_bucket_root(place: Location) -> None:
    """Make a root in a bucket; its probe is a test of its own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bucket_root, "probe_bucket", lambda _: None)
        init_bucket_root(place)


@dataclass(frozen=True)
class BucketProject(Project):
    """A project that publishes in a bucket."""

    bucket: Location

    @property
    def log(self) -> DecisionLog:
        return DecisionLog(self.bucket / "clicks")

    def at(self, state: Path, *, is_private: bool = False) -> BucketProject:
        """The same root, followed by another folder."""
        make_state(state, self.bucket, is_private=is_private)
        return replace(self, env=replace(self.env, root=str(state), is_root_private=is_private))

    def require_followed(self) -> None:
        """Every decision in the folder is in the log, and the other way round."""
        mine = {path: read_decision(self.folder, path) for path in decision_files(self.folder)}
        assert mine == self.log.newest().files

    def command(
        self, *words: str, fault: str = "", status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with the root in the bucket."""
        environ = {
            **os.environ,
            "TRAINFEED_ROOT": self.bucket.uri,
            "TRAINFEED_LANDING": self.env.landing,
            "TRAINFEED_WORK": self.env.work,
            "TRAINFEED_KAFKA": f"recorded:{self.env.kafka['kafka_default'].recorded}",
            "TRAINFEED_DATASETS": str(self.env.datasets),
            "TRAINFEED_CACHE": str(self.path / "cache"),
            faults.VARIABLE: fault,
        }
        if not self.env.is_root_private:
            environ["TRAINFEED_STATE"] = self.env.root
        done = subprocess.run(
            [sys.executable, "-m", "trainfeed", *words],
            env=environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if status is not None:
            assert done.returncode == status, done.stdout + done.stderr
        for secret in ("TEST_S3_SECRET_KEY", "TEST_S3_ACCESS_KEY"):
            assert os.environ[secret] not in done.stdout + done.stderr
        return done

    def told(self, *words: str) -> Any:
        """Run a command with ``--json``, and return what it prints."""
        return json.loads(self.command(*words, "--json").stdout)


def make_bucket_project(path: Path, bucket: Location) -> BucketProject:
    """Make the data set, its topic, a root in a bucket and a folder that follows it."""
    project = make_project(path)
    make_bucket_root(bucket)
    make_state(path / "state", bucket, is_private=False)
    env = replace(project.env, root=str(path / "state"), bucket=bucket.uri)
    return BucketProject(project.path, env, bucket)


def move_into_bucket(root: Path, bucket: Location) -> None:
    """Make a root of a file system a folder that follows a bucket, which has all that it had."""
    make_bucket_root(bucket)
    mark = require_bucket_root(bucket)
    FOLLOWED.write_once(root / BUCKET, FollowedBucket(bucket.uri, mark.id, is_private=False))
    for name in data_sets_of(root):
        folder, versions = DatasetFolder(root, name), list[str]()
        for manifest in sorted(folder.path.glob(f"versions/*/g*/{MANIFEST}")):
            home = manifest.parent
            there = BucketVersion(bucket / name / home.relative_to(folder.path).as_posix())
            publish_folder(there, home, lambda: None)
            versions.append(f"{home.parent.name}/{home.name}")
            for split in Version.open(home).manifest.splits.values():
                for shard in split.shards:
                    (home / shard.name).unlink()
        for pointer in folder.path.glob("versions/*/CURRENT"):
            pointer.unlink()
        found = {path: read_decision(folder, path) for path in decision_files(folder)}
        DecisionLog(bucket / name).append(LogState(name), found, "test", versions)


def publish_version(root: Location, source: Path, state: str = "state") -> str:
    """Publish a version of a folder in a bucket, as builds do; return what came of it.

    Args:
        root: The root in the bucket.
        source: The version.
        state: Name of the private folder that follows the bucket, beside the root of the version.
    """
    place = source.parents[3].with_name(state)
    make_state(place, root, is_private=True)
    folder = DatasetFolder(place, source.parents[2].name)
    name = f"{source.parent.name}/{source.name}"
    return publish_staged(folder, source, name, lambda: None)


def is_whole(version: BucketVersion) -> bool:
    """Whether the version is there; it must be whole then."""
    try:
        assert list(version.problems()) == []
    except NotFoundError:
        return False
    return True


@contextmanager
def observer(version: BucketVersion) -> Iterator[list[bool]]:
    """Look at a version all the time: it is absent or whole, and does not disappear."""
    seen: list[bool] = []
    ended, problems = threading.Event(), list[BaseException]()

    def look() -> None:
        while not ended.is_set():
            try:
                seen.append(is_whole(version))
            except BaseException as error:  # noqa: BLE001 - told by the test
                problems.append(error)
                return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
    assert problems == []
    assert seen == sorted(seen)
