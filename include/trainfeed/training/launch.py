"""Launch the training of an interval: never twice at once, and not again once it has a result.

A job's name is a function of what it reads and how, so a repeated event, a retry, or a second run
of one interval finds the job of the first. The process that launches holds a lock on the job's
folder; it is gone with the process, and the next one either finds a result or runs the job itself,
as its own job file says: what a failed job was to read may be gone by then.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any, Final

from trainfeed import faults
from trainfeed.config import Environment
from trainfeed.dataset import (
    Coverage,
    DatasetFolder,
    TrainingMarks,
    cover_named,
    require_root,
)
from trainfeed.errors import ConfigError, GateError, WindowIncompleteError
from trainfeed.intervals import Interval
from trainfeed.jobs import (
    RESULT_FILE,
    JobRecord,
    JobResult,
    JobRoots,
    JobSpec,
    JobVersion,
    LocalLauncher,
    describe,
)
from trainfeed.paths import make_folders
from trainfeed.specification import DatasetSpec, TrainSpec, nearest
from trainfeed.storage import posix
from trainfeed.usercode import require_current_names, training_digest

__all__ = ["train"]

logger = logging.getLogger(__name__)

# How long a second run waits for the first one's job; the scheduler's own limit ends it earlier.
_LOCK_TIMEOUT_S: Final = 7 * 24 * 3600.0


def train(spec: DatasetSpec, env: Environment, interval: Interval) -> dict[str, Any]:
    """Train on the window of intervals that ends with ``interval``, or adopt the finished job.

    Args:
        spec: The data set.
        env: Where things are.
        interval: A tick of its schedule.

    Returns:
        ``job``, ``verdict`` (ran or adopted), ``metrics``, ``intervals``, ``versions``, ``folder``,
        ``seconds``; ``skipped``, when intervals of the window were decided to be left out.

    Raises:
        WindowIncompleteError: Intervals of the window are not published yet.
        NotFoundError: All of them were decided to be left out.
        JobFailedError: The job ran and failed; its log is named.
        GateError: The job's metric is below the spec's ``train.min``.
        ConfigError: The data set has no training, or its code imports names that have moved.
        RootError: Nobody has made the publication root.
        StorageError: A version or the job's folder cannot be read or written.
    """
    started = time.perf_counter()
    training = _require_training(spec)
    folder = DatasetFolder(Path(env.root), spec.name)
    require_root(folder.root, env.root_setting)
    window = _window(spec, training, folder, interval)
    job = _job(spec, training, interval, window, folder.root)
    TrainingMarks(folder).see(interval.name)
    home = folder.training(interval.name, job.name)
    with posix.map_errors(home):
        make_folders(home)
    with posix.file_lock(home / ".lock", timeout_s=_LOCK_TIMEOUT_S):
        launcher = LocalLauncher(JobRoots(folder.root, spec.folder))
        verdict, result = _run(job, JobRecord(home), launcher, spec.folder)
    metrics = dict(result.metrics)
    _gate(training, job, metrics)
    seconds = round(time.perf_counter() - started, 3)
    logger.info("train %s: %s in %.1f s, %s", job.name, verdict, seconds, metrics)
    return {
        **describe(job),
        "verdict": verdict,
        "metrics": metrics,
        "folder": str(home),
        "seconds": seconds,
    }


def _run(
    job: JobSpec, record: JobRecord, launcher: LocalLauncher, code: Path
) -> tuple[str, JobResult]:
    """Return ``adopted`` or ``ran``, and the result; the lock of the job's folder is held."""
    verdict = "adopted"
    if (result := record.result()) is None:
        verdict = "ran"
        require_current_names(code)
        record.write(job)
        faults.point("train.after_create")
        launcher.start(job, record.home)
        faults.point("train.after_ranks")
        result = JobResult.read(record.home / RESULT_FILE)
    result.verify(record.home)
    return verdict, result


def _require_training(spec: DatasetSpec) -> TrainSpec:
    if spec.train is None:
        raise ConfigError(f"data set {spec.name!r} has no training; add 'train' to dataset.yaml")
    return spec.train


def _window(
    spec: DatasetSpec, training: TrainSpec, folder: DatasetFolder, interval: Interval
) -> Coverage:
    names = [i.name for i in spec.schedule_model().previous(interval, training.window)]
    # As writers see it: a version may be published and CURRENT not say so yet.
    found = cover_named(folder, names, generation_of=folder.current_generation)
    if found.missing:
        commands = [f"trainfeed build {spec.name} --interval {name}" for name in found.missing]
        error = WindowIncompleteError(
            f"training of {spec.name}/{interval.name} reads {len(names)} intervals, not published"
            f" yet: {', '.join(found.missing)}; nothing was started; build them, or wait:"
            f" {', '.join(commands)}"
        )
        error.missing = found.missing
        raise error
    if not found.versions:
        found.require("fail")
    return found


def _job(
    spec: DatasetSpec, training: TrainSpec, interval: Interval, window: Coverage, root: Path
) -> JobSpec:
    module = spec.folder / f"{training.entry.partition(':')[0]}.py"
    if not module.is_file():
        raise ConfigError(f"expected a module {module}, found none; train.entry names it")
    code = training_digest(spec.folder)
    return JobSpec.named(
        dataset=spec.name,
        interval=interval.name,
        folder=".",
        entry=training.entry,
        code=code,
        seed=spec.seed,
        ranks=training.ranks,
        versions=[
            JobVersion(
                interval=version.path.parent.name,
                generation=version.path.name,
                path=version.path.relative_to(root).as_posix(),
                content_digest=version.manifest.content_digest,
                manifest_sha256=version.manifest_sha256,
            )
            for version in window.versions
        ],
        skipped=[skip.interval for skip in window.skipped],
    )


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
