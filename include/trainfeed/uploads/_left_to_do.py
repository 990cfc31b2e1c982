"""The work that is left for intervals with uploads that no version has: build, wait, or rebuild."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import WindowError
from trainfeed.intervals import ready_at
from trainfeed.specification import DatasetSpec
from trainfeed.uploads._interval_states import IntervalUploads, interval_uploads

__all__ = ["LeftToDo", "left_to_do"]


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
    is_ready = now >= ready_at(interval, spec.source.kind.settle)
    return "buildable" if is_ready else "open"
