"""Mounts: which file system holds a folder, whatever name the folder is called by."""

import pytest

from trainfeed.loader import mounts as _mounts
from trainfeed.loader.mounts import file_system_type, is_network

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /mnt/with\\040blank rw - ceph 10.0.0.1:/ rw
31 22 0:26 / /mnt/fuse rw shared:2 master:3 - fuse.ceph-fuse ceph-fuse rw
32 31 0:27 / /mnt/fuse/local rw - tmpfs tmpfs rw
33 22 0:28 / /mnt/nfs rw - nfs4 server:/x rw
"""


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    """Return the function that sets the mounts, as the kernel lists them."""

    def mount(text):
        (tmp_path / "mountinfo").write_text(text)
        _mounts._type_at.cache_clear()

    monkeypatch.setattr(_mounts, "_MOUNTS", tmp_path / "mountinfo")
    yield mount
    _mounts._type_at.cache_clear()


def test_the_innermost_mount_tells_the_file_system(mounted):
    mounted(MOUNTS)
    paths = ["/", "/mnt/with blank/x", "/mnt/fuse/x", "/mnt/fuse/local/x", "/mnt/nfsx"]
    kinds = ["ext4", "ceph", "fuse.ceph-fuse", "tmpfs", "ext4"]
    assert [file_system_type(path) for path in paths] == kinds
    network = ["/mnt/with blank", "/mnt/fuse", "/mnt/fuse/local", "/mnt/nfs", "/"]
    assert [is_network(path) for path in network] == [True, True, False, True, False]


def test_without_a_list_of_mounts_nothing_is_known(mounted):
    mounted("")
    assert file_system_type("/") == ""
    assert not is_network("/")


@pytest.mark.parametrize("end", ["\x0c", "\x1c", "\u2028", "\x85"])
def test_a_mount_point_may_hold_what_ends_lines_elsewhere(mounted, end):
    mounted(f"30 22 0:25 / /mnt/a{end}b rw - nfs4 server:/x rw\n")
    assert file_system_type(f"/mnt/a{end}b/x") == "nfs4"


@pytest.fixture
def folders(tmp_path, mounted):
    """Return a local folder, and one on CephFS."""
    found = tmp_path / "local", tmp_path / "ceph"
    for folder in found:
        folder.mkdir()
    mounted(f"22 1 254:0 / / rw - ext4 /dev/vda rw\n31 22 0:9 / {found[1]} rw - ceph a:/ rw\n")
    return found


def test_a_relative_folder_is_that_of_the_moment(folders, monkeypatch):
    """With what was found for another folder of this name, a file on a network would be mapped."""
    found = []
    for folder in folders:
        monkeypatch.chdir(folder)
        found.append(is_network("."))
    assert found == [False, True]


def test_a_link_is_what_it_leads_to_at_the_moment(folders, tmp_path):
    link, found = tmp_path / "current", []
    for folder in folders:
        link.unlink(missing_ok=True)
        link.symlink_to(folder)
        found.append(is_network(str(link)))
    assert found == [False, True]
