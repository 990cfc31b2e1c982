"""The clock of this machine against that of a store: who decides by age needs both to agree.

A file has its time from the store: from the machine of an NFS or HDFS server, or, on a local disk,
from this machine, of which nothing is learnt then.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from trainfeed.errors import NotFoundError, StorageError
from trainfeed.paths import unfinished_name
from trainfeed.storage._location import Location

__all__ = ["CLOCK_MARGIN", "present", "require_store_clock"]

# Clocks of one site differ by seconds; a look at a loaded store takes longer.
CLOCK_MARGIN: Final = timedelta(minutes=10)
_TRIES: Final = 5


def present() -> datetime:
    """Return the aware UTC time of this machine."""
    return datetime.now(UTC)


def require_store_clock(
    folder: Location, what: str, *, clock: Callable[[], datetime] | None = None
) -> None:
    """Refuse a clock of this machine that differs from the store's by more than ten minutes.

    Args:
        folder: A folder of the store in which a file is written for a moment.
        what: What is not done, for the message, as ``nothing was removed``.
        clock: Returns the aware present time of this machine.

    Raises:
        StorageError: The clocks differ, or the store refused or failed.
    """
    clock = clock or present
    before = clock()
    there = _time_there(folder, _TRIES)
    if before - CLOCK_MARGIN <= there <= clock() + CLOCK_MARGIN:
        return
    here = before.isoformat(timespec="seconds")
    raise StorageError(
        f"{folder.uri}: expected the clock of this machine to agree with that of the store to"
        f" {CLOCK_MARGIN}, got {here} here and {there.isoformat(timespec='seconds')} there; {what};"
        " set the clock that is wrong, and try again"
    )


def _time_there(folder: Location, tries: int) -> datetime:
    folder.make_dir()
    file = folder / unfinished_name("clock")
    try:
        file.create_exclusive(b"clock\n")
        return datetime.fromtimestamp(file.stat().modified_ms / 1000, UTC)
    except NotFoundError:
        # A sweep that takes files of any age has taken this one.
        if tries == 1:
            raise
    finally:
        file.delete()
    return _time_there(folder, tries - 1)
