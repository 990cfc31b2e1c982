"""The times of leases: how long they hold, and what differences of clocks they bear.

A lease is written once. A renewal sets the modification time of its file, by the clock of the
machine that holds it; others add the length of the lease and ``MARGIN``, and compare the sum with
their own clock. The holder renews every quarter of the length. If no renewal fails, a lease is
taken for ended too early only when the other clock is ahead of the holder's by more than three
quarters of its length and the margin. With a clock that is behind, a lease only holds longer.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from trainfeed.errors import ConfigError

__all__ = ["LONGEST", "MARGIN", "SHORTEST", "USUAL", "checked_length", "pause_s"]

SHORTEST: Final = timedelta(minutes=1)
USUAL: Final = timedelta(hours=1)
LONGEST: Final = timedelta(days=7)
# Added by everybody who looks, never by the holder.
MARGIN: Final = timedelta(minutes=10)

_RENEWALS: Final = 4


def checked_length(length: timedelta) -> timedelta:
    """Return the length of a lease.

    Raises:
        ConfigError: It is too short to be renewed in time, or too long to be waited for.
    """
    if not SHORTEST <= length <= LONGEST:
        raise ConfigError(
            f"expected a lease of {SHORTEST} to {LONGEST}, got {length}; nothing was leased; a"
            " lease is renewed while its process lives, so a short one is enough"
        )
    return length


def pause_s(length: timedelta) -> float:
    """Return the time between two renewals of a lease, in seconds."""
    return length.total_seconds() / _RENEWALS
