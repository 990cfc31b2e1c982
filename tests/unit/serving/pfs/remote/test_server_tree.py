"""A tree behind a server does what a mounted tree does, with the same errors."""

import os

import pytest

from tests.unit.serving.pfs.service.file_servers import Storage, running
from trainfeed.core.datacenters import PfsPath
from trainfeed.errors import (
    AccessDeniedError,
    ChecksumError,
    ConfigError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
)
from trainfeed.serving.pfs.posix import MountedTree
from trainfeed.serving.pfs.tree import CHUNK_BYTES, Kind, SmallFile, SourceState

pytestmark = pytest.mark.usefixtures("socket_enabled")

ONE = 1 << 20


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return Storage(tmp_path_factory.mktemp("storage"))


@pytest.fixture(scope="module")
def server(storage):
    with running(storage) as server:
        yield server


@pytest.fixture
def tree(server, storage):
    for each in sorted(storage.home().rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() and not each.is_symlink() else each.unlink()
    tree = server.tree()
    yield tree
    tree.close()


def state_of(data, number=0):
    return SourceState(len(data), 1, f"{number:032x}")


def chunks_of(data):
    from hashlib import sha256

    starts = range(0, len(data), CHUNK_BYTES)
    return [sha256(data[start : start + CHUNK_BYTES]).digest() for start in starts]


def send(target, data, indexes=None):
    for index, start in enumerate(range(0, len(data), CHUNK_BYTES)):
        if indexes is None or index in indexes:
            target.write(start, memoryview(data)[start : start + CHUNK_BYTES])


def upload(tree, parts, data, **more):
    target = tree.open_target(parts, state_of(data), **{"replace": False, **more})
    send(target, data)
    target.commit(chunks_of(data))
    target.close()


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 17])
def test_an_uploaded_file_has_its_bytes_on_the_mount_and_comes_back_equal(tree, storage, size):
    data = os.urandom(size)
    upload(tree, ("file",), data)
    assert (storage.home() / "file").read_bytes() == data
    assert [each.name for each in storage.home().iterdir()] == ["file"]
    source = tree.open_source(("file",))
    buffer = bytearray(size + 5)
    assert source.read_into(0, memoryview(buffer)) == size
    assert buffer[:size] == data
    found = tree.digests(("file",))
    assert (found.num_bytes, list(found.chunks)) == (size, chunks_of(data))


def test_a_name_appears_with_the_end_of_the_upload_and_not_before(tree, storage):
    data = os.urandom(2 * CHUNK_BYTES)
    target = tree.open_target(("file",), state_of(data), replace=False)
    send(target, data)
    assert not (storage.home() / "file").exists()
    target.commit(chunks_of(data))
    assert (storage.home() / "file").read_bytes() == data


def test_the_next_try_finds_the_chunks_of_the_last_one(tree, server):
    data = os.urandom(3 * CHUNK_BYTES)
    first = tree.open_target(("file",), state_of(data), replace=False)
    send(first, data, indexes=(0, 1))
    first.close()
    other = server.tree()
    second = other.open_target(("file",), state_of(data), replace=False)
    assert list(second.digests()) == chunks_of(data)[:2]
    send(second, data, indexes=(2,))
    second.commit(chunks_of(data))
    assert list(tree.digests(("file",)).chunks) == chunks_of(data)
    other.close()


def test_a_chunk_that_differs_at_the_end_leaves_the_name_free_and_is_sent_again(tree, storage):
    data = os.urandom(2 * CHUNK_BYTES)
    target = tree.open_target(("file",), state_of(data), replace=False)
    send(target, bytes(len(data)), indexes=(1,))
    send(target, data, indexes=(0,))
    with pytest.raises(ChecksumError, match="read back"):
        target.commit(chunks_of(data))
    assert not (storage.home() / "file").exists()
    send(target, data, indexes=(1,))
    target.commit(chunks_of(data))
    assert (storage.home() / "file").read_bytes() == data


def test_a_second_end_of_an_upload_says_what_the_first_one_said(tree):
    data = os.urandom(10)
    target = tree.open_target(("file",), state_of(data), replace=False)
    send(target, data)
    target.commit(chunks_of(data))
    target.commit(chunks_of(data))
    assert tree.digests(("file",)).num_bytes == 10


def test_a_taken_name_is_replaced_only_if_that_was_asked_for(tree, storage):
    upload(tree, ("file",), b"old")
    with pytest.raises(ConflictError):
        upload(tree, ("file",), b"new")
    assert (storage.home() / "file").read_bytes() == b"old"
    upload(tree, ("file",), b"new", replace=True)
    assert (storage.home() / "file").read_bytes() == b"new"


