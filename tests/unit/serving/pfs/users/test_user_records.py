"""What a user removes from a home is noticed, and put back by the command that gave it.

The attributes of a CephFS are a table here; ``tests/integration/cephfs/test_users.py`` has them on
a real one.
"""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainfeed.errors import FormatError
from trainfeed.serving.pfs.ceph import QUOTA_BYTES, QUOTA_FILES, Layout, SharedStorage
from trainfeed.serving.pfs.users import (
    NAMESPACE,
    HomeWish,
    lost_attributes,
    prepare_home,
    prepare_public,
    record_path,
)


@pytest.fixture
def table(monkeypatch):
    """Attributes by folder and name; those that are read only are empty."""
    found = {}

    def get(path, name, **_):
        if (value := found.get((os.fspath(path), name))) in (None, "0", ""):
            raise OSError(errno.ENODATA, "No data available")
        return value.encode()

    monkeypatch.setattr(os, "getxattr", get)
    monkeypatch.setattr(
        os,
        "setxattr",
        lambda path, name, value, **_: found.update({(os.fspath(path), name): value.decode()}),
    )
    return found


@pytest.fixture
def storage(tmp_path, table):
    def known(*words):
        return {"path": "/pfs/dc1/home"}

    ceph = SimpleNamespace(json_or_none=known)
    found = SharedStorage(ceph, tmp_path, Layout("fs", "dc1"), (0,))
    prepare_public(found)
    prepare_home(found, "alice", HomeWish(quota_bytes=1000, quota_files=50))
    prepare_home(found, "bob", HomeWish())
    return found


def home(storage, user="alice"):
    return str(storage.mount / "pfs" / "dc1" / "home" / user)


def lost(storage):
    return lost_attributes(storage.mount, "dc1")


def test_nothing_is_lost_after_add(storage):
    assert lost(storage) == []
    assert record_path(storage.mount / "pfs/dc1/home", "alice").stat().st_mode & 0o77 == 0


@pytest.mark.parametrize("name", [QUOTA_BYTES, QUOTA_FILES, NAMESPACE])
def test_what_a_user_removes_is_found_and_put_back_as_it_was(storage, table, name):
    before = dict(table)
    del table[home(storage), name]
    (found,) = lost(storage)
    assert home(storage) in found
    assert len(prepare_home(storage, "alice", HomeWish())) == 1
    assert table == before
    assert lost(storage) == []
    assert prepare_home(storage, "alice", HomeWish()) == ()


def test_a_quota_that_is_raised_by_somebody_else_is_found(storage, table):
    table[home(storage), QUOTA_BYTES] = "99999"
    assert len(lost(storage)) == 1


def test_a_quota_that_an_administrator_changes_is_the_one_that_counts(storage, table):
    prepare_home(storage, "alice", HomeWish(quota_bytes=0))
    assert lost(storage) == []
    assert prepare_home(storage, "alice", HomeWish()) == ()
    table[home(storage), QUOTA_BYTES] = "5"
    assert len(lost(storage)) == 1


def test_the_namespace_of_the_public_folder_is_looked_at_too(storage, table):
    del table[str(storage.mount / "pfs/dc1/public"), NAMESPACE]
    assert len(lost(storage)) == 1
    prepare_public(storage)
    assert lost(storage) == []


def test_a_home_of_before_has_no_record_and_is_told_to_get_one(storage):
    record_path(storage.mount / "pfs/dc1/home", "bob").unlink()
    (found,) = lost(storage)
    assert "no record" in found
    prepare_home(storage, "bob", HomeWish())
    assert lost(storage) == []


def test_a_home_that_is_made_again_does_not_get_the_namespace_of_the_one_before(storage, table):
    first = table[home(storage), NAMESPACE]
    Path(home(storage)).rename(home(storage, ".gone"))
    for name in (NAMESPACE, QUOTA_BYTES, QUOTA_FILES):
        del table[home(storage), name]
    prepare_home(storage, "alice", HomeWish())
    assert table[home(storage), NAMESPACE] != first
    assert QUOTA_BYTES not in {name for path, name in table if path == home(storage)}


def test_a_record_that_is_damaged_is_an_error_and_no_fact(storage):
    path = record_path(storage.mount / "pfs/dc1/home", "alice")
    path.write_bytes(path.read_bytes().replace(b"1000", b"9000"))
    with pytest.raises(FormatError):
        lost(storage)
    with pytest.raises(FormatError):
        prepare_home(storage, "alice", HomeWish())
