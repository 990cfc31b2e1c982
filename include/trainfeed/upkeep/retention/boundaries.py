"""Boundary files: those that no interval needs any more, nor the proof of another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Final

from trainfeed.core import faults
from trainfeed.core.intervals import Schedule, parse_range, parse_time
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.files import listed
from trainfeed.files.stores import posix
from trainfeed.pipeline.inputs.boundaries import topic_lock
from trainfeed.pipeline.inputs.boundary_files import (
    Boundary,
    boundary_files,
    milliseconds,
    read_boundary,
)
from trainfeed.upkeep.retention.context import Context, Judge, Kind
from trainfeed.upkeep.retention.items import Expired, Found, Item, Kept, by_name
from trainfeed.upkeep.retention.uses import Look
from trainfeed.versions import Manifest
from trainfeed.versions.lease import building
from trainfeed.versions.retire import retirement_of

# --- Which boundary files are evidence for others, although no interval has them any more

_PROOF = "it is evidence for the boundary at {at:%Y-%m-%dT%H:%M:%SZ}"
_NEWEST = "it is the newest of its topic, and shows that the topic was there"


def evidence_of(
    paths: Mapping[datetime, Path],
    unneeded: Collection[datetime],
    needed: Collection[datetime],
) -> dict[datetime, str]:
    """Return the times of unneeded files that have to stay, and why.

    Args:
        paths: Time → file, of one topic.
        unneeded: Times of files that no interval needs.
        needed: Times at which an interval that was or may be planned starts or ends, also without
            a file; at least the first one behind the files.

    Raises:
        FormatError: A file is damaged.
    """
    found: dict[datetime, str] = {}
    if max(paths) in unneeded:
        found[max(paths)] = _NEWEST
    ordered = sorted(needed)
    for at in sorted(unneeded, reverse=True):
        asked = ordered[bisect_right(ordered, at) :]
        if asked and at not in found and not _is_answered(paths, found, at, asked):
            found[at] = _PROOF.format(at=asked[0])
    return found


def _is_answered(
    paths: Mapping[datetime, Path],
    staying: Collection[datetime],
    at: datetime,
    asked: Sequence[datetime],
) -> bool:
    """Return whether a file between a time and the needed ones behind it answers for its file."""
    later = min((each for each in staying if at < each < asked[0]), default=None)
    if later is None:
        return False
    return _answers_for(read_boundary(paths[later]), read_boundary(paths[at]), asked)


def _answers_for(later: Boundary, earlier: Boundary, asked: Sequence[datetime]) -> bool:
    """Return whether nobody who looks back from a needed time learns more from ``earlier``.

    The offset of ``later`` is proved, and no smaller than that of ``earlier``. How far the log
    reached before a needed time, and that the topic was there then, is shown by ``later`` wherever
    ``earlier`` shows it. A partition that ``later`` does not have ends the look back.
    """
    is_proved = all(later.is_proved_alone(partition) for partition in later.partitions)
    between = (earlier.found_ms <= milliseconds(each) < later.found_ms for each in asked)
    return is_proved and not any(between)


# --- Intervals that have ended, and the times at which the others begin and end


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


# --- The kind ``boundaries``: files of points in time that no interval needs any more

_NEEDED: Final = "an interval that was or may be planned starts or ends there"


class BoundaryFiles(Kind[Item]):
    """Boundary files between retired intervals; there is no rule: nobody can want them."""

    name = "boundaries"
    moves = True

    def find(self, context: Context) -> Iterator[Found[Item]]:
        """Yield the files at which retired intervals start or end, by topic and time."""
        topics = {folder: dict(boundary_files(folder)) for folder in _topics(context)}
        times = {at for paths in topics.values() for at in paths}
        ended = ended_at(context, times)
        if not ended.of:
            return
        needed: set[datetime] | str
        try:
            needed = needed_times(context, ended)
        except FormatError as error:
            needed = f"which boundaries are needed cannot be told: {error}"
        for folder, paths in topics.items():
            yield from _of_topic(folder, paths, ended, needed)

    def parts(self, expired: Sequence[Expired[Item]]) -> Iterator[list[Expired[Item]]]:
        """Yield the files of each topic."""
        return (list(some) for _, some in groupby(expired, _folder_of))

    @contextmanager
    def alone(self, _context: Context, first: Expired[Item]) -> Iterator[None]:
        """Hold the lock of the topic.

        A planner looks under it, when its plan is written, whether the boundaries of the plan are
        still there.
        """
        with topic_lock(_folder_of(first)):
            yield
        faults.point("boundaries.after_renames")

    def look(self, context: Context) -> Judge[Item]:
        """Find all files again, but for those that came into use since they were found."""
        again = by_name(self.find(context.again()))
        faults.point("boundaries.after_look")

        def judge(each: Expired[Item]) -> Expired[Item] | str | None:
            now = again.get(each.item.name)
            if now is None:
                return _NEEDED if Path(each.item.places[0]).exists() else None
            return now.why if isinstance(now, Kept) else now

        return judge

    def delete(self, context: Context, each: Expired[Item]) -> None:
        """Move a file aside, where all are deleted together."""
        path = Path(each.item.places[0])
        with posix.map_errors(path):
            path.rename(context.aside / path.name)
        faults.point("boundaries.after_rename")


def _folder_of(each: Expired[Item]) -> Path:
    return Path(each.item.places[0]).parent


def _topics(context: Context) -> list[Path]:
    """Return the folders of boundary files: one for each topic, and each time it was made."""
    places = [place for place in listed(context.folder.path / "boundaries") if place.is_dir()]
    return sorted(folder for place in places for folder in listed(place) if folder.is_dir())


def _of_topic(
    folder: Path, paths: dict[datetime, Path], ended: Ended, needed: set[datetime] | str
) -> Iterator[Found[Item]]:
    asked = [at for at in sorted(paths) if at in ended.of]
    why: dict[datetime, str]
    if isinstance(needed, str):
        why = dict.fromkeys(asked, needed)
    else:
        why = {at: _NEEDED for at in asked if at in needed}
        free = [at for at in asked if at not in needed]
        try:
            why |= evidence_of(paths, free, needed) if free else {}
        except FormatError as error:
            why |= dict.fromkeys(free, f"a boundary file of the topic is damaged: {error}")
    for at in asked:
        with posix.map_errors(paths[at]):
            item = _item(folder, paths[at])
        if at in why:
            yield Kept(item, why[at])
        else:
            yield Expired(item, f"{ended.of[at]} is retired, and no plan of it is left")


def _item(folder: Path, path: Path) -> Item:
    found = path.lstat()
    return Item(
        kind=BoundaryFiles.name,
        name=f"{folder.parent.name}/{folder.name}/{path.stem}",
        num_bytes=found.st_size,
        since=datetime.fromtimestamp(found.st_mtime, UTC),
        places=(str(path),),
    )
