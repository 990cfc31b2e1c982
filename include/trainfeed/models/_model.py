"""A published model, opened and verified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.dataset.layout import MANIFEST, MANIFEST_DIGEST
from trainfeed.dataset.publication import folder_problems, read_manifest_file
from trainfeed.errors import FormatError, NotFoundError, StorageError
from trainfeed.models._model_manifest import ModelManifest
from trainfeed.models._models_folder import ModelFolder, model_version
from trainfeed.models._removed_model import model_facts, require_kept

__all__ = ["DAMAGED", "Model"]

# Errors of a version whose folder or manifest is not what was published. Other errors of the file
# system say nothing about the version.
DAMAGED: Final = (FormatError, NotFoundError)


@dataclass(frozen=True)
class Model:
    """One immutable version of a model.

    Attributes:
        path: Folder with the files of the model.
        manifest: Manifest of the model, whose digest was verified.
        manifest_sha256: SHA-256 of the manifest in hex.
    """

    path: Path
    manifest: ModelManifest
    manifest_sha256: str

    @classmethod
    def open(cls, folder: ModelFolder, number: int) -> Model:
        """Open a version; the manifest is verified, other files are not.

        Raises:
            NotFoundError: There is no version of that number, or retention removed it; then the
                message says who did, when and why.
            ChecksumError: The manifest was changed after its publication.
            FormatError: The manifest is damaged, or names another model or version.
            StorageError: The file system refused or failed.
        """
        try:
            return cls.read(folder.version(number), folder.name, number)
        finally:
            # Also for a version that is there: its removal begins with the record. And only after
            # the reading, so that a removal meanwhile is not taken for damage.
            require_kept(folder, number)

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
        """Yield every difference between the folder and the manifest; all files are read."""
        own = {MANIFEST, MANIFEST_DIGEST}
        yield from folder_problems(self.path, self.manifest.file_digests(), own)

    def verify(self) -> None:
        """Compare the folder with the manifest: exact listing, sizes, digests of every file.

        Raises:
            ChecksumError: A file differs from the manifest in size or digest.
            FormatError: A file is missing, is not in the manifest, or is no plain file.
            StorageError: A file cannot be read.
        """
        for problem in self.problems():
            raise problem

    def to_json(self) -> dict[str, Any]:
        """Return the description of the model for reports and commands, as JSON values."""
        facts = model_facts(self.manifest, self.manifest_sha256)
        return {**facts, "path": str(self.path)}
