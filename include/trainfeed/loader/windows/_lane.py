"""Reads the one lane of a share from start to end; batches are views of windows."""

from __future__ import annotations

from typing import Final

from trainfeed.loader.columns import Columns, joined
from trainfeed.loader.order import EpochPart
from trainfeed.loader.windows._cursor import Fetched
from trainfeed.loader.windows._load_window import Feed, Window

__all__ = ["LaneReader"]


class LaneReader:
    """Reads samples in the order of the windows.

    Args:
        part: The part of the epoch to read; its positions belong to one lane.
        feed: Loads the windows of ``part.tasks()``.
    """

    def __init__(self, part: EpochPart, feed: Feed) -> None:
        self._feed = feed
        self._tasks = part.tasks()
        self._next = next(self._tasks, None)
        self._window = _EMPTY
        # Number of samples of the window that were taken.
        self._num_taken = 0
        self._error: BaseException | None = None

    def take(self, num_samples: int) -> Fetched:
        """Return the next samples: views if they are in one window, otherwise copies."""
        start, stop = self._num_taken, self._num_taken + num_samples
        if stop <= self._window.num_samples:
            self._num_taken = stop
            return Fetched(self._window.columns, start, stop, None)
        return self._take_pieces(num_samples)

    @property
    def is_done(self) -> bool:
        """Whether all windows of the pass were taken."""
        return self._next is None

    def _take_pieces(self, num_samples: int) -> Fetched:
        pieces: list[tuple[Columns, slice, int]] = []
        missing = num_samples
        while missing and self._replenish():
            start = self._num_taken
            count = min(missing, self._window.num_samples - start)
            pieces.append((self._window.columns, slice(start, start + count), count))
            self._num_taken += count
            missing -= count
        error = self._error if missing else None
        if len(pieces) == 1:
            columns, rows, _ = pieces[0]
            return Fetched(columns, rows.start, rows.stop, error)
        return Fetched(joined(pieces) if pieces else {}, 0, num_samples - missing, error)

    def _replenish(self) -> bool:
        """Take the next window if this one is used up; return whether samples are left."""
        while self._num_taken >= self._window.num_samples:
            self._error = self._error or self._window.error
            if self._error is not None or self._next is None:
                return False
            # Dropped first: the feed may need the memory of this window for the next one.
            self._window, self._num_taken = _EMPTY, 0
            try:
                self._window = self._feed.next()
            except Exception as error:  # noqa: BLE001 - raised after the samples before it
                self._error = error
                return False
            self._next = next(self._tasks, None)
        return True


_EMPTY: Final = Window({}, 0)
