"""Mirrors from and to a bucket: equal versions and decisions, whole at every kill, for anybody.

Each way is killed at its points again and again, while a third party, which has the address and
keys alone, lists and verifies what it finds.
"""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.integration.s3.bucket_projects import make_bucket_root
from tests.support import warm
from tests.unit.pipeline.clicks import batch, day
from tests.unit.pipeline.conftest import make_project
from tests.unit.pipeline.test_kill import variables
from trainfeed import open_dataset
from trainfeed.core import faults
from trainfeed.core.config import RootPlace
from trainfeed.files.stores import Location
from trainfeed.upkeep import mirror as mirror_module
from trainfeed.upkeep.mirror import MirrorEnd, mirror
from trainfeed.versions import DatasetFolder, Version, init_root
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.bucket_sweep import sweep_bucket
from trainfeed.versions.decision_files import decision_files, read_decision
from trainfeed.versions.decision_log import DecisionLog
from trainfeed.versions.layout import generation_name
from trainfeed.versions.state_folder import make_state

DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]
KEYS = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
INTO_A_BUCKET = (
    "bucket.after_file",
    "bucket.before_manifest",
    "bucket.announced",
    "bucket.after_manifest",
    "log.before_entry",
    "log.after_entry",
    "follow.before_version",
    "decide.acted",
    "mirror.after_decision",
)
INTO_A_FOLDER = ("mirror.after_file", "mirror.before_commit", "mirror.after_commit")
# Kills of each way; the nightly run has a hundred.
KILLS = int(os.environ.get("TEST_MIRROR_KILLS", "12"))

pytestmark = pytest.mark.timeout(300 + 30 * KILLS)


