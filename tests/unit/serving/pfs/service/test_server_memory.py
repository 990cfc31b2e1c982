"""Memory of the file server while many clients send chunks at once."""

import os
import threading
from pathlib import Path

import pytest

from tests.unit.serving.pfs.service.file_servers import Storage, running
from trainfeed.serving.pfs.limits import FileLimits
from trainfeed.serving.pfs.tree import CHUNK_BYTES, SMALL_BYTES, SourceState
from trainfeed.serving.server import Limits

pytestmark = pytest.mark.usefixtures("socket_enabled")

CLIENTS = 64
BUFFERED = 32 << 20


def peak_bytes(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_64_clients_that_send_chunks_at_once_get_no_more_memory_than_the_limit(tmp_path):
    storage = Storage(tmp_path)
    limits = FileLimits(buffered_bytes=BUFFERED)
    data = os.urandom(CHUNK_BYTES)
    failed = []

    def send(tree, number):
        try:
            state = SourceState(len(data), 1, f"{number:032x}")
            target = tree.open_target((f"f{number}",), state, replace=True)
            target.write(0, memoryview(data))
        except Exception as error:  # noqa: BLE001 (of a thread)
            failed.append(error)

    server_limits = Limits(requests=2 * CLIENTS + 1, caller_requests=CLIENTS, request_seconds=120)
    with running(storage, limits=limits, server_limits=server_limits) as server:
        tree = server.tree(patience_seconds=100.0, answer_seconds=100.0)
        before = peak_bytes(server.pid)
        threads = [threading.Thread(target=send, args=(tree, each)) for each in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        grown = peak_bytes(server.pid) - before
        tree.close()
    assert failed == []
    # All chunks together are 256 MiB; connections and threads have buffers of their own.
    assert grown < BUFFERED + (64 << 20)


def test_digests_of_one_file_asked_for_many_times_at_once_take_little_memory(tmp_path):
    storage = Storage(tmp_path)
    (storage.home() / "file").write_bytes(os.urandom(SMALL_BYTES))
    failed = []

    def ask(tree):
        try:
            tree.small_digests([("file",)] * 64)
        except Exception as error:  # noqa: BLE001 (of a thread)
            failed.append(error)

    with running(storage, server_limits=Limits(request_seconds=120)) as server:
        tree = server.tree(patience_seconds=100.0, answer_seconds=100.0)
        before = peak_bytes(server.pid)
        threads = [threading.Thread(target=ask, args=(tree,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        grown = peak_bytes(server.pid) - before
        tree.close()
    assert failed == []
    # All files together are 768 MiB.
    assert grown < 64 << 20
