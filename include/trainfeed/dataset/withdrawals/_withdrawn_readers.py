"""What readers are told who ask for a withdrawn generation by its number."""

from __future__ import annotations

import logging

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.withdrawals._mark_reading import withdrawal_of
from trainfeed.errors import ConfigError, WithdrawnError

__all__ = ["WITHDRAWN_POLICIES", "look_for_withdrawal"]

logger = logging.getLogger(__name__)

WITHDRAWN_POLICIES = ("fail", "warn")


def look_for_withdrawal(
    folder: DatasetFolder, interval: str, generation: int, *, withdrawn: str = "fail"
) -> None:
    """Refuse a withdrawn generation, or warn of it.

    Args:
        folder: The data set.
        interval: Name of the interval.
        generation: Number of the generation.
        withdrawn: ``fail``; or ``warn`` for what has begun with the generation and goes on.

    Raises:
        ConfigError: ``withdrawn`` is neither.
        WithdrawnError: It is withdrawn, and ``withdrawn`` is ``fail``.
        StorageError: The publication root refused or failed.
    """
    if withdrawn not in WITHDRAWN_POLICIES:
        raise ConfigError(f"expected withdrawn as fail or warn, got {withdrawn!r}")
    mark = withdrawal_of(folder, interval, generation)
    if mark is None:
        return
    if withdrawn == "warn":
        logger.warning("%s; it is read all the same, as was asked", mark.told)
        return
    raise WithdrawnError(
        f"{mark.told}; nothing was read; name no generation to read what readers get now; if the"
        f" version is right after all: trainfeed restore {mark.name} --why WHY; a job that began"
        " with it goes on with withdrawn='warn'"
    )
