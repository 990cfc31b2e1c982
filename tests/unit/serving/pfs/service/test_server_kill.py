"""SIGKILL of the server and of its client at every chunk and every step of the end.

A name is absent or complete after each kill, and no chunk that is there is sent again: the audit
of the server counts the bytes of chunks.
"""

import multiprocessing
import os
from hashlib import sha256
from pathlib import Path

import pytest

from tests.unit.serving.pfs.service.file_servers import Storage, running
from trainfeed.core import faults
from trainfeed.errors import ServiceUnreachableError
from trainfeed.serving.pfs.copy import copy_places
from trainfeed.serving.pfs.copy_plan import CopyOptions, Place
from trainfeed.serving.pfs.posix import LocalTree
from trainfeed.serving.pfs.tree import CHUNK_BYTES, SourceState
from trainfeed.serving.pfs.wire import DATA

pytestmark = pytest.mark.usefixtures("socket_enabled")

SIZE = 3 * CHUNK_BYTES + 5
CHUNKS = 4
ENDS = ["pfs.before_sync", "pfs.after_sync", "pfs.before_name", "pfs.after_name"]


@pytest.fixture
def storage(tmp_path):
    return Storage(tmp_path)


@pytest.fixture
def data():
    return os.urandom(SIZE)


def digests_of(data):
    starts = range(0, len(data), CHUNK_BYTES)
    return [sha256(data[start : start + CHUNK_BYTES]).digest() for start in starts]


def sent_bytes(storage):
    lines = [line for line in storage.audit() if line["what"] == f"POST {DATA}"]
    return sum(line["bytes_in"] for line in lines if line["status"] == 200)


def write(target, data, index):
    start = index * CHUNK_BYTES
    target.write(start, memoryview(data)[start : start + CHUNK_BYTES])


def test_a_server_killed_after_every_chunk_goes_on_with_the_same_upload(storage, data):
    path = storage.home() / "file"
    with running(storage) as server:
        tree = server.tree()
        target = tree.open_target(("file",), SourceState(SIZE, 1, "a" * 32), replace=False)
        for index in range(CHUNKS):
            write(target, data, index)
            server.kill()
            assert not path.exists()
            server.start()
        target.commit(digests_of(data))
        assert tree._client.accepted == SIZE
        tree.close()
    assert path.read_bytes() == data
    assert [each.name for each in storage.home().iterdir()] == ["file"]


@pytest.mark.parametrize("point", ENDS)
def test_a_server_killed_at_its_last_steps_leaves_a_name_that_is_absent_or_complete(
    storage, data, point
):
    path = storage.home() / "file"
    with running(storage, fault=f"{point}:kill") as server:
        tree = server.tree(patience_seconds=0.5)
        target = tree.open_target(("file",), SourceState(SIZE, 1, "a" * 32), replace=False)
        for index in range(CHUNKS):
            write(target, data, index)
        with pytest.raises(ServiceUnreachableError):
            target.commit(digests_of(data))
        assert path.exists() == (point == "pfs.after_name")
        server.start(fault=None)
        target.commit(digests_of(data))
        tree.close()
    assert path.read_bytes() == data
    assert [each.name for each in storage.home().iterdir()] == ["file"]
    assert sent_bytes(storage) == SIZE


def _copy(server, source, fault):
    os.environ[faults.VARIABLE] = fault
    faults._plan.cache_clear()
    places = Place(LocalTree(Path("/")), source.parts[1:]), Place(server.tree(), ("file",))
    (outcome,) = copy_places([places[0]], places[1], CopyOptions(threads=1))
    assert outcome.verdict == "copied", outcome


def killed(server, source, fault):
    """Copy in a process of its own; return its exit code."""
    child = multiprocessing.get_context("fork").Process(target=_copy, args=(server, source, fault))
    child.start()
    child.join(60)
    return child.exitcode


def test_a_client_killed_after_every_chunk_is_resumed_by_the_next_one(storage, data, tmp_path):
    source, path = tmp_path / "source", storage.home() / "file"
    source.write_bytes(data)
    with running(storage) as server:
        for index in range(CHUNKS):
            assert killed(server, source, f"pfs.chunk_{index}:kill") == -9
            assert not path.exists()
        assert killed(server, source, "") == 0
    assert path.read_bytes() == data
    assert [each.name for each in storage.home().iterdir()] == ["file"]
    assert sent_bytes(storage) == SIZE
