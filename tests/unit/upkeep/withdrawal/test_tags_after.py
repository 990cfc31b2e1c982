"""Tags that are damaged, moved or given while a version is withdrawn: the withdrawal stands."""

import shutil

import pytest

from tests.unit.upkeep.withdrawal.conftest import ADA, DAY
from trainfeed.core.accounts import Decision
from trainfeed.core.canonical_json import seal
from trainfeed.errors import ConflictError, FormatError
from trainfeed.upkeep.withdrawal import decisions as _withdraw
from trainfeed.upkeep.withdrawal import generation as _tags_after
from trainfeed.upkeep.withdrawal import withdraw
from trainfeed.versions.tag import apply_change, propose_tag
from trainfeed.versions.tag_files import current_tag
from trainfeed.versions.withdraw import withdrawals


def go(project, generation=None, **options):
    return withdraw(project.env, "clicks", DAY, generation, ADA, **options)


def tag(project, name, asked=DAY):
    proposal = propose_tag(project.folder, asked, name, Decision.now("for production"))
    apply_change(project.folder, proposal)


def damage(project, name):
    next(project.folder.tag(name).glob("0*.json")).write_bytes(b"{}")


@pytest.fixture
def meanwhile(monkeypatch):
    """Do something right after the mark was written."""

    def then(act):
        def turn(*arguments):
            act()
            return turn_readers(*arguments)

        turn_readers = _withdraw.turn_readers
        monkeypatch.setattr(_withdraw, "turn_readers", turn)

    return then


def test_a_damaged_tag_is_found_before_anything_changes(twice):
    tag(twice, "prod")
    damage(twice, "prod")
    for options in ({}, {"dry_run": True}, {"move_tags": True}):
        with pytest.raises(FormatError, match="change 1 of tag clicks@prod"):
            go(twice, **options)
    assert withdrawals(twice.folder, DAY) == []
    tag(twice, "prod", f"{DAY}/g0001")
    assert go(twice).is_new


def test_a_tag_damaged_after_the_mark_is_told_beside_the_withdrawal(twice, meanwhile):
    tag(twice, "prod")
    tag(twice, "test")
    meanwhile(lambda: damage(twice, "prod"))
    done = go(twice, move_tags=True)
    (problem,) = done.tag_problems
    assert (done.is_new, done.moved_tags, problem.tag, problem.is_damage) == (
        True, ("test",), "prod", True,
    )  # fmt: skip
    assert twice.folder.generations(DAY) == [1]
    again = go(twice)
    assert (again.is_new, [each.tag for each in again.tag_problems]) == (False, ["prod"])


def test_a_tag_given_after_the_mark_is_not_moved_to_nothing(project, meanwhile):
    tag(project, "later")
    proposal = propose_tag(project.folder, "@later", "prod", Decision.now("release"))
    shutil.rmtree(project.folder.tag("later"))
    path = project.folder.tag("prod") / "0001.json"

    def give():
        with pytest.raises(ConflictError):
            apply_change(project.folder, proposal)

    meanwhile(give)
    done = go(project, move_tags=True)
    (problem,) = done.tag_problems
    assert (done.is_new, done.tags, done.moved_tags) == (True, ("prod",), ())
    assert "no generation of clicks/2024-03-01 is left to which prod could move" in str(
        problem.error
    )
    assert current_tag(project.folder, "prod").generations == {DAY: 1}
    assert path.exists()


def test_a_tag_that_another_person_moves_meanwhile_stays_where_that_person_put_it(
    twice, monkeypatch
):
    tag(twice, "prod")
    tag(twice, "test")
    move_tag = _tags_after.move_tag

    def slow(folder, name, *rest, **options):
        if name == "prod":
            tag(twice, "prod", f"{DAY}/g0001")
        return move_tag(folder, name, *rest, **options)

    monkeypatch.setattr(_tags_after, "move_tag", slow)
    done = go(twice, move_tags=True)
    (problem,) = done.tag_problems
    assert (done.is_new, done.moved_tags, problem.tag) == (True, ("test",), "prod")
    assert "does not name 2024-03-01/g0002" in str(problem.error)
    assert current_tag(twice.folder, "prod").number == 2
    assert go(twice, move_tags=True).tag_problems == ()


def test_a_tag_that_a_killed_call_moved_is_confirmed_by_the_next_one(twice):
    tag(twice, "prod", f"{DAY}/g0002")
    assert go(twice, move_tags=True).moved_tags == ("prod",)
    # As a kill between the change and its confirmation leaves them.
    (twice.folder.tag("prod") / "LAST.json").write_bytes(seal(b'{"number":1'))
    assert not go(twice, 2, move_tags=True).is_new
    (twice.folder.tag("prod") / "0002.json").unlink()
    with pytest.raises(FormatError, match="change 2 of tag"):
        current_tag(twice.folder, "prod")


def test_a_damaged_confirmation_is_one_problem_and_the_withdrawal_stands(twice, meanwhile):
    tag(twice, "prod", f"{DAY}/g0002")
    meanwhile(lambda: (twice.folder.tag("prod") / "LAST.json").write_bytes(b"{}"))
    done = go(twice, move_tags=True)
    assert done.is_new
    assert [problem.tag for problem in done.tag_problems] == ["prod"]
