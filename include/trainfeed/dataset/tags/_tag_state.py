"""Whether a version that a tag names, or should name, is there for readers."""

from __future__ import annotations

from trainfeed.dataset.layout import DatasetFolder, generation_name
from trainfeed.dataset.tags._tag import TaggedVersion
from trainfeed.dataset.version import Version
from trainfeed.dataset.withdrawals import withdrawal_of
from trainfeed.errors import ConflictError

__all__ = ["require_there", "tagged"]


def tagged(version: Version) -> TaggedVersion:
    """Return the entry of a tag for an open version."""
    return TaggedVersion(
        version.path.parent.name,
        version.manifest.generation,
        version.manifest_sha256,
        version.manifest.fingerprint,
    )


def require_there(folder: DatasetFolder, interval: str, generation: int) -> None:
    """Refuse a version that is withdrawn, removed, or was never published.

    Raises:
        ConflictError: It is; the message says which of these.
        StorageError: The publication root refused or failed.
    """
    if generation in folder.generations(interval):
        return
    name = f"{folder.name}/{interval}/{generation_name(generation)}"
    if folder.is_removed(interval, generation):
        raise ConflictError(f"{name} was removed by retention")
    if (mark := withdrawal_of(folder, interval, generation)) is not None:
        raise ConflictError(f"{mark.told}; to take that back: trainfeed restore {name} --why WHY")
    raise ConflictError(f"{name} was never published")
