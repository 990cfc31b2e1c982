"""Publication of a set of shards; its manifest is the announcement for readers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainfeed.conversion._journal import Journal, refuse_folder
from trainfeed.datacenters import local_target
from trainfeed.dataset.shards import ShardManifest
from trainfeed.paths import durable_file, manifest_name, sync_folder

__all__ = ["Staging", "finish_publication", "open_staging"]


class Staging:
    """A folder in which the shards of one conversion are written.

    Attributes:
        folder: The folder.
    """

    def __init__(self, output: Path, prefix: str, folder: Path) -> None:
        self.folder = folder
        self._journal = _journal(output, prefix)

    def publish(self, manifest: ShardManifest) -> None:
        """Make the shards visible; the staging folder is then gone.

        Raises:
            ConflictError: A folder has the name of a shard or of the manifest.
            StorageError: The file system refused. Either the old set is unchanged, or the new one
                is committed, and the next conversion, or ``finish_publication``, completes it.
        """
        self._journal.publish(self.folder, _ShardSet(manifest))


@contextmanager
def open_staging(output: Path, prefix: str) -> Iterator[Staging]:
    """Make a staging folder; see ``Journal.staging``.

    Raises:
        StorageError: The file system refused.
    """
    with _journal(output, prefix).staging() as folder:
        yield Staging(output, prefix, folder)


def finish_publication(output: str | os.PathLike[str], prefix: str) -> bool:
    """Complete the committed publication of an interrupted conversion; remove dead staging folders.

    This is safe at any time, also while other conversions run.

    Returns:
        Whether a publication was completed.

    Raises:
        StorageError: The file system refused.
    """
    return _journal(Path(local_target(output)).absolute(), prefix).finish()


@dataclass(frozen=True)
class _ShardSet:
    """The shards of a manifest; the manifest is the announcement. See ``Publication``."""

    manifest: ShardManifest

    @property
    def names(self) -> list[str]:
        return [shard.name for shard in self.manifest.shards]

    def owns(self, name: str) -> bool:
        return self.manifest.names(name) or self.manifest.is_foreign(name)

    def save(self, staging: Path) -> None:
        with durable_file(staging / self._manifest_name) as file:
            file.write(self.manifest.dump())

    def prepare(self, output: Path) -> None:
        refuse_folder(output / self._manifest_name)

    def withdraw(self, output: Path) -> None:
        (output / self._manifest_name).unlink(missing_ok=True)
        sync_folder(output)

    def announce(self, commit: Path, output: Path) -> None:
        (commit / self._manifest_name).replace(output / self._manifest_name)

    @property
    def _manifest_name(self) -> str:
        return manifest_name(self.manifest.prefix)


def _journal(output: Path, prefix: str) -> Journal:
    def load(commit: Path) -> _ShardSet | None:
        if not (commit / manifest_name(prefix)).exists():
            return None
        return _ShardSet(ShardManifest.load(commit, prefix))

    return Journal(output, prefix, load)
