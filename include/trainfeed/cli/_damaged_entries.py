"""Lists of entries on disk: a damaged entry is named, hides no other, and makes the status 3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer

from trainfeed.cli._printing import print_message
from trainfeed.errors import FormatError, JobRejectedError, NotFoundError

__all__ = ["DamagedEntries"]

# A job file is refused as a job, and the file that describes an entry may be gone.
_DAMAGED: Final = (FormatError, JobRejectedError, NotFoundError)
_STATUS: Final = 3


class DamagedEntries:
    """The damaged entries of one list."""

    def __init__(self) -> None:
        self._is_any = False

    @contextmanager
    def named(self, entry: str, row: dict[str, Any]) -> Iterator[None]:
        """Name an entry that is found damaged in the block, and go on behind the block.

        Args:
            entry: Name of the entry, for the message.
            row: Row of the entry; gets the error as text under ``damaged``.
        """
        try:
            yield
        except _DAMAGED as error:
            self._is_any = True
            row["damaged"] = str(error)
            print_message(f"{entry} is damaged: {error}")

    def end(self) -> None:
        """End the command with status 3 if an entry was damaged; call after the list is printed."""
        if self._is_any:
            raise typer.Exit(_STATUS)
