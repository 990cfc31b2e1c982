"""A quarantined record as a row of a table, and as JSON."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any, Final

from trainfeed.pipeline.review import InspectedRecord

__all__ = ["record_json", "record_row"]

_SHOWN_CHARS: Final = 500


def record_row(each: InspectedRecord) -> tuple[object, ...]:
    """Return source, offset, time, reason, message, and the beginning of the value."""
    record = each.record
    shown = _shown(each).replace("\n", r"\n")
    return record.source, record.offset, _time(each), record.reason, record.message, shown


def _shown(each: InspectedRecord) -> str:
    if each.value is None:
        return "null"
    held = _text(each.value)
    shown = f"base64:{_base64(each.value)}" if held is None else held
    notes = [f"{len(each.value)} bytes; --json has all"] if len(shown) > _SHOWN_CHARS else []
    if each.record.may_be_cut:
        cut = f"cut at {len(each.record.raw)} bytes"
        notes = [f"{cut}, whole from landing: {len(each.value)} bytes" if each.is_whole else cut]
    more = f"… ({', '.join(notes)})" if notes else ""
    return f"{shown[:_SHOWN_CHARS]}{more}"


def record_json(each: InspectedRecord) -> dict[str, Any]:
    """Return a record as JSON, with a text value as ``raw`` and others as ``raw_base64``."""
    record = each.record
    held = None if each.value is None else _text(each.value)
    value: dict[str, Any] = {"raw": held}
    if each.value is not None and held is None:
        value = {"raw_base64": _base64(each.value)}
    return {
        "source": record.source,
        "offset": record.offset,
        "time": _time(each) or None,
        "reason": record.reason,
        "message": record.message,
        "bytes": len(each.value or b""),
        "whole": each.is_whole,
        **({"not_from_landing": each.why_not} if each.why_not else {}),
        **value,
    }


def _time(each: InspectedRecord) -> str:
    if each.time_ms is None:
        return ""
    return datetime.fromtimestamp(each.time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
