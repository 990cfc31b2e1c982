"""Withdrawals: readers turn to a verified generation, or the call changes nothing."""

import shutil
from dataclasses import replace

import pytest

from tests.unit.upkeep.withdrawal.conftest import ADA, DAY
from trainfeed.core.accounts import Decision
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    WithdrawnError,
)
from trainfeed.readers import open_dataset
from trainfeed.upkeep.withdrawal import restore, withdraw
from trainfeed.versions import Version
from trainfeed.versions.history import actions
from trainfeed.versions.layout import CURRENT, MANIFEST
from trainfeed.versions.tag import apply_change, propose_tag
from trainfeed.versions.tag_files import current_tag
from trainfeed.versions.withdraw import withdrawal_of, withdrawals


def go(project, generation=None, maker=ADA, **options):
    return withdraw(project.env, "clicks", DAY, generation, maker, **options)


def back(project, generation=None, maker=ADA, **options):
    return restore(project.env, "clicks", DAY, generation, maker, **options)


def state(project):
    folder = project.folder.interval(DAY)
    return sorted(path.name for path in folder.iterdir()), (folder / CURRENT).read_text()


def test_readers_turn_to_the_generation_before_and_back(twice):
    second = twice.version()
    done = go(twice)
    assert (done.mark.name, done.readers_get, done.is_new) == ("clicks/2024-03-01/g0002", 1, True)
    assert twice.version().name == "2024-03-01/g0001"
    assert (twice.folder.interval(DAY) / CURRENT).read_text() == "g0001\n"
    mark = withdrawal_of(twice.folder, DAY, 2)
    assert mark.told.startswith("clicks/2024-03-01/g0002 was withdrawn by ada (builder) at 20")
    assert (mark.fingerprint, mark.plan) == (second.manifest.fingerprint, second.manifest.plan)
    assert (mark.content_digest, mark.reason) == (second.manifest.content_digest, "another seed")
    given = back(twice, maker=replace(ADA, why="they were right"))
    assert (given.mark, given.readers_get, given.is_new) == (mark, 2, True)
    assert twice.version().name == "2024-03-01/g0002"
    told = [(each.action, each.target, each.why, each.who) for each in actions(twice.folder)]
    assert told == [
        ("withdraw", "clicks/2024-03-01/g0002", "labels of yesterday", "ada"),
        ("restore", "clicks/2024-03-01/g0002", "they were right", "ada"),
    ]


def test_a_dry_run_checks_and_changes_nothing(twice):
    before = state(twice)
    done = go(twice, dry_run=True)
    assert (done.mark.generation, done.readers_get, done.is_new) == (2, 1, False)
    assert state(twice) == before
    assert list(actions(twice.folder)) == []
    (twice.version(generation=1).path / "statistics.json").unlink()
    with pytest.raises(FormatError):
        go(twice, dry_run=True)


def test_a_damaged_generation_before_is_found_first_and_nothing_changes(twice):
    before = state(twice)
    shard = twice.version(generation=1).shard_paths("train")[0]
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(data)
    with pytest.raises(FormatError, match=r"g0001 is damaged: .* withdraw it first: trainfeed"):
        go(twice)
    assert state(twice) == before
    go(twice, 1)
    done = go(twice)
    assert (done.mark.generation, done.readers_get) == (2, None)
    with pytest.raises(NotFoundError):
        twice.version()


def test_equal_content_before_is_not_what_readers_should_turn_to(project):
    project.prebuilt(rebuild="once more")
    with pytest.raises(ConflictError, match="has the same content as clicks/2024-03-01/g0002"):
        go(project)
    go(project, 1)
    assert go(project).readers_get is None


def test_withdrawing_another_generation_leaves_readers_where_they_are(twice):
    done = go(twice, 1)
    assert (done.readers_get, twice.version().name) == (2, "2024-03-01/g0002")


def test_the_last_generation_may_go_and_is_said_to_be_the_last(project):
    done = go(project)
    assert done.readers_get is None
    assert not (project.folder.interval(DAY) / CURRENT).exists()
    assert back(project).readers_get == 1
    assert project.version().name == "2024-03-01/g0001"


