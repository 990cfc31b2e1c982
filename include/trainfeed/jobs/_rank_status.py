"""What a rank says by its exit status, to whatever launched it."""

from __future__ import annotations

from typing import Final

__all__ = ["REJECTED", "RETRYABLE"]

# Exit status of a rank that refuses its job; the last line of its log says why.
REJECTED: Final = 78
# Of one that met what another try may not meet: a file system that was away, a killed worker.
RETRYABLE: Final = 75
