"""Finds withdrawals that speak against a publication: the same content was withdrawn before."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.withdrawals._mark_reading import withdrawals
from trainfeed.dataset.withdrawals._withdrawal import Withdrawal

__all__ = ["told_withdrawals", "withdrawn_alike"]


def withdrawn_alike(
    folder: DatasetFolder,
    interval: str,
    *,
    fingerprint: str,
    content_digest: str | None = None,
    known: Collection[str] = (),
) -> list[Withdrawal]:
    """Return the withdrawals of an interval that speak against publishing a version.

    A withdrawal of which neither mark nor manifest tells the content speaks against every version.

    Args:
        folder: The data set.
        interval: Name of the interval.
        fingerprint: Fingerprint of the version.
        content_digest: Digest of its content; None before it is made.
        known: Digests of marks that a person knew when asking for the version with a reason; these
            are left out.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return [
        mark
        for mark in withdrawals(folder, interval)
        if mark.digest not in known and _is_alike(mark, fingerprint, content_digest)
    ]


def told_withdrawals(folder: DatasetFolder, interval: str) -> str:
    """Return who withdrew the generations of an interval, and why, for messages; "" if nobody did.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return _told(withdrawals(folder, interval))


def _is_alike(mark: Withdrawal, fingerprint: str, content_digest: str | None) -> bool:
    if mark.fingerprint is None or mark.content_digest is None:
        return True
    return mark.fingerprint == fingerprint or mark.content_digest == content_digest


def _told(marks: Sequence[Withdrawal]) -> str:
    return "; ".join(mark.told for mark in marks)
