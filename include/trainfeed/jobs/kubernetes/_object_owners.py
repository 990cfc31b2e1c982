"""Objects on a cluster belong to the job whose identity their annotation has.

An object of the right name and another identity is not adopted, not deleted, and named in an error
or a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from trainfeed.errors import JobConflictError, LaunchError
from trainfeed.jobs._job_spec import JobSpec
from trainfeed.jobs.kubernetes._api_calls import ApiCalls, ConflictingNameError
from trainfeed.jobs.kubernetes._object_names import CODE, IDENTITY, object_name

__all__ = ["created_or_adopted", "delete_own", "is_own", "require_identity"]

logger = logging.getLogger(__name__)

_LOOKS: Final = 3


def created_or_adopted(
    calls: ApiCalls, collection: str, manifest: Mapping[str, Any]
) -> dict[str, Any]:
    """Create an object, or return the existing one of the same identity and code.

    Raises:
        JobConflictError: An object of another job has the name.
        JobRejectedError: The cluster refuses the object.
        LaunchError: The cluster does not answer, or the object comes and goes.
    """
    name = manifest["metadata"]["name"]
    wanted = manifest["metadata"]["annotations"]
    for _ in range(_LOOKS):
        try:
            return calls.create(collection, manifest)
        except ConflictingNameError:
            found = calls.get(collection, name)
        if found is not None:
            has = (found.get("metadata") or {}).get("annotations") or {}
            if any(has.get(mark) != wanted.get(mark) for mark in (IDENTITY, CODE)):
                raise _conflict(manifest["kind"], name, wanted[IDENTITY], has)
            return found
        # The object existed at the first call and was gone at the second: something deletes it.
    raise LaunchError(
        f"{manifest['kind']} {name} was taken and gone again {_LOOKS} times; nothing further was"
        " made; run the training again when nothing deletes it any more"
    )


def delete_own(calls: ApiCalls, collection: str, job: JobSpec) -> None:
    """Delete the object of a job, unless the name belongs to another job."""
    name = object_name(job)
    found = calls.get(collection, name)
    if is_own(found, job):
        calls.delete(collection, name)
    elif found is not None:
        logger.warning(
            "%s %s is not of the job with identity %s; it was left as it is",
            found.get("kind") or collection, name, job.identity,
        )  # fmt: skip


def is_own(found: Mapping[str, Any] | None, job: JobSpec) -> bool:
    """Whether an object is there and has the identity of a job."""
    has = ((found or {}).get("metadata") or {}).get("annotations") or {}
    return has.get(IDENTITY) == job.identity


def require_identity(job: JobSpec, found: Mapping[str, Any], name: str) -> None:
    """Refuse an object that another job has under a name.

    Raises:
        JobConflictError: The object has another identity, or none.
    """
    has = (found.get("metadata") or {}).get("annotations") or {}
    if has.get(IDENTITY) != job.identity:
        raise _conflict(str(found.get("kind") or "object"), name, job.identity, has)


def _conflict(kind: str, name: str, wanted: str, has: Mapping[str, Any]) -> JobConflictError:
    return JobConflictError(
        f"expected {kind} {name} to be of the job with identity {wanted}, got"
        f" {has.get(IDENTITY) or 'one that trainfeed did not make'}; it was left as it is; look at"
        " it, and delete it if nothing needs it; then train again"
    )
