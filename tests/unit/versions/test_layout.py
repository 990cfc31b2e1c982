"""Which generation readers and writers see."""

import errno
import os
from pathlib import Path

import pytest

from trainfeed.errors import ConfigError, NotFoundError, StorageError
from trainfeed.versions import DatasetFolder
from trainfeed.versions.layout import parse_generation


@pytest.fixture
def folder(tmp_path):
    return DatasetFolder(tmp_path, "flights")


def make(folder, *names):
    for name in names:
        path = folder.interval("2013-01-01") / name
        path.mkdir(parents=True)
        (path / "MANIFEST.json").touch()


def test_without_a_pointer_the_newest_generation_counts(folder):
    make(folder, "g0001", "g0002", "g0010")
    assert folder.require_generation("2013-01-01") == 10


def test_readers_follow_the_pointer(folder):
    make(folder, "g0001", "g0002")
    (folder.interval("2013-01-01") / "CURRENT").write_text("g0001\n")
    assert folder.require_generation("2013-01-01") == 1
    assert folder.current_generation("2013-01-01") == 2


@pytest.mark.parametrize("content", ["", "g0009\n", "../g0001", "g0001.withdrawn", "\x00"])
def test_a_torn_dangling_or_hostile_pointer_is_ignored(folder, content):
    make(folder, "g0001", "g0002")
    (folder.interval("2013-01-01") / "CURRENT").write_text(content)
    assert folder.require_generation("2013-01-01") == 2


def test_a_withdrawn_generation_is_not_read_and_its_number_not_used_again(folder):
    make(folder, "g0001", "g0002")
    (folder.interval("2013-01-01") / "CURRENT").write_text("g0002\n")
    (folder.interval("2013-01-01") / "g0002.withdrawn").touch()
    assert folder.require_generation("2013-01-01") == 1
    assert folder.last_generation("2013-01-01") == 2


def test_an_unpublished_interval_says_how_to_build_it(folder):
    with pytest.raises(NotFoundError, match=r"trainfeed build flights --interval 2013-01-01"):
        folder.require_generation("2013-01-01")


@pytest.mark.parametrize(
    "name", ["..", ".snap", "a/b", "", "-rf", "a\0b", "x" * 201, "$(id)", "a\n"]
)
def test_names_that_could_leave_the_folder_are_refused(folder, name):
    with pytest.raises(ConfigError):
        folder.interval(name)


@pytest.mark.parametrize(
    "name",
    ["g1", "0001", "g0001.removed", "g0001/..", "gabcd", "g0001\n", "g\u0660\u0660\u0660\u0661"],
)
def test_only_generation_names_are_generations(name):
    with pytest.raises(ConfigError):
        parse_generation(name)
    assert parse_generation("g0012") == 12


def test_a_folder_with_a_line_break_in_its_name_is_no_generation(folder):
    make(folder, "g0001", "g0002\n")
    assert folder.current_generation("2013-01-01") == folder.last_generation("2013-01-01") == 1


def test_only_a_removed_generation_is_removed(folder):
    make(folder, "g0001")
    for name in ("g0002.removed", "g0003.withdrawn"):
        (folder.interval("2013-01-01") / name).touch()
    assert [folder.is_removed("2013-01-01", n) for n in (1, 2, 3)] == [False, True, False]


def test_things_that_are_no_interval_are_not_listed(folder):
    make(folder, "g0001")
    for name in (".snap", "2013-01-02\n"):
        (folder.path / "versions" / name).mkdir()
    assert folder.intervals() == ["2013-01-01"]


def test_a_pointer_that_is_no_file_is_ignored_and_waited_for_by_nobody(folder):
    make(folder, "g0001")
    os.mkfifo(folder.interval("2013-01-01") / "CURRENT")
    assert folder.readable_generation("2013-01-01") == 1


def test_a_folder_that_cannot_be_listed_is_an_error_of_ours(folder, monkeypatch):
    make(folder, "g0001")
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(StorageError, match="input/output error"):
        folder.current_generation("2013-01-01")


def refuse(*_):
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    "name", ["_pjVbp3pR46ZgUaHaiSlbQ", "-dash", ".hidden", "__consumer_offsets", "x" * 249]
)
def test_a_topic_may_have_any_name_and_id_that_kafka_gives(folder, name):
    assert folder.boundaries(name, name) == folder.path / "boundaries" / name / name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "x" * 250, "a\n"])
def test_a_topic_cannot_lead_out_of_its_folder(folder, name):
    with pytest.raises(ConfigError, match="expected the name or id of a topic"):
        folder.boundaries("clicks", name)
