"""Builds publish in a bucket what they publish in a folder: absent or whole, by exactly one."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tests.integration.s3.bucket_projects import (
    DAY,
    NEXT_DAY,
    BucketProject,
    is_whole,
    make_bucket_project,
    observer,
)
from tests.integration.s3.killed_client import KilledHereError, Requests
from tests.unit.fault_points import points_in
from tests.unit.pipeline.conftest import make_project
from trainfeed.errors import ConfigError, ConflictError
from trainfeed.files.stores import Location
from trainfeed.files.stores import s3 as _s3
from trainfeed.loader import DataLoader
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish
from trainfeed.readers import open_dataset
from trainfeed.training.launch import train
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.lease import leases

TRAIN = """
def main(job):
    return {"samples": len([s for split in ("train", "eval") for s in job.open(split).reader()()])}
"""


@pytest.fixture
def project(tmp_path, folder: Location) -> BucketProject:
    return make_bucket_project(tmp_path / "project", folder / "root")


@pytest.fixture
def local(tmp_path):
    return make_project(tmp_path / "local")


def version_of(project: BucketProject, generation: int = 1) -> BucketVersion:
    return BucketVersion.at(project.bucket, "clicks", DAY, generation)


def require_equal(project: BucketProject, local) -> None:
    """The version in the bucket, and what the folder has of it, are those of the local build."""
    assert is_whole(version_of(project))
    assert version_of(project).read()[1] == local.version().manifest_sha256
    assert project.version().manifest == local.version().manifest
    project.version().verify()
    project.require_followed()


# --- one build


def test_a_build_into_a_bucket_has_the_bytes_of_a_local_one(project, local) -> None:
    for each in (local, project):
        assert each.build()["verdict"] == "built"
    require_equal(project, local)
    kept = {path.name for path in project.folder.version(DAY, 1).rglob("*") if path.is_file()}
    shards = {path.name for path in local.version().shard_paths("train")}
    assert not kept & shards
    assert project.build()["verdict"] == "identical"
    assert project.build(rebuild="to see")["generation"] == "g0002"
    assert project.folder.readable_generation(DAY) == 2


def test_the_staged_files_do_not_stay(project) -> None:
    project.build()
    left = [path for path in project.folder.staging.rglob("*") if path.is_file()]
    assert left == []


def test_another_folder_that_follows_builds_on(project, local) -> None:
    """A machine without the plans of the first finds the same generation published."""
    project.build()
    other = project.at(project.path / "other-state")
    assert other.build()["verdict"] == "identical"
    assert other.build(NEXT_DAY)["verdict"] == "built"
    local.build()
    require_equal(project, local)


# --- kills

POINTS = [
    "publish.after_manifest",
    "publish.after_verify",
    "bucket.after_file",
    "bucket.before_manifest",
    "bucket.announced",
    "bucket.after_manifest",
    "follow.before_version",
]


def test_every_point_is_killed_at() -> None:
    assert points_in("versions/bucket_versions.py") <= {*POINTS}


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_build_is_absent_or_whole_and_a_retry_ends_it(project, local, point) -> None:
    words = ("build", "clicks", "--interval", DAY)
    with observer(version_of(project)) as seen:
        killed = project.command(*words, fault=f"{point}:kill", status=None)
        assert killed.returncode == -signal.SIGKILL
        is_there = is_whole(version_of(project))
        assert is_there is (point in {"bucket.after_manifest", "follow.before_version"})
        verdict = project.told(*words)["verdict"]
    assert verdict == ("identical" if is_there else "built")
    assert seen[0] is False
    local.build()
    require_equal(project, local)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_kill_at_any_request_of_publish_leaves_a_version_absent_or_whole(
    project, local, monkeypatch, is_done: bool
) -> None:
    """One call after the other goes on where the last one ended, each a request further."""
    build = until_publish(project)
    number, seen, places = 0, [], list[str]()
    while True:
        client = Requests(number, is_done=is_done)
        with monkeypatch.context() as patched:
            patched.setattr(_s3, "_package", lambda client=client: client)
            try:
                publish(build)
                break
            except KilledHereError:
                places.append(client.made[-1])
        number += 1
        seen.append(is_whole(version_of(project)))
    assert seen == sorted(seen)
    assert {"get", "head", "list_with_delimiter", "put"} <= set(places)
    assert 10 < seen.count(False) < number
    local.build()
    require_equal(project, local)


def until_publish(project: BucketProject) -> Build:
    """Run all stages before ``publish``."""
    planned = plan(project.spec, project.interval(), project.env)
    build = Build(project.spec, project.env, planned.ref)
    for name, stage in (("ingest", ingest), ("preprocess", preprocess), ("convert", convert)):
        for unit in range(planned.tasks[name]):
            stage(build, unit)
    check(build)
    return build


# --- many builders


def at_once(calls: list[Callable[[], str]]) -> list[str]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: call(), calls))


def test_of_many_builders_of_one_interval_one_publishes_it(project, local) -> None:
    """Two that share a folder, and four with folders of their own."""
    others = [
        replace(each, env=replace(each.env, work=f"{each.env.root}-work"))
        for each in (project.at(project.path / f"state-{number}") for number in range(4))
    ]
    words = ("build", "clicks", "--interval", DAY)
    with observer(version_of(project)):
        said = at_once(
            [lambda each=each: each.told(*words)["verdict"] for each in (project, project, *others)]
        )
    assert said.count("built") >= 1
    assert set(said) <= {"built", "published", "identical"}
    local.build()
    require_equal(project, local)
    assert project.log.newest().versions == [f"{DAY}/g0001"]


def test_builders_of_two_contents_do_not_mix(project, tmp_path) -> None:
    """Two machines whose specifications differ plan the same generation; one of them has it."""
    other = make_project(tmp_path / "second")
    other.edit("seed: 7", "seed: 8")
    follows = project.at(project.path / "other-state").env
    env = replace(other.env, root=follows.root, bucket=follows.bucket)
    elsewhere = BucketProject(other.path, env, project.bucket)
    builds = [until_publish(project), until_publish(elsewhere)]

    def go(build: Build) -> str:
        try:
            return publish(build).verdict
        except ConflictError:
            return "conflict"

    with observer(version_of(project)):
        said = at_once([lambda build=build: go(build) for build in builds])
    assert sorted(said) == ["built", "conflict"]
    assert is_whole(version_of(project))


# --- what readers and trainings get


def samples(dataset) -> list[dict[str, np.ndarray]]:
    return list(dataset.reader()())


def test_readers_and_trainings_read_it_from_the_bucket(project, local, monkeypatch) -> None:
    for each in (project, local):
        (each.env.datasets / "clicks" / "train.py").write_text(TRAIN)
        each.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:main"}')
        each.build()
    monkeypatch.setenv("TRAINFEED_ROOT", project.bucket.uri)
    monkeypatch.setenv("TRAINFEED_CACHE", str(project.path / "cache"))
    expected = samples(open_dataset("clicks", interval=DAY, split="train", root=local.env.root))
    # A command makes a private copy in the cache, before the cache has a chunk.
    private = replace(project, env=replace(project.env, is_root_private=True))
    assert private.told("ls", "clicks")
    # Without a folder that follows, and with one.
    assert samples(open_dataset("clicks", interval=DAY, split="train")) == expected
    monkeypatch.setenv("TRAINFEED_STATE", project.env.root)
    with open_dataset("clicks", interval=DAY, split="train", lease=True) as dataset:
        assert samples(dataset) == expected
        assert len(leases(project.folder)) == 1
        with DataLoader(dataset, 8, num_workers=2) as loader:
            assert sum(len(batch["value"]) for batch in loader) == len(expected)
    report = train(project.spec, project.env, project.interval())
    assert report["metrics"] == train(local.spec, local.env, local.interval())["metrics"]
    opened = open_dataset(job=report["job"], split="train")
    assert samples(opened) == expected


def test_what_reads_shards_of_a_folder_says_where_they_are(project) -> None:
    project.build()
    with pytest.raises(ConfigError, match="they are in s3://"):
        project.version().shard_paths("train")
