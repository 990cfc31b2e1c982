"""Trees of this machine and of mounts: what both do, and how an area stays confined."""

import errno
import hashlib
import os
import threading
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainfeed.core.datacenters import PfsPath
from trainfeed.errors import (
    AccessDeniedError,
    ChecksumError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    StorageError,
)
from trainfeed.serving.pfs import posix_files as _posix_target
from trainfeed.serving.pfs import small_files as _small_writes
from trainfeed.serving.pfs.posix import LocalTree, MountedTree
from trainfeed.serving.pfs.tree import (
    CHUNK_BYTES,
    SMALL_BYTES,
    Kind,
    SmallFile,
    SourceState,
    unfinished_file_name,
)

HOME = PfsPath("dc1", "home", "alice", ())
STATE = SourceState(CHUNK_BYTES + 3, 7, "0" * 32)
DATA = os.urandom(CHUNK_BYTES) + b"abc"
CHUNKS = [hashlib.sha256(part).digest() for part in (DATA[:CHUNK_BYTES], DATA[CHUNK_BYTES:])]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def replaced(path):
    other = path.with_name("other")
    other.write_bytes(b"abc")
    other.replace(path)


def mounted(folder, **options):
    return MountedTree(folder, HOME, **options)


@pytest.fixture(params=[LocalTree, mounted], ids=["local", "mounted"])
def tree(request, tmp_path):
    return request.param(tmp_path)


def write(tree, parts, data=DATA, *, replace=True, state=STATE):
    target = tree.open_target(parts, state, replace=replace)
    try:
        target.write(0, memoryview(data))
        target.commit(CHUNKS)
    finally:
        target.close()