def test_names_are_listed_made_renamed_and_removed(tree):
    tree.make_folder(("a", "b"), parents=True)
    tree.make_folder(("a", "b"), parents=True)
    with pytest.raises(ConflictError):
        tree.make_folder(("a",))
    upload(tree, ("a", "b", "c"), b"12345")
    (entry,) = tree.entries(("a", "b"))
    assert (entry.name, entry.kind, entry.num_bytes) == ("c", Kind.FILE, 5)
    assert tree.stat(("a", "b", "c")) == entry
    assert tree.stat(("a",)).kind is Kind.FOLDER
    tree.rename(("a", "b", "c"), ("a", "d"), replace=False)
    assert [each.name for each in tree.entries(("a",))] == ["b", "d"]
    tree.sync_names(("a",))
    with pytest.raises(ConflictError):
        tree.remove(("a",))
    tree.remove(("a",), recursive=True)
    assert tree.entries(()) == []
    with pytest.raises(NotFoundError):
        tree.stat(("a",))


def test_many_entries_come_in_several_answers_and_in_order(tree, storage, monkeypatch):
    for number in range(25):
        (storage.home() / f"{number:02}").touch()
    assert [each.name for each in tree.entries(())] == [f"{number:02}" for number in range(25)]


def test_small_files_travel_many_at_once_in_both_directions(tree):
    files = [SmallFile((f"f{number}",), os.urandom(number)) for number in range(40)]
    assert tree.put_small(files, replace=False, is_hidden=False) == [None] * 40
    places = [file.parts for file in files]
    assert tree.get_small(places) == [file.data for file in files]
    assert tree.small_digests(places) == [file.digest for file in files]


def test_small_files_beyond_one_bundle_travel_in_several(tree):
    files = [SmallFile((f"f{number}",), os.urandom(ONE)) for number in range(10)]
    assert tree.put_small(files, replace=False, is_hidden=False) == [None] * 10
    assert tree.get_small([file.parts for file in files]) == [file.data for file in files]


def test_each_small_file_has_an_error_of_its_own(tree):
    tree.put_small([SmallFile(("one",), b"1")], replace=False, is_hidden=False)
    files = [SmallFile(("one",), b"other"), SmallFile(("two",), b"2")]
    conflict, none = tree.put_small(files, replace=False, is_hidden=False)
    assert isinstance(conflict, ConflictError)
    assert none is None
    found = tree.get_small([("one",), ("absent",), ("two",)])
    assert found[0] == b"1"
    assert isinstance(found[1], NotFoundError)
    assert found[2] == b"2"
    assert tree.small_digests([("absent",)]) == [None]


def test_a_file_that_changes_between_two_parts_is_an_error(tree, storage):
    path = storage.home() / "file"
    path.write_bytes(b"a" * 100)
    source = tree.open_source(("file",))
    path.write_bytes(b"b" * 50)
    with pytest.raises(FileReplacedError):
        source.read_into(0, memoryview(bytearray(100)))
    with pytest.raises(FileReplacedError):
        source.require_same()


def test_links_are_listed_and_removed_but_never_followed(tree, storage):
    secret = storage.home("bob") / "secret"
    secret.write_text("bob's")
    (storage.home() / "link").symlink_to(secret)
    (storage.home() / "folder").symlink_to(storage.home("bob"))
    assert [each.kind for each in tree.entries(())] == [Kind.LINK, Kind.LINK]
    for parts in (("link",), ("folder", "secret")):
        with pytest.raises(AccessDeniedError):
            tree.open_source(parts).read_into(0, memoryview(bytearray(5)))
        with pytest.raises((AccessDeniedError, ConflictError)):
            upload(tree, parts, b"mine", replace=True)
    tree.remove(("folder",), recursive=True)
    assert secret.read_text() == "bob's"


def test_public_files_are_read_and_never_changed(server, storage):
    (storage.mount / "public" / "set").write_bytes(b"open")
    tree = server.tree(area="public")
    assert tree.get_small([("set",)]) == [b"open"]
    calls = (
        lambda: upload(tree, ("new",), b"x"),
        lambda: tree.make_folder(("new",)),
        lambda: tree.remove(("set",)),
        lambda: tree.rename(("set",), ("new",), replace=False),
    )
    for call in calls:
        with pytest.raises(AccessDeniedError):
            call()
    (error,) = tree.put_small([SmallFile(("new",), b"x")], replace=False, is_hidden=False)
    assert isinstance(error, AccessDeniedError)
    assert (storage.mount / "public" / "set").read_bytes() == b"open"
    tree.close()


def test_a_folder_is_not_read_as_a_file_and_the_home_is_never_removed(tree):
    tree.make_folder(("folder",))
    with pytest.raises(FormatError):
        tree.open_source(("folder",))
    with pytest.raises(ConfigError):
        tree.remove((), recursive=True)


def test_a_place_has_one_address_on_a_mount_and_behind_a_server(tree, storage):
    mounted = MountedTree(storage.home(), PfsPath("dc", "home", "alice", ()))
    assert tree.address(("a", "b")) == mounted.address(("a", "b")) == "/pfs/dc/home/alice/a/b"


def test_messages_of_the_server_name_its_data_centre(tree):
    with pytest.raises(NotFoundError, match=r"^/pfs/dc/home/alice/missing: "):
        tree.stat(("missing",))
