"""The metrics of a model on the data of a job: one rank that runs ``train.model.evaluate``.

An evaluation is a job of its own, in the folder of the job whose data it reads. Its identity covers
model, code and data, so a finished evaluation is found again and not repeated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainfeed.config import JOB_MODEL
from trainfeed.jobs import JobRecord, JobResult, JobRoots, JobSpec, LocalLauncher
from trainfeed.paths import make_folders
from trainfeed.specification import DatasetSpec
from trainfeed.storage import posix
from trainfeed.usercode import digest_of_texts, training_texts

__all__ = ["evaluate_model"]

_FOLDER: Final = "evaluations"
_LOCK_TIMEOUT_S: Final = 24 * 3600.0


def evaluate_model(
    spec: DatasetSpec, root: Path, job: JobRecord, model: Path, entry: str
) -> dict[str, float]:
    """Return the metrics of a model on the versions that a job has read.

    Args:
        spec: The data set.
        root: The publication root.
        job: Folder of the job whose versions are read.
        model: Folder of the model's files, below the root.
        entry: ``module:name`` of the function.

    Raises:
        JobFailedError: The function raised; its log is named.
        JobKilledError: The process was killed, or met a passing fault.
        JobRejectedError: There is no such function, or it returned no metrics.
        StorageError: The file system refused or failed.
    """
    evaluation = _job(spec, root, job.job(), model, entry)
    record = JobRecord(job.home / _FOLDER / evaluation.identity[:16])
    with posix.map_errors(record.home):
        make_folders(record.home)
    with posix.file_lock(record.home / ".lock", timeout_s=_LOCK_TIMEOUT_S):
        result = record.result() or _run(spec, root, evaluation, record)
    return {name: float(value) for name, value in result.metrics.items()}


def _run(spec: DatasetSpec, root: Path, evaluation: JobSpec, record: JobRecord) -> JobResult:
    record.write(evaluation)
    LocalLauncher(JobRoots(root, spec.folder)).start(evaluation, record.home)
    result = record.result()
    assert result is not None  # noqa: S101 - the launcher has seen it
    return result


def _job(spec: DatasetSpec, root: Path, job: JobSpec, model: Path, entry: str) -> JobSpec:
    return JobSpec.named(
        dataset=job.dataset,
        interval=job.interval,
        folder=".",
        entry=entry,
        code=digest_of_texts(training_texts(spec.folder)),
        seed=job.seed,
        ranks=1,
        versions=job.versions,
        skipped=job.skipped,
        accepted=job.accepted,
        environment={**job.environment, JOB_MODEL: model.relative_to(root).as_posix()},
    )
