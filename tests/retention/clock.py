"""The time of a simulated night, for everything that reads a clock or the time of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from unittest import mock

from tests.retention.days import START

# Later than every simulated night, earlier than the clock of any machine that runs this.
_SIMULATED_UNTIL: Final = START + timedelta(days=600)


class Clock:
    """The time of the night that is played."""

    def __init__(self) -> None:
        self.now = START

    def set_night(self, number: int) -> None:
        """Go on to an hour after the end of a day."""
        self.now = START + timedelta(days=number + 1, hours=1)

    def stamp(self, places: Iterable[Path]) -> None:
        """Give what was written since the last call the time of the night.

        Args:
            places: Files and folders; of folders, everything below, too.
        """
        for place in places:
            for path in (*place.rglob("*"), place):
                self._stamp(path)

    def _stamp(self, path: Path) -> None:
        try:
            written = path.lstat().st_mtime
        except FileNotFoundError:
            return
        if written > _SIMULATED_UNTIL.timestamp():
            os.utime(path, (self.now.timestamp(), self.now.timestamp()), follow_symlinks=False)

    @contextmanager
    def of_withdrawals(self) -> Iterator[None]:
        """Let withdrawals be made at the time of the night."""
        with mock.patch(
            "trainfeed.upkeep.withdrawal.decisions.datetime", wraps=datetime
        ) as patched:
            patched.now = lambda _zone: self.now.astimezone(UTC)
            yield
