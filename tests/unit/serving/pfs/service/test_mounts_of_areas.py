"""A server whose mount is away refuses, and writes nothing to the folder that the mount left."""

import tempfile
from pathlib import Path

import pytest

from trainfeed.errors import ConfigError, StorageError
from trainfeed.serving.pfs.areas import Areas, refusal_of_files
from trainfeed.serving.pfs.tree import SmallFile, SourceState

PATH = "/pfs/dc/home/alice/file"


@pytest.fixture
def tmp_path():
    """A folder of this machine's disk, wherever other tests have their files."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def mounted():
    """A folder in a file system of its own, which has no disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield with_areas(Path(folder))


@pytest.fixture
def left(tmp_path):
    """A folder of this machine's disk, as it was before a mount hid it."""
    return with_areas(tmp_path / "left")


def with_areas(folder):
    (folder / "home/alice").mkdir(parents=True)
    (folder / "public").mkdir()
    return folder


def point(link, folder):
    """Let a link point to what a mount, or the disk below it, has."""
    link.unlink(missing_ok=True)
    link.symlink_to(folder)
    return link


def areas_of(folder, **options):
    return Areas("dc", folder / "home", folder / "public", **options)


def put(areas):
    place = areas.place(PATH, "alice")
    (error,) = place.tree.put_small([SmallFile(place.parts, b"x")], replace=True, is_hidden=False)
    return error


def test_a_home_whose_mount_is_away_swallows_no_file_until_the_mount_is_back(
    tmp_path, mounted, left
):
    storage = point(tmp_path / "dc", mounted)
    areas = areas_of(storage)
    assert put(areas) is None
    point(storage, left)
    place = areas.place(PATH, "alice")
    error = put(areas)
    assert "not mounted on the server; nothing was" in str(error)
    assert refusal_of_files(error).status_code == 503
    state = SourceState(1, 1, "0" * 32)
    for call in (
        lambda: place.tree.open_target(place.parts, state, replace=True),
        lambda: place.tree.open_source(place.parts),
        lambda: place.tree.make_folder(place.parts, parents=True),
        lambda: place.tree.entries(()),
        lambda: place.tree.rename(place.parts, ("other",), replace=True),
        lambda: place.tree.remove(place.parts),
    ):
        with pytest.raises(StorageError, match="not mounted on the server"):
            call()
    assert list((left / "home/alice").iterdir()) == []
    point(storage, mounted)
    assert put(areas) is None


def test_a_server_does_not_start_on_a_folder_that_its_mount_has_left(left):
    with pytest.raises(ConfigError, match="got a plain folder; nothing was started; mount it"):
        areas_of(left)
    (left / "public").rmdir()
    with pytest.raises(ConfigError, match="got none"):
        areas_of(left, is_local=True)


def test_plain_folders_are_the_storage_if_the_caller_says_so(left):
    assert put(areas_of(left, is_local=True)) is None
    assert (left / "home/alice/file").read_bytes() == b"x"
