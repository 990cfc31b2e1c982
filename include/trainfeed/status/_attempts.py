"""Attempts that are at work on an unpublished interval, or were killed.

Attempts of this work folder are known by their marks, those of other work folders by the build
leases of the publication root.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from trainfeed.attempts import ATTEMPTS, FoundMark, found_marks
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.lease import FoundLease, LeaseKind, leases
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.paths import listed
from trainfeed.storage import Location

__all__ = ["Attempts", "FoundAttempt", "Life"]

# An attempt writes every few minutes. After this long without a write it has probably been killed.
_QUIET: Final = timedelta(hours=1)

Life = Literal["at work", "elsewhere", "quiet", "killed"]


@dataclass(frozen=True)
class FoundAttempt:
    """An attempt that has not ended in good order.

    Attributes:
        life: ``at work`` on this machine; ``elsewhere``, and wrote within the last hour; ``quiet``:
            elsewhere, and did not; ``killed`` on this machine.
        began: Begin, ISO 8601 in UTC.
        text: Where it is or was, for people.
    """

    life: Life
    began: str
    text: str

    @property
    def is_alive(self) -> bool:
        """Whether the attempt is, as far as can be told, at work."""
        return self.life in {"at work", "elsewhere"}


class Attempts:
    """The marks of attempts in a work folder, listed once.

    Args:
        work: The work folder.
        now: Aware UTC time.
    """

    def __init__(self, work: Location, now: datetime) -> None:
        self._work = work
        self._now = now
        self._error: TrainFeedError | None = None
        self._leases: dict[Path, list[FoundLease]] = {}

    @property
    def doubt(self) -> str | None:
        """Why attempts may be at work that ``of`` did not return, or None."""
        return None if self._error is None else f"builds at work are not known: {self._error}"

    def of(self, folder: DatasetFolder, plans: Iterable[str]) -> FoundAttempt | None:
        """Return the attempt at one of these plans that is most alive, or None."""
        marks = {plan: [n for n in self._names if n.startswith(f"{plan}.")] for plan in plans}
        read = [(plan, mark) for plan, names in marks.items() for mark in self._read(names)]
        found = [self._judged(folder, plan, mark) for plan, mark in read]
        found += self._elsewhere(folder, [*marks], [mark for _, mark in read])
        order: tuple[Life, ...] = ("at work", "elsewhere", "quiet", "killed")
        return min(found, key=lambda each: order.index(each.life), default=None)

    def _elsewhere(
        self, folder: DatasetFolder, plans: list[str], marks: list[FoundMark]
    ) -> list[FoundAttempt]:
        """Return the builds of plans that hold a lease and have no mark in this work folder."""
        known = {(mark.host.partition(" ")[0], mark.pid) for mark in marks}
        held = [
            each.lease
            for each in self._held(folder)
            if each.lease and (each.lease.host, each.lease.pid) not in known
        ]
        return [
            FoundAttempt("elsewhere", lease.at, lease.told)
            for lease in held
            if lease.kind is LeaseKind.BUILD and any(lease.what.endswith(plan) for plan in plans)
        ]

    def _held(self, folder: DatasetFolder) -> list[FoundLease]:
        if folder.path not in self._leases:
            try:
                found = leases(folder)
            except TrainFeedError as error:
                self._error, found = error, []
            self._leases[folder.path] = [each for each in found if each.is_held(self._now)]
        return self._leases[folder.path]

    @cached_property
    def _names(self) -> list[str]:
        try:
            return [info.name for info in (self._work / ATTEMPTS).list()]
        except NotFoundError:
            return []
        except TrainFeedError as error:
            self._error = error
            return []

    def _read(self, names: list[str]) -> list[FoundMark]:
        try:
            return found_marks(self._work / ATTEMPTS, names)
        except TrainFeedError as error:
            self._error = error
            return []

    def _judged(self, folder: DatasetFolder, plan: str, mark: FoundMark) -> FoundAttempt:
        work = mark.name.removeprefix(f"{plan}.").removesuffix(".json")
        text = f"{work}, begun at {mark.began} by process {mark.pid}"
        if mark.is_at_work is not None:
            life: Life = "at work" if mark.is_at_work else "killed"
            return FoundAttempt(
                life, mark.began, text if mark.is_at_work else f"{text}, was killed"
            )
        where = f"{text} on {mark.host}"
        wrote = max([_parsed(mark.began), *self._writes(folder, plan)])
        if self._now - wrote < _QUIET:
            return FoundAttempt("elsewhere", mark.began, where)
        last = wrote.isoformat(timespec="seconds")
        return FoundAttempt(
            "quiet", mark.began, f"{where}, has written nothing since {last}: perhaps killed"
        )

    def _writes(self, folder: DatasetFolder, plan: str) -> list[datetime]:
        """Return the times of last writes to the files of a plan."""
        try:
            spilled = [info.modified_ms / 1000 for info in (self._work / "spill" / plan).list()]
        except TrainFeedError:
            spilled = []
        try:
            staged = [path.stat().st_mtime for path in _staged(folder, plan)]
        except (OSError, TrainFeedError):
            staged = []
        return [datetime.fromtimestamp(seconds, UTC) for seconds in [*spilled, *staged]]


def _staged(folder: DatasetFolder, plan: str) -> list[Path]:
    return [*listed(folder.staged(plan)), *listed(folder.staging / "tmp", f"*{plan}*")]


def _parsed(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = datetime.fromtimestamp(0, UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
