"""The folder of an area that is not mounted is never taken for the area."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from trainfeed.core.datacenters import local_source, local_target
from trainfeed.errors import ConfigError

ENTRY = "datacenters: [{{name: dc1, username: alice, home: '{}', {}}}]"


@pytest.fixture
def tmp_path():
    """A folder of a disk of this machine, wherever other tests have their files."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def other_system():
    """A folder in a file system of its own, which has no disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def configure(areas, home, more="endpoint: https://pfs.example.org"):
    areas.config.write_text(ENTRY.format(home, more))


@pytest.mark.parametrize("resolve", [local_source, local_target])
def test_a_folder_that_its_mount_has_left_is_refused(areas, resolve):
    configure(areas, areas.home)
    with pytest.raises(ConfigError, match=r"got a folder without a mount; nothing.*local: true"):
        resolve("pfs://home/a")


def test_a_plain_folder_is_the_storage_if_the_configuration_says_so(areas):
    configure(areas, areas.home, "local: true")
    assert local_target("pfs://home/a") == f"{areas.home}/a"
    configure(areas, areas.home, "local: false")
    with pytest.raises(ConfigError, match="without a mount"):
        local_target("pfs://home/a")


def test_a_folder_in_a_mounted_file_system_is_the_area(areas, other_system):
    configure(areas, other_system)
    assert local_target("pfs://home/a") == f"{other_system}/a"


def test_a_link_to_a_mounted_folder_is_the_area(areas, other_system):
    areas.home.rmdir()
    areas.home.symlink_to(other_system)
    configure(areas, areas.home)
    assert local_target("pfs://home/a") == f"{areas.home}/a"


def test_the_file_system_of_the_account_is_no_mount_of_an_area(areas, other_system, monkeypatch):
    (other_system / ".trainfeed").mkdir()
    (other_system / "area").mkdir()
    configure(areas, other_system / "area")
    shutil.copy(areas.config, other_system / ".trainfeed/config")
    monkeypatch.setenv("HOME", str(other_system))
    with pytest.raises(ConfigError, match="without a mount"):
        local_target("pfs://home/a")


def test_a_disk_is_an_area_only_where_it_is_mounted_itself(areas, other_system, monkeypatch):
    monkeypatch.setattr(os, "major", lambda _: 8)
    configure(areas, other_system)
    with pytest.raises(ConfigError, match="without a mount"):
        local_target("pfs://home/a")
    monkeypatch.setattr(os.path, "ismount", lambda path: path == Path(other_system))
    assert local_target("pfs://home/a") == f"{other_system}/a"
