"""Versions that readers hold by a lease."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.lease import leased_versions
from trainfeed.retention._use import Use

__all__ = ["used_by_leases"]


def used_by_leases(folder: DatasetFolder, now: datetime) -> Iterator[Use]:
    """Yield the versions of leases that have not ended; one that cannot be read holds all.

    Raises:
        StorageError: The leases cannot be listed.
    """
    found = leased_versions(folder, now)
    for (interval, generation), lease in found.holders.items():
        yield Use(interval, generation, f"leased: {lease.told}")
    for lease in found.unread:
        yield Use(None, None, f"leased: {lease.told}")
