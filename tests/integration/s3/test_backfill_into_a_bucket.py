"""Thirty days into a bucket with kills, and many processes that decide at once."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.s3.bucket_projects import BucketProject, make_bucket_project
from tests.unit.pipeline.clicks import batch, day
from tests.unit.pipeline.conftest import make_project
from trainfeed.files.stores import Location
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.local import build
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.history import actions
from trainfeed.versions.state_folder import follow
from trainfeed.versions.tag_files import current_tag
from trainfeed.versions.withdraw import withdrawals

MONTH = "2024-03-01/2024-03-30"
DAYS = [f"2024-03-{number:02d}" for number in range(1, 31)]
FIRST = DAYS[0]
# A build is killed at each.
POINTS = [
    "plan.after_save",
    "ingest.after_rename",
    "preprocess.after_range",
    "convert.after_shard",
    "publish.after_manifest",
    "bucket.after_file",
    "bucket.before_manifest",
    "decide.begun",
    "decide.acted",
    "log.before_entry",
    "log.after_entry",
    "bucket.announced",
    "bucket.after_manifest",
    "follow.before_version",
    "follow.after_files",
]


def record_month(project) -> None:
    project.record({0: [batch([each for n in range(31) for each in day(n, 6)])]})


@pytest.mark.timeout(1200)
def test_a_backfill_of_a_month_with_kills_has_the_digests_of_a_local_one(
    tmp_path: Path, folder: Location
) -> None:
    project = make_bucket_project(tmp_path / "project", folder / "root")
    local = make_project(tmp_path / "local")
    for each in (project, local):
        record_month(each)
    (fired := tmp_path / "fired").mkdir()
    # A command for each day: each of the first ones is killed at one of the points.
    words = ("build", "clicks", "--interval", MONTH)
    faults = ",".join(f"{point}:kill:{fired}" for point in POINTS)
    for _ in range(4):
        assert project.command(*words, fault=faults, status=None).returncode != 0
        if len(list(fired.iterdir())) == len(POINTS):
            break
    assert len(list(fired.iterdir())) == len(POINTS)
    project.command(*words)
    for name in DAYS:
        build(local.spec, local.interval(name), local.env, BuildRequest())
        there = BucketVersion.at(project.bucket, "clicks", name, 1)
        assert list(there.problems()) == []
        # What the gates compare with depends on the order of builds, and stands in the manifest.
        mine, theirs = there.read()[0], local.version(name).manifest
        assert (mine.content_digest, mine.splits) == (theirs.content_digest, theirs.splits)
    project.require_followed()
    assert project.log.newest().versions == [f"{name}/g0001" for name in DAYS]


@pytest.fixture
def project(tmp_path: Path, folder: Location) -> BucketProject:
    project = make_bucket_project(tmp_path / "project", folder / "root")
    project.build(FIRST)
    return project


def commands_at_once(
    project: BucketProject, commands: list[tuple[str, ...]]
) -> list[subprocess.CompletedProcess[str]]:
    """Run commands in processes of their own, each with a folder of its own."""
    others = [project.at(project.path / f"state-{number}") for number in range(len(commands))]
    with ThreadPoolExecutor(len(commands)) as pool:
        pairs = zip(others, commands, strict=True)
        return list(pool.map(lambda pair: pair[0].command(*pair[1], status=None), pairs))


def test_of_eight_processes_that_withdraw_one_does(project) -> None:
    words = ("withdraw", f"clicks/{FIRST}/g0001", "--why", "bad records", "--who")
    done = commands_at_once(project, [(*words, f"person {number}") for number in range(8)])
    assert sorted(each.returncode for each in done) == [0] + [1] * 7
    follow(project.folder)
    (mark,) = withdrawals(project.folder, FIRST)
    assert mark.who == f"person {[each.returncode for each in done].index(0)}"
    assert len(list(actions(project.folder))) == 1
    project.require_followed()


def test_of_eight_processes_each_gives_its_tag_and_one_the_same(project) -> None:
    """Four give a tag of their own; four give one tag, as one change after the other, or fail."""
    own = [("tag", "clicks", FIRST, f"own-{number}", "--why", "to see") for number in range(4)]
    same = [("tag", "clicks", FIRST, "same", "--why", f"person {number}") for number in range(4)]
    done = commands_at_once(project, [*own, *same])
    assert [each.returncode for each in done[:4]] == [0] * 4
    assert {each.returncode for each in done[4:]} <= {0, 1}
    follow(project.folder)
    assert all(current_tag(project.folder, f"own-{number}") for number in range(4))
    # The tag names the same version for all of them, so one change is enough.
    assert current_tag(project.folder, "same").number == 1
    project.require_followed()


def test_of_a_withdrawal_and_tags_at_once_nobody_is_left_in_the_dark(project) -> None:
    """A tag is refused, or the withdrawal says that it names the version."""
    tags = [("tag", "clicks", FIRST, f"tag-{number}", "--why", "to see") for number in range(7)]
    done = commands_at_once(
        project, [*tags, ("withdraw", f"clicks/{FIRST}", "--why", "bad records")]
    )
    assert done[-1].returncode == 0
    follow(project.folder)
    given = [n for n in range(7) if done[n].returncode == 0]
    written = [n for n in range(7) if (project.folder.tags / f"tag-{n}").exists()]
    assert set(given) <= set(written)
    assert all(f"tag-{number}" in done[-1].stdout + done[-1].stderr for number in given)
    project.require_followed()
