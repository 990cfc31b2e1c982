"""The folder that a transfer reads, and what is known about its content before the copy."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from trainfeed.errors import (
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    StorageError,
)
from trainfeed.storage._location import Location
from trainfeed.storage.folders._file_copy import digested
from trainfeed.storage.folders._folder_manifest import (
    TRANSFER_MANIFEST,
    FolderFile,
    FolderManifest,
)
from trainfeed.storage.folders._folder_tree import FolderTree, folder_tree
from trainfeed.storage.folders._patience import Patience
from trainfeed.storage.folders._verification import read_manifest, require_listed

__all__ = ["Source", "described", "stored"]

logger = logging.getLogger(__name__)

# End of the name under which ``hadoop fs -put`` writes a file.
_COPYING: Final = "._COPYING_"


@dataclass(frozen=True)
class Source:
    """A folder before its copy.

    Attributes:
        place: The folder.
        tree: Its listing.
        manifest: Its manifest; None for a folder that another program has put there.
        is_published: Whether the manifest was read from the folder, so that it shows whether the
            folder is still the same.
        checksums: The store's checksum of each file, as far as it has them.
    """

    place: Location
    tree: FolderTree
    manifest: FolderManifest | None
    is_published: bool = False
    checksums: dict[str, str | None] = field(default_factory=dict)

    def is_same(self, patience: Patience) -> bool:
        """Return whether the folder still has the content that it had before the copy.

        Raises:
            StorageError: The store refused or failed.
        """
        try:
            if self.is_published:
                return read_manifest(self.place, patience) == self.manifest
            return self._is_listed_equal(patience)
        except (FormatError, NotFoundError):
            return False

    def require_same(self, patience: Patience) -> None:
        """Look once more at a folder without a manifest of its own, after its copy.

        Raises:
            FileReplacedError: A file was added, removed or changed meanwhile.
        """
        if not self.is_published and not self.is_same(patience):
            raise FileReplacedError(
                f"{self.place.uri}: the folder changed while it was copied; nothing was kept; copy"
                " it again when its writer has ended"
            )

    def _is_listed_equal(self, patience: Patience) -> bool:
        now = patience.call(lambda: folder_tree(self.place))
        return _facts(now) == _facts(self.tree) and self.checksums == {
            name: _checksum(self.place / name, patience) for name in self.checksums
        }


def described(place: Location, patience: Patience) -> Source:
    """Return a folder of this machine, with a manifest that is computed from its files.

    Raises:
        FormatError: There is a link, a special file, or a file ``TRANSFER.json`` that is none.
        ConflictError: There is a ``TRANSFER.json`` of another content.
        TrainFeedError: The other errors of ``folder_tree``.
    """
    known = read_manifest(place, patience)
    tree = patience.call(lambda: folder_tree(place))
    files = [FolderFile(name, *digested(place / name)) for name in tree.files]
    manifest = FolderManifest.of(files, tree.folders)
    if known not in (None, manifest):
        raise ConflictError(
            f"{place.uri}: expected no {TRANSFER_MANIFEST}, or that of its files, got another one;"
            " nothing was copied; remove it if the files were changed on purpose"
        )
    return Source(place, tree, manifest)


def stored(place: Location, patience: Patience) -> Source:
    """Return a folder of a store, with its manifest if it has one.

    Raises:
        NotFoundError: The folder is not there.
        FormatError: The manifest is damaged, or the listing differs from it: the folder is partial.
        StorageError: A writer is still at work in a folder without manifest; or the store refused
            or failed.
    """
    manifest = read_manifest(place, patience)
    tree = patience.call(lambda: folder_tree(place))
    if manifest is not None:
        require_listed(place, tree, manifest)
        return Source(place, tree, manifest, is_published=True)
    for name in tree.files:
        _require_closed(place / name, patience)
    logger.warning(
        "%s has no %s: its files have the sizes that the store says, and no more is known",
        place.uri,
        TRANSFER_MANIFEST,
    )
    checksums = {name: _checksum(place / name, patience) for name in tree.files}
    return Source(place, tree, None, checksums=checksums)


def _require_closed(file: Location, patience: Patience) -> None:
    if file.name.endswith(_COPYING) or patience.call(file.is_open):
        raise StorageError(
            f"{file.uri}: a writer is still at work on this file; nothing was copied; copy the"
            " folder when the writer has ended"
        )


def _checksum(file: Location, patience: Patience) -> str | None:
    return patience.call(file.checksum)


def _facts(tree: FolderTree) -> dict[str, tuple[int, int, int | None]]:
    return {
        name: (info.size_bytes, info.modified_ms, info.file_id) for name, info in tree.files.items()
    }
