"""Whether a version that a tag names, or should name, is there for readers."""

from __future__ import annotations

from trainfeed.dataset.layout import DatasetFolder, generation_name
from trainfeed.dataset.tags._tag import TaggedVersion
from trainfeed.dataset.version import Version
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
    raise ConflictError(f"{name} {_state(folder, interval, generation)}")


def _state(folder: DatasetFolder, interval: str, generation: int) -> str:
    if folder.is_removed(interval, generation):
        return "was removed by retention"
    if folder.version(interval, generation).is_dir():
        return "is withdrawn"
    return "was never published"
