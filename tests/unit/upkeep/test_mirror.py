"""Mirrors of a root in a folder: equal versions and decisions, whole or not at all, after kills."""

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import warm
from tests.unit.pipeline.clicks import batch, day
from tests.unit.pipeline.conftest import make_project
from tests.unit.pipeline.test_kill import variables
from trainfeed import open_dataset
from trainfeed.core import canonical_json, faults
from trainfeed.core.config import RootPlace
from trainfeed.files.records import ROOT_MARK_FILE, ROOT_MARKS
from trainfeed.upkeep import mirror as mirror_module
from trainfeed.upkeep.mirror import MirrorEnd
from trainfeed.versions import DatasetFolder, Version, init_root
from trainfeed.versions.decision_files import decision_files, read_decision
from trainfeed.versions.lease import hold_versions

DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]
WHY = ("--why", "a test of mirrors")
POINTS = (
    "mirror.after_file",
    "mirror.before_commit",
    "mirror.after_commit",
    "mirror.after_decision",
    "mirror.after_decisions",
)


class Mirrored:
    """A root with three days, and another root beside it."""

    def __init__(self, path):
        self.project = make_project(path)
        events = [event for number in range(3) for event in day(number, 40)]
        self.project.record({0: [batch(events + day(3, 10))]})
        for name in DAYS:
            self.project.prebuilt(name)
        self.path = path / "mirror"
        init_root(self.path)
        self.source = self.project.folder
        self.target = DatasetFolder(self.path, "clicks")

    def command(self, *words, fault=None, status=0):
        done = warm.command(*words, env=variables(self.project, fault))
        assert status in (None, done.returncode), done.stdout + done.stderr
        return done

    def mirror(self, *more, **how):
        root = self.project.env.root
        done = self.command("mirror", root, str(self.path), *more, "--json", **how)
        return json.loads(done.stdout)[0] if not how else done

    def require_whole(self):
        """Every version that readers see in the mirror is the one of the source, byte by byte."""
        for path in self.target.path.glob("versions/*/g????"):
            version = Version.resolve(self.target, path.parent.name, int(path.name[1:]))
            assert list(version.problems()) == []
            mine = self.source.version(path.parent.name, int(path.name[1:]))
            assert (path / "MANIFEST.json").read_bytes() == (mine / "MANIFEST.json").read_bytes()

    def require_equal(self):
        self.require_whole()
        assert versions(self.target) == versions(self.source)
        assert decisions(self.target) == decisions(self.source)


def versions(folder):
    return [(name, folder.generations(name)) for name in folder.intervals()]


def decisions(folder):
    return {path: read_decision(folder, path) for path in decision_files(folder)}


@pytest.fixture
def mirrored(tmp_path):
    return Mirrored(tmp_path)


def samples(root, asked="2024-03-01/2024-03-03"):
    found = open_dataset("clicks", interval=asked, split="train", root=root)
    return [(float(each["value"]), int(each["label"])) for each in found.reader()()]


def test_a_mirror_has_the_versions_and_what_was_decided_about_them(mirrored):
    mirrored.command("tag", "clicks/2024-03-01", "prod", *WHY)
    mirrored.project.edit("seed: 7", "seed: 8")
    mirrored.command("build", "clicks", "--interval", DAYS[1], "--rebuild", "a test")
    mirrored.command("withdraw", f"clicks/{DAYS[1]}", *WHY)
    report = mirrored.mirror()
    # What was withdrawn before it was copied is not copied.
    assert report["copied"] == [f"{name}/g0001" for name in DAYS]
    mirrored.require_equal()
    assert samples(str(mirrored.path)) == samples(mirrored.project.env.root)
    assert samples(str(mirrored.path), f"{DAYS[0]}/{DAYS[0]}") != samples(str(mirrored.path))
    tagged = open_dataset("clicks@prod", split="train", root=str(mirrored.path))
    assert tagged.num_samples > 0

    again = mirrored.mirror()
    assert (again["copied"], again["known"], again["decisions"]) == ([], 3, 0)

    mirrored.command("restore", f"clicks/{DAYS[1]}/g0002", *WHY)
    mirrored.command("untag", "clicks", "prod", *WHY)
    assert mirrored.mirror()["copied"] == [f"{DAYS[1]}/g0002"]
    mirrored.require_equal()
    mirrored.command("withdraw", f"clicks/{DAYS[1]}", *WHY)
    mirrored.mirror()
    assert mirrored.target.generations(DAYS[1]) == [1]


