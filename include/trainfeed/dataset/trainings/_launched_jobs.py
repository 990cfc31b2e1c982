"""Job files as far as data sets are concerned: which versions a training reads.

A version for which a job was launched counts as seen, also by a trainfeed that wrote no marks yet.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.dataset.layout import DatasetFolder, generation_name
from trainfeed.errors import FormatError
from trainfeed.paths import listed
from trainfeed.records import ONCE_UNSEALED, RecordFile

__all__ = ["LaunchedJob", "launched_job", "was_launched"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LaunchedJob:
    """A job file, read for its versions alone.

    Attributes:
        versions: Interval, generation and ``manifest_sha256`` of each version that it reads.
        tag: The tag by which the versions were chosen; None for a window of intervals.
        home: Name of the job's folder; None in a file that is not sealed.
    """

    versions: Sequence[Mapping[str, Any]]
    tag: str | None = None
    home: str | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LaunchedJob:
        """Return the job of a file; further members are those of ranks and launchers.

        Raises:
            KeyError, TypeError: It is something else.
        """
        versions = value["versions"]
        if not isinstance(versions, list) or not all(isinstance(each, dict) for each in versions):
            raise TypeError(f"versions: expected a list of objects, got {versions!r}")
        return cls(versions, value.get("tag"), value.get("home"))


_FILE: Final = RecordFile(
    LaunchedJob,
    "the specification of a job",
    "bring the file back from a backup, or train again",
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["job"],
    from_json=LaunchedJob.from_json,
)


def launched_job(home: Path) -> LaunchedJob | None:
    """Return the job of a folder, or None if it has no job file.

    Raises:
        FormatError: The job file is damaged, or that of another job.
        StorageError: The publication root refused or failed.
    """
    return _FILE.read(home / "job.json", home=home.name)


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
        for read in _versions_of(job)
    )


def _versions_of(home: Path) -> Sequence[Mapping[str, Any]]:
    try:
        job = launched_job(home)
    except FormatError as error:
        # No rank could read this job file either, so nothing was trained.
        logger.warning("%s; the job counts as none", error)
        return []
    return [] if job is None or job.tag is not None else job.versions
