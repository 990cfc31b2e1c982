"""Where a lease lies: a file that a renewal touches, or objects of a bucket, one a renewal.

A lease of readers of a root in a bucket is ``_leases/read.<id>.00000001.json`` there, and its
renewal ``….00000002.json``: the time of the last one counts, which is that of the store.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.files.stores import FileInfo, Location, posix
from trainfeed.versions.bucket_root import bucket_mark, bucket_of
from trainfeed.versions.decision_log import DecisionLog
from trainfeed.versions.layout import DatasetFolder, generation_name

_LEASES: Final = "_leases"
_OBJECT: Final = re.compile(r"(read\.[0-9a-f]{32})\.([0-9]{8})\.json")


class LeasePlace(Protocol):
    """The place of one lease, as its holder uses it."""

    def write(self, data: bytes, now: datetime) -> None:
        """Write the lease durably, with the time ``now`` as far as the place takes times."""

    def stamp(self, now: datetime) -> None:
        """Renew it.

        Raises:
            NotFoundError: It was removed, as one that had ended.
        """

    def remove(self) -> None:
        """Remove it; does nothing if it is gone."""

    def is_removed(self, interval: str, generation: int) -> bool:
        """Return whether retention has removed a generation, asked after the lease was written."""


@dataclass(frozen=True)
class FilePlace:
    """A file of the data set's folder; its modification time is that of the last renewal."""

    folder: DatasetFolder
    path: Path

    def write(self, data: bytes, now: datetime) -> None:
        """Write the lease; see ``LeasePlace``."""
        posix.make_public_dir(self.path.parent)
        posix.create_exclusive(self.path, data, is_public=True)
        self.stamp(now)

    def stamp(self, now: datetime) -> None:
        """Renew it; see ``LeasePlace``."""
        with posix.map_errors(self.path):
            os.utime(self.path, (now.timestamp(), now.timestamp()))

    def remove(self) -> None:
        """Remove it; see ``LeasePlace``."""
        with posix.map_errors(self.path):
            self.path.unlink(missing_ok=True)

    def is_removed(self, interval: str, generation: int) -> bool:
        """Return whether a generation is removed; see ``LeasePlace``."""
        return self.folder.is_removed(interval, generation)


class ObjectPlace:
    """Objects of a data set in a bucket.

    Args:
        home: The data set in the bucket.
        stem: Name of the lease, ``read.<id>``.
    """

    def __init__(self, home: Location, stem: str) -> None:
        self._home = home
        self._stem = stem
        self._number = 0
        self._data = b""

    def write(self, data: bytes, now: datetime) -> None:  # noqa: ARG002 - the store has the time
        """Write the lease; see ``LeasePlace``."""
        self._data = data
        self._number += 1
        place = self._object()
        if not bucket_of(place).create(place.path, data):
            raise ConflictError(f"{place.uri}: the name of a lease is taken")

    def stamp(self, now: datetime) -> None:
        """Renew it; see ``LeasePlace``."""
        before = self._object()
        before.stat()
        self.write(self._data, now)
        before.delete()

    def remove(self) -> None:
        """Remove it; see ``LeasePlace``."""
        self._object().delete()

    def is_removed(self, interval: str, generation: int) -> bool:
        """Return whether the log has the mark; see ``LeasePlace``."""
        mark = f"versions/{interval}/{generation_name(generation)}.removed"
        return mark in DecisionLog(self._home).newest().files

    def _object(self) -> Location:
        return self._home / _LEASES / f"{self._stem}.{self._number:08d}.json"


@dataclass(frozen=True)
class FoundObjects:
    """A lease in a bucket at the time of a look.

    Attributes:
        stem: Name of the lease.
        objects: Its objects, the last renewal last.
        renewed: When that was created, by the clock of the store.
        num_bytes: Its size.
    """

    stem: str
    objects: tuple[Location, ...]
    renewed: datetime
    num_bytes: int

    def remove(self) -> None:
        """Remove all objects, the last one last."""
        for place in self.objects:
            place.delete()


def leases_in_bucket(folder: DatasetFolder) -> Iterator[FoundObjects]:
    """Yield the leases in the bucket that the folder of a data set follows; none for others.

    Raises:
        StorageError: The store refused or failed.
    """
    if (mark := bucket_mark(folder.root)) is None:
        return
    home = mark.place / folder.name / _LEASES
    found = defaultdict[str, list[FileInfo]](list)
    try:
        for info in home.list():
            if match := _OBJECT.fullmatch(info.name):
                found[match[1]].append(info)
    except NotFoundError:
        return
    for stem, infos in sorted(found.items()):
        last = infos[-1]
        renewed = datetime.fromtimestamp(last.modified_ms / 1000, UTC)
        objects = tuple(home / info.name for info in infos)
        yield FoundObjects(stem, objects, renewed, last.size_bytes)
