"""Refuses the plan of content that was withdrawn, unless a person gives a reason that is new."""

from __future__ import annotations

from collections.abc import Collection

from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.withdraw import withdrawals, withdrawn_alike
from trainfeed.errors import WithdrawnError
from trainfeed.pipeline.planner._causes import is_given_in
from trainfeed.pipeline.plans import Plan

__all__ = ["acknowledged", "told_acknowledged"]


def acknowledged(
    folder: DatasetFolder, interval: str, fingerprints: Collection[str], why: str | None
) -> list[str]:
    """Return the digests of the withdrawals that the reason of a build acknowledges.

    A reason for which a withdrawn generation was built was given before the withdrawal: a run that
    is repeated with it acknowledges nothing.

    Args:
        folder: The data set.
        interval: Name of the interval.
        fingerprints: Fingerprints of the plan, by any reading rules.
        why: The reason that a person gave, or None.

    Raises:
        WithdrawnError: A version with one of them was withdrawn, and there is no new reason.
        StorageError: The publication root refused or failed.
    """
    marks = withdrawals(folder, interval)
    reasons = [mark.reason for mark in marks if mark.reason is not None]
    is_spent = why is not None and any(is_given_in(why, reason) for reason in reasons)
    known = [] if why is None or is_spent else sorted(mark.digest for mark in marks)
    alike = [
        mark
        for each in sorted(fingerprints)
        for mark in withdrawn_alike(folder, interval, fingerprint=each, known=known)
    ]
    if not alike:
        return known
    spent = f"the reason {why!r} is that of a version withdrawn since; " if is_spent else ""
    raise WithdrawnError(
        f"a build of {folder.name}/{interval} would make a withdrawn version again:"
        f" {alike[-1].told}; {spent}nothing was read or written;"
        " correct the cause (records, code, lookups) and build, or take the withdrawal back:"
        f" trainfeed restore {alike[-1].name} --why WHY; to publish the same as the next"
        f" generation all the same: trainfeed build {folder.name} --interval {interval} --rebuild"
        " WHY, with a reason that is new (Airflow: parameter 'rebuild')"
    )


def told_acknowledged(folder: DatasetFolder, plan: Plan) -> str | None:
    """Return which withdrawals the reason of a plan acknowledges, for people; None if none.

    Raises:
        StorageError: The publication root refused or failed.
    """
    known = plan.acknowledges or ()
    marks = [mark for mark in withdrawals(folder, plan.interval["name"]) if mark.digest in known]
    if not marks:
        return None
    told = "; ".join(mark.told for mark in marks)
    return f"its reason, {plan.rebuild!r}, acknowledges {len(marks)} withdrawals: {told}"
