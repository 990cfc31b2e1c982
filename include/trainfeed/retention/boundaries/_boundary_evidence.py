"""Which boundary files are evidence for others, although no interval has them any more.

A boundary that is needed may be proved by the files before it, which a planner reads from the
latest one back, also when it builds a published interval again. A file goes only if a later one,
which stays, answers all that it would be asked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from trainfeed.pipeline.boundaries import Boundary, milliseconds, read_boundary

__all__ = ["evidence_of"]

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
    is_proved = all(later.is_proved(partition) for partition in later.partitions)
    between = (earlier.found_ms <= milliseconds(each) < later.found_ms for each in asked)
    return is_proved and not any(between)
