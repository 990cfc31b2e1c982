"""The jobs of a publication root: found, listed, cancelled, and removed if abandoned."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from trainfeed.core.config import Environment
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    FormatError,
    NotFoundError,
    StorageError,
    TrainFeedError,
)
from trainfeed.files import listed
from trainfeed.files.stores import posix
from trainfeed.training.jobs import (
    JobAttempt,
    JobLook,
    JobRecord,
    JobRoots,
    JobSpec,
    JobState,
    KubernetesLauncher,
)
from trainfeed.training.jobs.kubernetes.launcher import cancel, end_of_log, is_cancelled, settle
from trainfeed.training.tracking import deliver_cancellation
from trainfeed.versions import DatasetFolder
from trainfeed.versions.layout import is_name
from trainfeed.versions.root import data_sets_of

# --- The jobs of a publication root: finds them, and gives their states and logs, and cancels them

_NO_LOG: Final = "(no log of this rank)"


@dataclass(frozen=True)
class KeptJob:
    """A job below a publication root.

    Attributes:
        root: The publication root.
        record: The job's folder.
        job: The job, on a cluster that of the newest attempt.
    """

    root: Path
    record: JobRecord
    job: JobSpec

    def look(self, clusters: Mapping[str, Mapping[str, Any]]) -> JobLook:
        """Return the state of the job; a final state of a job on a cluster is written down.

        Raises:
            ConfigError: The job's cluster has no settings.
            LaunchError: The cluster does not answer.
        """
        launcher = self._launcher(clusters)
        return self._local_look() if launcher is None else settle(self.record, launcher)

    def log(self, clusters: Mapping[str, Mapping[str, Any]], *, rank: int, max_bytes: int) -> str:
        """Return the last ``max_bytes`` of a rank's log, without secrets and control characters.

        Raises:
            ConfigError: The job has no such rank, or its cluster has no settings.
        """
        if not 0 <= rank < self.job.ranks:
            raise ConfigError(f"expected a rank from 0 to {self.job.ranks - 1}, got {rank}")
        launcher = self._launcher(clusters)
        return end_of_log(self.record, launcher, rank=rank, max_bytes=max_bytes) or _NO_LOG

    def cancel(self, clusters: Mapping[str, Mapping[str, Any]]) -> JobLook:
        """Cancel a job on a cluster, and return its state afterwards; fine if it has ended.

        Raises:
            ConfigError: The job is local: it ends with the process that launched it.
            LaunchError: The cluster does not answer.
        """
        launcher = self._launcher(clusters)
        if launcher is None:
            raise ConfigError(
                f"job {self.job.name} runs where it was launched and ends with that process;"
                " nothing was changed; end the process (Ctrl-C), in Airflow mark its task as failed"
            )
        return cancel(self.record, launcher)

    def deliver_cancellation(self, now: JobLook, env: Environment) -> dict[str, str]:
        """Deliver to the tracking server of the data set that the job was cancelled; no error.

        Args:
            now: State of the job after ``cancel``.
            env: Has the data sets, and the settings of tracking servers.

        Returns:
            ``{"mlflow": …}``: ``delivered`` or the reason why not; empty if the job was not
            cancelled, or no server is known.
        """
        if not is_cancelled(self.record, now):
            return {}
        return deliver_cancellation(self.record, self.job, env.datasets, lambda _: env)

    def sweep(
        self, clusters: Mapping[str, Mapping[str, Any]], *, dry_run: bool = False
    ) -> list[str]:
        """Remove the objects that an abandoned launch left on the cluster beside its job.

        These are code and service of an attempt whose job was never made, or has ended while no
        process asked for its state; the state of an ended job is written down. A job that waits
        or runs keeps everything, and so does an attempt that a launch continues meanwhile.

        Args:
            clusters: Settings of each cluster by connection id.
            dry_run: Whether to remove nothing.

        Returns:
            The objects that were removed, or would be, as ``configmaps/NAME``.

        Raises:
            ConfigError: The job's cluster has no settings.
            JobConflictError: The job's name belongs to another job on the cluster.
            LaunchError: The cluster does not answer.
        """
        launcher, attempt = self._launcher(clusters), self.record.newest_attempt()
        if launcher is None or attempt is None or attempt.ended is not None:
            return []
        claimed = self.record.claimed_at(attempt.number)
        is_made = attempt.is_created or launcher.is_made(attempt)
        if is_made and launcher.look(self.record).state.is_live:
            return []
        found = launcher.leftovers(attempt)
        if is_made and not dry_run:
            settle(self.record, launcher)
        elif not dry_run:
            # The attempt stays open: a later launch makes its objects again.
            return found if self._is_cleaned(launcher, attempt, claimed) else []
        return found

    def _is_cleaned(
        self, launcher: KubernetesLauncher, attempt: JobAttempt, claimed: datetime
    ) -> bool:
        """Remove what an attempt without a job left, unless a launch has continued it meanwhile."""
        if self.record.claimed_at(attempt.number) != claimed or launcher.is_made(attempt):
            return False
        launcher.clean(attempt)
        return True

    def _launcher(self, clusters: Mapping[str, Mapping[str, Any]]) -> KubernetesLauncher | None:
        if self.job.placement is None:
            return None
        return KubernetesLauncher.of(self.job.placement, JobRoots(self.root, None), clusters)

    def _local_look(self) -> JobLook:
        # The process that runs a local job holds the lock of the folder until it ends.
        if self.record.result() is not None:
            return JobLook(JobState.SUCCEEDED)
        lock = self.record.home / ".lock"
        try:
            with posix.try_lock(lock) as is_free:
                if not is_free:
                    return JobLook(JobState.RUNNING)
        except NotFoundError:
            pass  # no process has begun with it
        except StorageError as error:
            return JobLook(JobState.UNKNOWN, f"whether it runs cannot be told: {error}")
        return JobLook(JobState.FAILED, "it ended without a result; its logs say why")


def job_homes(root: Path, dataset: str | None = None) -> Iterator[Path]:
    """Yield the folders of the jobs of a data set, or of all data sets, in order of intervals.

    No file of a job is read, so a damaged job hides no other. A job whose job file is gone is one.

    Raises:
        StorageError: A folder cannot be listed.
    """
    for name in [dataset] if dataset is not None else sorted(data_sets_of(root)):
        folder = DatasetFolder(root, name)
        marks = folder.training_marks
        for interval in sorted(listed(marks.parent)) if marks.parent.is_dir() else ():
            if interval != marks:
                yield from _homes_in(interval)


def find_job(root: Path, name: str) -> KeptJob:
    """Return the job of a name.

    Raises:
        NotFoundError: There is no job of that name.
        JobRejectedError: The job file is damaged.
    """
    if is_name(name):
        for dataset in data_sets_of(root):
            training = DatasetFolder(root, dataset).training_marks.parent
            for interval in listed(training) if training.is_dir() else ():
                if _is_home(interval / name):
                    return kept_job(root, interval / name)
    raise NotFoundError(
        f"expected the name of a job in {root}, got {name[:80]!r}; 'trainfeed jobs ls' lists them"
    )


def _homes_in(interval: Path) -> Iterator[Path]:
    for home in sorted(listed(interval)):
        if _is_home(home):
            yield home


def _is_home(home: Path) -> bool:
    try:
        return JobRecord(home).is_begun()
    except AccessDeniedError:
        return True  # whoever reads the job is told


def kept_job(root: Path, home: Path) -> KeptJob:
    """Return the job of a folder.

    Raises:
        JobRejectedError: There is no job in the folder, or its files are damaged.
    """
    record = JobRecord(home)
    attempt = record.newest_attempt()
    return KeptJob(root, record, record.job() if attempt is None else attempt.job)


def told(job: KeptJob, clusters: Mapping[str, Mapping[str, Any]]) -> JobLook:
    """Return the state of a job; UNKNOWN, with the error as reason, when it cannot be told.

    Raises:
        FormatError: The result of the job is damaged.
    """
    try:
        return job.look(clusters)
    except FormatError:
        raise
    except TrainFeedError as error:
        return JobLook(JobState.UNKNOWN, str(error))


# --- Removes the objects of abandoned launches from their clusters

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