class TestBothTrees:
    def test_a_file_gets_its_name_when_it_is_whole(self, tree, tmp_path):
        target = tree.open_target(("a",), STATE, replace=True)
        target.write(0, memoryview(DATA))
        assert names(tmp_path) == [unfinished_file_name("a", STATE)]
        target.commit(CHUNKS)
        target.close()
        assert (tmp_path / "a").read_bytes() == DATA
        assert names(tmp_path) == ["a"]
        assert tree.digests(("a",)).chunks == tuple(CHUNKS)

    def test_a_file_that_is_read_back_with_other_bytes_gets_no_name(self, tree, tmp_path):
        with pytest.raises(ChecksumError, match="1 differ"):
            write(tree, ("a",), b"x" + DATA[1:])
        assert names(tmp_path) == [unfinished_file_name("a", STATE)]

    def test_the_next_try_finds_what_the_last_one_has_written(self, tree):
        target = tree.open_target(("a",), STATE, replace=True)
        target.write(0, memoryview(DATA[:CHUNK_BYTES]))
        target.close()
        again = tree.open_target(("a",), STATE, replace=True)
        assert again.digests() == (CHUNKS[0],)
        again.write(CHUNK_BYTES, memoryview(DATA[CHUNK_BYTES:]))
        again.commit(CHUNKS)
        again.close()

    def test_two_copies_of_one_source_to_one_name_do_not_run_at_once(self, tree):
        first = tree.open_target(("a",), STATE, replace=True)
        with pytest.raises(ConflictError, match="another copy"):
            tree.open_target(("a",), STATE, replace=True)
        first.close()
        tree.open_target(("a",), STATE, replace=True).close()

    def test_a_copy_that_waited_for_a_lock_does_not_write_into_the_finished_file(
        self, tree, tmp_path, monkeypatch
    ):
        """The file that was opened may have got its final name before it could be locked."""
        first = tree.open_target(("a",), STATE, replace=True)
        first.write(0, memoryview(DATA))
        real, opened = os.open, []

        def late(path, *arguments, **options):
            fd = real(path, *arguments, **options)
            if str(path).startswith(".pfs.") and not opened:
                opened.append(fd)
                first.commit(CHUNKS)
                first.close()
            return fd

        monkeypatch.setattr(os, "open", late)
        second = tree.open_target(("a",), STATE, replace=True)
        second.write(0, memoryview(b"other bytes"))
        second.close()
        assert (tmp_path / "a").read_bytes() == DATA

    def test_a_kill_between_link_and_unlink_leaves_a_file_that_is_not_written_again(
        self, tree, tmp_path
    ):
        write(tree, ("a",))
        os.link(tmp_path / "a", tmp_path / unfinished_file_name("a", STATE))
        target = tree.open_target(("a",), STATE, replace=True)
        target.write(0, memoryview(b"other bytes"))
        target.close()
        assert (tmp_path / "a").read_bytes() == DATA

    @pytest.mark.parametrize(
        ("chunks", "kept", "error"),
        [([], DATA, FormatError), (CHUNKS * 2, DATA, FormatError), (CHUNKS, b"x", ChecksumError)],
        ids=["no digest", "digests of a longer file", "a file that is too short"],
    )
    def test_a_file_that_cannot_be_whole_is_refused_before_it_is_made_longer_or_read(
        self, tree, tmp_path, monkeypatch, chunks, kept, error
    ):
        target = tree.open_target(("a",), STATE, replace=True)
        target.write(0, memoryview(kept))
        monkeypatch.setattr(_posix_target, "chunk_digests", None)
        with pytest.raises(error, match="expected"):
            target.commit(chunks)
        target.close()
        assert (tmp_path / unfinished_file_name("a", STATE)).stat().st_size == len(kept)

    @pytest.mark.parametrize("replace", [True, False])
    def test_a_file_whose_folder_was_not_synced_takes_no_more_bytes(
        self, tree, tmp_path, monkeypatch, replace
    ):
        target = tree.open_target(("a",), STATE, replace=replace)
        target.write(0, memoryview(DATA))

        def fail(_):
            raise OSError(errno.EIO, "failed")

        with monkeypatch.context() as patch:
            patch.setattr(_posix_target, "sync_folder_at", fail)
            with pytest.raises(CommitUnknownError, match="repeat"):
                target.commit(CHUNKS)
        with pytest.raises(ConflictError, match="final name"):
            target.write(0, memoryview(b"XYZ"))
        with pytest.raises(ConflictError, match="final name"):
            target.commit(CHUNKS)
        target.close()
        assert (tmp_path / "a").read_bytes() == DATA
        assert names(tmp_path) == ["a"]

    def test_a_file_whose_link_stays_beside_its_name_takes_no_more_bytes(
        self, tree, tmp_path, monkeypatch
    ):
        target = tree.open_target(("a",), STATE, replace=False)
        target.write(0, memoryview(DATA))

        def fail(*_, **__):
            raise OSError(errno.EIO, "failed")

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", fail)
            with pytest.raises(CommitUnknownError):
                target.commit(CHUNKS)
        with pytest.raises(ConflictError):
            target.write(0, memoryview(b"XYZ"))
        target.close()
        assert (tmp_path / "a").read_bytes() == DATA

    def test_a_file_whose_rename_failed_takes_bytes_and_is_named_later(
        self, tree, tmp_path, monkeypatch
    ):
        target = tree.open_target(("a",), STATE, replace=True)
        target.write(0, memoryview(DATA))

        def fail(*_, **__):
            raise OSError(errno.EIO, "failed")

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", fail)
            with pytest.raises(StorageError, match="failed"):
                target.commit(CHUNKS)
        target.write(0, memoryview(DATA))
        target.commit(CHUNKS)
        target.close()
        assert (tmp_path / "a").read_bytes() == DATA

    def test_a_name_is_replaced_only_if_that_is_allowed(self, tree, tmp_path):
        (tmp_path / "a").write_bytes(b"old")
        with pytest.raises(ConflictError, match="expected a free name"):
            write(tree, ("a",), replace=False)
        write(tree, ("a",))
        assert (tmp_path / "a").read_bytes() == DATA

    def test_a_name_that_is_taken_during_the_copy_is_kept(self, tree, tmp_path):
        target = tree.open_target(("a",), STATE, replace=False)
        target.write(0, memoryview(DATA))
        (tmp_path / "a").write_bytes(b"mine")
        with pytest.raises(ConflictError, match="taken meanwhile"):
            target.commit(CHUNKS)
        target.close()
        assert (tmp_path / "a").read_bytes() == b"mine"

    def test_a_source_that_changes_is_noticed(self, tree, tmp_path):
        for change in (
            lambda path: path.write_bytes(b"longer"),
            lambda path: path.unlink(),
            lambda path: (
                path.with_name("b").write_bytes(b"abc"),
                path.with_name("b").replace(path),
            ),
        ):
            (tmp_path / "a").write_bytes(b"abc")
            source = tree.open_source(("a",))
            source.require_same()
            change(tmp_path / "a")
            with pytest.raises(FileReplacedError):
                source.require_same()
            source.close()

    def test_a_source_is_read_at_any_place(self, tree, tmp_path):
        (tmp_path / "a").write_bytes(DATA)
        source = tree.open_source(("a",))
        buffer = memoryview(bytearray(CHUNK_BYTES))
        assert source.read_into(CHUNK_BYTES, buffer) == 3
        assert buffer[:3] == b"abc"
        source.close()
        source.close()

    def test_a_file_that_goes_while_a_folder_is_listed_is_not_in_it(
        self, tree, tmp_path, monkeypatch
    ):
        (tmp_path / "kept").write_bytes(b"abc")
        (tmp_path / "gone").write_bytes(b"abc")
        listed = tree._listed

        @contextmanager
        def then_removed(parts):
            with listed(parts) as found:
                names = list(found)
                (tmp_path / "gone").unlink()
                yield names

        monkeypatch.setattr(tree, "_listed", then_removed)
        assert [entry.name for entry in tree.entries(())] == ["kept"]

    def test_entries_say_what_has_each_name(self, tree, tmp_path):
        (tmp_path / "file").write_bytes(b"abc")
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to("file")
        os.mkfifo(tmp_path / "pipe")
        found = {entry.name: (entry.kind, entry.num_bytes) for entry in tree.entries(())}
        assert found == {
            "file": (Kind.FILE, 3),
            "folder": (Kind.FOLDER, 0),
            "link": (Kind.LINK, 0),
            "pipe": (Kind.OTHER, 0),
        }
        assert tree.stat(()).kind is Kind.FOLDER
        with pytest.raises(FormatError, match="plain file"):
            tree.open_source(("pipe",))

    def test_folders_are_made_renamed_and_removed(self, tree, tmp_path):
        tree.make_folder(("a", "b"), parents=True)
        tree.make_folder(("a", "b"), parents=True)
        with pytest.raises(ConflictError):
            tree.make_folder(("a",))
        with pytest.raises(NotFoundError):
            tree.make_folder(("x", "y"))
        tree.rename(("a",), ("c",), replace=False)
        tree.sync_names(())
        with pytest.raises(ConflictError, match="got a folder"):
            tree.remove(("c",))
        tree.remove(("c",), recursive=True)
        assert names(tmp_path) == []

    def test_a_rename_replaces_a_file_if_allowed_and_a_folder_never(self, tree, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "empty").mkdir()
        for name in "ab":
            (tmp_path / name).write_text(name)
        for source, target, replace in [
            ("a", "b", False),
            ("a", "empty", True),
            ("folder", "empty", True),
            ("folder", "a", True),
        ]:
            with pytest.raises(ConflictError):
                tree.rename((source,), (target,), replace=replace)
        tree.rename(("a",), ("b",), replace=True)
        tree.rename(("b",), ("c",), replace=False)
        assert names(tmp_path) == ["c", "empty", "folder"]
        assert (tmp_path / "c").read_text() == "a"

    def test_a_removal_does_not_follow_links(self, tree, tmp_path):
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept/file").write_text("x")
        (tmp_path / "gone").mkdir()
        (tmp_path / "gone/link").symlink_to(tmp_path / "kept")
        tree.remove(("gone",), recursive=True)
        (tmp_path / "link").symlink_to("kept")
        tree.remove(("link",), recursive=True)
        assert names(tmp_path / "kept") == ["file"]

    def test_the_root_is_never_removed_or_renamed(self, tree):
        for call in (
            lambda: tree.remove((), recursive=True),
            lambda: tree.rename((), ("a",), replace=True),
            lambda: tree.open_target((), STATE, replace=True),
        ):
            with pytest.raises(ConfigError):
                call()


