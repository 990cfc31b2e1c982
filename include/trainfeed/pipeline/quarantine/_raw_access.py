"""The one place that hands out raw bytes of quarantined records: strict, and audited.

Excerpts in messages and reports of a build are not read here: the build itself makes them, of at
most a line each and without secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from trainfeed.dataset import DatasetFolder
from trainfeed.errors import NotFoundError
from trainfeed.pipeline.quarantine._access_log import Access, record_access
from trainfeed.pipeline.quarantine._quarantined import (
    Quarantine,
    QuarantinedPlace,
    QuarantinedRecord,
    raw_records,
)

__all__ = ["read_raw", "read_raw_at"]


def read_raw(
    root: Path,
    quarantine: Quarantine,
    command: str,
    *,
    reason: str | None = None,
    limit: int,
) -> Iterator[QuarantinedRecord]:
    """Record the reading in the audit of the data set, then hand out records with their bytes.

    Args:
        root: The publication root.
        quarantine: The quarantine.
        command: What is asked for, for the audit: a word such as ``show``.
        reason: Only records with this reason; None for all.
        limit: The most records.

    Returns:
        The records in order of source and offset. The line of the audit is durable before this
        function returns; it has the number of records that may be read.

    Raises:
        AccessDeniedError: Only the account that builds may read them; or the audit cannot be
            written, and no byte is handed out.
        StorageError: The audit cannot be written, because the disk is full for example.
        FormatError: A file is damaged.
    """
    counts = quarantine.reasons()
    there = sum(counts.values()) if reason is None else counts.get(reason, 0)
    _record(root, quarantine, command, reason, min(limit, there))
    return islice(raw_records(quarantine, reason), limit)


def read_raw_at(
    root: Path, quarantine: Quarantine, command: str, place: QuarantinedPlace
) -> QuarantinedRecord:
    """Record the reading in the audit of the data set, then return one record with its bytes.

    Args:
        root: The publication root.
        quarantine: The quarantine.
        command: What is asked for, for the audit.
        place: The record, as ``quarantine`` yields it.

    Raises:
        AccessDeniedError: Only the account that builds may read it; or the audit cannot be written.
        StorageError: The audit cannot be written, because the disk is full for example.
        FormatError: A file is damaged.
        NotFoundError: The quarantine was written again meanwhile, without the record.
    """
    _record(root, quarantine, command, place.reason, 1)
    for record in raw_records(quarantine, place.reason):
        if (record.source, record.offset) == (place.source, place.offset):
            return record
    raise NotFoundError(
        f"the record at {place.source} offset {place.offset} is gone: another build has written the"
        f" work files of plan {quarantine.origin} again; look again"
    )


def _record(
    root: Path, quarantine: Quarantine, command: str, reason: str | None, records: int
) -> None:
    access = Access.now(
        command, quarantine.interval, quarantine.origin, reason=reason, records=records
    )
    record_access(DatasetFolder(root, quarantine.dataset), access)
