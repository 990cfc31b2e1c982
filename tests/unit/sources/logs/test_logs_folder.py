"""A folder of logs: its files, and the moment when it is complete."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trainfeed.errors import FormatError, WindowOpenError
from trainfeed.files.stores import Location
from trainfeed.files.stores.local import LocalFileSystem
from trainfeed.sources import CompleteRule, FolderTree, find_logs, list_entries

MARKED = CompleteRule(marker="_SUCCESS", stable=None)
STABLE = CompleteRule(marker=None, stable=timedelta(minutes=10))
NOW = datetime(2024, 1, 2, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "dt=2024-01-01").mkdir()
    return tmp_path / "dt=2024-01-01"


def find(folder, rule=MARKED, now=NOW):
    return find_logs(FolderTree(Location.parse(str(folder))), rule, now).files


def fill(folder, *names, aged=timedelta(hours=1)):
    for name in names:
        (folder / name).write_text("line\n")
        age(folder / name, aged)
    age(folder, aged)


def age(path, by):
    stamp = (NOW - by).timestamp()
    os.utime(path, (stamp, stamp))


def test_a_complete_folder_gives_its_files_by_name(folder):
    fill(folder, "b.gz", "a.txt", "c.zst", "_SUCCESS")
    files = find(folder)
    assert [(file.info.name, file.compression) for file in files] == [
        ("a.txt", "none"),
        ("b.gz", "gzip"),
        ("c.zst", "zstd"),
    ]
    assert {file.info.size_bytes for file in files} == {5}
    assert {file.checksum for file in files} == {None}
    assert all(file.info.file_id for file in files)


def test_hidden_and_unfinished_names_are_not_read(folder):
    fill(folder, "_SUCCESS", "_metadata", ".a.txt.crc", "a.tmp", "b._COPYING_", "c.inprogress", "d")
    (folder / "_temporary").mkdir()
    assert [file.info.name for file in find(folder)] == ["d"]
    entries = list_entries(FolderTree(Location.parse(str(folder))), "_SUCCESS")
    assert [info.name for info in entries.logs] == ["d"]


def test_an_empty_complete_folder_is_an_empty_interval(folder):
    fill(folder, "_SUCCESS")
    assert find(folder) == []
    assert find(folder, STABLE) == []


@pytest.mark.parametrize("rule", [MARKED, STABLE])
def test_a_missing_folder_is_waited_for(folder, rule):
    folder.rmdir()
    with pytest.raises(WindowOpenError, match="is not complete: the folder is not there") as caught:
        find(folder, rule)
    assert caught.value.ready_at is None


def test_a_folder_without_its_marker_is_waited_for(folder):
    fill(folder, "a.txt")
    with pytest.raises(WindowOpenError, match="it has no _SUCCESS; nothing was read or written"):
        find(folder)


def test_a_folder_in_which_something_changed_is_waited_for_until_it_is_stable(folder):
    fill(folder, "a.txt", "b.txt")
    age(folder / "b.txt", timedelta(minutes=3))
    with pytest.raises(WindowOpenError, match=r"b\.txt changed at .*less than 0:10:00") as caught:
        find(folder, STABLE)
    assert caught.value.ready_at == NOW + timedelta(minutes=7)
    assert len(find(folder, STABLE, caught.value.ready_at)) == 2


def test_a_file_with_a_time_in_the_future_is_said_to_have_one(folder):
    fill(folder, "a.txt")
    os.utime(folder / "a.txt", (4102444800, 4102444800))
    with pytest.raises(WindowOpenError) as caught:
        find(folder, STABLE)
    told = str(caught.value)
    assert "2100-01-01T00:00:00Z, which is in the future" in told
    assert "ago" not in told
    assert caught.value.ready_at is None, "the end of a wait for a wrong time is no time"


def test_an_unfinished_file_keeps_a_folder_from_being_stable(folder):
    fill(folder, "a.txt", "b.tmp")
    age(folder / "b.tmp", timedelta(minutes=1))
    with pytest.raises(WindowOpenError, match=r"b\.tmp changed"):
        find(folder, STABLE)


def test_a_file_that_was_removed_lately_keeps_a_folder_from_being_stable(folder):
    fill(folder, "a.txt")
    age(folder, timedelta(minutes=1))
    with pytest.raises(WindowOpenError, match="the folder itself changed"):
        find(folder, STABLE)


def test_a_file_that_somebody_writes_is_waited_for(folder, monkeypatch):
    fill(folder, "a.txt", "b.txt", "_SUCCESS")
    monkeypatch.setattr(LocalFileSystem, "is_open", lambda *where: where[1].endswith("b.txt"))
    for rule in (MARKED, STABLE):
        with pytest.raises(WindowOpenError, match=r"b\.txt is not closed.*recoverLease"):
            find(folder, rule)


def test_only_a_marker_vouches_for_a_file_of_which_nobody_knows_whether_it_is_open(
    folder, monkeypatch
):
    fill(folder, "a.txt", "_SUCCESS")
    monkeypatch.setattr(LocalFileSystem, "is_open", lambda *_: None)
    assert len(find(folder)) == 1
    with pytest.raises(WindowOpenError, match=r"does not show whether .*a\.txt.*use webhdfs://"):
        find(folder, STABLE)


@pytest.mark.parametrize("change", ["append", "add", "remove"])
def test_a_folder_that_changes_while_it_is_looked_at_is_waited_for(folder, monkeypatch, change):
    fill(folder, "a.txt", "b.txt", "_SUCCESS")

    def checksum(self, path):
        match change:
            case "append":
                (folder / "b.txt").write_text("more lines\n")
            case "add":
                (folder / "c.txt").touch()
            case _:
                (folder / "b.txt").unlink(missing_ok=True)
        self.stat(path)

    monkeypatch.setattr(LocalFileSystem, "checksum", checksum)
    with pytest.raises(WindowOpenError, match="changed while it was looked at"):
        find(folder)


def test_a_folder_in_the_folder_is_refused(folder):
    fill(folder, "a.txt", "_SUCCESS")
    (folder / "hour=05").mkdir()
    with pytest.raises(FormatError, match="got the folder 'hour=05'"):
        find(folder)


@pytest.mark.parametrize("name", ["a.br", "a.lzo", "a.txt.xz", "a.zip"])
def test_compressions_that_are_not_read_are_refused(folder, name):
    fill(folder, name, "_SUCCESS")
    with pytest.raises(FormatError, match=r"expected a plain file or one of \.gz, \.zst") as caught:
        find(folder)
    assert caught.value.path.endswith(name)


@pytest.mark.parametrize(
    "name", ["a\nb", "a\x1bb", os.fsdecode(b"a\xff")], ids=["newline", "escape", "bytes"]
)
def test_names_that_cannot_be_printed_are_refused(folder, name):
    (folder / name).write_bytes(b"line\n")
    fill(folder, "_SUCCESS")
    with pytest.raises(FormatError, match="expected names of printable characters"):
        find(folder)


@pytest.mark.parametrize("name", ["a b", "a%2Fb", "a+b", "a#b", "é.txt", "🙂", "a:b", "x" * 255])
def test_other_names_are_names(folder, name):
    """Case HD-09."""
    fill(folder, name, "_SUCCESS")
    (file,) = find(folder)
    assert file.info.name == name


def test_whoever_only_waits_asks_for_no_checksums(folder, monkeypatch):
    fill(folder, "a.txt", "b.txt", "_SUCCESS")
    monkeypatch.setattr(LocalFileSystem, "checksum", lambda _, path: f"CRC:{Path(path).name}")
    location = Location.parse(str(folder))
    unasked = find_logs(FolderTree(location), MARKED, NOW, checksums=False)
    assert [file.checksum for file in unasked.files] == [None, None]
    asked = [file.checksum for file in find_logs(FolderTree(location), MARKED, NOW).files]
    assert asked == ["CRC:a.txt", "CRC:b.txt"]