class TestSmallFiles:
    @pytest.mark.parametrize("is_hidden", [True, False])
    def test_small_files_are_written_and_read_many_in_one_call(self, tree, tmp_path, is_hidden):
        (tmp_path / "folder").mkdir()
        files = [SmallFile(("folder", str(n)), bytes([n]) * n) for n in range(9)]
        assert tree.put_small(files, replace=False, is_hidden=is_hidden) == [None] * 9
        places = [file.parts for file in files]
        assert tree.get_small(places) == [file.data for file in files]
        assert tree.small_digests([*places, ("x",)]) == [*(each.digest for each in files), None]
        assert len(names(tmp_path / "folder")) == 9

    def test_one_that_fails_has_an_error_and_the_others_are_there(self, tree, tmp_path):
        (tmp_path / "b").mkdir()
        found = tree.put_small(
            [SmallFile((name,), b"x") for name in "abc"], replace=True, is_hidden=False
        )
        assert [type(each) for each in found] == [type(None), ConflictError, type(None)]
        assert names(tmp_path) == ["a", "b", "c"]

    def test_a_large_file_is_not_read_as_a_small_one(self, tree, tmp_path):
        (tmp_path / "a").write_bytes(bytes(SMALL_BYTES + 1))
        (error,) = tree.get_small([("a",)])
        assert "at most" in str(error)
        assert tree.small_digests([("a",)]) == [None]

    def test_digests_of_many_small_files_take_the_memory_of_one(self, tree, tmp_path):
        (tmp_path / "a").write_bytes(bytes(SMALL_BYTES))
        tracemalloc.start()
        try:
            found = tree.small_digests([("a",)] * 64)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert found == [hashlib.sha256(bytes(SMALL_BYTES)).digest()] * 64
        assert peak < 4 * SMALL_BYTES

    def test_a_full_disk_is_the_error_of_the_file(self, tree, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

        monkeypatch.setattr(os, "fsync", full)
        (error,) = tree.put_small([SmallFile(("a",), b"x")], replace=True, is_hidden=False)
        assert "quota" in str(error)
        assert names(tmp_path) == []

    def test_new_names_are_made_durable_by_one_sync_of_each_folder(
        self, tree, tmp_path, monkeypatch
    ):
        synced, real = [], _small_writes.sync_folder_at
        for name in "ab":
            (tmp_path / name).mkdir()

        def sync(fd):
            assert len(list(tmp_path.glob("*/file*"))) == 20
            synced.append(os.fstat(fd).st_ino)
            real(fd)

        monkeypatch.setattr(_small_writes, "sync_folder_at", sync)
        files = [SmallFile(("ab"[each % 2], f"file{each}"), b"x") for each in range(20)]
        assert tree.put_small(files, replace=False, is_hidden=False) == [None] * 20
        assert sorted(synced) == sorted((tmp_path / name).stat().st_ino for name in "ab")

    def test_a_folder_that_cannot_be_synced_is_the_error_of_its_files(
        self, tree, tmp_path, monkeypatch
    ):
        for name in "ab":
            (tmp_path / name).mkdir()

        def fail(fd):
            if os.fstat(fd).st_ino == (tmp_path / "a").stat().st_ino:
                raise OSError(errno.EIO, "failed")

        monkeypatch.setattr(_small_writes, "sync_folder_at", fail)
        files = [SmallFile(("ab"[each % 2], f"file{each}"), b"x") for each in range(4)]
        found = tree.put_small(files, replace=True, is_hidden=False)
        assert [isinstance(each, StorageError) for each in found] == [True, False, True, False]

    def test_one_file_that_fails_among_many_leaves_the_others(self, tree, tmp_path, monkeypatch):
        real = os.fsync

        def fail(fd):
            if os.pread(fd, 1, 0) == b"3":
                raise OSError(errno.EIO, "failed")
            real(fd)

        monkeypatch.setattr(os, "fsync", fail)
        monkeypatch.setattr(_small_writes, "sync_folder_at", lambda _: None)
        files = [SmallFile((f"file{each}",), str(each).encode()) for each in range(10)]
        found = tree.put_small(files, replace=True, is_hidden=False)
        assert [each is None for each in found] == [each != 3 for each in range(10)]
        assert names(tmp_path) == [f"file{each}" for each in range(10) if each != 3]


class TestLocal:
    def test_links_are_followed_as_cp_does(self, tmp_path):
        tree = LocalTree(tmp_path)
        (tmp_path / "file").write_bytes(b"abc")
        (tmp_path / "link").symlink_to("file")
        source = tree.open_source(("link",))
        assert source.state.num_bytes == 3
        source.close()
        write(tree, ("link",))
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").read_bytes() == DATA

    def test_the_identity_of_a_source_does_not_depend_on_the_working_folder(
        self, tmp_path, monkeypatch
    ):
        (tmp_path / "a").write_bytes(b"abc")
        one = LocalTree(tmp_path).open_source(("a",))
        monkeypatch.chdir(tmp_path)
        other = LocalTree().open_source(("a",))
        assert one.state == other.state
        one.close()
        other.close()


BAD = ["..", ".", "", "a/b", "/etc", "a\0b", "a\nb", "a\x1bb", "é" * 128, "\udcff"]


class TestConfined:
    @pytest.mark.parametrize("name", BAD, ids=ascii)
    def test_a_bad_name_is_refused_before_anything_is_opened(self, tmp_path, name, monkeypatch):
        tree = mounted(tmp_path)
        monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("opened"))
        for parts in ((name,), ("a", name), (name, "a")):
            for call in (tree.stat, tree.entries, tree.open_source, tree.remove, tree.digests):
                with pytest.raises(ConfigError):
                    call(parts)
            with pytest.raises(ConfigError):
                tree.open_target(parts, STATE, replace=True)

    def test_no_call_follows_a_link_out_of_the_area(self, tmp_path):
        area, outside = tmp_path / "area", tmp_path / "outside"
        area.mkdir()
        outside.mkdir()
        (outside / "secret").write_text("secret")
        (area / "link").symlink_to(outside)
        (area / "file").symlink_to(outside / "secret")
        tree = mounted(area)
        for call in (
            lambda: tree.open_source(("file",)),
            lambda: tree.open_source(("link", "secret")),
            lambda: tree.entries(("link",)),
            lambda: tree.stat(("link", "secret")),
            lambda: tree.digests(("link", "secret")),
            lambda: tree.digests(("file",)),
            lambda: tree.make_folder(("link", "new")),
            lambda: tree.remove(("link", "secret")),
            lambda: tree.open_target(("link", "new"), STATE, replace=True),
            lambda: tree.rename(("file",), ("link", "new"), replace=True),
        ):
            with pytest.raises(AccessDeniedError):
                call()
        with pytest.raises(ConflictError):
            tree.make_folder(("link", "new"), parents=True)
        with pytest.raises(ConflictError, match="got link"):
            tree.open_target(("file",), STATE, replace=True)
        assert tree.stat(("file",)).kind is Kind.LINK
        for found in (
            tree.get_small([("file",), ("link", "secret")]),
            tree.put_small([SmallFile(("link", "a"), b"x")], replace=True, is_hidden=True),
        ):
            assert all(isinstance(each, AccessDeniedError) for each in found)
        assert tree.small_digests([("file",)]) == [None]
        assert names(outside) == ["secret"]

    def test_a_folder_that_is_exchanged_for_a_link_again_and_again_never_leads_out(self, tmp_path):
        area, outside = tmp_path / "area", tmp_path / "outside"
        (area / "folder").mkdir(parents=True)
        outside.mkdir()
        (outside / "file").write_text("secret")
        (area / "folder/file").write_text("mine")
        (area / "link").symlink_to(outside)
        ends = threading.Event()

        def exchange():
            while not ends.is_set():
                (area / "folder").rename(area / "kept")
                (area / "link").rename(area / "folder")
                (area / "folder").rename(area / "link")
                (area / "kept").rename(area / "folder")

        thread = threading.Thread(target=exchange)
        thread.start()
        try:
            outcomes = [self._tried(mounted(area), number) for number in range(2000)]
        finally:
            ends.set()
            thread.join()
        assert {"mine"} < set(outcomes) <= {"mine", "refused"}
        assert names(outside) == ["file"]

    @staticmethod
    def _tried(tree, number):
        file = SmallFile(("folder", f"new{number % 5}"), b"x")
        tree.put_small([file], replace=True, is_hidden=number % 2 == 0)
        (found,) = tree.get_small([("folder", "file")])
        return found.decode() if isinstance(found, bytes) else "refused"

    def test_a_read_only_area_refuses_every_change(self, tmp_path):
        (tmp_path / "a").write_bytes(b"abc")
        tree = mounted(tmp_path, read_only=True)
        for call in (
            lambda: tree.make_folder(("b",)),
            lambda: tree.remove(("a",)),
            lambda: tree.rename(("a",), ("b",), replace=True),
            lambda: tree.open_target(("b",), STATE, replace=True),
        ):
            with pytest.raises(AccessDeniedError, match="read only"):
                call()
        (error,) = tree.put_small([SmallFile(("b",), b"x")], replace=True, is_hidden=False)
        assert isinstance(error, AccessDeniedError)
        assert names(tmp_path) == ["a"]
        assert tree.get_small([("a",)]) == [b"abc"]

    def test_messages_name_places_as_people_type_them(self, tmp_path):
        with pytest.raises(NotFoundError) as found:
            mounted(tmp_path).stat(("a", "b"))
        assert "pfs://home/a:" in str(found.value)
        assert str(tmp_path) not in str(found.value)

    def test_a_name_of_255_bytes_is_copied(self, tmp_path):
        name = "é" * 127 + "x"
        write(mounted(tmp_path), (name,))
        assert Path(tmp_path / name).read_bytes() == DATA


