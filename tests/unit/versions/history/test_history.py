"""The history of a data set: an action is on the disk before anything changes."""

import json
import stat
from dataclasses import replace

import pytest

from tests.support.roots import reseal
from trainfeed.core import canonical_json
from trainfeed.core.accounts import account_name
from trainfeed.core.printable_text import printable
from trainfeed.errors import TrainFeedError
from trainfeed.files.records import record_of
from trainfeed.versions import DatasetFolder
from trainfeed.versions.history import Action, DamagedAction, actions, record_action


@pytest.fixture
def folder(tmp_path):
    return DatasetFolder(tmp_path, "clicks")


def withdraw(at="2026-03-08T00:00:00.000001Z", **changes):
    action = Action.now("withdraw", "clicks/2026-01-01/g0001", why="label of yesterday")
    return replace(action, at=at, **changes)


def test_actions_are_read_as_written_in_the_order_of_their_times(folder):
    assert list(actions(folder)) == []
    late = withdraw("2026-04-01T00:00:00Z", who="ada", details={"bytes": 12, "files": ["a", "b"]})
    early = withdraw("2026-03-31T23:59:59.999999Z")
    record_action(folder, late)
    record_action(folder, early)
    assert list(actions(folder)) == [early, late]


def test_actions_of_some_names_alone_are_read(folder):
    for number, name in enumerate(["repair", "repair-failed", "repaired", "tag"], 1):
        record_action(folder, withdraw(f"2026-03-{number:02}T00:00:00Z", action=name))
    found = [each.action for each in actions(folder, {"repair-failed", "tag"})]
    assert found == ["repair-failed", "tag"]


def test_who_is_the_account_unless_a_person_is_named():
    assert Action.now("tag", "clicks@prod", why="").who == account_name()
    named = Action.now("tag", "clicks@prod", why="", who="ada")
    assert (named.who, named.account) == ("ada", account_name())


def test_two_actions_of_one_moment_are_both_kept(folder):
    record_action(folder, withdraw())
    record_action(folder, withdraw(why="another"))
    assert {each.why for each in actions(folder)} == {"label of yesterday", "another"}


def test_every_account_reads_the_history(folder):
    record_action(folder, withdraw())
    (path,) = folder.history.glob("*/*.json")
    assert stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444


@pytest.mark.parametrize("change", [b"", b"{}", b"\n", b"x" * (2 << 20)])
def test_a_changed_file_is_named_and_hides_no_other(folder, change):
    record_action(folder, withdraw())
    later = withdraw("2026-05-01T00:00:00Z")
    record_action(folder, later)
    path = min(folder.history.glob("*/*.json"))
    path.write_bytes(change)
    damaged, intact = actions(folder)
    assert isinstance(damaged, DamagedAction)
    assert damaged.path == path
    assert intact == later


def test_an_action_of_a_later_version_is_read(folder):
    value = {**withdraw().to_json(), "more": 1}
    assert record_of(Action, value) == withdraw()


@pytest.mark.parametrize("change", [{"why": None}, {"at": "soon"}, {"details": []}])
def test_what_is_no_action_is_refused(change):
    with pytest.raises((ValueError, TrainFeedError)) as error:
        record_of(Action, {**withdraw().to_json(), **change})
    assert printable(str(error.value)) == str(error.value)


def test_an_action_in_the_place_of_another_or_with_another_content_is_damaged(folder):
    first, second = withdraw(), withdraw("2026-03-09T00:00:00Z", who="ada")
    for each in (first, second):
        record_action(folder, each)
    one, other = sorted(folder.history.glob("*/*.json"))
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    assert [each.path for each in actions(folder)] == [one, other]
    other.write_bytes(one.read_bytes())
    one.write_bytes(data)
    reseal(other, who="eve")
    assert [getattr(each, "path", each) for each in actions(folder)] == [first, other]


def test_an_action_that_a_later_version_wrote_has_its_own_name(folder):
    record_action(folder, withdraw())
    (path,) = folder.history.glob("*/*.json")
    reseal(path, more=1)
    value = json.loads(path.read_bytes())
    del value["digest"]
    digest = canonical_json.sha256_of(value)[:8]
    path.rename(path.with_name(f"{path.name[:-13]}{digest}.json"))
    assert list(actions(folder)) == [withdraw()]
