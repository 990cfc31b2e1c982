"""The table of open uploads, asked without a server, on the file system of this machine."""

import asyncio
import errno
from hashlib import sha256
from types import SimpleNamespace

import pytest

from trainfeed.core.datacenters import PfsPath
from trainfeed.errors import ConflictError
from trainfeed.serving.pfs import posix_files as _posix_target
from trainfeed.serving.pfs.areas import Disk, Place
from trainfeed.serving.pfs.file_server import _lifespan
from trainfeed.serving.pfs.limits import FileLimits
from trainfeed.serving.pfs.posix import MountedTree
from trainfeed.serving.pfs.tree import SourceState
from trainfeed.serving.pfs.uploads import UploadKey, Uploads
from trainfeed.serving.server import Parts, Refusal

DATA = b"abc"
CHUNKS = (sha256(DATA).digest(),)
LONG = 60.0


def key_of(folder, name):
    home = PfsPath("dc", "home", "alice", ())
    place = Place(PfsPath("dc", "home", "alice", (name,)), MountedTree(folder, home))
    return UploadKey("alice", place, SourceState(len(DATA), 1, "a" * 32), replace=True)


@pytest.fixture
def key(tmp_path):
    return key_of(tmp_path, "file")


@pytest.fixture
def table():
    """A table, and its threads, which end after the test."""
    disk = Disk()
    yield Uploads(disk, FileLimits())
    disk.close()


async def written(table, key, data=DATA):
    """Begin an upload, write its chunk, and return its number."""
    number = await table.begin(key)
    upload = await table.opened(number, key.user)
    upload.write(0, bytearray(data))
    return number


def fail(*_):
    raise OSError(errno.EIO, "failed")


def test_an_upload_whose_folder_was_not_synced_is_closed_and_its_file_stays_as_it_is(
    table, key, tmp_path, monkeypatch
):
    async def asked():
        number = await written(table, key)
        upload = await table.opened(number, "alice")
        monkeypatch.setattr(_posix_target, "sync_folder_at", fail)
        with pytest.raises(Refusal, match="CommitUnknownError"):
            await table.finish(number, "alice", CHUNKS, LONG)
        with pytest.raises(ConflictError, match="finished or was closed"):
            upload.write(0, bytearray(b"XYZ"))
        assert table.of("alice") == []

    asyncio.run(asked())
    assert (tmp_path / "file").read_bytes() == DATA


@pytest.mark.parametrize("is_broken", [True, False], ids=["one fails", "one is aborted meanwhile"])
def test_idle_uploads_are_closed_although_one_fails_or_ends_meanwhile(tmp_path, is_broken):
    now = [0.0]
    table = Uploads(Disk(), FileLimits(upload_idle_seconds=0.001), clock=lambda: now[0])

    async def all_closed(closing):
        now[0] += 1
        while table.of("alice") and not closing.done():  # noqa: ASYNC110 (the table has no event)
            await asyncio.sleep(0)
        return not closing.done()

    async def asked():
        first, second = [await table.begin(key_of(tmp_path, name)) for name in "ab"]
        loop = asyncio.get_running_loop()

        def close():
            if is_broken:
                raise ZeroDivisionError
            aborted = table.abort(second, "alice")
            asyncio.run_coroutine_threadsafe(aborted, loop).result(60)

        (await table.opened(first, "alice")).close = close
        closing = asyncio.create_task(table.close_idle())
        assert await all_closed(closing)
        await table.begin(key_of(tmp_path, "c"))
        assert await all_closed(closing)
        closing.cancel()

    asyncio.run(asked())
    table.disk.close()


def test_all_uploads_and_threads_of_a_server_end_although_one_upload_fails(tmp_path):
    areas = SimpleNamespace(are_there=lambda: True)
    desk = SimpleNamespace(uploads=Uploads(Disk(), FileLimits()), disk=Disk(), areas=areas)

    def close():
        raise ZeroDivisionError

    async def asked():
        async with _lifespan(desk, Parts())(None):
            first, second = [await desk.uploads.begin(key_of(tmp_path, name)) for name in "ab"]
            (await desk.uploads.opened(first, "alice")).close = close
            other = await desk.uploads.opened(second, "alice")
        with pytest.raises(ConflictError):
            other.close()
        with pytest.raises(RuntimeError, match="after shutdown"):
            await desk.disk.run(None, int)

    asyncio.run(asked())
    desk.uploads.disk.close()


async def abandoned(table, number, chunks=CHUNKS):
    """Ask for the end of an upload as a client that is killed meanwhile; return when it ended."""
    assert not await table.finish(number, "alice", chunks, 0)
    await asyncio.wait({table._rows[number].finish.work})


def test_an_upload_whose_end_no_client_asked_for_is_begun_as_a_new_one(table, key, tmp_path):
    async def asked():
        number = await written(table, key)
        await abandoned(table, number)
        assert table.of("alice") == []
        # The client whose answer was lost asks again, and is told the same for the same chunks.
        assert await table.finish(number, "alice", CHUNKS, LONG)
        with pytest.raises(Refusal, match="UploadUnknown"):
            await table.finish(number, "alice", (bytes(32),), LONG)
        (tmp_path / "file").unlink()
        again = await written(table, key)
        assert again != number
        assert await table.digests(again, "alice", LONG) == CHUNKS
        assert await table.finish(again, "alice", CHUNKS, LONG)

    asyncio.run(asked())
    assert (tmp_path / "file").read_bytes() == DATA


@pytest.mark.parametrize("is_begun", [True, False])
def test_the_error_of_a_finish_is_not_given_to_a_later_one(table, key, tmp_path, is_begun):
    async def asked():
        number = await written(table, key, b"abd" if is_begun else DATA)
        await abandoned(table, number, CHUNKS if is_begun else (bytes(32),))
        if is_begun:
            assert await written(table, key) == number
        assert await table.finish(number, "alice", CHUNKS, LONG)

    asyncio.run(asked())
    assert (tmp_path / "file").read_bytes() == DATA


def test_the_error_of_a_finish_is_told_once_to_the_client_that_asks_again(table, key):
    async def asked():
        number = await written(table, key, b"abd")
        await abandoned(table, number)
        (await table.opened(number, "alice")).write(0, bytearray(DATA))
        with pytest.raises(Refusal, match="ChecksumError"):
            await table.finish(number, "alice", CHUNKS, LONG)
        assert await table.finish(number, "alice", CHUNKS, LONG)

    asyncio.run(asked())


def test_a_finish_with_other_chunks_does_not_get_the_end_of_the_first(table, key):
    async def asked():
        number = await written(table, key)
        assert not await table.finish(number, "alice", CHUNKS, 0)
        with pytest.raises(Refusal, match="ConflictError"):
            await table.finish(number, "alice", (bytes(32),), LONG)
        assert await table.finish(number, "alice", CHUNKS, LONG)

    asyncio.run(asked())


def test_an_opening_that_fails_without_a_client_is_no_upload_and_is_tried_again(table, tmp_path):
    key = key_of(tmp_path / "home", "file")

    async def asked():
        begun = asyncio.create_task(table.begin(key))
        await asyncio.sleep(0)
        (row,) = table._rows.values()
        begun.cancel()
        await asyncio.wait({begun, row.opening})
        assert row.opening.exception() is not None
        assert table.of("alice") == []
        (tmp_path / "home").mkdir()
        await table.begin(key)

    asyncio.run(asked())
