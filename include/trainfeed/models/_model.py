"""A published model, opened and verified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfeed.dataset.layout import MANIFEST, MANIFEST_DIGEST
from trainfeed.dataset.manifest_file import folder_problems, read_manifest_file
from trainfeed.errors import FormatError, StorageError
from trainfeed.models._model_manifest import ModelManifest
from trainfeed.models._models_folder import ModelFolder, model_version

__all__ = ["Model"]


@dataclass(frozen=True)
class Model:
    """One immutable version of a model.

    Attributes:
        path: Its folder; the files of the model lie in it.
        manifest: Its manifest, whose digest was verified.
        manifest_sha256: That digest.
    """

    path: Path
    manifest: ModelManifest
    manifest_sha256: str

    @classmethod
    def open(cls, folder: ModelFolder, number: int) -> Model:
        """Open a version.

        Raises:
            NotFoundError: There is none of that number.
            ChecksumError: The manifest is not the one that was published.
            FormatError: It is no manifest, or that of another model or version.
            StorageError: The file system refused or failed.
        """
        return cls.read(folder.version(number), folder.name, number)

    @classmethod
    def read(cls, path: Path, name: str, number: int) -> Model:
        """Open the folder of a version, wherever it lies; see ``open``."""
        data, digest = read_manifest_file(path, what="model")
        manifest = ModelManifest.from_bytes(data, path=str(path / MANIFEST))
        if (manifest.model, manifest.version) != (name, number):
            raise FormatError(
                f"expected model {name}/{model_version(number)}, the manifest says"
                f" {manifest.model}/{model_version(manifest.version)}; nothing was read; restore"
                " the right folder from a backup",
                path=str(path),
            )
        return cls(path, manifest, digest)

    @property
    def name(self) -> str:
        """``<model>/<version>``, as in ``flights/v0003``."""
        return f"{self.manifest.model}/{model_version(self.manifest.version)}"

    def problems(self) -> Iterator[FormatError | StorageError]:
        """Yield everything that is wrong with its files."""
        own = {MANIFEST, MANIFEST_DIGEST}
        yield from folder_problems(self.path, self.manifest.file_digests(), own)

    def verify(self) -> None:
        """Compare the folder with the manifest: exact listing, sizes, digests of every file.

        Raises:
            ChecksumError: A file is not the one that was published; names it.
            FormatError: A file is missing, foreign, or no plain file; names it.
            StorageError: A file cannot be read; names it.
        """
        for problem in self.problems():
            raise problem

    def to_json(self) -> dict[str, Any]:
        """Return what reports and commands say of it."""
        manifest = self.manifest
        return {
            "model": manifest.model,
            "version": model_version(manifest.version),
            "path": str(self.path),
            "job": manifest.job.name,
            "interval": manifest.job.interval,
            "data": [f"{each.interval}/{each.generation}" for each in manifest.data],
            "metrics": dict(manifest.metrics),
            "files": len(manifest.files),
            "bytes": sum(file.bytes for file in manifest.files),
            "manifest_sha256": self.manifest_sha256,
        }
