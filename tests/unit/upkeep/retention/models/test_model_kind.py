"""Versions of models go by their rule, and never one that somebody needs."""

import shutil

import pytest

from tests.unit.forks import in_a_fork
from tests.unit.upkeep.retention.models.conftest import NOW, names, whole, whys
from trainfeed.errors import ConfigError, ConflictError, FormatError, NotFoundError
from trainfeed.training.models import (
    PROD,
    Model,
    RemovedModel,
    hold_model,
    promote,
    register,
    rollback,
)
from trainfeed.upkeep.retention import execute, plan_removals
from trainfeed.upkeep.retention.models import ModelVersions
from trainfeed.versions.history import actions

KINDS = (ModelVersions(),)


def test_versions_beyond_the_rule_go_and_what_they_were_stays(clicker):
    before = Model.open(clicker.folder, 1)
    would = clicker.prune(dry_run=True)
    assert whole(clicker.folder) == [1, 2, 3, 4, 5]
    removals = clicker.prune()
    assert removals == would
    assert names(removals.expired) == ["clicker/v0001", "clicker/v0002", "clicker/v0003"]
    assert (removals.num_bytes, removals.expired[0].why) == (300, "keep: 2")
    assert whole(clicker.folder) == [4, 5]
    assert not clicker.folder.version(1).exists()
    assert list((clicker.folder.models / "_trash").iterdir()) == []
    removed = RemovedModel.read(clicker.folder, 1)
    assert (removed.manifest, removed.manifest_sha256) == (before.manifest, before.manifest_sha256)
    assert removed.told.startswith("clicker/v0001 was removed at 2024-06-01T00:00:00Z by anna")
    (action,) = [each for each in actions(clicker.context().folder) if each.action == "prune"]
    assert (action.details["kind"], action.details["bytes"]) == ("models", 300)
    assert clicker.prune().expired == ()


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("{keep_days: 25}", [4, 5]),
        ("{keep: 1, keep_days: 35}", [3, 4, 5]),
        ("{max_bytes: 250}", [4, 5]),
        ("{keep: 100}", [1, 2, 3, 4, 5]),
    ],
)
def test_age_number_and_bytes_decide(clicker, rule, left):
    clicker.project.edit("{keep: 2}", rule)
    clicker.prune()
    assert whole(clicker.folder) == left


def test_without_a_rule_all_stay(clicker):
    clicker.project.edit("\nretention: {models: {keep: 2}}", "")
    assert clicker.prune().expired == ()
    assert whole(clicker.folder) == [1, 2, 3, 4, 5]


def test_what_aliases_need_stays_and_the_newest(clicker):
    for number in (1, 2, 3):
        promote(clicker.folder, PROD, number, "a test")
    promote(clicker.folder, "candidate", 4, "a test")
    clicker.project.edit("{keep: 2}", "{max_bytes: 0}")
    removals = clicker.prune()
    assert whys(removals.kept) == {
        "v0002": "a rollback of prod leads to it",
        "v0003": "prod points to it",
        "v0004": "candidate points to it",
        "v0005": "it is the newest version",
    }
    assert removals.excess[0].num_bytes == 400
    assert rollback(clicker.folder, "worse")[0].version == "v0002"
    with pytest.raises(NotFoundError, match=r"clicker/v0001 was removed at .* \(max_bytes: 0\)"):
        rollback(clicker.folder, "worse still")
    assert [each.item.name for each in clicker.prune().expired] == ["clicker/v0003"]


def test_a_removed_version_is_not_opened_promoted_or_made_again(clicker):
    clicker.prune()
    told = r"clicker/v0002 was removed at 2024-06-01T00:00:00Z by anna.*\(keep: 2\)"
    for act in (
        lambda: Model.open(clicker.folder, 2),
        lambda: promote(clicker.folder, PROD, 2, "why"),
    ):
        with pytest.raises(NotFoundError, match=told + r".*trainfeed models ls clicker"):
            act()
    with pytest.raises(ConflictError, match=rf"job job-2 made .*{told}.*nothing was made"):
        register(clicker.folder, clicker.candidate(2))
    assert whole(clicker.folder) == [4, 5]
    assert register(clicker.folder, clicker.candidate(4))[1] is False


def test_a_number_is_never_used_again(clicker):
    clicker.prune()
    newest = Model.open(clicker.folder, 5)
    RemovedModel(
        newest.manifest, newest.manifest_sha256, "2024-06-01T00:00:00Z", "a", "a", "b"
    ).write(clicker.folder)
    newest.path.rename(clicker.folder.models / "_away")
    assert clicker.make(6) == 6


def test_a_version_that_a_process_has_open_stays_until_the_process_ends(clicker):
    found = plan_removals(clicker.context(), KINDS)
    with hold_model(clicker.folder, 1) as model:
        # Also of a process that has come between look and removal.
        for removals in (execute(clicker.context(), KINDS, found), clicker.prune()):
            assert "a process has it open" in whys(removals.kept)["v0001"]
        model.verify()
    assert whole(clicker.folder) == [1, 4, 5]

    def die():
        import os
        import signal

        with hold_model(clicker.folder, 1):
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_fork(die) == -9
    assert names(clicker.prune().expired) == ["clicker/v0001"]


def test_where_aliases_are_damaged_every_version_stays(clicker):
    promote(clicker.folder, PROD, 5, "a test")
    (clicker.folder.alias(PROD) / "0001.json").write_text("{")
    removals = clicker.prune()
    assert removals.expired == ()
    assert "cannot be told" in whys(removals.kept)["v0001"]


def test_a_damaged_version_stays_and_is_named(clicker):
    path = clicker.folder.version(1) / "MANIFEST.json"
    path.chmod(0o644)
    path.write_text("{}")
    removals = clicker.prune()
    assert "it cannot be read" in whys(removals.kept)["v0001"]
    assert names(removals.expired) == ["clicker/v0002", "clicker/v0003"]


def test_each_data_set_removes_its_own_versions_of_a_model(clicker):
    clicker.make(6, age=90, dataset="views")
    clicker.make(7)
    clicker.project.edit("{keep: 2}", "{keep: 1}")
    assert names(clicker.prune().expired) == [f"clicker/v000{each}" for each in (1, 2, 3, 4, 5)]
    assert whole(clicker.folder) == [6, 7]


def test_a_damaged_record_hides_the_version_and_frees_no_number(clicker, caplog):
    clicker.prune()
    clicker.folder.removal(3).write_text("{}")
    with pytest.raises(FormatError, match=r"record of a removed version.*backup"):
        Model.open(clicker.folder, 3)
    assert clicker.make(6) == 6
    assert "which job made a removed version cannot be told" in caplog.text


def test_a_rule_without_a_model_is_refused(project):
    project.edit("seed: 7", "seed: 7\nretention: {models: {keep: 3}}")
    with pytest.raises(ConfigError, match=r"models: expected train.model"):
        _ = project.spec


def test_now_is_the_time_of_the_context(clicker):
    clicker.prune()
    assert RemovedModel.read(clicker.folder, 1).at == NOW.isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_file_in_the_place_of_aliases_does_not_mean_that_none_points_anywhere(clicker, is_whole):
    promote(clicker.folder, PROD, 1, "the best one")
    place = clicker.folder.alias(PROD)
    place = place.parent if is_whole else place
    shutil.rmtree(place)
    place.write_bytes(b"")
    removals = clicker.prune()
    (why,) = {each.why for each in removals.kept}
    assert "where aliases point to cannot be told: expected a folder" in why
    assert removals.expired == ()
    assert whole(clicker.folder) == [1, 2, 3, 4, 5]