@pytest.mark.parametrize("point", POINTS)
def test_a_mirror_that_was_killed_shows_nothing_half_and_goes_on(mirrored, point):
    mirrored.command("tag", "clicks/2024-03-01", "prod", *WHY)
    kills = 0
    # Each call gets further than the one before, but for these points, which each call comes to.
    for _ in range(2 if point in {"mirror.after_decisions", "mirror.before_commit"} else 100):
        if mirrored.command("mirror", *roots(mirrored), fault=point, status=None).returncode != -9:
            break
        mirrored.require_whole()
        kills += 1
    assert 1 <= kills < 100
    mirrored.mirror()
    mirrored.require_equal()


def roots(mirrored):
    return mirrored.project.env.root, str(mirrored.path)


def test_what_is_withdrawn_while_it_is_copied_does_not_appear(mirrored, monkeypatch):
    def before_commit(point):
        if point == "mirror.before_commit":
            monkeypatch.setattr(faults, "point", lambda _: None)
            mirrored.command("withdraw", f"clicks/{DAYS[0]}", *WHY)

    monkeypatch.setattr(faults, "point", before_commit)
    ends = [MirrorEnd.open(RootPlace(each), "a root") for each in roots(mirrored)]
    (report,) = mirror_module.mirror(*ends)
    assert report.copied == [f"{name}/g0001" for name in DAYS[1:]]
    assert not mirrored.target.has_folder(DAYS[0], 1)
    assert not [each for each in mirrored.target.staging.glob("mirror-*") if each.is_dir()]
    mirrored.require_equal()


