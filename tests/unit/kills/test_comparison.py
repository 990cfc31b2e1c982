"""What the comparison of trees forgives, and what it does not; what a reader reports as a fault."""

import json
import os

import pytest

from tests.kills.look import look
from tests.kills.prepared import COMMANDS, Places, topic
from tests.kills.tree import differences, tree_of
from trainfeed.core import canonical_json

ITEM = {"name": "2024-03-01/g0001", "kind": "generations", "why": "keep_generations: 1"}
OTHER = {"name": "2024-03-02/g0001", "kind": "generations", "why": "keep_generations: 1"}
BEGUN = "a removal that was begun"
NOTE = "plans/2024-03-01/LANDING_REMOVED.json"


def write(folder, name, value):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(canonical_json.seal(json.dumps(value, separators=(",", ":")).encode()[:-1]))


def record(folder, minute, name, *items, **more):
    """Write an entry of the history."""
    at = f"2024-04-01T00:{minute:02}:00.000001Z"
    details = {"items": list(items)} if items else {"interval": "2024-03-01"}
    value = {"action": name, "target": "clicks", "why": "w", "at": at, "details": details} | more
    stamp = at.replace("-", "").replace(":", "")
    write(folder, f"history/202404/{stamp}-{name}-{minute:08x}.json", value)


@pytest.fixture
def trees(tmp_path):
    """Two folders; what they are filled with, and the differences between them."""
    plain, found = tmp_path / "plain/root", tmp_path / "found/root"
    for folder in (plain, found):
        folder.mkdir(parents=True)

    def different():
        return differences(*(tree_of([each], each) for each in (plain, found)))

    return plain, found, different


def test_times_and_numbers_of_attempts_are_no_difference(trees):
    plain, found, different = trees
    for minute, folder in enumerate((plain, found)):
        record(folder, minute, "withdraw")
        write(folder, "a.json", {"at": f"2024-04-01T00:0{minute}:00Z", "pid": minute})
    assert different() == []
    write(found, "a.json", {"at": "2024-04-01T00:00:00Z", "pid": 1, "more": 1})
    assert len(different()) == 1


@pytest.mark.parametrize(
    "second",
    [
        [ITEM],
        [ITEM | {"why": BEGUN}],
        [ITEM, OTHER],
        [ITEM | {"name": "_trash/retention-0123", "kind": "work"}],
    ],
)
def test_a_second_entry_that_names_a_part_of_the_first_is_no_difference(trees, second):
    plain, found, different = trees
    record(plain, 1, "prune", ITEM, OTHER)
    record(found, 1, "prune", ITEM, OTHER)
    record(found, 2, "prune", *second)
    assert different() == []


@pytest.mark.parametrize(
    "second",
    [
        [OTHER],
        [ITEM, OTHER],
        [ITEM | {"why": "keep_days: 3"}],
        [ITEM | {"kind": "landing"}],
        [ITEM, ITEM | {"name": "_trash/retention-0123"}],
    ],
)
def test_a_second_entry_that_names_more_is_a_difference(trees, second):
    plain, found, different = trees
    record(plain, 1, "prune", ITEM)
    record(found, 1, "prune", ITEM)
    record(found, 2, "prune", *second)
    assert len(different()) == 1


def test_a_first_entry_that_names_less_is_a_difference(trees):
    plain, found, different = trees
    record(plain, 1, "prune", ITEM, OTHER)
    record(found, 1, "prune", ITEM)
    record(found, 2, "prune", OTHER)
    assert len(different()) == 2


def test_an_entry_that_is_missing_or_has_another_person_is_a_difference(trees):
    plain, found, different = trees
    record(plain, 1, "withdraw")
    assert any(each.startswith("lost") for each in different())
    record(found, 1, "withdraw")
    assert different() == []
    record(found, 2, "withdraw", who="another")
    assert len(different()) == 1


def test_that_a_repair_failed_is_no_difference_once_another_did_not(trees):
    plain, found, different = trees
    for folder in (plain, found):
        record(folder, 1, "repair")
    record(found, 2, "repair-failed")
    record(plain, 4, "repaired")
    assert sorted(each[:4] for each in different()) == ["also", "lost"]
    record(found, 3, "repair")
    record(found, 4, "repaired")
    assert different() == []
    record(found, 5, "repair-failed")
    assert len(different()) == 1


@pytest.mark.parametrize(
    ("changes", "is_other"),
    [({"files": 1}, False), ({"files": 3}, True), ({"files": 1, "why": "x"}, True)],
)
def test_a_note_about_landing_files_may_count_those_that_were_left(trees, changes, is_other):
    plain, found, different = trees
    write(plain, NOTE, {"at": "2024-04-01T00:00:00Z", "files": 2, "why": "keep: 1"})
    write(found, NOTE, {"at": "2024-04-01T00:01:00Z", "files": 2, "why": "keep: 1"} | changes)
    assert bool(different()) == is_other


@pytest.mark.parametrize(
    ("name", "is_other"),
    [
        ("clicks/versions/2024-03-01/CURRENT", False),
        ("clicks/versions/2024-03-01/CURRENT.json", True),
        ("clicks/tags/prod/LAST.json", True),
    ],
)
def test_a_pointer_that_is_gone_is_no_difference_and_another_file_is_one(trees, name, is_other):
    plain, found, different = trees
    write(plain, name, {})
    (found / name).parent.mkdir(parents=True)
    assert bool(different()) is is_other


def test_a_version_of_another_age_is_a_difference(trees):
    plain, found, different = trees
    for folder in (plain, found):
        (folder / "versions/2024-03-01/g0001").mkdir(parents=True)
        os.utime(folder / "versions/2024-03-01/g0001", (1, 1))
    assert different() == []
    os.utime(found / "versions/2024-03-01/g0001")
    assert len(different()) == 1


@pytest.fixture
def seen(tmp_path):
    """A data set without a version, and what a reader sees."""
    places = Places(tmp_path, tmp_path / "root")
    folder = topic(places).folder
    return folder, lambda: dict(look(places, COMMANDS["build"]))


def test_a_folder_in_which_no_number_was_used_is_no_version(seen):
    folder, see = seen
    folder.interval("2024-03-01").mkdir(parents=True)
    assert see() == {}
    folder.removal_mark("2024-03-01", 1).write_text("{}")
    assert see() == {"readable 2024-03-01": "None"}


def test_a_partial_version_and_a_torn_file_are_faults(seen):
    folder, see = seen
    folder.version("2024-03-01", 1).mkdir(parents=True)
    (folder.path / "code").mkdir()
    (folder.path / "code/x.json").write_text('{"a":')
    (folder.path / "code/.x.json.tmp").write_text('{"a":')
    assert {key for key in see() if key.startswith("fault")} == {
        "fault 2024-03-01/g0001",
        "fault code/x.json",
    }
