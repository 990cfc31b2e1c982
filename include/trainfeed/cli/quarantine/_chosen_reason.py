"""The reason that a person chose must be one of the builds that were asked for."""

from __future__ import annotations

from collections.abc import Collection

from trainfeed.errors import NotFoundError
from trainfeed.specification import did_you_mean

__all__ = ["require_reason"]


def require_reason(reason: str | None, reasons: Collection[str], place: str) -> None:
    """Refuse a reason that no record has.

    Args:
        reason: What was asked for; None for all reasons.
        reasons: The reasons that are there.
        place: The builds, for the message.

    Raises:
        NotFoundError: No record has the reason.
    """
    if reason is None or reason in reasons:
        return
    hint = did_you_mean(reason, list(reasons)) if reasons else "nothing is quarantined there"
    raise NotFoundError(f"expected a reason of {place}, got {reason!r}; {hint}")