@dataclass
class Ways:
    """A folder with versions and decisions, and a bucket beside it."""

    project: object
    bucket: Location

    @property
    def folder(self):
        return self.project.folder

    def command(self, *words, fault=None):
        environ = variables(self.project, fault)
        environ |= {name: os.environ[name] for name in KEYS}
        environ["TRAINFEED_CACHE"] = str(self.project.path / "cache")
        return warm.command(*words, env=environ)

    def mirror(self, source, target, fault=None):
        return self.command("mirror", source, target, fault=fault)

    def finish(self, source, target):
        done = self.mirror(source, target)
        assert done.returncode == 0, done.stderr

    def decide(self, *words):
        done = self.command(*words, "--why", "a test of mirrors")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def ways(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("TRAINFEED_CACHE", str(tmp_path / "cache-of-the-test"))
    project = make_project(tmp_path)
    events = [event for number in range(3) for event in day(number, 40)]
    project.record({0: [batch(events + day(3, 10))]})
    for name in DAYS:
        project.prebuilt(name)
    made = Ways(project, folder / "mirror")
    make_bucket_root(made.bucket)
    made.decide("tag", f"clicks/{DAYS[0]}", "prod")
    made.decide("tag", f"clicks/{DAYS[0]}/{DAYS[2]}", "march")
    made.decide("withdraw", f"clicks/{DAYS[1]}")
    return made


def decisions(folder):
    return {path: read_decision(folder, path) for path in decision_files(folder)}


def require_equal_bucket(ways, bucket):
    """The bucket has what the folder has, seen by its objects and its log alone."""
    state = DecisionLog(bucket / "clicks").newest()
    assert state.files == decisions(ways.folder)
    names = {
        f"{interval}/{generation_name(each)}": (interval, each)
        for interval in ways.folder.intervals()
        for each in ways.folder.generations(interval)
    }
    assert sorted(state.versions) == sorted(names)
    for interval, generation in names.values():
        version = BucketVersion.at(bucket, "clicks", interval, generation)
        assert list(version.problems()) == []
        mine = Version.resolve(ways.folder, interval, generation)
        assert version.read()[1] == mine.manifest_sha256


class ThirdParty:
    """Lists a bucket all the time, and verifies each version whose manifest it sees."""

    def __init__(self, bucket):
        self._bucket = bucket
        self.seen = {}
        self.wrong = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._is_over.set()
        self._thread.join()

    def _watch(self):
        while not self._is_over.wait(0.05):
            for interval, number in itertools.product(DAYS, (1, 2)):
                version = BucketVersion.at(self._bucket, "clicks", interval, number)
                name = f"{interval}/{number}"
                if not (version.folder / "MANIFEST.json").exists():
                    if name in self.seen:
                        self.wrong.append(f"{name} is gone")
                    continue
                _, sha256 = version.read()
                if self.seen.setdefault(name, sha256) != sha256:
                    self.wrong.append(f"{name} has changed")
                self.wrong += map(str, version.problems())


def killed(ways, source, target, points):
    """Kill mirrors at the points in turn; return how many kills there were."""
    kills, points = 0, itertools.cycle(points)
    for _ in range(3 * KILLS):
        if kills == KILLS:
            break
        kills += ways.mirror(source, target, next(points)).returncode == -9
    return kills


def test_a_folder_is_mirrored_into_a_bucket_under_kills(ways):
    root = ways.project.env.root
    with ThirdParty(ways.bucket) as party:
        kills = killed(ways, root, ways.bucket.uri, INTO_A_BUCKET)
        ways.finish(root, ways.bucket.uri)
        ways.decide("restore", f"clicks/{DAYS[1]}/g0001")
        ways.decide("untag", "clicks", "prod")
        kills += killed(ways, root, ways.bucket.uri, INTO_A_BUCKET)
        ways.finish(root, ways.bucket.uri)
    assert kills >= len(INTO_A_BUCKET)
    assert party.wrong == []
    assert len(party.seen) == len(DAYS)
    require_equal_bucket(ways, ways.bucket)
    asked = f"{DAYS[0]}/{DAYS[2]}"
    near, far = (
        open_dataset("clicks", interval=asked, split="train", root=place)
        for place in (root, ways.bucket.uri)
    )
    assert [(s["value"], s["label"]) for s in far.reader()()] == [
        (s["value"], s["label"]) for s in near.reader()()
    ]


def test_a_bucket_is_mirrored_into_a_folder_and_into_another_bucket(ways, folder, tmp_path):
    ways.finish(ways.project.env.root, ways.bucket.uri)
    copy, other = tmp_path / "copy", folder / "other"
    init_root(copy)
    make_bucket_root(other)
    assert killed(ways, ways.bucket.uri, str(copy), INTO_A_FOLDER) >= len(INTO_A_FOLDER)
    ways.finish(ways.bucket.uri, str(copy))
    mirrored = DatasetFolder(copy, "clicks")
    assert decisions(mirrored) == decisions(ways.folder)
    for interval in ways.folder.intervals():
        assert mirrored.generations(interval) == ways.folder.generations(interval)
        for generation in mirrored.generations(interval):
            mine, theirs = (
                Version.resolve(each, interval, generation) for each in (mirrored, ways.folder)
            )
            assert list(mine.problems()) == []
            assert mine.manifest_sha256 == theirs.manifest_sha256

    assert killed(ways, ways.bucket.uri, other.uri, INTO_A_BUCKET[:4] + INTO_A_FOLDER[:1]) > 0
    ways.finish(ways.bucket.uri, other.uri)
    require_equal_bucket(ways, other)


def test_a_conflict_in_a_bucket_is_refused_and_nothing_of_it_changes(ways, folder):
    ways.finish(ways.project.env.root, ways.bucket.uri)
    second = ways.project.elsewhere("second")
    second.build(DAYS[0])
    before = DecisionLog(ways.bucket / "clicks").newest()
    done = ways.mirror(second.env.root, ways.bucket.uri)
    assert done.returncode == 1
    assert "ConflictError" in done.stderr
    assert DecisionLog(ways.bucket / "clicks").newest() == before
    for name in ("TEST_S3_SECRET_KEY", "TEST_S3_ACCESS_KEY"):
        assert os.environ[name] not in done.stderr + done.stdout


def copied(ways, monkeypatch, act, at="bucket.before_manifest"):
    """Mirror in this process, and act at the first such point; return what was copied."""

    def before_manifest(point):
        if point == at:
            monkeypatch.setattr(faults, "point", lambda _: None)
            act()

    monkeypatch.setattr(faults, "point", before_manifest)
    private = str(ways.project.path / "private")
    places = (RootPlace(ways.project.env.root), RootPlace(private, ways.bucket.uri, True))
    (report,) = mirror(*(MirrorEnd.open(each, "a root") for each in places))
    return report.copied


def test_what_is_withdrawn_while_it_is_copied_does_not_appear(ways, monkeypatch):
    for tag in ("prod", "march"):
        ways.decide("untag", "clicks", tag)
    done = copied(ways, monkeypatch, lambda: ways.decide("withdraw", f"clicks/{DAYS[0]}"))
    assert done == [f"{DAYS[2]}/g0001"]
    require_equal_bucket(ways, ways.bucket)
    version = BucketVersion.at(ways.bucket, "clicks", DAYS[0], 1)
    assert not (version.folder / "MANIFEST.json").exists()


def test_a_sweep_leaves_what_was_sent_of_a_version_to_the_next_call(ways, monkeypatch, tmp_path):
    """However long ago that was: files that are there are not sent again."""
    other = DatasetFolder(tmp_path / "other", "clicks")
    make_state(other.root, ways.bucket, is_private=True)
    later = datetime.now(UTC) + timedelta(hours=1)

    def end():
        assert list(sweep_bucket(other, later)) == []
        raise EndedError

    with pytest.raises(EndedError):
        copied(ways, monkeypatch, end)
    version = BucketVersion.at(ways.bucket, "clicks", DAYS[0], 1)
    assert version.folder.exists()
    ways.finish(ways.project.env.root, ways.bucket.uri)
    require_equal_bucket(ways, ways.bucket)
    assert list(version.problems()) == []


def test_what_is_withdrawn_behind_its_announcement_is_hidden_at_once(ways, monkeypatch):
    """Its manifest is there, so it is counted; the mirror ends with the decision of the source."""
    for tag in ("prod", "march"):
        ways.decide("untag", "clicks", tag)
    shown = []
    decisions_of = mirror_module._Mirroring._copy_decisions

    def look(self, *, with_tags):
        if with_tags:
            shown.append(DecisionLog(ways.bucket / "clicks").newest().files)
        decisions_of(self, with_tags=with_tags)

    monkeypatch.setattr(mirror_module._Mirroring, "_copy_decisions", look)
    act = partial(ways.decide, "withdraw", f"clicks/{DAYS[0]}")
    done = copied(ways, monkeypatch, act, at="bucket.announced")
    assert done == [f"{DAYS[0]}/g0001", f"{DAYS[2]}/g0001"]
    assert f"versions/{DAYS[0]}/g0001.withdrawn" in shown[0]
    assert DecisionLog(ways.bucket / "clicks").newest().files == decisions(ways.folder)


class EndedError(Exception):
    pass


def test_what_retention_removed_goes_from_a_bucket_when_it_is_asked_for(ways):
    root, bucket = ways.project.env.root, ways.bucket.uri
    ways.decide("untag", "clicks", "march")
    ways.decide("untag", "clicks", "prod")
    ways.finish(root, bucket)
    ways.decide("retire", f"clicks/{DAYS[0]}")
    ways.finish(root, bucket)
    version = BucketVersion.at(ways.bucket, "clicks", DAYS[0], 1)
    assert list(version.problems()) == []
    done = ways.command("mirror", root, bucket, "--delete")
    assert done.returncode == 0, done.stderr
    assert not (version.folder / "MANIFEST.json").exists()
    assert DecisionLog(ways.bucket / "clicks").newest().files == decisions(ways.folder)
