"""Names, labels and annotations of a job's objects on a cluster."""

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
# The host name of a pod of an Indexed Job is the job's name, a dash and the index, at most 63
# characters: this leaves five digits for the index.
_MOST_CHARS: Final = 57
_HASH_CHARS: Final = 10


def object_name(job: JobSpec) -> str:
    """Return the name of the job's objects: at most 57 lower-case letters, digits and dashes.

    The name ends with a hash of the job's name before any character was replaced, so jobs whose
    names differ only in such characters get different objects.
    """
    digest = hashlib.sha256(job.name.encode()).hexdigest()[:_HASH_CHARS]
    tail = f"-{digest}" if job.attempt == 1 else f"-a{job.attempt}-{digest}"
    # Some kinds allow no digit as first character.
    head = "t-" + re.sub(r"[^a-z0-9]+", "-", job.name.lower()).strip("-")
    return head[: _MOST_CHARS - len(tail)].rstrip("-") + tail


def marks(job: JobSpec) -> dict[str, dict[str, str]]:
    """Return the labels and annotations that every object of a job gets."""
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
