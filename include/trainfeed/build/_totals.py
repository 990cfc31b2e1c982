"""Statistics of a published version over all its splits."""

from __future__ import annotations

from typing import Any

from trainfeed.dataset import Version, canonical
from trainfeed.dataset.files import read_plain_file
from trainfeed.samples import Statistics

__all__ = ["total_statistics"]


def total_statistics(version: Version) -> dict[str, Any]:
    """Return the statistics of every field over all splits, as JSON.

    Raises:
        StorageError: The file cannot be read.
    """
    parts = canonical.loads(
        read_plain_file(version.path / "statistics.json", max_bytes=canonical.MAX_BYTES)
    )
    total = Statistics(version.schema)
    for part in parts.values():
        total.merge(Statistics.from_json(version.schema, part))
    return total.to_json()