def test_two_mirrors_at_once_copy_each_version_once(mirrored):
    command = [sys.executable, "-m", "trainfeed", "mirror", *roots(mirrored), "--json"]
    environ = variables(mirrored.project)
    both = [
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    told = [each.communicate(timeout=warm.LIMIT_S)[0] for each in both]
    copied = [name for text in told for name in json.loads(text)[0]["copied"]]
    assert sorted(copied) == [f"{name}/g0001" for name in DAYS]
    mirrored.require_equal()


def test_what_retention_removed_stays_until_it_is_asked_for(mirrored):
    mirrored.mirror()
    mirrored.command("retire", f"clicks/{DAYS[0]}", *WHY)
    mirrored.project.edit("seed: 7", "seed: 8")
    mirrored.command("build", "clicks", "--interval", DAYS[1], "--rebuild", "a test")
    mirrored.mirror()
    assert mirrored.target.generations(DAYS[0]) == [1]
    assert samples(str(mirrored.path), DAYS[0]) != []

    with hold_versions(mirrored.target, [(DAYS[0], 1)], "a test"):
        report = mirrored.mirror("--delete")
        assert (report["removed"], list(report["in_use"])) == ([], [f"{DAYS[0]}/g0001"])
        assert samples(str(mirrored.path), DAYS[0]) != []
    assert mirrored.mirror("--delete")["removed"] == [f"{DAYS[0]}/g0001"]
    mirrored.require_equal()
    assert not mirrored.target.version(DAYS[0], 1).exists()
    # The source never had retention remove this one.
    assert mirrored.target.generations(DAYS[1]) == [1, 2]


def test_a_new_mirror_knows_what_was_retired(mirrored):
    mirrored.command("retire", f"clicks/{DAYS[0]}", *WHY)
    mirrored.mirror()
    mirrored.require_equal()


def test_a_range_has_its_versions_and_its_decisions_alone(mirrored):
    mirrored.command("tag", f"clicks/{DAYS[0]}", "first", *WHY)
    mirrored.command("tag", f"clicks/{DAYS[0]}/{DAYS[2]}", "all", *WHY)
    report = mirrored.mirror(f"clicks/{DAYS[0]}/{DAYS[1]}")
    assert report["copied"] == [f"{name}/g0001" for name in DAYS[:2]]
    assert report["tags_left"] == ["all"]
    assert sorted(path.name for path in mirrored.target.tags.iterdir()) == ["first"]
    mirrored.mirror()
    mirrored.require_equal()


def test_a_damaged_version_is_not_copied(mirrored):
    version = Version.resolve(mirrored.source, DAYS[1], 1)
    shard = version.shard_paths("train")[0]
    shard.chmod(0o600)
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    done = mirrored.mirror(status=3)
    assert "ChecksumError" in done.stderr
    assert shard.name in done.stderr
    assert mirrored.target.intervals() == DAYS[:1]
    mirrored.require_whole()


def test_another_content_under_the_name_of_a_version_is_a_conflict(mirrored):
    mirrored.mirror()
    other = mirrored.project.elsewhere("other")
    other.edit("seed: 7", "seed: 8")
    other.build(DAYS[0])
    gone = mirrored.target.version(DAYS[0], 1)
    shutil.rmtree(gone)
    shutil.copytree(other.folder.version(DAYS[0], 1), gone)
    before = decisions(mirrored.target)
    assert "another content" in mirrored.mirror(status=1).stderr
    assert decisions(mirrored.target) == before
    assert list(Version.resolve(mirrored.target, DAYS[0], 1).problems()) == []


def test_only_what_was_mirrored_from_this_root_is_changed(mirrored, tmp_path):
    other = mirrored.project.elsewhere("other")
    other.build(DAYS[0])
    before = sorted(Path(other.env.root).rglob("*"))
    refused = mirrored.command("mirror", mirrored.project.env.root, other.env.root, status=1)
    assert "ConflictError" in refused.stderr
    assert sorted(Path(other.env.root).rglob("*")) == before
    mirrored.mirror()
    refused = mirrored.command("mirror", other.env.root, str(mirrored.path), status=1)
    assert mirrored.project.env.root in refused.stderr
    mirrored.require_equal()
    one = mirrored.project.env.root
    assert "two roots" in mirrored.command("mirror", one, one, status=2).stderr
    missing = mirrored.command("mirror", one, str(mirrored.path), "nothing", status=1)
    assert "it has clicks" in missing.stderr
    nowhere = mirrored.command("mirror", one, str(tmp_path / "nowhere"), status=2)
    assert "RootError" in nowhere.stderr


def test_many_decisions_follow_in_several_steps(mirrored, monkeypatch):
    monkeypatch.setattr(mirror_module, "_MOST_CHANGES", 2)
    for number in range(3):
        mirrored.command("tag", f"clicks/{DAYS[number]}", "prod", *WHY)
    ends = [
        MirrorEnd.open(RootPlace(str(each)), "a root")
        for each in (mirrored.project.env.root, mirrored.path)
    ]
    [report] = mirror_module.mirror(*ends)
    assert report.decisions == len(decisions(mirrored.source)) > 4
    mirrored.require_equal()


def test_decisions_of_before_there_were_seals_are_refused(mirrored):
    mirrored.command("tag", f"clicks/{DAYS[0]}", "prod", *WHY)
    path = mirrored.source.tag("prod") / "0001.json"
    value = json.loads(path.read_bytes())
    del value["digest"]
    path.chmod(0o600)
    path.write_bytes(canonical_json.dumps(value))
    name = path.relative_to(mirrored.project.env.root).as_posix()
    mark = ROOT_MARKS.read(Path(mirrored.project.env.root) / ROOT_MARK_FILE)
    old = replace(mark, unsealed={name: hashlib.sha256(path.read_bytes()).hexdigest()})
    ROOT_MARKS.replace(Path(mirrored.project.env.root) / ROOT_MARK_FILE, old)
    refused = mirrored.mirror(status=2)
    assert name in refused.stderr
    assert not mirrored.target.path.exists()
