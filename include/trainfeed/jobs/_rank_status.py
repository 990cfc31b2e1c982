"""The exit statuses by which a rank tells its launcher whether another attempt makes sense."""

from __future__ import annotations

from typing import Final

__all__ = ["EXHAUSTED", "REJECTED", "RETRYABLE"]

# Exit status of a rank that refuses its job; the last line of its log says why.
REJECTED: Final = 78
# Exit status of a rank that met a passing fault: a file system that was away, a killed worker.
RETRYABLE: Final = 75
# Exit status of a rank that was restarted more often than train.retries allows. Below 128, so that
# an operator that restarts ranks after signals does not restart this one.
EXHAUSTED: Final = 79
