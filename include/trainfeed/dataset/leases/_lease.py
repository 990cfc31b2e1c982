"""A lease as its file holds it: which versions, who, where, and for how long."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.accounts import account_name
from trainfeed.dataset.layout import check_name, generation_name
from trainfeed.dataset.leases._lease_times import checked_length
from trainfeed.intervals import format_time, parse_time
from trainfeed.records import RecordFile

__all__ = ["LEASES", "Lease", "LeaseKind"]

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
