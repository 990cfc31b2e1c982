"""Decoded chunks that are wanted once more."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader.order import Span
from trainfeed.thread_ties import new_lock

__all__ = ["KeptChunks"]

# Decoded chunks that two windows share, which wait for the other one: one for each pair of
# neighbouring lanes, if their chunks are of the usual size.
_MAX_KEPT_BYTES: Final = 16 << 20


class KeptChunks:
    """Decoded chunks of which a part was not wanted yet; the oldest go when they are too many.

    Lanes are cut by record, so two lanes share a chunk, which would be decoded for each.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        # The framing, and how many of its samples nobody has wanted yet.
        self._chunks: OrderedDict[int, tuple[NDArray[np.uint8], int]] = OrderedDict()
        self._num_bytes = 0

    def find(self, span: Span) -> NDArray[np.uint8] | None:
        """Return the framing of a chunk, which is kept until its last samples were wanted."""
        with self._lock:
            found = self._chunks.pop(span.chunk, None)
            if found is None:
                return None
            framing, num_left = found
            self._num_bytes -= framing.nbytes
            self.keep(span, framing, num_left)
            return framing

    def keep(self, span: Span, framing: NDArray[np.uint8], num_left: int) -> None:
        """Keep the framing of a chunk of which ``num_left`` samples were left before the span."""
        num_left -= span.stop - span.start
        with self._lock:
            if num_left <= 0 or framing.nbytes > _MAX_KEPT_BYTES or span.chunk in self._chunks:
                return
            self._chunks[span.chunk] = framing, num_left
            self._num_bytes += framing.nbytes
            while self._num_bytes > _MAX_KEPT_BYTES:
                self._num_bytes -= self._chunks.popitem(last=False)[1][0].nbytes
