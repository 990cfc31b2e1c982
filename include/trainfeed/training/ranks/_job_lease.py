"""The lease of a training: retention removes no version that a running job reads.

Rank 0 holds it, because the job ends with rank 0. A job without a result keeps its versions by its
job file, too; the lease shows besides whether the job is at work, and where.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext

from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import parse_generation
from trainfeed.dataset.lease import hold_versions
from trainfeed.errors import AccessDeniedError, JobRejectedError, NotFoundError
from trainfeed.jobs import JobRoots, JobSpec

__all__ = ["job_lease"]

logger = logging.getLogger(__name__)


def job_lease(spec: JobSpec, rank: int, roots: JobRoots) -> AbstractContextManager[object]:
    """Return the context in which rank 0 of a job holds a lease of the job's versions.

    Raises:
        JobRejectedError: Retention has removed a version of the job.
        StorageError: The publication root refused or failed.
    """
    if rank or roots.root is None:
        return nullcontext()
    folder = DatasetFolder(roots.root, spec.dataset)
    versions = [(each.interval, parse_generation(each.generation)) for each in spec.versions]
    try:
        return hold_versions(folder, versions, f"training {spec.name}")
    except NotFoundError as error:
        raise JobRejectedError(f"{error}; then train again (in Airflow: clear the task)") from error
    except AccessDeniedError as error:
        # The job file keeps the versions as long as there is no result.
        logger.warning("job %s trains without a lease: %s", spec.name, error)
        return nullcontext()
