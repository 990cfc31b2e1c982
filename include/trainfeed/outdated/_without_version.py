"""Intervals of a range that have no version: they are neither outdated nor current."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime

from trainfeed.errors import NotFoundError
from trainfeed.intervals import TimeRange
from trainfeed.pipeline.plans import first_few
from trainfeed.specification import DatasetSpec

__all__ = ["without_version"]


def without_version(spec: DatasetSpec, span: TimeRange, found: Collection[str]) -> Iterator[str]:
    """Yield a line about the ended intervals of a range that have no version, if there are any.

    Args:
        spec: The data set.
        span: The range that was asked for.
        found: Names of the intervals that were found.

    Raises:
        NotFoundError: Nothing was found: an answer without a version would look like a good one.
    """
    if not found:
        raise NotFoundError(
            f"data set {spec.name!r} has no published version in {span.text}, so nothing was"
            f" compared or built; what is there: trainfeed status {spec.name}"
        )
    end = min(span.end, datetime.now(UTC))
    ticks = [t.name for t in spec.schedule_model().intervals(span.start, end) if t.end <= end]
    lacking = [name for name in ticks if name not in found]
    if lacking:
        yield (
            f"{len(lacking)} intervals of {span.text} have no version, and were not compared:"
            f" {first_few(lacking)}; see trainfeed status {spec.name} {span.text}"
        )
