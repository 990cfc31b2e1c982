"""Statistics of a published version over all its splits."""

from __future__ import annotations

from trainfeed.dataset import Version
from trainfeed.pipeline._ref import JsonObject
from trainfeed.samples import Statistics

__all__ = ["total_statistics"]


def total_statistics(version: Version) -> dict[str, JsonObject]:
    """Return the statistics of every field over all splits, as JSON.

    Raises:
        ChecksumError: The file of statistics is not the published one.
        StorageError: The file cannot be read.
    """
    total = Statistics(version.schema)
    for part in version.statistics().values():
        total.merge(Statistics.from_json(version.schema, part))
    return total.to_json()
