"""Intervals that have ended, and the times at which the others begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from trainfeed.dataset import Manifest
from trainfeed.dataset.lease import building
from trainfeed.dataset.retire import retirement_of
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.intervals import Schedule, parse_range, parse_time
from trainfeed.retention._context import Context
from trainfeed.retention._folder_look import Look

__all__ = ["Ended", "ended_at", "needed_times"]


@dataclass(frozen=True)
class Ended:
    """The intervals that have ended, as far as one of some times is their start or end.

    Attributes:
        names: Their names.
        of: Time → name of an interval that starts there, else of one that ends there.
    """

    names: frozenset[str]
    of: dict[datetime, str]


def ended_at(context: Context, times: Iterable[datetime]) -> Ended:
    """Return the retired intervals without any plan that start or end at one of some times.

    A plan of a published version is left as long as its landing files: a rebuild that reads these
    needs the same boundaries.

    Raises:
        StorageError: The publication root refused or failed.
    """
    folder, schedule, wanted = context.look, context.spec.schedule_model(), set(times)
    spans = {}
    for name in folder.intervals() if wanted else ():
        span = _span(schedule, name)
        if span is not None and not wanted.isdisjoint(span) and _has_ended(context, name):
            spans[name] = span
    ends = {end: name for name, (_, end) in spans.items() if end in wanted}
    starts = {start: name for name, (start, _) in spans.items() if start in wanted}
    return Ended(frozenset(spans), {**ends, **starts})


def needed_times(context: Context, ended: Ended) -> set[datetime]:
    """Return the times at which an interval starts or ends that was or may be planned.

    Args:
        context: The data set.
        ended: The intervals that are left out. Scheduled times are there up to the present, and
            at least one behind all times of these.

    Raises:
        FormatError: The times of an interval cannot be told.
        StorageError: The publication root refused or failed.
    """
    folder, found = context.look, set[datetime]()
    last = max(ended.of)
    for interval in context.spec.schedule_model().intervals():
        if interval.name not in ended.names:
            found |= {interval.start, interval.end}
        if interval.start > max(last, context.now):
            break
    for name in {*folder.intervals(), *folder.planned_intervals()} - ended.names:
        found |= _known_times(context, name, last)
    return found


def _has_ended(context: Context, interval: str) -> bool:
    folder = context.look
    mark = folder.retirement(interval)
    if mark.name not in folder.names_in(mark.parent) or retirement_of(folder, interval) is None:
        return False
    return not folder.plan_ids(interval) and not any(building(folder, interval, context.now))


def _known_times(context: Context, name: str, last: datetime) -> set[datetime]:
    """Return the times of an interval that has versions or plans, also of a former schedule."""
    span = _span(context.spec.schedule_model(), name)
    if span is None:
        raise FormatError(f"when interval {name} starts and ends cannot be told from its name")
    # Files are read only where they can tell of a longer interval: of those that begin before.
    recorded = _recorded_times(context.look, name) if span[0] <= last else ()
    return {*span, *recorded}


def _recorded_times(folder: Look, name: str) -> Iterator[datetime]:
    """Yield what versions and plans say: a former schedule may have had a longer interval."""
    for number in range(1, folder.last_generation(name) + 1):
        if not folder.has_folder(name, number):
            continue
        manifest, _ = Manifest.read(folder.version(name, number))
        yield parse_time(manifest.interval.start)
        yield parse_time(manifest.interval.end)
    for plan_id in folder.plan_ids(name):
        try:
            plan = folder.plan_of(name, plan_id)
        except NotFoundError:
            continue  # removed since the listing
        yield parse_time(plan.interval["start"])
        yield parse_time(plan.interval["end"])


def _span(schedule: Schedule, name: str) -> tuple[datetime, datetime] | None:
    for named in (schedule.interval_named, parse_range):
        with suppress(WindowError):
            found = named(name)
            return found.start, found.end
    return None
