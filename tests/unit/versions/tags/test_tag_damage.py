"""A tag that was changed, cut or replaced on disk is an error, and never silently an older one."""

import json
import os

import pytest

from tests.support.roots import reseal, write_sealed
from tests.unit.versions.tags.conftest import DAYS
from tests.unit.versions.tags.test_tags import decided, give, opened
from trainfeed.errors import FormatError
from trainfeed.versions.tag import move_tag, untag
from trainfeed.versions.tag_files import (
    current_tags,
    require_tag,
    tag_history,
    tagged_versions,
    tags_naming,
)


@pytest.fixture
def path(clicks):
    """The newest of two changes of a tag."""
    clicks.publish(DAYS[0])
    give(clicks, DAYS[0])
    clicks.publish(DAYS[0], generation=2)
    give(clicks, DAYS[0])
    return clicks.folder.tag("prod") / "0002.json"


def test_every_flipped_byte_and_every_cut_is_found(clicks, path):
    data = path.read_bytes()
    for at in range(len(data)):
        for changed in (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], data[:at]):
            path.write_bytes(changed)
            with pytest.raises(FormatError):
                require_tag(clicks.folder, "prod")
    path.write_bytes(data)
    assert require_tag(clicks.folder, "prod").number == 2


def test_nobody_works_with_a_damaged_tag(clicks, path):
    path.write_bytes(b"{}")
    nobody_works_with_it(clicks)
    assert opened(clicks, "prod#1") == [f"{DAYS[0]}/g0001"]


def nobody_works_with_it(clicks):
    for act in (
        lambda: opened(clicks),
        lambda: untag(clicks.folder, "prod", decided()),
        lambda: move_tag(clicks.folder, "prod", {DAYS[0]: 1}, decided()),
        lambda: tagged_versions(clicks.folder),
        lambda: list(current_tags(clicks.folder)),
    ):
        with pytest.raises(FormatError, match="or tag again: a new change takes its place"):
            act()


@pytest.mark.parametrize("aside", [None, "0002.json.damaged", "0002.json-of-monday"])
def test_a_new_change_takes_the_place_of_a_damaged_one_and_no_number_is_used_twice(
    clicks, path, aside
):
    path.write_bytes(b"{}")
    if aside is not None:
        path.rename(path.with_name(aside))
    with pytest.raises(FormatError, match="change 2 of tag clicks@prod"):
        opened(clicks)
    give(clicks, DAYS[0])
    assert require_tag(clicks.folder, "prod").number == 3
    assert opened(clicks) == [f"{DAYS[0]}/g0002"]
    with pytest.raises(FormatError, match="change 2 of tag clicks@prod"):
        opened(clicks, "prod#2")


@pytest.mark.parametrize("lost", ["0001.json", "0002.json"])
def test_the_loss_of_a_change_is_noticed_and_its_number_is_not_used_again(clicks, path, lost):
    (path.parent / lost).unlink()
    with pytest.raises(FormatError, match="it is gone"):
        tag_history(clicks.folder, "prod")
    with pytest.raises(FormatError, match="it is gone"):
        require_tag(clicks.folder, "prod", int(lost[:4]))
    if lost == path.name:
        nobody_works_with_it(clicks)
    give(clicks, DAYS[0])
    assert require_tag(clicks.folder, "prod").generations == {DAYS[0]: 2}
    assert require_tag(clicks.folder, "prod").number == (3 if lost == path.name else 2)


def test_a_tag_of_before_has_no_last_number_until_it_is_given_again(clicks, path):
    (path.parent / "LAST.json").unlink()
    for each in path.parent.iterdir():
        reseal(each, dataset=None)
    assert require_tag(clicks.folder, "prod").number == 2
    give(clicks, DAYS[0])
    path.unlink()
    with pytest.raises(FormatError, match="it is gone"):
        require_tag(clicks.folder, "prod")


def test_a_damaged_last_number_is_told_and_may_be_removed(clicks, path):
    last = path.parent / "LAST.json"
    last.write_bytes(last.read_bytes().replace(b"2", b"1", 1))
    with pytest.raises(FormatError, match=r"LAST\.json"):
        require_tag(clicks.folder, "prod")
    last.unlink()
    assert require_tag(clicks.folder, "prod").number == 2


def test_a_change_of_the_tag_of_another_data_set_is_none_of_this_one(clicks, path):
    reseal(path, dataset="views")
    with pytest.raises(FormatError, match="dataset: expected 'clicks'"):
        require_tag(clicks.folder, "prod")


def test_an_unfinished_file_of_a_killed_try_uses_no_number(clicks, path):
    path.with_name("0003.json.0a1b2c.tmp").write_bytes(b"{")
    assert require_tag(clicks.folder, "prod").number == 2


def test_a_folder_in_the_place_of_a_change_is_told_with_what_to_do(clicks, path):
    path.unlink()
    path.mkdir()
    with pytest.raises(FormatError, match=r"change 2 of tag clicks@prod: .*a folder.*or tag again"):
        require_tag(clicks.folder, "prod")


WRONG = {
    "tag": ["other", 1],
    "number": [1, "2"],
    "kind": ["move", None],
    "range": ["never", 1, None],
    "versions": [None, [[]], [["../x", 1, "a", "b"]], [[DAYS[0], 0, "a", "b"]], [[DAYS[0], "g"]]],
    "skipped": [None, [{}], [{"interval": 1, "why": "", "at": "", "until": None}]],
    "missing": [None, ["../x"], [1]],
    "why": [None, 1],
    "who": [None],
    "account": [None],
    "at": ["yesterday", None],
    "request": [1],
}  # fmt: skip


@pytest.mark.parametrize("key", WRONG)
def test_a_whole_file_with_another_value_is_no_change_of_the_tag(clicks, path, key):
    value = json.loads(path.read_bytes())
    value.pop("digest")
    for wrong in WRONG[key]:
        write_sealed(path, value | {key: wrong})
        with pytest.raises(FormatError, match="expected change 2 of tag clicks@prod"):
            require_tag(clicks.folder, "prod")


def test_a_link_a_folder_and_a_pipe_are_no_tag(clicks, path):
    data = path.read_bytes()
    elsewhere = path.with_name("elsewhere")
    elsewhere.write_bytes(data)
    makers = (lambda: path.symlink_to(elsewhere), path.mkdir, lambda: os.mkfifo(path))
    for make in makers:
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        make()
        with pytest.raises(Exception, match=r"0002\.json"):
            require_tag(clicks.folder, "prod")


def test_a_tag_that_cannot_be_read_hides_no_other(clicks, path):
    give(clicks, DAYS[0], "test")
    path.write_bytes(b"{}")
    names, (problem,) = tags_naming(clicks.folder, DAYS[0], 2)
    assert (names, problem.tag, problem.is_damage) == (("test",), "prod", True)


def test_a_folder_that_is_no_tag_is_damage_and_no_wrong_request(clicks, path):
    (clicks.folder.tags / "Old").mkdir()
    with pytest.raises(FormatError, match="move it out of the folder of tags"):
        tagged_versions(clicks.folder)
    names, (problem,) = tags_naming(clicks.folder, DAYS[0], 2)
    assert (names, problem.tag, problem.is_damage) == (("prod",), "Old", True)
