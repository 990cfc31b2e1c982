"""How published versions follow each other in time, by the intervals in their manifests.

In every schedule an interval ends where the next one starts: without intervals at weekends, that of
Friday reaches to Monday. The versions alone therefore show the holes between them.
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

# Length of an interval's name → format of its time.
_FORMATS: Final = {10: "%Y-%m-%d", 13: "%Y-%m-%dT%H", 15: "%Y-%m-%dT%H%M"}


def require_disjoint(folder: DatasetFolder, versions: list[Version]) -> None:
    """Refuse versions, in order of time, whose intervals overlap.

    Raises:
        ConfigError: Two intervals overlap.
    """
    for earlier, later in pairwise(versions):
        if start_of(later) < end_of(earlier):
            raise ConfigError(
                f"{earlier.name} and {later.name} of data set {folder.name!r} overlap, so a range"
                " would give samples twice: the schedule was changed between them; list the"
                " intervals to read with open_intervals"
            )


def runs(versions: list[Version]) -> Iterator[tuple[Version, Version]]:
    """Yield first and last version of every sequence without a hole."""
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
    """Yield the ranges of ``span`` without versions, with the precision of their names."""
    unit = _FORMATS.get(len(_name(versions[0])), "%Y-%m-%d")
    reached = max(span.start, _end_before(folder, versions[0]) or span.start)
    # The start comes from the name, not from the manifest: a name may be shorter than the time of
    # the tick, and the part left out is the same for all intervals.
    spans = [(parse_range(_name(first)).start, end_of(last)) for first, last in runs(versions)]
    for start, end in [*spans, (span.end, span.end)]:
        # A hole from the end of the last span, named by its first and last unit of time.
        if reached < start:
            first, last = reached.strftime(unit), (start - timedelta(seconds=1)).strftime(unit)
            yield first if first == last else f"{first}/{last}"
        reached = max(reached, end)


def _end_before(folder: DatasetFolder, first: Version) -> datetime | None:
    """Return the end of the published interval before ``first``: it may reach into the range."""
    names = [name for name in folder.intervals() if name < _name(first)]
    for name in reversed(names):
        if (number := folder.readable_generation(name)) is not None:
            return end_of(Version.resolve(folder, name, number))
    return None


def _name(version: Version) -> str:
    return version.path.parent.name


def start_of(version: Version) -> datetime:
    """Return the start of a version's interval, aware UTC."""
    return parse_time(version.manifest.interval.start)


def end_of(version: Version) -> datetime:
    """Return the end of a version's interval, aware UTC; the next one starts there."""
    return parse_time(version.manifest.interval.end)
