"""How published versions follow each other in time, by the intervals that their manifests say.

Every interval of a schedule ends where the next one starts, whatever the schedule: that of a Friday
reaches to Monday where there is none at weekends. So versions show their own holes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.version import Version
from trainfeed.errors import ConfigError
from trainfeed.intervals import TimeRange, parse_range, parse_time

__all__ = ["end_of", "holes", "require_disjoint", "runs", "start_of"]

# What names of 10, 13 and 15 characters say.
_FORMATS: Final = {10: "%Y-%m-%d", 13: "%Y-%m-%dT%H", 15: "%Y-%m-%dT%H%M"}


def require_disjoint(folder: DatasetFolder, versions: list[Version]) -> None:
    """Refuse versions, in order of time, of which two are of the same moment.

    Raises:
        ConfigError: They are.
    """
    for earlier, later in pairwise(versions):
        if start_of(later) < end_of(earlier):
            raise ConfigError(
                f"{earlier.name} and {later.name} of data set {folder.name!r} overlap, so a range"
                " would give samples twice: the schedule was changed between them; list the"
                " intervals to read with open_intervals"
            )


def runs(versions: list[Version]) -> Iterator[tuple[Version, Version]]:
    """Yield the first and last of versions that follow each other without a hole."""
    first = last = None
    for version in versions:
        if first is None or last is None:
            first = version
        elif end_of(last) != start_of(version):
            yield first, last
            first = version
        last = version
    if first is not None and last is not None:
        yield first, last


def holes(folder: DatasetFolder, span: TimeRange, versions: list[Version]) -> Iterator[str]:
    """Yield the ranges of ``span`` that versions leave open, as precisely as their names are."""
    unit = _FORMATS.get(len(_name(versions[0])), "%Y-%m-%d")
    reached = max(span.start, _end_before(folder, versions[0]) or span.start)
    # An interval may start behind the time that its name says: every tick is as much behind.
    spans = [(parse_range(_name(first)).start, end_of(last)) for first, last in runs(versions)]
    for start, end in [*spans, (span.end, span.end)]:
        if reached < start:
            first, last = reached.strftime(unit), (start - timedelta(seconds=1)).strftime(unit)
            yield first if first == last else f"{first}/{last}"
        reached = max(reached, end)


def _end_before(folder: DatasetFolder, first: Version) -> datetime | None:
    """Where the published interval before ``first`` ends; an interval may reach into a range."""
    names = [name for name in folder.intervals() if name < _name(first)]
    for name in reversed(names):
        if (number := folder.readable_generation(name)) is not None:
            return end_of(Version.resolve(folder, name, number))
    return None


def _name(version: Version) -> str:
    return version.path.parent.name


def start_of(version: Version) -> datetime:
    """The aware UTC start of the interval that a version is of."""
    return parse_time(version.manifest.interval.start)


def end_of(version: Version) -> datetime:
    """Where that interval ends; the next one starts there."""
    return parse_time(version.manifest.interval.end)
