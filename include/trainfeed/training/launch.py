"""Launches the training of an interval: never twice at once, and never again once it has a result.

A job's name is a function of its inputs, so a repeated event, a retry, or a second run of one
interval finds the job of the first. A process that runs a local job holds a lock on the job's
folder until it ends; the next process finds the result, or writes its own job file and runs the
job itself, because versions in the old job file may be gone. A job on a cluster outlives its
launch; what follows on a launch is in ``_launched``.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainfeed import faults
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, TrainingMarks, require_writable_root
from trainfeed.dataset.tag_files import Tag
from trainfeed.errors import ConfigError, JobRejectedError
from trainfeed.intervals import Interval
from trainfeed.jobs import JobPlacement, JobRecord, JobRoots, JobSpec, LocalLauncher
from trainfeed.jobs.kubernetes.launcher import KubernetesLauncher
from trainfeed.paths import make_folders
from trainfeed.specification import DatasetSpec
from trainfeed.storage import posix
from trainfeed.tracking import Tracker
from trainfeed.training._cluster_job import claim_attempt
from trainfeed.training._launched import (
    Launched,
    cancel_launched,
    collect,
    look,
    told_of_failure,
    wait_for,
)
from trainfeed.training._window_job import require_readable, window_job
from trainfeed.usercode import require_current_names

__all__ = [
    "Launched",
    "adopted",
    "cancel_launched",
    "collect",
    "launch",
    "look",
    "render",
    "train",
    "wait_for",
]

logger = logging.getLogger(__name__)

# Longest wait in seconds for a local job that another process runs; as a rule, the scheduler's
# limit for the task ends the wait earlier.
_LOCK_TIMEOUT_S: Final = 7 * 24 * 3600.0


def train(
    spec: DatasetSpec,
    env: Environment,
    interval: Interval,
    *,
    again: str | None = None,
    start_model: str | None = None,
    tag: Tag | None = None,
) -> dict[str, Any]:
    """Train on the window of intervals that ends with ``interval``, or adopt the finished job.

    Args:
        spec: The data set.
        env: The environment.
        interval: An interval of the data set's schedule.
        again: Reason to start a failed job on a cluster again; each reason starts one attempt. A
            failed local job runs again without a reason.
        start_model: Digest in the report of ``download_start_model``. Without it, the model of
            ``train.model.download`` is downloaded now, if there is one.
        tag: The tag whose versions are read, in the place of the window; ``interval`` is its last,
            as ``tagged_training`` returns both. The job keeps them when the tag moves.

    Returns:
        ``job``, ``verdict`` (ran or adopted), ``metrics``, ``intervals``, ``versions``, ``folder``,
        ``seconds``; ``skipped``, when intervals of the window were left out by decision;
        ``accepted``, when a person accepted holes between its versions;
        ``tag``, when the versions are those of a tag;
        ``start_model``, when the training starts from a downloaded model; ``removed``, when
        retention removed the files of the adopted job;
        ``tracking``, how the delivery to a tracking server ended, when there is one.

    Raises:
        WindowIncompleteError: Intervals of the window are not published yet.
        NotFoundError: All intervals of the window were left out by decision.
        JobFailedError: The job ran and failed; the message has the path of its log.
        JobKilledError: The job was ended from outside.
        GateError: The job's metric is below ``train.min``.
        ConfigError: The data set has no training, or its code imports names that have moved.
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: A version or the job's folder cannot be read or written.
        JobConflictError: An object of another job has the name on the cluster.
        JobRejectedError: The installation or the cluster refuses the job.
        LaunchError: The cluster does not answer.
    """
    started = time.perf_counter()
    launched = launch(spec, env, interval, again=again, start_model=start_model, tag=tag)
    wait_for(launched)
    return collect(spec, launched, seconds=time.perf_counter() - started)


def launch(
    spec: DatasetSpec,
    env: Environment,
    interval: Interval,
    *,
    again: str | None = None,
    start_model: str | None = None,
    tag: Tag | None = None,
) -> Launched:
    """Start the job of an interval or a tag, or adopt it; a local job has ended when this returns.

    Raises:
        TrainFeedError: The errors of ``train``, except ``GateError``.
    """
    folder = DatasetFolder(Path(env.root), spec.name)
    require_writable_root(env)
    job = window_job(spec, env, folder, interval, start_model, tag=tag)
    tracker = Tracker.of(spec, env)
    if tag is None:
        TrainingMarks(folder).see(interval.name)
    record = JobRecord(folder.training(interval.name, job.name))
    with posix.map_errors(record.home):
        make_folders(record.home)
    if job.placement is None:
        if again is not None:
            raise ConfigError(
                "expected no reason to start again beside launcher local, got one; nothing was"
                " started; leave it out: a local job that has failed runs again by itself"
            )
        with posix.file_lock(record.home / ".lock", timeout_s=_LOCK_TIMEOUT_S):
            local = Launched(job, record, _local(spec, folder), "ran", tracker)
            return _run(local, spec.folder, folder)
    require_current_names(spec.folder)
    launcher = _on_cluster(spec, env, job.placement, folder)
    started = _start(job, record, launcher, folder, again)
    launched = replace(started, tracker=tracker)
    if not launched.record.result():
        launched.deliver("RUNNING")
    return launched


def adopted(spec: DatasetSpec, env: Environment, home: Path, *, verdict: str) -> Launched:
    """Return a job on a cluster that an earlier call has launched.

    Args:
        spec: The data set.
        env: The environment.
        home: The job's folder.
        verdict: Verdict of that launch.

    Raises:
        JobRejectedError: The folder has no job on a cluster.
        ConfigError: The job's cluster has no settings.
    """
    record = JobRecord(home)
    attempt = record.newest_attempt()
    if attempt is None or attempt.job.placement is None:
        raise JobRejectedError(f"expected a job on a cluster in {home}, found none; train again")
    folder = DatasetFolder(Path(env.root), spec.name)
    launcher = _on_cluster(spec, env, attempt.job.placement, folder)
    return Launched(attempt.job, record, launcher, verdict, Tracker.of(spec, env))


def render(
    spec: DatasetSpec, env: Environment, interval: Interval, tag: Tag | None = None
) -> list[dict[str, Any]]:
    """Return the objects that a launch would make on the cluster, and make none of them.

    Of a start model only the manifest is read, because the job's name depends on it; one without
    ``TRANSFER.json`` is downloaded.

    Raises:
        TrainFeedError: The errors of ``launch``, except those of the cluster.
    """
    folder = DatasetFolder(Path(env.root), spec.name)
    require_writable_root(env)
    job = window_job(spec, env, folder, interval, tag=tag, copies=False)
    home = folder.training(interval.name, job.name)
    if job.placement is None:
        return list(_local(spec, folder).render(job, home))
    return list(_on_cluster(spec, env, job.placement, folder).render(job, home))


def _local(spec: DatasetSpec, folder: DatasetFolder) -> LocalLauncher:
    return LocalLauncher(JobRoots(folder.root, spec.folder))


def _on_cluster(
    spec: DatasetSpec, env: Environment, placement: JobPlacement, folder: DatasetFolder
) -> KubernetesLauncher:
    return KubernetesLauncher.of(placement, JobRoots(folder.root, spec.folder), env.clusters)


def _run(launched: Launched, code: Path, folder: DatasetFolder) -> Launched:
    """Run a local job unless it has a result; the caller holds the lock of its folder."""
    record = launched.record
    if record.result() is not None:
        return replace(launched, verdict="adopted")
    require_current_names(code)
    record.write(launched.job)
    faults.point("train.after_create")
    require_readable(launched.job, folder)
    launched.deliver("RUNNING")
    with told_of_failure(launched):
        launched.launcher.start(launched.job, record.home)
    faults.point("train.after_ranks")
    return launched


def _start(
    job: JobSpec,
    record: JobRecord,
    launcher: KubernetesLauncher,
    folder: DatasetFolder,
    again: str | None,
) -> Launched:
    look = partial(require_readable, job, folder)
    attempt, is_new = claim_attempt(job, record, launcher, again, look)
    now = launcher.start(attempt.job, record.home)
    verdict = "ran" if is_new else "adopted"
    logger.info("job %s on %s: %s, %s", job.name, launcher.connection, verdict, now.state)
    return Launched(attempt.job, record, launcher, verdict)
