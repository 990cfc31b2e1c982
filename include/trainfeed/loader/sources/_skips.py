"""Damaged chunks that are left out, up to an allowed number."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from trainfeed.dataset.chunks import Chunk
from trainfeed.errors import FormatError
from trainfeed.thread_ties import new_lock

__all__ = ["MISSING", "SkippedChunks"]

_LOG: Final = logging.getLogger(__name__)

# Name of an extra field: True in rows that only hold the place of a missing sample. So the other
# rows keep their positions until a batch is handed over.
MISSING: Final = "\0missing"


class SkippedChunks:
    """The damaged chunks that are left out; threads may share the object.

    Args:
        most: Largest number of them. With 0 the first damaged chunk is an error.

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
            FormatError: The chunk is damaged, and no further chunk may be left out.
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
            if chunk in self._chunks:  # another thread read it at the same time
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
            str(error),  # a kept log record must not keep the error, and with it the loader
        )
