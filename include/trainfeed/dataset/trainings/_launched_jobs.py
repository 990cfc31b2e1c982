"""Finds versions that a job was launched for, also by a trainfeed that wrote no marks yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainfeed import canonical_json
from trainfeed.dataset.layout import DatasetFolder, generation_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import listed, read_plain

__all__ = ["was_launched"]


def was_launched(folder: DatasetFolder, interval: str, generation: int) -> bool:
    """Return whether a job file of the interval names that generation of it.

    A training by tag is none of the interval, though its job lies there.

    Raises:
        StorageError: The publication root refused or failed.
    """
    home = folder.training(interval, "job").parent
    return any(
        read.get("interval") == interval and read.get("generation") == generation_name(generation)
        for job in listed(home)
        for read in _versions_of(job / "job.json")
    )


def _versions_of(path: Path) -> list[dict[str, Any]]:
    try:
        value = canonical_json.loads(
            read_plain(path, follow=False, max_bytes=canonical_json.MAX_BYTES), path=str(path)
        )
        if value.get("tag") is not None:
            return []
        return [read for read in value["versions"] if isinstance(read, dict)]
    except (FormatError, NotFoundError, AttributeError, KeyError, TypeError):
        return []  # damaged: no rank could read this job file either, so nothing was trained
