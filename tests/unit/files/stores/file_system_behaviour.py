"""The behaviour of every file system; a back end's test class inherits it and names the place."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import pyarrow as pa
import pytest

from trainfeed.errors import ConfigError, ConflictError, FormatError, NotFoundError
from trainfeed.files.stores import Location

MIB = 1 << 20


def put(location: Location, data: bytes = b"content") -> Location:
    with location.open_write() as file:
        file.write(data)
    return location


def names(location: Location) -> list[str]:
    return [info.name for info in location.list()]


class FileSystemBehaviour:
    @pytest.fixture
    def folder(self) -> Location:
        """An empty folder that nobody else uses."""
        raise NotImplementedError

    # --- reading and writing ---------------------------------------------------------------

    def test_what_was_written_is_read(self, folder: Location) -> None:
        put(folder / "file", b"abc" * 1000)
        assert (folder / "file").read_bytes() == b"abc" * 1000

    def test_a_file_may_be_empty(self, folder: Location) -> None:
        assert put(folder / "file", b"").read_bytes() == b""
        assert (folder / "file").stat().size_bytes == 0

    def test_a_large_file_is_read_from_any_place(self, folder: Location) -> None:
        data = os.urandom(5 * MIB + 12345)
        with (folder / "file").open_write() as file:
            for start in range(0, len(data), 777_777):
                file.write(data[start : start + 777_777])
                assert file.tell() == min(start + 777_777, len(data))
        with (folder / "file").open_read() as file:
            assert file.seekable()
            assert file.seek(0, os.SEEK_END) == len(data)
            assert file.read(10) == b""
            for start, length in [(4 * MIB, 3 * MIB), (17, 100), (MIB - 1, 2), (len(data) - 5, 5)]:
                file.seek(start)
                assert file.read(length) == data[start : start + length]
                assert file.tell() == min(start + length, len(data))
            file.seek(-7, os.SEEK_END)
            assert file.read() == data[-7:]
            assert file.seek(len(data) + 100) == len(data) + 100
            assert file.read(1) == b""
            file.seek(0)
            assert file.read() == data

    def test_a_line_can_be_read(self, folder: Location) -> None:
        with put(folder / "file", b"one\ntwo\n").open_read() as file:
            assert list(file) == [b"one\n", b"two\n"]

    def test_arrow_files_go_in_and_out(self, folder: Location) -> None:
        table = pa.table({"number": range(100_000)})
        with (folder / "file").open_write() as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=30_000)
        with (folder / "file").open_read() as file:
            reader = pa.ipc.open_file(file)
            assert reader.num_record_batches == 4
            assert reader.get_batch(2).column(0)[0].as_py() == 60_000
            assert reader.read_all().equals(table)

    def test_a_missing_file_is_not_found(self, folder: Location) -> None:
        with pytest.raises(NotFoundError, match="missing"):
            (folder / "missing").open_read()

    def test_a_folder_is_no_file_to_read(self, folder: Location) -> None:
        with pytest.raises(NotFoundError):
            folder.open_read()

    def test_a_new_file_takes_no_existing_name(self, folder: Location) -> None:
        put(folder / "file", b"old")
        (folder / "folder").make_dir()
        for name in ("file", "folder"):
            with pytest.raises(ConflictError), (folder / name).open_write() as file:
                file.write(b"new")
        assert (folder / "file").read_bytes() == b"old"

    def test_missing_parents_of_a_new_file_are_made(self, folder: Location) -> None:
        put(folder / "a/b/file")
        assert (folder / "a/b").stat().is_dir

    def test_small_reads_refuse_large_files(self, folder: Location) -> None:
        put(folder / "file", b"12345")
        assert (folder / "file").read_bytes(max_bytes=5) == b"12345"
        with pytest.raises(FormatError, match="at most 4 bytes"):
            (folder / "file").read_bytes(max_bytes=4)

    # --- looking ---------------------------------------------------------------------------

    def test_stat_tells_files_from_folders(self, folder: Location) -> None:
        file, inner = put(folder / "file", b"12345").stat(), folder / "inner"
        inner.make_dir()
        assert (file.name, file.path, file.size_bytes, file.is_dir) == (
            "file",
            f"{folder.path}/file",
            5,
            False,
        )
        assert (inner.stat().name, inner.stat().size_bytes, inner.stat().is_dir) == (
            "inner",
            0,
            True,
        )
        assert 1_400_000_000_000 < file.modified_ms < 4_000_000_000_000

    def test_nothing_is_there_below_a_missing_name_or_a_file(self, folder: Location) -> None:
        put(folder / "file")
        for name in ("missing", "missing/below", "file/below"):
            assert not (folder / name).exists()
            with pytest.raises(NotFoundError):
                (folder / name).stat()

    def test_a_listing_is_sorted_and_complete(self, folder: Location) -> None:
        for name in ("b", "a", ".hidden", "B"):
            put(folder / name, b"1")
        (folder / "c").make_dir()
        infos = folder.list()
        assert [info.name for info in infos] == [".hidden", "B", "a", "b", "c"]
        assert [info.is_dir for info in infos] == [False] * 4 + [True]
        assert infos[2] == (folder / "a").stat()
        assert folder.list(lambda name: name in {"a", "c"}) == [infos[2], infos[4]]

    def test_only_a_folder_is_listed(self, folder: Location) -> None:
        for location in (put(folder / "file"), folder / "missing"):
            with pytest.raises(NotFoundError):
                location.list()
        (folder / "empty").make_dir()
        assert (folder / "empty").list() == []

    def test_names_are_taken_as_they_are(self, folder: Location) -> None:
        """HD-09."""
        odd = ["a b", "%2F", "a+b", "#x", "#LATEST", "q?x=1&y", "ä€😀", "back\\slash", "{0}*"]
        (folder / "odd").make_dir()
        for name in odd:
            (folder / "odd" / name).make_dir()
        assert names(folder / "odd") == sorted(odd)
        for name in odd:
            assert Location.parse((folder / name).uri) == folder / name
            (folder / "odd" / name).delete()
        assert names(folder / "odd") == []

    def test_free_bytes_are_positive_or_unknown(self, folder: Location) -> None:
        free = (folder / "missing/below").free_bytes()
        assert free is None or free > 0

    # --- folders, deletion ---------------------------------------------------------------------

    def test_a_folder_is_made_with_its_parents_and_once(self, folder: Location) -> None:
        (folder / "a/b/c").make_dir()
        (folder / "a/b/c").make_dir()
        assert names(folder / "a/b") == ["c"]

    def test_a_folder_is_not_made_of_a_file_or_below_one(self, folder: Location) -> None:
        put(folder / "file")
        with pytest.raises(ConflictError):
            (folder / "file").make_dir()
        with pytest.raises(NotFoundError):
            (folder / "file/below").make_dir()

    def test_deleting_is_fine_twice(self, folder: Location) -> None:
        put(folder / "file").delete()
        (folder / "file").delete()
        (folder / "missing/below").delete(recursive=True)
        (folder / "empty").make_dir()
        (folder / "empty").delete()
        assert names(folder) == []

    def test_a_full_folder_is_deleted_only_when_asked(self, folder: Location) -> None:
        put(folder / "full/inner/file")
        with pytest.raises(ConflictError):
            (folder / "full").delete()
        assert (folder / "full/inner/file").exists()
        (folder / "full").delete(recursive=True)
        assert not (folder / "full").exists()

    def test_the_root_is_never_deleted(self, folder: Location) -> None:
        for recursive in (False, True):
            with pytest.raises(ConfigError, match="nothing was deleted"):
                Location(folder.fs, "/").delete(recursive=recursive)

    def test_a_moved_file_has_the_other_name_alone(self, folder: Location) -> None:
        put(folder / "new", b"new")
        put(folder / "old", b"old")
        (folder / "new").move(folder / "old")
        assert names(folder) == ["old"]
        assert (folder / "old").read_bytes() == b"new"
        (folder / "old").move(folder / "free")
        assert names(folder) == ["free"]
        with pytest.raises(NotFoundError):
            (folder / "old").move(folder / "free")
        assert (folder / "free").read_bytes() == b"new"

    # --- files that appear whole -------------------------------------------------------------

    def test_an_atomic_write_appears_and_replaces(self, folder: Location) -> None:
        for data in (b"first", b"second"):
            (folder / "a/file").write_atomic(lambda file, data=data: file.write(data))
            assert (folder / "a/file").read_bytes() == data
        assert names(folder / "a") == ["file"]

    def test_a_failed_atomic_write_changes_nothing(self, folder: Location) -> None:
        def fail(file: BinaryIO) -> None:
            file.write(b"half")
            raise KeyboardInterrupt

        put(folder / "file", b"old")
        for name in ("file", "other"):
            with pytest.raises(KeyboardInterrupt):
                (folder / name).write_atomic(fail)
        assert names(folder) == ["file"]
        assert (folder / "file").read_bytes() == b"old"

    def test_an_atomic_write_leaves_a_folder_alone(self, folder: Location) -> None:
        (folder / "folder").make_dir()
        with pytest.raises(ConflictError):
            (folder / "folder").write_atomic(lambda file: file.write(b"new"))
        assert names(folder) == ["folder"]

    def test_the_first_exclusive_creation_wins(self, folder: Location) -> None:
        assert (folder / "a/file").create_exclusive(b"first") is True
        assert (folder / "a/file").create_exclusive(b"second") is False
        (folder / "a/folder").make_dir()
        assert (folder / "a/folder").create_exclusive(b"third") is False
        assert (folder / "a/file").read_bytes() == b"first"
        assert names(folder / "a") == ["file", "folder"]

    def test_of_racing_exclusive_creations_one_wins_with_all_its_bytes(
        self, folder: Location
    ) -> None:
        contents = [bytes([index]) * 100_000 for index in range(8)]
        winners = race(
            [lambda data=data: (folder / "file").create_exclusive(data) for data in contents]
        )
        assert sorted(winners) == [False] * 7 + [True]
        assert (folder / "file").read_bytes() == contents[winners.index(True)]
        assert names(folder) == ["file"]

    # --- as a value ----------------------------------------------------------------------------

    def test_a_location_crosses_processes_by_value(self, folder: Location) -> None:
        put(folder / "file")
        copy = pickle.loads(pickle.dumps(folder / "file"))
        assert copy == folder / "file"
        assert hash(copy) == hash(folder / "file")
        assert copy.read_bytes() == b"content"
        assert Location.parse(copy.uri) == copy


class RenamingBehaviour(FileSystemBehaviour):
    """The same, and what a file system with a rename does beside it."""

    @pytest.mark.parametrize("kind", ["file", "folder"])
    def test_rename_moves(self, folder: Location, kind: str) -> None:
        folder = folder.renaming("a test")
        source = folder / "source"
        put(source if kind == "file" else source / "inner")
        source.rename(folder / "target")
        assert names(folder) == ["target"]
        moved = folder / "target" if kind == "file" else folder / "target/inner"
        assert moved.read_bytes() == b"content"

    def test_rename_refuses_whatever_exists_and_moves_nothing_into_it(
        self, folder: Location
    ) -> None:
        """HD-13."""
        folder = folder.renaming("a test")
        put(folder / "file")
        put(folder / "full/inner")
        (folder / "empty").make_dir()
        for source in ("file", "full", "empty"):
            for target in {"file", "full", "empty"} - {source}:
                with pytest.raises(ConflictError):
                    (folder / source).rename(folder / target)
        assert names(folder) == ["empty", "file", "full"]
        assert names(folder / "full") == ["inner"]
        assert names(folder / "empty") == []

    def test_rename_needs_a_source_and_a_parent(self, folder: Location) -> None:
        folder = folder.renaming("a test")
        put(folder / "file")
        for source, target in [("missing", "target"), ("file", "missing/target")]:
            with pytest.raises(NotFoundError):
                (folder / source).rename(folder / target)
        assert names(folder) == ["file"]

    def test_replace_takes_the_name_from_a_file(self, folder: Location) -> None:
        folder = folder.renaming("a test")
        put(folder / "new", b"new")
        put(folder / "old", b"old")
        (folder / "new").replace(folder / "old")
        assert names(folder) == ["old"]
        assert (folder / "old").read_bytes() == b"new"
        (folder / "old").replace(folder / "free")
        assert names(folder) == ["free"]

    def test_replace_takes_no_name_from_a_folder(self, folder: Location) -> None:
        folder = folder.renaming("a test")
        put(folder / "file")
        (folder / "folder").make_dir()
        with pytest.raises(ConflictError):
            (folder / "file").replace(folder / "folder")
        assert names(folder) == ["file", "folder"]

    def test_of_racing_renames_one_wins(self, folder: Location) -> None:
        folder = folder.renaming("a test")
        for index in range(4):
            (folder / f"source{index}/inner{index}").make_dir()

        def rename(index: int) -> bool:
            try:
                (folder / f"source{index}").rename(folder / "target")
            except ConflictError:
                return False
            return True

        winners = race([lambda index=index: rename(index) for index in range(4)])
        assert sorted(winners) == [False] * 3 + [True]
        assert names(folder / "target") == [f"inner{winners.index(True)}"]


def race(calls: list[Callable[[], bool]]) -> list[bool]:
    """Make the calls at the same moment, each in a thread of its own."""
    barrier = threading.Barrier(len(calls))

    def start(call: Callable[[], bool]) -> bool:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(start, calls))
