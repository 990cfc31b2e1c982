"""The record of a version that retention removed: ``removed/v0003.json`` in the model's folder.

The record is written before the files go, and hides the version from then on. It holds the whole
manifest, so what the version was, and what it was made of, is still known; its number is taken.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, Self

from pydantic import ValidationError

from trainfeed import canonical_json
from trainfeed.accounts import person
from trainfeed.dataset.sealed_json import read_sealed, sealed, text_of
from trainfeed.errors import ConflictError, FormatError, NotFoundError
from trainfeed.models._model_manifest import ModelManifest
from trainfeed.models._models_folder import ModelFolder, model_version
from trainfeed.paths import is_there
from trainfeed.storage import posix

__all__ = ["RemovedModel", "model_facts", "refuse_removed", "require_kept"]

logger = logging.getLogger(__name__)

_TEXTS: Final = ("at", "who", "account", "why", "manifest_sha256")
_WHAT: Final = "the record of a removed version of a model"
_REMEDY: Final = "the version is gone all the same; bring the record back from a backup"


@dataclass(frozen=True)
class RemovedModel:
    """A version of a model whose files are gone.

    Attributes:
        manifest: Its manifest.
        manifest_sha256: SHA-256 of the manifest in hex.
        at: Time of the removal, as ``2026-03-08T00:00:00Z``.
        who: The person, or the run of a DAG.
        account: The account of the process.
        why: The rule, as ``keep: 10``.
    """

    manifest: ModelManifest
    manifest_sha256: str
    at: str
    who: str
    account: str
    why: str

    @property
    def name(self) -> str:
        """``<model>/<version>``, as in ``flights/v0003``."""
        return f"{self.manifest.model}/{model_version(self.manifest.version)}"

    @property
    def told(self) -> str:
        """Who, when and why, for messages."""
        who = person(self.who, self.account)
        return f"{self.name} was removed at {self.at} by {who} ({self.why})"

    @classmethod
    def read(cls, folder: ModelFolder, number: int) -> Self | None:
        """Return the record of a version, or None if the version was not removed.

        Raises:
            FormatError: The record is damaged.
            StorageError: The publication root refused or failed.
        """
        path = folder.removal(number)
        try:
            value = read_sealed(path, _WHAT, _REMEDY, max_bytes=canonical_json.MAX_BYTES)
            manifest = ModelManifest.model_validate(value["manifest"])
            removed = cls(manifest, **{name: text_of(value, name) for name in _TEXTS})
        except NotFoundError:
            return None
        except (KeyError, TypeError, ValidationError) as error:
            raise FormatError(f"expected {_WHAT}: {error}; {_REMEDY}", path=str(path)) from error
        if removed.name != (name := f"{folder.name}/{model_version(number)}"):
            raise FormatError(
                f"expected the record of {name}, got that of {removed.name}; {_REMEDY}",
                path=str(path),
            )
        return removed

    def write(self, folder: ModelFolder) -> None:
        """Write the record, unless there is one.

        Raises:
            StorageError: The publication root refused or failed.
        """
        path = folder.removal(self.manifest.version)
        value = {"manifest": self.manifest.model_dump()}
        value |= {name: getattr(self, name) for name in _TEXTS}
        posix.make_public_dir(path.parent)
        posix.create_exclusive(path, sealed(value), is_public=True)

    def to_json(self) -> dict[str, Any]:
        """Return the description of the version for reports and commands, as JSON values."""
        removed = {"at": self.at, "who": self.who, "account": self.account, "why": self.why}
        return {**model_facts(self.manifest, self.manifest_sha256), "removed": removed}


def model_facts(manifest: ModelManifest, manifest_sha256: str) -> dict[str, Any]:
    """Return what a manifest says, for reports and commands, as JSON values."""
    return {
        "model": manifest.model,
        "version": model_version(manifest.version),
        "job": manifest.job.name,
        "interval": manifest.job.interval,
        "data": [f"{each.interval}/{each.generation}" for each in manifest.data],
        "metrics": dict(manifest.metrics),
        "files": len(manifest.files),
        "bytes": manifest.num_bytes,
        "manifest_sha256": manifest_sha256,
    }


def require_kept(folder: ModelFolder, number: int) -> None:
    """Refuse a version that retention removed, or has begun to remove.

    Raises:
        NotFoundError: It was removed; the message says who did, when and why.
        FormatError: It was removed, and the record is damaged.
        StorageError: The publication root refused or failed.
    """
    if not is_there(folder.removal(number)):
        return
    removed = RemovedModel.read(folder, number)
    if removed is not None:
        raise NotFoundError(
            f"{removed.told}; choose another version: trainfeed models ls {folder.name}"
        )


def refuse_removed(folder: ModelFolder, identity: str) -> None:
    """Refuse a job whose version was removed: a job never becomes a version a second time.

    Args:
        folder: The model.
        identity: Identity of the job.

    Raises:
        ConflictError: The job made a version that was removed.
        StorageError: The publication root refused or failed.
    """
    for number in folder.removed_versions():
        try:
            removed = RemovedModel.read(folder, number)
        except FormatError as error:
            logger.warning("which job made a removed version cannot be told: %s", error)
            continue
        if removed is None or removed.manifest.job.identity != identity:
            continue
        job = removed.manifest.job
        raise ConflictError(
            f"job {job.name} made {removed.name}, but {removed.told}; nothing was made: a job"
            " becomes a version once; for a new one, give the job other data (trainfeed build"
            f" {job.dataset} --interval {job.interval} --rebuild 'WHY') or other code, and train"
        )
