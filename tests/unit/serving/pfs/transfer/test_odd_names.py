"""Names that shared storage refuses, and that another program made on the mount or here."""

import os

import pytest

from tests.unit.serving.pfs.service.file_servers import Storage, running
from trainfeed.core.datacenters import PfsPath
from trainfeed.errors import ConfigError, ServiceError
from trainfeed.serving.pfs.copy import copy_places
from trainfeed.serving.pfs.copy_plan import CopyOptions, Place
from trainfeed.serving.pfs.posix import LocalTree, MountedTree
from trainfeed.serving.pfs.tree import SmallFile

pytestmark = pytest.mark.usefixtures("socket_enabled")

HOME = PfsPath("dc1", "home", "alice", ())
ODD_FOLDER, ODD_FILE, NO_TEXT = "a\nb", "Icon\r", os.fsdecode(b"\xff")
WHOLE = {"mine": "mine", "inner/deep": "deep"}


def filled(folder):
    """Make files with plain names, and three odd entries with content."""
    for name, text in WHOLE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / ODD_FOLDER).mkdir()
    (folder / ODD_FOLDER / "inside").write_text("inside")
    for name in (ODD_FILE, f"inner/{NO_TEXT}"):
        (folder / name).write_text("odd")


def found(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def copied(source, target, options=None):
    outcomes = list(copy_places([source], target, options or CopyOptions(is_recursive=True)))
    return [each for each in outcomes if each.error], outcomes


@pytest.fixture(params=["mounted", "server"])
def storage(request, tmp_path):
    """A home on shared storage: its folder, and the tree that a copy gets."""
    made = Storage(tmp_path / "storage")
    if request.param == "mounted":
        yield made.home(), MountedTree(made.home(), HOME)
        return
    with running(made) as server:
        tree = server.tree()
        yield made.home(), tree
        tree.close()


def test_each_odd_name_is_one_failure_and_every_other_file_is_copied(storage, tmp_path):
    home, tree = storage
    (home / "folder").mkdir()
    filled(home / "folder")
    (tmp_path / "down").mkdir()
    place = Place(tree, ("folder",), is_content=True)
    failures, outcomes = copied(place, Place(LocalTree(tmp_path), ("down",)))
    assert found(tmp_path / "down") == WHOLE
    assert not (tmp_path / "down" / ODD_FOLDER).exists()
    assert sorted(each.source for each in failures) == [
        "pfs://home/folder/Icon\\r",
        "pfs://home/folder/a\\nb",
        "pfs://home/folder/inner/\\udcff",
    ]
    assert all(isinstance(each.error, ConfigError) for each in failures)
    assert [str(each.error).startswith(each.source) for each in failures] == [True] * 3
    assert len(outcomes) == len(WHOLE) + 3


def test_odd_names_of_this_machine_are_one_failure_each_on_the_way_up(storage, tmp_path):
    home, tree = storage
    (tmp_path / "up").mkdir()
    filled(tmp_path / "up")
    (home / "there").mkdir()
    source = Place(LocalTree(tmp_path), ("up",), is_content=True)
    failures, _ = copied(source, Place(tree, ("there",)))
    assert (len(failures), found(home / "there")) == (3, WHOLE)


def test_a_folder_with_an_odd_name_in_it_is_listed_and_removed(storage):
    home, tree = storage
    (home / "folder").mkdir()
    filled(home / "folder")
    assert [entry.name for entry in tree.entries(("folder",))] == [
        ODD_FILE,
        ODD_FOLDER,
        "inner",
        "mine",
    ]
    assert [entry.name for entry in tree.entries(("folder", "inner"))] == ["deep", NO_TEXT]
    tree.remove(("folder",), recursive=True)
    assert list(home.iterdir()) == []


def test_an_error_of_a_whole_group_is_the_failure_of_each_file_in_it(tmp_path, monkeypatch):
    def failed(*_, **__):
        raise ServiceError("the server is not there")

    (tmp_path / "source").mkdir()
    for name in ("one", "two"):
        (tmp_path / "source" / name).write_text(name)
    (tmp_path / "source/large").write_bytes(bytes(2 << 20))
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(MountedTree, "put_small", failed)
    target = Place(MountedTree(tmp_path / "home", HOME), ())
    source = Place(LocalTree(tmp_path / "source"), ())
    failures, outcomes = copied(source, target)
    assert [type(each.error) for each in failures] == [ServiceError] * 2
    assert [each.verdict for each in outcomes].count("copied") == 1
    assert (tmp_path / "home/large").stat().st_size == 2 << 20


def test_no_call_for_small_files_takes_an_odd_name(tmp_path):
    tree = MountedTree(tmp_path, HOME)
    (tmp_path / ODD_FILE).write_text("odd")
    assert isinstance(tree.get_small([(ODD_FILE,)])[0], ConfigError)
    for is_hidden in (True, False):
        (error,) = tree.put_small([SmallFile((ODD_FILE,), b"x")], replace=True, is_hidden=is_hidden)
        assert isinstance(error, ConfigError)
    assert (tmp_path / ODD_FILE).read_text() == "odd"
