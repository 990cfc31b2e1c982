"""Leases: who reads or builds versions now, as files that run out by themselves."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from trainfeed.core import canonical_json, faults
from trainfeed.core.accounts import account_name
from trainfeed.core.intervals import format_time, parse_time
from trainfeed.core.thread_ties import new_lock
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    TrainFeedError,
)
from trainfeed.files import listed_folder
from trainfeed.files.records import RecordFile
from trainfeed.files.stores import Location, posix
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.layout import DatasetFolder, check_name, generation_name
from trainfeed.versions.lease_places import (
    FilePlace,
    FoundObjects,
    LeasePlace,
    ObjectPlace,
    leases_in_bucket,
)

# --- The times of leases: how long they hold, and what differences of clocks they bear

SHORTEST: Final = timedelta(minutes=1)
USUAL: Final = timedelta(hours=1)
LONGEST: Final = timedelta(days=7)
# Added by everybody who looks, never by the holder.
MARGIN: Final = timedelta(minutes=10)

_RENEWALS: Final = 4


def checked_length(length: timedelta) -> timedelta:
    """Return the length of a lease.

    Raises:
        ConfigError: It is too short to be renewed in time, or too long to be waited for.
    """
    if not SHORTEST <= length <= LONGEST:
        raise ConfigError(
            f"expected a lease of {SHORTEST} to {LONGEST}, got {length}; nothing was leased; a"
            " lease is renewed while its process lives, so a short one is enough"
        )
    return length


def pause_s(length: timedelta) -> float:
    """Return the time between two renewals of a lease, in seconds."""
    return length.total_seconds() / _RENEWALS


# --- A lease as its file holds it: which versions, who, where, and for how long

# Members that say where the file of a lease is.
_PLACE: Final = ("dataset", "file")


class LeaseKind(StrEnum):
    """What the holder of a lease does with its versions."""

    READ = "read"
    BUILD = "build"


@dataclass(frozen=True)
class Lease:
    """The content of a lease; it never changes.

    Attributes:
        kind: Whether the versions are read, or one is built.
        versions: Interval and generation of each version, sorted.
        what: What the holder does, for people, such as the name of a job.
        account: The account of the process.
        host: Name of its machine.
        pid: Its id there.
        at: Time at which the lease was taken, such as ``2026-03-08T00:00:00Z``.
        length: How long the lease holds after its last renewal.
        dataset: Name of the data set; None in a file of before.
        file: Name of the file, likewise.
    """

    kind: LeaseKind
    versions: tuple[tuple[str, int], ...]
    what: str
    account: str
    host: str
    pid: int
    at: str
    length: timedelta
    dataset: str | None = field(default=None, compare=False, repr=False)
    file: str | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_this_process(
        cls,
        kind: LeaseKind,
        versions: Iterable[tuple[str, int]],
        what: str,
        length: timedelta,
        now: datetime,
    ) -> Lease:
        """Return a lease that this process takes at the aware time ``now``.

        Raises:
            ConfigError: The length is out of range.
        """
        return cls(
            kind=kind,
            versions=tuple(sorted(set(versions))),
            what=what,
            account=account_name(),
            host=socket.gethostname(),
            pid=os.getpid(),
            at=format_time(now.replace(microsecond=0)),
            length=checked_length(length),
        )

    @property
    def told(self) -> str:
        """Who holds the lease, where, since when and for what, for messages."""
        return f"{self.what} since {self.at}, process {self.pid} of {self.account} on {self.host}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of commands: what is leased, without where the file is."""
        generations: dict[str, list[int]] = {}
        for interval, generation in self.versions:
            generations.setdefault(interval, []).append(generation)
        known = {name: each for name, each in vars(self).items() if name not in _PLACE}
        return {
            **known,
            "kind": str(self.kind),
            "versions": generations,
            "length": self.length.total_seconds(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Lease:
        """Return the lease of a file; keys that later versions add are ignored.

        Raises:
            ConfigError: A name or the length is out of range.
            KeyError: A value is missing.
            TypeError: A value has another type.
            ValueError: The kind, or a number, is none.
            WindowError: The time is none.
        """
        texts = {name: value[name] for name in ("what", "account", "host", "at")}
        if wrong := [name for name, each in texts.items() if not isinstance(each, str)]:
            raise TypeError(f"{wrong[0]}: expected text, got {texts[wrong[0]]!r}")
        parse_time(texts["at"])
        return cls(
            kind=LeaseKind(value["kind"]),
            versions=tuple(_versions(value["versions"])),
            pid=int(value["pid"]),
            length=_length(value["length"]),
            dataset=value.get("dataset"),
            file=value.get("file"),
            **texts,
        )


def _length(value: Any) -> timedelta:
    """Return a length in seconds, which may be any number of JSON."""
    try:
        return checked_length(timedelta(seconds=float(value)))
    except OverflowError as error:
        raise ValueError(f"length: {error}") from error


def _versions(value: Any) -> list[tuple[str, int]]:
    if not isinstance(value, dict) or not value:
        raise TypeError(f"versions: expected intervals with generations, got {value!r}")
    found = [(check_name(name), int(each)) for name, many in value.items() for each in many]
    for _, generation in found:
        generation_name(generation)
    return sorted(found)


def _to_json(lease: Lease) -> dict[str, Any]:
    return {**lease.to_json(), **{name: getattr(lease, name) for name in _PLACE}}


LEASES: Final = RecordFile(
    Lease,
    "a lease",
    "every version is kept until its time has passed; remove it if nobody reads",
    # A lease of 100,000 hours has about 2 MB.
    max_bytes=canonical_json.MAX_BYTES,
    to_json=_to_json,
    from_json=Lease.from_json,
)


# --- The leases of a data set as others see them: which versions are in use, and until when

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
        renewed: Its last renewal, by the clock of its holder; that of a store for one in a bucket.
        until: The time after which nobody is bound by it any more, margin included.
        objects: What a bucket has of it; None for a file.
    """

    path: Path
    lease: Lease | None
    problem: str
    num_bytes: int
    renewed: datetime
    until: datetime
    objects: FoundObjects | None = None

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
    found = [_look(folder, path) for path in sorted(listed_folder(folder.leases, names))]
    if interval is None:
        found += [_look_there(folder, objects) for objects in leases_in_bucket(folder)]
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
        if each.objects is None and each.is_ahead(now):
            _set_back(each, now)
    return [each for each in ended if _remove(folder, each, now)]


def _remove(folder: DatasetFolder, found: FoundLease, now: datetime) -> bool:
    """Remove an ended lease, unless a slow holder has renewed it since it was found."""
    if found.objects is not None:
        return _remove_there(folder, found.objects, now)
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


def _remove_there(folder: DatasetFolder, found: FoundObjects, now: datetime) -> bool:
    """Remove an ended lease of a bucket, unless it was renewed since; see ``_remove``."""
    for latest in leases_in_bucket(folder):
        if latest.stem == found.stem:
            lease = _look_there(folder, latest)
            if lease is not None and not lease.is_held(now):
                latest.remove()
                return True
    return False


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


def _look_there(folder: DatasetFolder, found: FoundObjects) -> FoundLease | None:
    """Return the lease of objects, None if it is gone by now."""
    place, name = found.objects[-1], f"{found.stem}.json"
    lease, problem = None, ""
    try:
        data = place.read_bytes(max_bytes=canonical_json.MAX_BYTES)
        lease = LEASES.parse(data, place.uri, dataset=folder.name, file=name)
    except NotFoundError:
        return None
    except (AccessDeniedError, FormatError) as error:
        problem = str(error)
    until = found.renewed + (LONGEST if lease is None else lease.length) + MARGIN
    path = folder.leases / name
    return FoundLease(path, lease, problem, found.num_bytes, found.renewed, until, found)


def _read(folder: DatasetFolder, path: Path) -> tuple[Lease | None, str]:
    try:
        lease = LEASES.read(path, dataset=folder.name, file=path.name)
    except (AccessDeniedError, FormatError) as error:
        return None, str(error)
    if lease is None:
        raise NotFoundError(f"{path}: the lease is gone")
    return lease, ""


# --- A lease that this process holds, and renews until it is released

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
    bucket: Location | None = None,
) -> HeldLease:
    """Keep retention from removing versions, until ``release`` or the end of this process.

    Args:
        folder: The data set.
        versions: Interval and generation of each version.
        what: What they are used for, for people.
        length: How long the lease holds without a renewal. A thread renews it in time.
        clock: Returns the aware present time.
        bucket: The root in a bucket that has the versions; None for the one that the root of the
            data set follows, if it does.

    Raises:
        NotFoundError: Retention has removed one of the versions; nothing is leased.
        AccessDeniedError: This account may not write leases; the message has the remedy.
        ConfigError: The length is out of range.
        StorageError: The publication root refused or failed.
    """
    lease = Lease.of_this_process(LeaseKind.READ, versions, what, length, clock())
    stem = f"{LeaseKind.READ}.{uuid.uuid4().hex}"
    path = folder.leases / f"{stem}.json"
    if bucket is None and (mark := bucket_mark(folder.root)) is not None:
        bucket = mark.place
    place: LeasePlace = FilePlace(folder, path)
    if bucket is not None:
        place = ObjectPlace(bucket / folder.name, stem)
    return HeldLease(_Holder(folder, lease, path, clock, place))


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
    return HeldLease(_Holder(folder, lease, path, clock, FilePlace(folder, path)))


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
    """The place of a lease, and the thread that renews it; the thread refers to nothing else."""

    def __init__(
        self, folder: DatasetFolder, lease: Lease, path: Path, clock: Clock, place: LeasePlace
    ) -> None:
        self.lease = lease
        self.path = path
        self.lost: NotFoundError | None = None
        self._folder = folder
        self._clock = clock
        self._place = place
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
                self._place.stamp(now)
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
                self._place.remove()
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
            self._place.write(LEASES.dumps(placed), now)
        except AccessDeniedError as error:
            raise AccessDeniedError(
                f"{error}; nothing was leased; let the operator make the folder"
                f" {self.path.parent} writable for this account, or read without a lease:"
                " retention may then remove superseded versions while they are read"
            ) from error

    def _look(self) -> None:
        """Raise if retention has removed a version that a reader's lease names."""
        if self.lease.kind is not LeaseKind.READ:
            return
        for interval, generation in self.lease.versions:
            if self._place.is_removed(interval, generation):
                name = f"{self._folder.name}/{interval}/{generation_name(generation)}"
                raise NotFoundError(
                    f"{name} was removed by retention before it was leased, or after the lease had"
                    f" ended; nothing of it can be read; open the interval again:"
                    f" trainfeed ls {self._folder.name}"
                )
