"""Damaged chunks that are left out, as far as that is allowed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from trainfeed.dataset.chunks import Chunk
from trainfeed.errors import FormatError
from trainfeed.thread_ties import new_lock

__all__ = ["MISSING", "SkippedChunks"]

_LOG: Final = logging.getLogger(__name__)

# A field beside those of the samples: whether a row only stands for a sample that is missing. Rows
# keep their positions that way until batches are handed over.
MISSING: Final = "\0missing"


class SkippedChunks:
    """Which chunks are damaged; threads may share it.

    Args:
        most: How many may be. With 0 the first is an error.

    Attributes:
        most: As above.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = new_lock()
        self._chunks: set[int] = set()

    def attempt(self, chunk: int, info: Chunk, read: Callable[[], object]) -> bool:
        """Read a chunk; return whether it is whole.

        Raises:
            FormatError: It is damaged, and no more chunks may be.
        """
        if chunk in self._chunks:
            return False
        try:
            read()
        except FormatError as error:
            self._note(chunk, info, error)
            return False
        return True

    def _note(self, chunk: int, info: Chunk, error: FormatError) -> None:
        with self._lock:
            if chunk in self._chunks:  # by another thread, which read it at the same time
                return
            if len(self._chunks) >= self.most:
                if self.most:
                    error.add_note(f"{self.most} chunks were left out before, no more may be")
                raise error
            self._chunks.add(chunk)
        _LOG.warning(
            "left out a chunk of %d samples that take %d bytes: %s",
            info.num_records,
            info.stored_bytes,
            str(error),  # a record of the log that is kept must not keep the loader
        )
