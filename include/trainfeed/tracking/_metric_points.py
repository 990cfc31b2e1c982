"""The lines of a metrics log as points of curves, in batches as an MLflow server takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import read_plain

__all__ = ["MOST_POINTS", "end_of_batch", "logged_lines", "points_of"]

# The limit of the interface for one request.
MOST_POINTS: Final = 1000
_METRICS_LOG: Final = "metrics.jsonl"
_MOST_BYTES: Final = 64 << 20
_NO_METRICS: Final = ("step", "samples")
# Numbers that JSON has not: as the log writes them, and as the interface does.
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def logged_lines(home: Path) -> bytes:
    """Return the complete lines of the metrics log of a job's folder; b"" without a log.

    Raises:
        StorageError: The log cannot be read.
    """
    try:
        data = read_plain(home / _METRICS_LOG, follow=False, max_bytes=_MOST_BYTES)
    except NotFoundError:
        return b""
    return data[: data.rfind(b"\n") + 1]


def end_of_batch(data: bytes, start: int) -> int:
    """Return the end of the last line up to which the points fit into one request."""
    stop, num_points = start, 0
    while stop < len(data):
        end = data.index(b"\n", stop) + 1
        num_points += sum(1 for _ in points_of(data[stop:end], 0))
        if num_points > MOST_POINTS and stop > start:
            break
        stop = end
    return stop


def points_of(lines: bytes, stamp_ms: int) -> Iterator[dict[str, Any]]:
    """Yield the points of lines: key, value, step, and ``stamp_ms`` as their time."""
    for line in lines.splitlines():
        found = _parsed(line)
        for name, value in found.items() if "step" in found else ():
            if name not in _NO_METRICS:
                number = _NOT_FINITE.get(value) if isinstance(value, str) else float(value)
                yield {"key": name, "value": number, "timestamp": stamp_ms, "step": found["step"]}


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = canonical_json.loads(line)
    except FormatError:
        return {}
    return found if isinstance(found, dict) else {}
