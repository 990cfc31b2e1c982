"""A lease that this process holds, and renews until it is released.

The protocol of reader and retention: the reader writes its lease, and then looks whether a version
is marked as removed; retention writes the mark, and then looks for leases. Whichever looks last
sees the other.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType

from trainfeed import faults
from trainfeed.dataset.layout import DatasetFolder, generation_name
from trainfeed.dataset.leases._lease import LEASES, Lease, LeaseKind
from trainfeed.dataset.leases._lease_times import USUAL, pause_s
from trainfeed.errors import AccessDeniedError, NotFoundError, TrainFeedError
from trainfeed.storage import posix
from trainfeed.thread_ties import new_lock

__all__ = ["HeldLease", "hold_build", "hold_versions"]

logger = logging.getLogger(__name__)

Clock = Callable[[], datetime]


def _utc_now() -> datetime:
    return datetime.now(UTC)


def hold_versions(
    folder: DatasetFolder,
    versions: Iterable[tuple[str, int]],
    what: str,
    *,
    length: timedelta = USUAL,
    clock: Clock = _utc_now,
) -> HeldLease:
    """Keep retention from removing versions, until ``release`` or the end of this process.

    Args:
        folder: The data set.
        versions: Interval and generation of each version.
        what: What they are used for, for people.
        length: How long the lease holds without a renewal. A thread renews it in time.
        clock: Returns the aware present time.

    Raises:
        NotFoundError: Retention has removed one of the versions; nothing is leased.
        AccessDeniedError: This account may not write leases; the message has the remedy.
        ConfigError: The length is out of range.
        StorageError: The publication root refused or failed.
    """
    lease = Lease.of_this_process(LeaseKind.READ, versions, what, length, clock())
    path = folder.leases / f"{LeaseKind.READ}.{uuid.uuid4().hex}.json"
    return HeldLease(_Holder(folder, lease, path, clock))


def hold_build(
    folder: DatasetFolder,
    interval: str,
    generation: int,
    what: str,
    *,
    length: timedelta = USUAL,
    clock: Clock = _utc_now,
) -> HeldLease:
    """Tell others that this process builds an interval; this is advice, and no lock.

    Args:
        folder: The data set.
        interval: Name of the interval.
        generation: The generation that is built.
        what: The work, for people.
        length: How long the lease holds without a renewal. A thread renews it in time.
        clock: Returns the aware present time.

    Raises:
        StorageError: The publication root refused or failed.
    """
    versions = [(interval, generation)]
    lease = Lease.of_this_process(LeaseKind.BUILD, versions, what, length, clock())
    path = folder.leases / f"{LeaseKind.BUILD}.{interval}.{uuid.uuid4().hex}.json"
    return HeldLease(_Holder(folder, lease, path, clock))


class HeldLease:
    """A lease of this process; a thread renews it. A fork relies on the lease of its parent.

    The lease is released by ``release``, at the end of a ``with`` block, when nobody refers to it
    any more, and when the interpreter ends. After a kill it runs out.
    """

    def __init__(self, holder: _Holder) -> None:
        self._holder = holder
        holder.take()
        self._end = weakref.finalize(self, holder.release)
        holder.begin()

    @property
    def lease(self) -> Lease:
        """What is leased."""
        return self._holder.lease

    @property
    def path(self) -> Path:
        """The file of the lease."""
        return self._holder.path

    def renew(self) -> None:
        """Renew the lease now; the thread does this by itself.

        Raises:
            NotFoundError: The lease had ended, and retention has removed one of its versions.
            StorageError: The publication root refused or failed.
        """
        self._holder.renew()

    def require(self) -> None:
        """Raise if a version was lost: the lease had ended, and retention removed the version.

        Raises:
            NotFoundError: A version was lost.
        """
        if self._holder.lost is not None:
            raise self._holder.lost

    def release(self) -> None:
        """Give the lease back; does nothing the second time, or in a fork."""
        self._end()

    def __enter__(self) -> HeldLease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class _Holder:
    """The file of a lease, and the thread that renews it; the thread refers to nothing else."""

    def __init__(self, folder: DatasetFolder, lease: Lease, path: Path, clock: Clock) -> None:
        self.lease = lease
        self.path = path
        self.lost: NotFoundError | None = None
        self._folder = folder
        self._clock = clock
        self._owner = os.getpid()
        self._renewed = clock()
        self._released = threading.Event()
        self._lock = new_lock()

    def take(self) -> None:
        self._write(self._clock())
        faults.point("lease.after_write")
        try:
            self._look()
        except TrainFeedError:
            self.release()
            raise

    def begin(self) -> None:
        name = f"trainfeed lease {self.path.stem}"
        threading.Thread(target=self._keep, name=name, daemon=True).start()

    def renew(self) -> None:
        with self._lock:
            if self._released.is_set():
                return
            now = self._clock()
            is_late = now - self._renewed > self.lease.length
            try:
                self._stamp(now)
            except NotFoundError:
                is_late = True
                self._write(now)
            self._renewed = now
        if is_late:
            # Others were free to take the lease for ended meanwhile.
            logger.warning("the lease %s was renewed late: it had ended", self.path)
            self._look()

    def release(self) -> None:
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._released.set()
            try:
                with posix.map_errors(self.path):
                    self.path.unlink(missing_ok=True)
            except TrainFeedError as error:
                logger.warning("the lease stays until it ends by itself: %s", error)

    def _keep(self) -> None:
        while not self._released.wait(pause_s(self.lease.length)):
            try:
                self.renew()
            except NotFoundError as error:
                self.lost = error
            except TrainFeedError as error:
                logger.warning(
                    "the lease %s was not renewed, a later try is made: %s", self.path, error
                )

    def _write(self, now: datetime) -> None:
        try:
            placed = replace(self.lease, dataset=self._folder.name, file=self.path.name)
            LEASES.write_once(self.path, placed)
            self._stamp(now)
        except AccessDeniedError as error:
            raise AccessDeniedError(
                f"{error}; nothing was leased; let the operator make the folder"
                f" {self.path.parent} writable for this account, or read without a lease:"
                " retention may then remove superseded versions while they are read"
            ) from error

    def _stamp(self, now: datetime) -> None:
        with posix.map_errors(self.path):
            os.utime(self.path, (now.timestamp(), now.timestamp()))

    def _look(self) -> None:
        """Raise if retention has removed a version that a reader's lease names."""
        if self.lease.kind is not LeaseKind.READ:
            return
        for interval, generation in self.lease.versions:
            if self._folder.is_removed(interval, generation):
                name = f"{self._folder.name}/{interval}/{generation_name(generation)}"
                raise NotFoundError(
                    f"{name} was removed by retention before it was leased, or after the lease had"
                    f" ended; nothing of it can be read; open the interval again:"
                    f" trainfeed ls {self._folder.name}"
                )
