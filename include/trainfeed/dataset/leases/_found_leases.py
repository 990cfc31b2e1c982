"""The leases of a data set as others see them: which versions are in use, and until when.

A lease that cannot be read names no version. Until its time has passed, it holds every version of
the data set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainfeed.dataset.layout import DatasetFolder, check_name
from trainfeed.dataset.leases._lease import LEASES, Lease, LeaseKind
from trainfeed.dataset.leases._lease_times import LONGEST, MARGIN
from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    FormatError,
    NotFoundError,
    TrainFeedError,
)
from trainfeed.intervals import format_time
from trainfeed.paths import listed_folder
from trainfeed.storage import posix

__all__ = ["FoundLease", "LeasedVersions", "building", "leased_versions", "leases", "remove_ended"]

logger = logging.getLogger(__name__)

# A clock may have set any time; this one still has room for the length of a lease.
_LATEST_S: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True)
class FoundLease:
    """A lease at the time of a look.

    Attributes:
        path: Its file.
        lease: Its content, or None if it cannot be read.
        problem: Why it cannot be read, else "".
        num_bytes: Size of the file.
        renewed: Its last renewal, by the clock of its holder.
        until: The time after which nobody is bound by it any more, margin included.
    """

    path: Path
    lease: Lease | None
    problem: str
    num_bytes: int
    renewed: datetime
    until: datetime

    def is_held(self, now: datetime) -> bool:
        """Return whether the lease binds others at the aware time ``now``."""
        return now <= self.until

    def is_ahead(self, now: datetime) -> bool:
        """Return whether the clock of the holder is ahead of ``now`` by more than the margin."""
        return self.renewed - now > MARGIN

    @property
    def told(self) -> str:
        """Who holds the lease, and until when, for messages."""
        who = self.lease.told if self.lease else f"{self.path} cannot be read ({self.problem})"
        return f"{who}, until {format_time(self.until.replace(microsecond=0))}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        content = self.lease.to_json() if self.lease else {"problem": self.problem}
        times = {"renewed": format_time(self.renewed), "until": format_time(self.until)}
        return {"file": self.path.name, **content, **times}


@dataclass(frozen=True)
class LeasedVersions:
    """The versions of a data set that readers hold.

    Attributes:
        holders: Interval and generation → a lease that holds it.
        unread: Leases that cannot be read; each holds every version.
    """

    holders: dict[tuple[str, int], FoundLease]
    unread: tuple[FoundLease, ...]

    def __contains__(self, version: tuple[str, int]) -> bool:
        return bool(self.unread) or version in self.holders

    def why(self, interval: str, generation: int) -> str | None:
        """Return why a version has to stay, or None if no lease holds it."""
        holder = self.holders.get((interval, generation))
        if holder is None and self.unread:
            holder = self.unread[0]
        return None if holder is None else f"leased: {holder.told}"


def leases(folder: DatasetFolder, interval: str | None = None) -> list[FoundLease]:
    """Return the leases of a data set, ended ones too, ordered by the names of their files.

    Args:
        folder: The data set.
        interval: Only the build leases of this interval, or None for all leases.

    Raises:
        FormatError: Something else than a folder is in the place of the leases.
        StorageError: The publication root refused or failed.
    """
    names = "*.json" if interval is None else f"{LeaseKind.BUILD}.{check_name(interval)}.*.json"
    found = (_look(folder, path) for path in sorted(listed_folder(folder.leases, names)))
    return [each for each in found if each is not None]


def leased_versions(folder: DatasetFolder, now: datetime) -> LeasedVersions:
    """Return the versions that leases hold at the aware time ``now``.

    Retention looks twice: before it marks a generation as removed, and again behind the mark,
    before it touches a file. A reader writes its lease first, and looks for the mark behind that.
    So one of the two sees the other.

    Raises:
        StorageError: The publication root refused or failed; then nothing may be removed.
    """
    held = [each for each in leases(folder) if each.is_held(now)]
    holders = {version: each for each in held if each.lease for version in each.lease.versions}
    return LeasedVersions(holders, tuple(each for each in held if each.lease is None))


def building(folder: DatasetFolder, interval: str, now: datetime) -> Sequence[FoundLease]:
    """Return the leases of those that build an interval at the aware time ``now``.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return [
        each
        for each in leases(folder, interval)
        if each.is_held(now) and (each.lease is None or interval in dict(each.lease.versions))
    ]


def remove_ended(
    folder: DatasetFolder, now: datetime, *, dry_run: bool = False
) -> list[FoundLease]:
    """Remove the leases whose time has passed at the aware time ``now``, and return them.

    A holder that was only slow takes its lease again. A lease that was renewed in the future, by a
    wrong clock, gets the time ``now``: from then on it ends as others do.

    Args:
        folder: The data set.
        now: The present time.
        dry_run: Whether to change nothing.

    Raises:
        StorageError: The publication root refused or failed.
    """
    found = leases(folder)
    ended = [each for each in found if not each.is_held(now)]
    if dry_run:
        return ended
    for each in found:
        if each.is_ahead(now):
            _set_back(each, now)
    return [each for each in ended if _remove(folder, each, now)]


def _remove(folder: DatasetFolder, found: FoundLease, now: datetime) -> bool:
    """Remove an ended lease, unless a slow holder has renewed it since it was found."""
    latest = _look(folder, found.path)
    if latest is None or latest.is_held(now):
        return False
    try:
        with posix.map_errors(found.path):
            found.path.unlink(missing_ok=True)
    except ConflictError as error:
        # It names no version, and its time has passed: it stands in nobody's way.
        logger.warning("%s; that is no lease of trainfeed; move it away", error)
        return False
    return True


def _set_back(found: FoundLease, now: datetime) -> None:
    logger.warning("the clock is ahead: %s; its time counts from now", found.told)
    try:
        with posix.map_errors(found.path):
            # A link would hand the time on to any other file.
            times = (now.timestamp(), now.timestamp())
            os.utime(found.path, times, follow_symlinks=False)
    except NotFoundError:
        pass
    except TrainFeedError as error:
        logger.warning("%s; remove the file if that process is gone", error)


def _look(folder: DatasetFolder, path: Path) -> FoundLease | None:
    """Return the lease of a file, None if it is gone by now."""
    try:
        with posix.map_errors(path):
            found = path.lstat()
        lease, problem = _read(folder, path)
    except NotFoundError:
        return None
    renewed = datetime.fromtimestamp(min(found.st_mtime, _LATEST_S), UTC)
    until = renewed + (LONGEST if lease is None else lease.length) + MARGIN
    return FoundLease(path, lease, problem, found.st_size, renewed, until)


def _read(folder: DatasetFolder, path: Path) -> tuple[Lease | None, str]:
    try:
        lease = LEASES.read(path, dataset=folder.name, file=path.name)
    except (AccessDeniedError, FormatError) as error:
        return None, str(error)
    if lease is None:
        raise NotFoundError(f"{path}: the lease is gone")
    return lease, ""
