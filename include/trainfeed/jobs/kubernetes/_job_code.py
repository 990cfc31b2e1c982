"""The code of a data set for the pods: in a ConfigMap, or as a copy below the publication root.

A ConfigMap can hold small code without subfolders; other code is copied once per digest, and the
copy becomes visible by one rename. A rank compares the digest of its code with the job file.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from trainfeed.errors import CodeChangedError, ConflictError
from trainfeed.paths import make_folders
from trainfeed.storage import posix
from trainfeed.usercode import digest_of_texts, training_texts

__all__ = ["JobCode"]

_MOST_BYTES: Final = 900 << 10


@dataclass(frozen=True)
class JobCode:
    """The Python files of a data set's folder.

    Attributes:
        files: Bytes of each file by relative POSIX path.
        digest: Digest of the folder, equal to that in the job file.
    """

    files: Mapping[str, bytes]
    digest: str

    @classmethod
    def read(cls, folder: Path, digest: str) -> JobCode:
        """Read the files of a folder.

        Raises:
            CodeChangedError: The folder's digest is not ``digest``.
            StorageError: A file cannot be read.
        """
        files = training_texts(folder)
        if (actual := digest_of_texts(files)) != digest:
            raise CodeChangedError(
                f"expected code with SHA-256 {digest} in {folder}, got {actual}: it changed during"
                " the launch; nothing was started; train again"
            )
        return cls(files, digest)

    def as_texts(self) -> dict[str, str] | None:
        """Return the files as texts for a ConfigMap, or None when a ConfigMap cannot hold them."""
        if any("/" in name for name in self.files):
            return None
        if sum(map(len, self.files.values())) > _MOST_BYTES:
            return None
        try:
            return {name: data.decode() for name, data in self.files.items()}
        except UnicodeDecodeError:
            return None

    def folder(self, dataset: str) -> str:
        """Return the folder of the copy, relative to the publication root."""
        return f"{dataset}/code/training-{self.digest}"

    def copy_to(self, root: Path, dataset: str) -> str:
        """Copy the files below the publication root, unless the copy exists.

        Returns:
            The folder of the copy, relative to ``root``.

        Raises:
            StorageError: The root refused or failed.
        """
        relative = self.folder(dataset)
        target = root / relative
        with posix.map_errors(target):
            if target.is_dir():
                return relative
            draft = target.with_name(f"{target.name}.{uuid4().hex}.tmp")
            try:
                for name, data in self.files.items():
                    make_folders((draft / name).parent)
                    posix.create_exclusive(draft / name, data, is_public=True)
                posix.rename_directory(draft, target)
            except ConflictError:
                pass  # another launch made the copy first: same digest, same files
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            posix.sync_dir(target.parent)
        return relative
