"""Removes the objects of abandoned launches from their clusters.

A launch writes its attempt down, makes code, service and job, and settles the attempt when the job
has ended. If no launch continues one that was killed or refused, or no process asks for the state
of a job that has ended, the code and the service stay on the cluster. Nothing else removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainfeed.errors import TrainFeedError
from trainfeed.training.kept_jobs import KeptJob, job_homes, kept_job

__all__ = ["LeftObject", "abandoned_launches", "sweep_launches"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeftObject:
    """An object that was removed from a cluster, or would be.

    Attributes:
        place: Connection of the cluster and object, as ``kubernetes_default: configmaps/NAME``.
        modified: Time at which the launch began, ISO 8601.
        bytes: 0; an object takes no space below the publication root.
    """

    place: str
    modified: str
    bytes: int = 0


def abandoned_launches(root: Path, *, older_than: timedelta) -> list[KeptJob]:
    """Return the jobs on clusters whose newest attempt is old and has no final state.

    A job whose files are damaged is named in a warning and left out.

    Args:
        root: The publication root.
        older_than: Least age of the attempt.

    Raises:
        StorageError: A folder cannot be listed.
    """
    before = datetime.now(UTC) - older_than
    return [job for home in job_homes(root) if (job := _open_since(root, home, before))]


def _open_since(root: Path, home: Path, before: datetime) -> KeptJob | None:
    """Return the job of a folder if its newest attempt began until then and has no final state."""
    try:
        job = kept_job(root, home)
        attempt = job.record.newest_attempt()
        is_open = attempt is not None and attempt.ended is None
        return job if is_open and job.record.claimed_at(job.job.attempt) <= before else None
    except TrainFeedError as error:
        logger.warning("the job in %s was not looked at: %s", home, error)
        return None


def sweep_launches(
    jobs: list[KeptJob], clusters: Mapping[str, Mapping[str, Any]], *, dry_run: bool = False
) -> list[LeftObject]:
    """Remove what abandoned launches left on their clusters; jobs that wait or run keep everything.

    A cluster that does not answer, or has no settings, is named in a warning; the other jobs are
    swept.

    Args:
        jobs: Jobs of ``abandoned_launches``.
        clusters: Settings of each cluster by connection id.
        dry_run: Whether to remove nothing.
    """
    removed = []
    for job in jobs:
        try:
            names = job.sweep(clusters, dry_run=dry_run)
        except TrainFeedError as error:
            logger.warning("the launch of %s was not swept: %s", job.job.name, error)
            continue
        since = job.record.claimed_at(job.job.attempt).isoformat(timespec="seconds")
        connection = job.job.placement.connection if job.job.placement else ""
        removed += [LeftObject(f"{connection}: {name}", since) for name in names]
    return removed
