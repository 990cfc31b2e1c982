"""Whether an interval has ended and settled, so that it can be planned."""

from __future__ import annotations

from datetime import datetime

from trainfeed.errors import WindowOpenError
from trainfeed.specification import DatasetSpec
from trainfeed.window import Interval, format_time, ready_at

__all__ = ["require_closed"]


def require_closed(spec: DatasetSpec, interval: Interval, now: datetime) -> None:
    """Refuse an interval that may still get records.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        now: Aware UTC time.

    Raises:
        WindowOpenError: It has not ended and settled yet; with ``ready_at``.
    """
    settle = spec.source.kind.settle
    ready = ready_at(interval, settle)
    if now >= ready:
        return
    error = WindowOpenError(
        f"interval {interval.name} of data set {spec.name!r} ends at {format_time(interval.end)}"
        f" and settles for {settle}: it can be planned from {format_time(ready)} on;"
        " nothing was read or written; run again then"
    )
    error.ready_at = ready
    raise error
