"""The file server over a real CephFS: a full quota in the middle of an upload, and a kill."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.unit.serving.pfs.service.file_servers import Storage, running
from trainfeed.errors import QuotaExceededError
from trainfeed.serving.pfs.tree import CHUNK_BYTES, SourceState, Target

pytestmark = pytest.mark.usefixtures("socket_enabled")

NUM_CHUNKS = 8


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    """Homes on the mount; tokens and files of the server on this machine."""
    mount = Path(os.environ["TEST_CEPHFS_PATH"]) / f"trainfeed-test-{uuid.uuid4()}"
    yield Storage(tmp_path, mount)
    shutil.rmtree(mount)


def chunk(data: bytes, index: int) -> memoryview:
    return memoryview(data)[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]


def send(target: Target, data: bytes, digests: list[bytes]) -> None:
    for index in range(NUM_CHUNKS):
        target.write(index * CHUNK_BYTES, chunk(data, index))
    target.commit(digests)


def test_a_full_quota_keeps_the_name_free_and_the_chunks_for_the_next_try(storage: Storage) -> None:
    data = os.urandom(NUM_CHUNKS * CHUNK_BYTES)
    digests = [sha256(chunk(data, index)).digest() for index in range(NUM_CHUNKS)]
    home = storage.home()
    os.setxattr(home, "ceph.quota.max_bytes", str(3 * CHUNK_BYTES).encode())
    with running(storage) as server:
        tree = server.tree()
        target = tree.open_target(("file",), SourceState(len(data), 1, "a" * 32), replace=False)
        with pytest.raises(QuotaExceededError, match="/pfs/dc/home/alice/file"):
            send(target, data, digests)
        assert not (home / "file").exists()
        os.setxattr(home, "ceph.quota.max_bytes", b"0")
        server.kill()
        server.start()
        there = target.digests()
        kept = [index for index, digest in enumerate(there) if digest == digests[index]]
        assert kept
        for index in range(NUM_CHUNKS):
            if index not in kept:
                target.write(index * CHUNK_BYTES, chunk(data, index))
        target.commit(digests)
        tree.close()
    assert (home / "file").read_bytes() == data
    assert [each.name for each in home.iterdir()] == ["file"]
