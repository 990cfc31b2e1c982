"""Which accepted uploads the published versions have, and the work that is left for others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trainfeed.core.intervals import ready_at
from trainfeed.errors import FormatError, WindowError
from trainfeed.specification import DatasetSpec
from trainfeed.uploads.receipts import Receipt, ReceiptBook
from trainfeed.uploads.removal import removal_of_uploads
from trainfeed.versions import Manifest
from trainfeed.versions.layout import DatasetFolder
from trainfeed.versions.retire import retirement_of

# --- Which accepted uploads the published versions have, and which wait for a build


@dataclass(frozen=True)
class IntervalUploads:
    """The accepted uploads of an interval.

    Attributes:
        interval: Name of the interval.
        receipts: The receipts in order of arrival; at least one, unless it is damaged.
        generation: Number of the newest version; None if the interval is not published.
        waiting: Those of ``receipts`` that the newest version does not have.
        is_retired: Whether the interval is retired, and built only with a reason.
        removed: Numbers of the receipts whose bytes retention has removed.
        damage: Why the interval is not built: what is wrong with a receipt of it; else empty.
    """

    interval: str
    receipts: tuple[Receipt, ...]
    generation: int | None
    waiting: tuple[Receipt, ...]
    is_retired: bool = False
    removed: frozenset[int] = frozenset()
    damage: str = ""

    @property
    def state(
        self,
    ) -> Literal["published", "not in its version", "not built", "retired", "damaged"]:
        """Whether a build is left to do: a first one, or one with the reason of a rebuild."""
        if self.damage:
            return "damaged"
        if self.generation is None:
            return "retired" if self.is_retired else "not built"
        return "not in its version" if self.waiting else "published"


def interval_uploads(folder: DatasetFolder) -> list[IntervalUploads]:
    """Return the intervals with accepted uploads, in order of their names.

    Raises:
        FormatError: A receipt that may be of any interval, or a manifest, is damaged.
        StorageError: The publication root refused or failed.
    """
    receipts: dict[str, list[Receipt]] = {}
    book = ReceiptBook(folder)
    found, lost = book.entries()
    for each in lost:
        if each.intervals is None:
            raise each.error
        for interval in each.intervals:
            receipts.setdefault(interval, [])
    for receipt in found:
        receipts.setdefault(receipt.interval, []).append(receipt)
    return [_state(book, folder, interval, receipts[interval]) for interval in sorted(receipts)]


def _state(
    book: ReceiptBook, folder: DatasetFolder, interval: str, receipts: list[Receipt]
) -> IntervalUploads:
    generation = folder.current_generation(interval)
    has: dict[int, str] = {}
    damage = ""
    if generation is not None:
        manifest, _ = Manifest.read(folder.version(interval, generation))
        has = {file["number"]: file["name"] for file in manifest.uploads.get("files", [])}
    try:
        book.require_known(interval, has.items())
    except FormatError as error:
        damage = str(error)
    waiting = tuple(receipt for receipt in receipts if receipt.number not in has)
    is_retired = generation is None and retirement_of(folder, interval) is not None
    removal = removal_of_uploads(folder, interval)
    removed = frozenset() if removal is None else frozenset(removal.receipts)
    return IntervalUploads(
        interval, tuple(receipts), generation, waiting, is_retired, removed, damage
    )


# --- The work that is left for intervals with uploads that no version has: build, wait, or rebuild


@dataclass(frozen=True)
class LeftToDo:
    """Intervals with accepted uploads that their newest version does not have, or may not have.

    Attributes:
        buildable: Intervals without a version that have ended and settled.
        open: Intervals without a version that have not: their normal build comes later.
        newer: Published intervals; only a build with the reason of a rebuild takes the uploads.
        unscheduled: Intervals without a version that the schedule does not have any more.
        retired: Retired intervals; only a build with a reason makes them again.
        damaged: Intervals that cannot be built, because a receipt of them is damaged or gone.
    """

    buildable: tuple[IntervalUploads, ...] = ()
    open: tuple[IntervalUploads, ...] = ()
    newer: tuple[IntervalUploads, ...] = ()
    unscheduled: tuple[IntervalUploads, ...] = ()
    retired: tuple[IntervalUploads, ...] = ()
    damaged: tuple[IntervalUploads, ...] = ()


def left_to_do(spec: DatasetSpec, folder: DatasetFolder, now: datetime) -> LeftToDo:
    """Return what is left to do for the accepted uploads of a data set.

    Args:
        spec: The data set.
        folder: The data set below the publication root.
        now: Aware UTC time.

    Raises:
        FormatError: A receipt that may be of any interval, or a manifest, is damaged.
        StorageError: The publication root refused or failed.
    """
    found: dict[str, list[IntervalUploads]] = {}
    for each in interval_uploads(folder):
        if each.waiting or each.damage:
            found.setdefault(_way(spec, each, now), []).append(each)
    return LeftToDo(**{way: tuple(intervals) for way, intervals in found.items()})


def _way(spec: DatasetSpec, uploads: IntervalUploads, now: datetime) -> str:
    if uploads.damage:
        return "damaged"
    if uploads.generation is not None:
        return "newer"
    if uploads.is_retired:
        return "retired"
    try:
        interval = spec.schedule_model().interval_named(uploads.interval)
    except WindowError:
        return "unscheduled"
    is_ready = now >= ready_at(interval, spec.for_interval(interval.start).source.kind.settle)
    return "buildable" if is_ready else "open"
