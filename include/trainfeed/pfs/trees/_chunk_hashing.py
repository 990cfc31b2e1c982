"""Digests of the chunks of an open file, computed by several threads."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from trainfeed.errors import FileReplacedError
from trainfeed.pfs.trees._digest_kind import DigestKind
from trainfeed.pfs.trees._tree_values import CHUNK_BYTES, chunk_count, chunk_size

__all__ = ["chunk_digests", "read_fully"]

_THREADS: Final = max(2, min(4, os.cpu_count() or 1))


def chunk_digests(
    fd: int, num_bytes: int, shown: str, kind: DigestKind = DigestKind.SHA256
) -> tuple[bytes, ...]:
    """Return the digest of each chunk of a file.

    Memory: one chunk for each of at most four threads.

    Args:
        fd: Descriptor, open for reading.
        num_bytes: Size of the file.
        shown: The file, for messages.
        kind: How chunks are digested.

    Raises:
        FileReplacedError: The file has become shorter.
        OSError: The system failed.
    """
    own = threading.local()

    def digest(index: int) -> bytes:
        if not hasattr(own, "buffer"):
            # Reused, because a new buffer of this size costs as many page faults as pages.
            own.buffer = bytearray(CHUNK_BYTES)
        view = memoryview(own.buffer)[: chunk_size(num_bytes, index)]
        if read_fully(fd, index * CHUNK_BYTES, view) != len(view):
            raise FileReplacedError(
                f"{shown}: expected {num_bytes} bytes, the file became shorter while it was read;"
                " nothing was changed; repeat the command when its writer has ended"
            )
        return kind.of(view)

    count = chunk_count(num_bytes)
    if count < 2:
        return tuple(map(digest, range(count)))
    with ThreadPoolExecutor(min(_THREADS, count), "pfs-digest") as threads:
        return tuple(threads.map(digest, range(count)))


def read_fully(fd: int, offset: int, view: memoryview) -> int:
    """Fill ``view`` from ``offset``; return the bytes read, fewer only at the end of the file."""
    done = 0
    while done < len(view):
        count = os.preadv(fd, [view[done:]], offset + done)
        if not count:
            break
        done += count
    return done
