"""Roots in a bucket: made on purpose, in a store that is proven to let one of many writers win.

A state folder follows a root in a bucket: a folder of the shape of a root, which all code works on.
``BUCKET.json`` in it is a ``FollowedBucket``; ``state_folder`` has what brings it up to date.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from trainfeed.core.accounts import account_name
from trainfeed.errors import (
    ConfigError,
    NotFoundError,
    RootError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files import is_there, write_all
from trainfeed.files.records import ROOT_MARK_FILE, ROOT_MARKS, RecordFile, RootMark
from trainfeed.files.stores import Location
from trainfeed.files.stores.s3 import S3FileSystem

T = TypeVar("T")

_WRITERS: Final = 8
_ROUNDS: Final = 12
# Both are one request. The larger one would be parts for a client that turns to them by itself.
_RACED_BYTES: Final = (1000, 6 << 20)
_PARTS_BYTES: Final = 17 << 20


def bucket_of(place: Location) -> S3FileSystem:
    """Return the bucket of a place.

    Raises:
        ConfigError: The place is in no bucket.
    """
    if not isinstance(place.fs, S3FileSystem):
        raise ConfigError(f"expected s3://bucket/…, got {place.uri}")
    return place.fs


def init_bucket_root(root: Location) -> tuple[RootMark, bool]:
    """Make a root in a bucket, after its store has been proven; other objects stay unchanged.

    Returns:
        The content of the marker, and whether this call wrote it: an existing marker stays.

    Raises:
        ConfigError: The place is in no bucket.
        UnsuitableStoreError: Versions could appear twice, or not whole. No marker was written.
        FormatError: The existing marker is damaged, or of a newer format.
        StorageError: The store refused or failed.
    """
    bucket_of(root)
    if (known := _read(root)) is not None:
        return known, False
    probe_bucket(root)
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    mark = RootMark(str(uuid.uuid4()), made_at, account_name(), unsealed={})
    is_new = (root / ROOT_MARK_FILE).create_exclusive(ROOT_MARKS.dumps(mark))
    return _read(root) or mark, is_new


def require_bucket_root(root: Location) -> RootMark:
    """Refuse a place that was not made a root, before anything is written to it.

    Raises:
        RootError: There is no marker; the message has the command.
        FormatError: The marker is damaged, or of a newer format.
        StorageError: The store refused or failed.
    """
    bucket_of(root)
    mark = _read(root)
    if mark is None:
        raise RootError(
            f"expected a publication root, got {root.uri}, which has no {ROOT_MARK_FILE}; nothing"
            f" was made or changed there; if it is to be a new root: trainfeed init {root.uri}"
        )
    return mark


def probe_bucket(root: Location) -> None:
    """Let eight writers create one name again and again, and send one object in parts.

    Everything is removed afterwards. A store that checks the condition only between requests that
    are not concurrent passes a probe that asks once.

    Raises:
        UnsuitableStoreError: Not exactly one of them won, or an object had other bytes.
        StorageError: The store refused or failed.
    """
    bucket = bucket_of(root)
    scratch = root / f".probe-{uuid.uuid4().hex}"
    try:
        for number in range(_ROUNDS):
            _race(bucket, scratch / str(number), _RACED_BYTES[number % len(_RACED_BYTES)])
        _send_parts(scratch / "parts")
    finally:
        with suppress(StorageError):
            scratch.delete(recursive=True)


def _race(bucket: S3FileSystem, place: Location, num_bytes: int) -> None:
    contents = [bytes([65 + number]) * num_bytes for number in range(_WRITERS)]
    won = _at_once([partial(bucket.create, place.path, data) for data in contents])
    if sum(won) != 1:
        raise _unsuitable(place, f"one of {_WRITERS} writers to create an object", f"{sum(won)}")
    if place.read_bytes() != contents[won.index(True)]:
        raise _unsuitable(place, "the bytes of the writer that won", "those of another")


def _send_parts(place: Location) -> None:
    data = os.urandom(_PARTS_BYTES)
    place.write_atomic(lambda file: write_all(file, data))
    if place.read_bytes() != data:
        raise _unsuitable(place, "an object of several parts", "other bytes")


def _at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    barrier = threading.Barrier(len(calls))

    def start(call: Callable[[], T]) -> T:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(start, calls))


def _unsuitable(place: Location, expected: str, got: str) -> UnsuitableStoreError:
    return UnsuitableStoreError(
        f"{place.parent.uri}: expected {expected}, got {got}; two versions could have one name, so"
        " nothing was published; use a store whose PutObject obeys If-None-Match under concurrency"
    )


def _read(root: Location) -> RootMark | None:
    place = root / ROOT_MARK_FILE
    try:
        return ROOT_MARKS.parse(place.read_bytes(), place.uri)
    except NotFoundError:
        return None


# --- The mark of a folder that follows a root in a bucket

BUCKET: Final = "BUCKET.json"


@dataclass(frozen=True)
class FollowedBucket:
    """The root in a bucket that a state folder follows.

    Attributes:
        uri: Its address.
        id: Its id, as the mark of the root has it.
        is_private: Whether the folder is a copy of one account on one machine, which may be
            removed at any time: enough to look and to decide, no place to build.
    """

    uri: str
    id: str
    is_private: bool

    @property
    def place(self) -> Location:
        """The root in the bucket."""
        return Location.parse(self.uri)


FOLLOWED: Final = RecordFile(
    FollowedBucket,
    "the mark of a folder that follows a root in a bucket",
    "nothing was changed; bring the file back, or name another folder in TRAINFEED_STATE",
)


def bucket_mark(root: Path) -> FollowedBucket | None:
    """Return which root in a bucket a folder follows; None for any other folder.

    Raises:
        FormatError: The mark is damaged.
        StorageError: The file system refused or failed.
    """
    place = root / BUCKET
    return FOLLOWED.read(place) if is_there(place) else None


def refuse_private(root: Path, setting: str) -> None:
    """Refuse to keep plans, boundaries or jobs in a private copy of a root in a bucket.

    Raises:
        ConfigError: The folder is one.
    """
    mark = bucket_mark(root)
    if mark is not None and mark.is_private:
        raise ConfigError(
            f"expected TRAINFEED_STATE beside {setting} = {mark.uri} (in Airflow: the extra 'state'"
            " of its connection): plans, boundaries and jobs are kept in a folder of a mounted file"
            " system, which all machines that build share; nothing was read or written; name one"
            f" that is empty or new, then: trainfeed init {mark.uri}"
        )
