"""Requests that the audit counts and does not list, so that nobody can fill it with them.

These are refusals of callers without a valid token, and requests of a caller that has used up its
share of the audit. The first of a kind in a minute has its line at once; the minute ends with one
line for each kind that came again. The number of kinds in a minute is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.server._audit import Audit

__all__ = ["Summary"]

_WINDOW_SECONDS: Final = 60.0
_MAX_KINDS: Final = 20
_OTHERS: Final = "others"

# Kind of a request: who, from, what, status, outcome.
Kind = tuple[str, str, str, int, str]


@dataclass
class _Count:
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class Summary:
    """Counts of one server. For one loop.

    Args:
        audit: Gets the lines.
        now: Returns the time for lines.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self, audit: Audit, now: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._audit = audit
        self._now = now
        self._clock = clock
        self._counts: dict[Kind, _Count] = {}
        self._since = clock()

    def add(self, line: dict[str, Any], what: str) -> None:
        """Count a request.

        Args:
            line: Its line of the audit, which is written if it is the first of its kind.
            what: What the kind has in place of the method and the path, which a caller can choose.
        """
        self.look()
        if not self._counts:
            self._since = self._clock()
        kind = (line["who"], line["from"], what, line["status"], line["outcome"])
        is_new = kind not in self._counts
        if is_new and len(self._counts) >= _MAX_KINDS:
            kind, is_new = (line["who"], _OTHERS, _OTHERS, 0, _OTHERS), False
            if kind not in self._counts and len(self._counts) >= 2 * _MAX_KINDS:
                kind = (_OTHERS, _OTHERS, _OTHERS, 0, _OTHERS)
        if is_new:
            self._audit.write(line)
            self._counts[kind] = _Count()
            return
        count = self._counts.setdefault(kind, _Count())
        count.requests += 1
        count.bytes_in += line["bytes_in"]
        count.bytes_out += line["bytes_out"]

    def look(self) -> None:
        """Write the counts of a minute that has ended."""
        if self._counts and self._clock() - self._since >= _WINDOW_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the counts up to now."""
        counts, self._counts = self._counts, {}
        for (who, address, what, status, outcome), count in counts.items():
            if count.requests:
                self._audit.write(
                    {
                        "at": self._now(),
                        "who": who,
                        "from": address,
                        "what": what,
                        "status": status,
                        "outcome": outcome,
                        "count": count.requests,
                        "seconds": round(self._clock() - self._since, 1),
                        "bytes_in": count.bytes_in,
                        "bytes_out": count.bytes_out,
                    }
                )
