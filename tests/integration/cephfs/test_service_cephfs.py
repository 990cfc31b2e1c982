"""CephFS as a service: two clients, one truth, and a new client after SIGKILL of the first."""

import errno

import pytest

from services.cephfs import CephFS


@pytest.fixture(scope="module")
def cephfs(tmp_path_factory):
    cephfs = CephFS(tmp_path_factory.mktemp("services"))
    cephfs.start()
    cephfs.wait()
    yield cephfs
    cephfs.stop()
    assert not any(cephfs.status().values())


@pytest.fixture
def mounts(cephfs, tmp_path):
    second = tmp_path / "second"
    cephfs.mount(second)
    yield cephfs.path, second
    cephfs.unmount(second)


def test_a_second_mount_sees_a_rename_at_once(mounts):
    first, second = mounts
    (first / "staging").mkdir()
    (first / "staging" / "manifest").write_text("whole")

    (first / "staging").rename(first / "version")

    assert (second / "version" / "manifest").read_text() == "whole"
    assert not (second / "staging").exists()


def test_a_directory_is_not_renamed_onto_another_clients_version(mounts):
    first, second = mounts
    for mount, name in ((first, "mine"), (second, "yours")):
        (mount / name).mkdir()
        (mount / name / "manifest").write_text(name)
    (first / "mine").rename(first / "final")

    with pytest.raises(OSError, match="not empty") as refused:
        (second / "yours").rename(second / "final")

    assert refused.value.errno == errno.ENOTEMPTY
    assert (second / "final" / "manifest").read_text() == "mine"


def test_a_killed_client_is_replaced_at_the_same_path(cephfs):
    (cephfs.path / "kept").mkdir()

    cephfs.kill("fuse")
    with pytest.raises(OSError, match="not connected") as refused:
        (cephfs.path / "kept").stat()
    assert refused.value.errno == errno.ENOTCONN
    cephfs.start()
    cephfs.wait()

    assert (cephfs.path / "kept").is_dir()


def test_keys_are_for_root_alone(cephfs):
    keys = cephfs.home / "keys"

    assert {path.stat().st_mode & 0o077 for path in [keys, *keys.iterdir()]} == {0}