@pytest.mark.parametrize(
    ("make", "owner"), [(LocalTree, 0), (mounted, 1001)], ids=["local", "mounted"]
)
def test_what_root_makes_in_a_home_belongs_to_the_user_of_the_home(make, owner, tmp_path):
    # Without the rights of root there is one account, which owns all.
    is_root = os.geteuid() == 0
    home = tmp_path / "home"
    home.mkdir()
    if is_root:
        os.chown(home, 1001, 1002)
    tree = make(home)
    tree.make_folder(("a", "b"), parents=True)
    write(tree, ("a", "b", "large"))
    small = [SmallFile(("a", "small"), b"x"), SmallFile(("a", "b", "small"), b"y")]
    assert tree.put_small(small, replace=False, is_hidden=False) == [None, None]
    made = list(home.rglob("*"))
    assert len(made) == 5
    assert {path.stat().st_uid for path in made} == {owner if is_root else os.geteuid()}


def linked(foreign, name, folder):
    os.link(foreign, name, dst_dir_fd=folder)


def symlinked(foreign, name, folder):
    os.symlink(foreign, name, dir_fd=folder)


@pytest.mark.parametrize("exchange", [linked, symlinked])
def test_only_a_folder_that_was_opened_gets_another_owner(exchange, tmp_path, monkeypatch):
    home, foreign, given = tmp_path / "home", tmp_path / "foreign", []
    home.mkdir()
    foreign.write_text("of another account")
    real = os.mkdir

    def mkdir(name, mode, *, dir_fd):
        real(name, mode, dir_fd=dir_fd)
        os.rmdir(name, dir_fd=dir_fd)
        exchange(foreign, name, dir_fd)

    # Any account may give here, and none is the owner of the home.
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "getegid", lambda: -1)
    monkeypatch.setattr(os, "chown", lambda *call, **_: given.append(call))
    monkeypatch.setattr(os, "fchown", lambda *call: given.append(call))
    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(StorageError):
        mounted(home).make_folder(("new",))
    assert given == []
