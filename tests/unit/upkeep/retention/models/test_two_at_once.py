"""A removal that is killed at any step, and one beside a promotion: a version is whole or gone."""

import pytest

from tests.unit.fault_points import points_in
from tests.unit.forks import held_elsewhere
from tests.unit.training.models.test_registration import killed_at
from tests.unit.upkeep.retention.models.conftest import names, whole, whys
from trainfeed.core import faults
from trainfeed.errors import NotFoundError
from trainfeed.training.models import PROD, Model, alias_lock, current, history, hold_model, promote
from trainfeed.upkeep.retention import execute, plan_removals
from trainfeed.upkeep.retention.models import ModelVersions

POINTS = ("models.after_record", "models.after_rename")
KINDS = (ModelVersions(),)


@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_a_version_is_whole_or_gone_and_the_next_run_completes(
    clicker, point, monkeypatch
):
    killed_at(monkeypatch, point, clicker.prune)
    assert whole(clicker.folder) == [2, 3, 4, 5]
    for act in (
        lambda: Model.open(clicker.folder, 1),
        lambda: promote(clicker.folder, PROD, 1, "x"),
    ):
        with pytest.raises(NotFoundError, match="was removed"):
            act()
    # Also without the rule: what was begun is completed.
    clicker.project.edit("{keep: 2}", "{keep: 4}")
    assert len(clicker.prune().expired) == 1
    assert not clicker.folder.version(1).exists()
    assert list((clicker.folder.models / "_trash").iterdir()) == []
    assert clicker.folder.removed_versions() == [1]
    assert clicker.prune().expired == ()


def test_every_point_of_the_room_is_killed_at():
    assert points_in("upkeep/retention/models.py") == set(POINTS)


def test_a_promotion_between_look_and_removal_wins(clicker):
    context = clicker.context()
    found = plan_removals(context, KINDS)
    promote(clicker.folder, PROD, 1, "just in time")
    done = execute(context, KINDS, found)
    assert whys(done.kept) == {"v0001": "prod points to it"}
    current(clicker.folder, PROD).verify()
    assert whole(clicker.folder) == [1, 4, 5]


def test_a_promotion_that_comes_later_is_refused_and_changes_nothing(clicker, monkeypatch):
    def remove(name):
        if name == "alias.before_change":
            monkeypatch.undo()
            assert "clicker/v0001" in names(clicker.prune().expired)

    monkeypatch.setattr(faults, "point", remove)
    with pytest.raises(NotFoundError, match="clicker/v0001 was removed"):
        promote(clicker.folder, PROD, 1, "too late")
    assert history(clicker.folder, PROD) == []


def test_look_and_removal_are_one_step_for_changes_of_aliases(clicker, monkeypatch):
    tried = []

    def look(name):
        if name == "models.after_record" and not tried:
            tried.append(name)
            with pytest.raises(TimeoutError):
                _lock_now(clicker.folder)

    monkeypatch.setattr(faults, "point", look)
    clicker.prune()
    assert tried
    with held_elsewhere(alias_lock(clicker.folder)), pytest.raises(TimeoutError):
        _lock_now(clicker.folder)


def _lock_now(folder):
    from trainfeed.errors import StorageError
    from trainfeed.files.stores import posix

    try:
        with posix.file_lock(folder.path / ".aliases.lock", timeout_s=0):
            pass
    except StorageError as error:
        raise TimeoutError from error


def test_a_reader_that_opens_beside_a_removal_holds_the_version_or_is_told(clicker, monkeypatch):
    def remove(path, **options):
        monkeypatch.undo()
        clicker.prune()
        return shared_lock(path, **options)

    from trainfeed.files.stores import posix

    shared_lock = posix.shared_lock
    monkeypatch.setattr(posix, "shared_lock", remove)
    with (
        pytest.raises(NotFoundError, match="clicker/v0001 was removed"),
        hold_model(clicker.folder, 1),
    ):
        pytest.fail("a removed version was held")
