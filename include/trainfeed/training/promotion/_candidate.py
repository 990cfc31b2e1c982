"""The candidate for a model from a finished job: its files, metrics, code and data."""

from __future__ import annotations

from pathlib import Path

from trainfeed.dataset import Version
from trainfeed.errors import JobRejectedError, NotFoundError
from trainfeed.jobs import JobRecord, JobRemoval, JobResult, JobSpec, JobVersion
from trainfeed.models import Candidate, ModelData, ModelJob

__all__ = ["candidate_of"]


def candidate_of(root: Path, record: JobRecord) -> Candidate:
    """Return the candidate of a job, with the files that the job's result lists.

    Args:
        root: The publication root.
        record: The job's folder.

    Raises:
        JobRejectedError: The job has no result.
        ChecksumError: A file differs from the result in size or digest.
        NotFoundError: A file of the result is gone.
        StorageError: The file system refused or failed.
    """
    job, result = record.job(), record.result()
    if result is None:
        raise JobRejectedError(
            f"expected the result of job {job.name} in {record.home}, found none; nothing was"
            " promoted; train first"
        )
    removal = JobRemoval.read(record.home)
    if removal is not None:
        raise JobRejectedError(
            f"expected the output of job {job.name} in {record.output}, but {removal.told}; nothing"
            f" was promoted; remove {record.home}, and train again: trainfeed train {job.dataset}"
            f" --interval {job.interval}"
        )
    result.verify(record.home)
    # A result of an earlier version lists no files.
    listed = result if result.files else JobResult.of_output(job.name, "", {}, record.output)
    return Candidate(
        job=_model_job(job),
        data=[_data(root, version) for version in job.versions],
        metrics={name: float(value) for name, value in result.metrics.items()},
        output=record.output,
        files={name: (file.size, file.sha256) for name, file in listed.files.items()},
    )


def _model_job(job: JobSpec) -> ModelJob:
    return ModelJob(
        dataset=job.dataset,
        interval=job.interval,
        name=job.name,
        identity=job.identity,
        entry=job.entry,
        code=job.code,
        seed=job.seed,
        ranks=job.ranks,
    )


def _data(root: Path, version: JobVersion) -> ModelData:
    try:
        fingerprint = Version.open(root / version.path).manifest.fingerprint
    except NotFoundError:
        fingerprint = None
    return ModelData(
        interval=version.interval,
        generation=version.generation,
        content_digest=version.content_digest,
        manifest_sha256=version.manifest_sha256,
        fingerprint=fingerprint,
    )
