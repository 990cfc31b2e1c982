"""The removal of leftovers of all data sets by their age."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trainfeed.attempts import ATTEMPTS
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, require_writable_root
from trainfeed.dataset.lease import remove_ended
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import SnapshotError
from trainfeed.pipeline.upkeep._leftovers import OLD, leftovers
from trainfeed.storage import Location, present, require_store_clock

__all__ = ["Swept", "sweep"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Swept:
    """A leftover that was removed, or in a dry run would be.

    Attributes:
        place: URI of the file or folder.
        bytes: Size of its files.
        modified: Time of the last change, ISO 8601.
    """

    place: str
    bytes: int
    modified: str


def sweep(env: Environment, *, older_than: timedelta = OLD, dry_run: bool = False) -> list[Swept]:
    """Remove leftovers that have not changed for ``older_than``.

    A sweep may run beside builds and other sweeps. After a kill, the next sweep goes on.

    Args:
        env: Folders and connections, of all data sets.
        older_than: Age from which leftovers are removed. Less than a day may remove files of
            builds that pause: such a build fails with a message, and must be started again.
        dry_run: Whether to remove nothing.

    Returns:
        The leftovers that were removed, or would be.

    Raises:
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: A place cannot be read or written, or its store has another time than this
            machine. Earlier removals of this call stand.
    """
    require_writable_root(env)
    if not dry_run:
        _require_clocks(env)
    now = present()
    before_ms = (now - older_than).timestamp() * 1000
    removed = [
        Swept(str(lease.path), lease.num_bytes, lease.renewed.isoformat(timespec="seconds"))
        for name in data_sets_of(Path(env.root))
        for lease in remove_ended(DatasetFolder(Path(env.root), name), now, dry_run=dry_run)
    ]
    for leftover in leftovers(env):
        if leftover.modified_ms > before_ms:
            continue
        modified = datetime.fromtimestamp(leftover.modified_ms / 1000, UTC)
        if not dry_run:
            try:
                leftover.remove()
            except SnapshotError as error:
                logger.warning("%s stays: %s", leftover.place.uri, error)
                continue
            logger.info("removed %s, last touched %s", leftover.place.uri, modified)
        touched = modified.isoformat(timespec="seconds")
        removed.append(Swept(leftover.place.uri, leftover.size_bytes, touched))
    return removed


def _require_clocks(env: Environment) -> None:
    """Compare the clock with those of the stores; the landing area is on that of the work files."""
    work = Location.parse(env.work)
    places = [
        Location.parse(str(DatasetFolder(Path(env.root), name).staging / "tmp"))
        for name in data_sets_of(Path(env.root))[:1]
    ]
    for place in (*places, *([work / ATTEMPTS] if work.exists() else [])):
        require_store_clock(place, "nothing was removed")
