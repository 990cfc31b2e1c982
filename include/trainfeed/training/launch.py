"""Launches trainings: of a window, or of versions that no training has seen; never twice."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainfeed.core import faults
from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.errors import (
    ConfigError,
    GateError,
    JobFailedError,
    JobKilledError,
    JobRejectedError,
    TrainFeedError,
    WindowError,
    WindowIncompleteError,
    WithdrawnError,
)
from trainfeed.files import make_folders
from trainfeed.files.stores import posix
from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.specification import DatasetSpec, TrainSpec, nearest
from trainfeed.training.jobs import (
    ClusterSettings,
    JobLook,
    JobPlacement,
    JobRecord,
    JobRemoval,
    JobRoots,
    JobSpec,
    JobVersion,
    LocalLauncher,
    describe,
)
from trainfeed.training.jobs.kubernetes.launcher import (
    KubernetesLauncher,
    cancel,
    claim_attempt,
    is_cancelled,
    require_success,
    settle,
)
from trainfeed.training.tracking import Tracker
from trainfeed.training.transfers import download_start_model, has_start_model, start_model_digest
from trainfeed.versions import (
    Coverage,
    DatasetFolder,
    TrainingMarks,
    Untrained,
    Version,
    cover_named,
    require_writable_root,
)
from trainfeed.versions.layout import parse_generation
from trainfeed.versions.tag import cover_tag
from trainfeed.versions.tag_files import Tag
from trainfeed.versions.withdraw import withdrawal_of

# --- Builds the job of a training window, or of a tag, from specification, versions and settings


def require_training(spec: DatasetSpec) -> TrainSpec:
    """Return the training of a data set.

    Raises:
        ConfigError: The data set has no training.
    """
    if spec.train is None:
        raise ConfigError(f"data set {spec.name!r} has no training; add 'train' to dataset.yaml")
    return spec.train


def window_job(  # noqa: PLR0913 - options of a launch
    spec: DatasetSpec,
    env: Environment,
    folder: DatasetFolder,
    interval: Interval,
    start_model: str | None = None,
    *,
    tag: Tag | None = None,
    copies: bool = True,
) -> JobSpec:
    """Return the job of the window of intervals that ends with ``interval``, or of a tag.

    The window is looked at first, because a download takes longer.

    Args:
        spec: The data set.
        env: The environment.
        folder: The data set's folder.
        interval: The interval.
        start_model: Digest of the downloaded model that the training starts from. Without it, the
            model of ``train.model.download`` is downloaded now, if there is one.
        tag: The tag whose versions are read, in the place of the window; ``interval`` is its last.
        copies: Whether that download takes place; otherwise only the digest is read, if the store
            has it.

    Raises:
        WindowIncompleteError: Intervals of the window are not published yet, or the versions have
            a hole between them.
        NotFoundError: All intervals of the window were left out by decision.
        ConfigError: The data set has no training, its module is missing, or its cluster has no
            settings.
        JobRejectedError: The installation does not allow the image, or it has no digest.
        ConflictError: A version of the tag is withdrawn or removed.
        StorageError: The start model could not be downloaded.
    """
    job = _job(spec, env, folder, interval, tag)
    if start_model is None and has_start_model(spec):
        start_model = _downloaded(spec, env) if copies else start_model_digest(spec, env)
    fields = {name: value for name, value in job if name not in {"name", "start_model"}}
    return JobSpec.named(**fields, start_model=start_model)


def require_readable(job: JobSpec, folder: DatasetFolder) -> None:
    """Refuse a job of which a version was withdrawn since its window was looked at.

    Whoever starts a job calls this after the job file is written, and before the job begins.

    Raises:
        WithdrawnError: A version is withdrawn; nothing was started.
    """
    for each in job.versions:
        mark = withdrawal_of(folder, each.interval, parse_generation(each.generation))
        if mark is not None:
            raise WithdrawnError(
                f"job {job.name} would read a withdrawn version: {mark.told}; nothing was started;"
                " train again: the window is resolved anew (in Airflow: clear the task)"
            )


def _downloaded(spec: DatasetSpec, env: Environment) -> str:
    return str(download_start_model(spec, env)["start_model"])


def _job(
    spec: DatasetSpec,
    env: Environment,
    folder: DatasetFolder,
    interval: Interval,
    tag: Tag | None,
) -> JobSpec:
    training = require_training(spec)
    window = _covered(spec, training, folder, interval) if tag is None else cover_tag(folder, tag)
    _require_module(spec, training)
    return JobSpec.named(
        dataset=spec.name,
        interval=interval.name,
        folder=".",
        entry=training.entry,
        code=digest_of_texts(training_texts(spec.folder)),
        seed=spec.seed,
        ranks=training.ranks,
        versions=[_version(version, folder.root) for version in window.versions],
        skipped=[skip.interval for skip in window.skipped],
        image=_image(training, env.clusters),
        command=None if training.command is None else list(training.command),
        environment=dict(training.environment),
        placement=_placement(training),
        tensorboard=training.tracking.tensorboard,
        tag=None if tag is None else tag.name,
        accepted=[hole.range for hole in window.accepted],
    )


def _covered(
    spec: DatasetSpec, training: TrainSpec, folder: DatasetFolder, interval: Interval
) -> Coverage:
    schedule = spec.schedule_model()
    names = [i.name for i in schedule.previous(interval, training.window)]
    # Looks at the folders, not at CURRENT, which may not name a version that was just published.
    found = cover_named(folder, names, generation_of=folder.current_generation, window_of=schedule)
    if found.missing:
        error = WindowIncompleteError(
            f"training of {spec.name}/{interval.name} reads {len(names)} intervals, not published"
            f" yet: {', '.join(found.missing)}; nothing was started; wait, or {found.remedy}"
        )
        error.missing = found.missing
        raise error
    if not found.versions:
        found.require("fail")
    return found


def _require_module(spec: DatasetSpec, training: TrainSpec) -> None:
    module = spec.folder / f"{training.module}.py"
    if training.module is not None and not module.is_file():
        raise ConfigError(f"expected a module {module}, found none; train.entry names it")


def _version(version: Version, root: Path) -> JobVersion:
    return JobVersion(
        interval=version.path.parent.name,
        generation=version.path.name,
        path=version.path.relative_to(root).as_posix(),
        content_digest=version.manifest.content_digest,
        manifest_sha256=version.manifest_sha256,
    )


def _image(training: TrainSpec, clusters: Mapping[str, Mapping[str, Any]]) -> str | None:
    if training.is_local:
        return None
    image = ClusterSettings.of(clusters, training.connection).image_of(training.image)
    if "@sha256:" not in image and not training.allow_tag:
        raise JobRejectedError(
            f"expected an image by its digest, name@sha256:…, got {image!r}; nothing was started;"
            " correct the image of the cluster's settings, or give train.allow_tag: true"
        )
    return image


def _placement(training: TrainSpec) -> JobPlacement | None:
    if training.is_local:
        return None
    gpu, limit = training.gpu, training.time_limit
    return JobPlacement(
        launcher=training.launcher,
        connection=training.connection,
        cpu=None if training.cpu is None else float(training.cpu),
        memory_bytes=training.memory,
        gpu_type=gpu.type if gpu else None,
        gpu_number=gpu.number if gpu else 0,
        shared_memory_bytes=training.shared_memory,
        volumes=list(training.volumes),
        node_selector=dict(training.node_selector),
        tolerations=[each.model_dump(exclude_none=True) for each in training.tolerations],
        image_pull_secret=training.image_pull_secret,
        queue=training.queue,
        priority=training.priority,
        time_limit_s=int(limit.total_seconds()) if limit else None,
        retries=training.retries,
    )


# --- What follows on a launch: looks at the job until it ends, then a report or an error

# The name of the public module, by which readers of logs know these lines.
logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 15.0


@dataclass(frozen=True)
class Launched:
    """A job that was started or adopted.

    Attributes:
        job: The job; on a cluster, that of the newest attempt.
        record: The job's folder.
        launcher: The launcher that runs the job.
        verdict: ``ran`` when this launch has started the job, else ``adopted``.
        tracker: Delivers the job to a tracking server; None if the specification names none.
    """

    job: JobSpec
    record: JobRecord
    launcher: LocalLauncher | KubernetesLauncher
    verdict: str
    tracker: Tracker | None = None

    def deliver(self, status: str) -> dict[str, str]:
        """Deliver the job to the tracking server; return how that ended, {} without a server."""
        return self.tracker.job(self.record, self.job, status) if self.tracker else {}


def look(launched: Launched) -> JobLook:
    """Return the state of a job; a final state of a job on a cluster is written down.

    Raises:
        LaunchError: The cluster does not answer.
    """
    if isinstance(launched.launcher, LocalLauncher):
        return launched.launcher.look(launched.record)
    return settle(launched.record, launched.launcher)


def cancel_launched(launched: Launched) -> None:
    """Cancel a job on a cluster, and deliver that to the tracking server; fine if it has ended.

    A local job ends with the process that launched it: nothing is done here.

    Raises:
        LaunchError: The cluster does not answer.
    """
    if isinstance(launched.launcher, LocalLauncher):
        return
    now = cancel(launched.record, launched.launcher)
    if is_cancelled(launched.record, now):
        launched.deliver("KILLED")


def wait_for(launched: Launched, pause: Callable[[float], object] | None = None) -> JobLook:
    """Wait until a job has ended, log every change of its state, and return the last state.

    Args:
        launched: The job.
        pause: Called with a number of seconds to wait between two looks.
    """
    wait = threading.Event().wait if pause is None else pause
    told, pause_s = None, _FIRST_PAUSE_S
    while (now := look(launched)).state.is_live:
        if (now.state, now.reason) != told:
            logger.info("job %s is %s %s", launched.job.name, now.state, now.reason)
            told, pause_s = (now.state, now.reason), _FIRST_PAUSE_S
        wait(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return now


def collect(spec: DatasetSpec, launched: Launched, *, seconds: float) -> dict[str, Any]:
    """Return the report of a job that has ended; see ``train``.

    Args:
        spec: The data set.
        launched: The job.
        seconds: Seconds since the launch, for the report.

    Raises:
        JobFailedError: The job failed, was cancelled, or is gone without a result.
        JobKilledError: The job was ended from outside.
        JobRejectedError: A rank refused the job.
        ChecksumError: A file of the job's output differs from its result.
        GateError: The job's metric is below ``train.min``.
    """
    job, record = launched.job, launched.record
    if isinstance(launched.launcher, KubernetesLauncher):
        with failure_delivered(launched):
            require_success(record, launched.launcher)
    result = record.result()
    if result is None:
        raise JobFailedError(
            f"job {job.name}: its result in {record.home} is gone; train again"
            " (in Airflow: clear the task)"
        )
    removal = JobRemoval.read(record.home)
    if removal is None:
        result.verify(record.home)
    metrics = dict(result.metrics)
    delivered = launched.deliver("FINISHED")
    _gate(require_training(spec), job, metrics)
    logger.info("train %s: %s in %.1f s, %s", job.name, launched.verdict, seconds, metrics)
    return {
        **describe(job),
        "verdict": launched.verdict,
        "metrics": metrics,
        "folder": str(record.home),
        "seconds": round(seconds, 3),
        **({"tracking": delivered} if delivered else {}),
        **({"removed": removal.told} if removal else {}),
    }


@contextmanager
def failure_delivered(launched: Launched) -> Iterator[None]:
    """Deliver that a job has failed, or was killed or cancelled, and let the error pass."""
    try:
        yield
    except JobKilledError:
        launched.deliver("KILLED")
        raise
    except (JobFailedError, JobRejectedError):
        launched.deliver("KILLED" if _is_cancelled(launched.record) else "FAILED")
        raise


def _is_cancelled(record: JobRecord) -> bool:
    with suppress(TrainFeedError):  # a damaged file of the attempt is the error that is reported
        attempt = record.newest_attempt()
        return attempt is not None and attempt.is_cancelled
    return False


def _gate(training: TrainSpec, job: JobSpec, metrics: dict[str, Any]) -> None:
    if training.metric is None or training.min is None:
        return
    value = metrics.get(training.metric)
    if value is None:
        like = nearest(training.metric, metrics) or "none is like it"
        raise GateError(
            f"job {job.name} finished without train.metric {training.metric!r}: {training.entry}"
            f" returned {', '.join(sorted(metrics))}; {like}; its result is kept;"
            " change dataset.yaml and run it again, which finds the result"
        )
    if value < training.min:
        raise GateError(
            f"job {job.name} finished with {training.metric} = {value}, train.min is"
            f" {training.min}; its result is kept; look at the data of {job.interval} or change"
            " dataset.yaml"
        )


# --- Launches the training of an interval: never twice at once


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
        ConfigError: The data set has no training.
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
            return _run(local, folder)
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


def _run(launched: Launched, folder: DatasetFolder) -> Launched:
    """Run a local job unless it has a result; the caller holds the lock of its folder."""
    record = launched.record
    if record.result() is not None:
        return replace(launched, verdict="adopted")
    record.write(launched.job)
    faults.point("train.after_create")
    require_readable(launched.job, folder)
    launched.deliver("RUNNING")
    with failure_delivered(launched):
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


# --- Finds the published versions that no training has seen, and trains on them


def missed(spec: DatasetSpec, marks: TrainingMarks, *, older: bool) -> list[Untrained]:
    """Return the published versions that no training has seen, and that one could read.

    Args:
        spec: The data set; intervals that its schedule no longer has are left out, with a warning.
        marks: The marks of the data set.
        older: Whether to include versions from before the data set had a training, and declined
            ones.
    """
    return [each for each in marks.untrained(older=older) if _is_tick(spec, each.interval)]


def train_missed(spec: DatasetSpec, env: Environment, *, older: bool) -> Iterator[dict[str, Any]]:
    """Train on the published intervals that no training has seen, one after the other.

    Args:
        spec: The data set.
        env: The environment.
        older: Whether to include versions from before the data set had a training, and declined
            ones.

    Yields:
        For each interval ``interval`` and the report of ``train``; or, if versions of its window
        are missing, ``interval``, the verdict ``incomplete`` and ``note``. Such an interval stays
        untrained.

    Raises:
        ConfigError: The data set has no training.
        RootError: The publication root was not made by ``trainfeed init``.
        JobFailedError: A job failed. Its interval counts as seen, later ones stay untrained.
        GateError: A metric is below ``train.min``; intervals as for a failed job.
    """
    require_training(spec)
    require_writable_root(env)
    schedule = spec.schedule_model()
    marks = TrainingMarks(DatasetFolder(Path(env.root), spec.name))
    for version in missed(spec, marks, older=older):
        try:
            report = train(spec, env, schedule.interval_named(version.interval))
        except WindowIncompleteError as error:
            logger.warning("%s", error)
            report = {"verdict": "incomplete", "note": str(error)}
        yield {"interval": version.interval, **report}


def _is_tick(spec: DatasetSpec, interval: str) -> bool:
    try:
        spec.schedule_model().interval_named(interval)
    except WindowError as error:
        logger.warning("%s/%s cannot be trained on: %s", spec.name, interval, error)
        return False
    return True