def test_the_same_decision_again_does_nothing_and_hides_no_second_generation(twice):
    first = go(twice)
    again = go(twice)
    assert (again.mark, again.readers_get, again.is_new) == (first.mark, 1, False)
    assert twice.version().name == "2024-03-01/g0001"
    assert len(list(actions(twice.folder))) == 1
    with pytest.raises(ConflictError, match="withdrawn by ada"):
        go(twice, 2, replace(ADA, who="ben"))
    assert back(twice).is_new
    assert not back(twice).is_new


def test_a_later_generation_is_withdrawn_for_the_same_reason_again(twice):
    go(twice)
    twice.edit("seed: 8", "seed: 9")
    twice.prebuilt(rebuild="a third seed")
    assert go(twice).mark.generation == 3


def test_what_cannot_be_withdrawn_or_restored_is_refused(twice):
    before = state(twice)
    for maker in (replace(ADA, why="x"), replace(ADA, why="a\nb"), replace(ADA, who=" ")):
        for call in (go, back):
            with pytest.raises(ConfigError, match="nothing was changed"):
                call(twice, maker=maker)
    with pytest.raises(NotFoundError, match="g0007 is none; nothing was changed"):
        go(twice, 7)
    with pytest.raises(NotFoundError, match="nothing of clicks/2024-03-01 is withdrawn"):
        back(twice)
    assert state(twice) == before


def test_a_generation_that_was_removed_or_is_damaged_is_not_restored(twice):
    go(twice)
    path = twice.folder.version(DAY, 2)
    extra = path / "extra"
    extra.touch()
    with pytest.raises(FormatError, match="'extra' is not in the manifest"):
        back(twice)
    extra.unlink()
    shutil.rmtree(path)
    twice.folder.removal_mark(DAY, 2).touch()
    with pytest.raises(NotFoundError, match="was removed by retention"):
        back(twice)
    assert [mark.generation for mark in withdrawals(twice.folder, DAY)] == [2]


def test_a_damaged_generation_can_be_withdrawn_and_speaks_against_every_build(project):
    path = project.version().path / MANIFEST
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")
    assert go(project).mark.fingerprint is None
    project.edit("seed: 7", "seed: 8")
    with pytest.raises(WithdrawnError, match="withdrawn by ada"):
        project.build()
    project.prebuilt(rebuild="the disk was replaced")
    assert project.version().name == "2024-03-01/g0002"


def test_a_generation_published_while_the_one_before_is_verified_is_looked_at(twice, monkeypatch):
    problems = Version.problems
    seen = []

    def slow(version):
        if version.name not in seen and not seen:
            seen.append(version.name)
            monkeypatch.setattr(Version, "problems", problems)
            twice.edit("seed: 8", "seed: 9")
            twice.build(rebuild="meanwhile")
        return problems(version)

    monkeypatch.setattr(Version, "problems", slow)
    done = go(twice, 2)
    assert (done.readers_get, twice.version().name) == (3, "2024-03-01/g0003")


def tag(project, *tags):
    for name in tags:
        apply_change(
            project.folder, propose_tag(project.folder, DAY, name, Decision.now("for production"))
        )


def named(project, name):
    return current_tag(project.folder, name).generations[DAY]


def test_a_tag_stays_where_it_is_unless_it_is_asked_to_move(twice):
    tag(twice, "prod", "test")
    assert go(twice, dry_run=True).tags == ("prod", "test")
    assert go(twice).tags == ("prod", "test")
    with pytest.raises(ConflictError, match="withdrawn by ada"):
        open_dataset("clicks@prod", split="train", root=twice.env.root)
    assert go(twice, dry_run=True, move_tags=True).moved_tags == ("prod", "test")
    assert named(twice, "prod") == 2
    assert go(twice, move_tags=True).moved_tags == ("prod", "test")
    assert (named(twice, "prod"), named(twice, "test")) == (1, 1)
    assert current_tag(twice.folder, "prod").decision.why == ADA.why
    assert open_dataset("clicks@prod", split="train", root=twice.env.root).version.endswith("g0001")


def test_tags_do_not_move_to_nothing_or_to_damage(project):
    tag(project, "prod")
    with pytest.raises(ConflictError, match="to which prod could move; nothing was changed"):
        go(project, move_tags=True)
    project.edit("seed: 7", "seed: 8")
    project.prebuilt(rebuild="another seed")
    (project.version().path / "extra").touch()
    with pytest.raises(FormatError, match="g0002 is damaged"):
        go(project, 1, move_tags=True)
    assert withdrawals(project.folder, DAY) == []
    assert go(project, 1).tags == ("prod",)
