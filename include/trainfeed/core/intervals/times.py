"""Reads and writes times: aware, UTC, as text in whole seconds where possible."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from trainfeed.errors import WindowError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Times as people and Airflow write them, and names of intervals; fromisoformat() accepts much more.
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}(:?[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_END = datetime(9999, 1, 1, tzinfo=UTC)  # leaves room for the arithmetic of intervals


def to_utc(time: datetime) -> datetime:
    """Return the same moment as a plain ``datetime`` in UTC, from any subclass and zone.

    Raises:
        WindowError: ``time`` is naive, so its moment is unknown, or not in the years 1970 to 9998.
    """
    if time.utcoffset() is None:
        raise WindowError(
            f"expected a time with a zone, got {time.isoformat()}; add one, UTC is +00:00"
        )
    # A plain datetime plus a timedelta is plain; the conversion of pendulum's would not be.
    utc = _EPOCH + (time - _EPOCH)
    if not _EPOCH <= utc < _END:
        raise WindowError(f"expected a time in the years 1970 to 9998, got {utc.isoformat()}")
    return utc


def format_time(time: datetime) -> str:
    """Return a time as ``2013-01-01T00:00:00Z``, with a fraction of a second only if it has one."""
    return to_utc(time).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Return the moment of ISO 8601 ``text``; a date means its midnight, no zone means UTC.

    Raises:
        WindowError: ``text`` is no ISO 8601 date or time, or one that does not exist.
    """
    if not _TIME.fullmatch(text):
        raise WindowError(
            f"expected a UTC time like 2013-01-01 or 2013-01-01T05:00:00Z, got {text[:40]!r}"
        )
    try:
        time = datetime.fromisoformat(text)
        return to_utc(time.replace(tzinfo=UTC) if time.tzinfo is None else time)
    except (ValueError, OverflowError) as error:
        raise WindowError(f"{text} does not exist: {error}; write a time that does") from None
