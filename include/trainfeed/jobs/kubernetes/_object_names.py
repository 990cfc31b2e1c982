"""Names and marks of a job's objects: names are valid on any cluster and say whose they are."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from trainfeed.jobs._job_spec import JobSpec

__all__ = ["CODE", "IDENTITY", "JOB_LABEL", "QUEUE_LABEL", "marks", "object_name"]

IDENTITY: Final = "trainfeed/identity"
CODE: Final = "trainfeed/code"
JOB_LABEL: Final = "trainfeed/job"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
# A pod of an Indexed Job has the name of its job, a dash, and an index as host name: 63 in all.
_MOST_CHARS: Final = 57
_HASH_CHARS: Final = 10


def object_name(job: JobSpec) -> str:
    """Return the name of the job's objects: at most 57 characters, of letters, digits and dashes.

    The hash at its end is that of the job's untouched name, so two jobs whose names differ only in
    what is not allowed here have two names.
    """
    digest = hashlib.sha256(job.name.encode()).hexdigest()[:_HASH_CHARS]
    tail = f"-{digest}" if job.attempt == 1 else f"-a{job.attempt}-{digest}"
    # Some kinds want a letter first.
    head = "t-" + re.sub(r"[^a-z0-9]+", "-", job.name.lower()).strip("-")
    return head[: _MOST_CHARS - len(tail)].rstrip("-") + tail


def marks(job: JobSpec) -> dict[str, dict[str, str]]:
    """Return labels and annotations of every object of a job."""
    labels = {
        "app.kubernetes.io/managed-by": "trainfeed",
        JOB_LABEL: object_name(job),
    }
    annotations = {
        IDENTITY: job.identity,
        "trainfeed/name": job.name,
        "trainfeed/dataset": job.dataset,
        "trainfeed/interval": job.interval,
    }
    if not job.is_proven:
        annotations["trainfeed/unproven-image"] = job.image or ""
    return {"labels": labels, "annotations": annotations}
