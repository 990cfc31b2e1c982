"""Compares a folder of any store with its manifest."""

from __future__ import annotations

from functools import partial

from trainfeed import canonical_json
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.storage._location import Location
from trainfeed.storage.folders._file_copy import digested, require_equal
from trainfeed.storage.folders._folder_manifest import TRANSFER_MANIFEST, FolderManifest
from trainfeed.storage.folders._folder_tree import FolderTree, folder_tree
from trainfeed.storage.folders._patience import Patience

__all__ = ["read_manifest", "require_listed", "verify"]


def read_manifest(folder: Location, patience: Patience | None = None) -> FolderManifest | None:
    """Return the manifest of a folder, or None if the folder is there without one.

    Raises:
        NotFoundError: The folder is not there, or is a file.
        FormatError: The manifest is damaged.
        StorageError: The store refused or failed.
    """
    return (patience or Patience()).call(lambda: _read(folder))


def verify(folder: Location, manifest: FolderManifest, patience: Patience | None = None) -> None:
    """Compare a folder with its manifest: exact listing, sizes, SHA-256 of every file.

    Raises:
        NotFoundError: The folder is not there.
        ChecksumError: A file differs in size or digest.
        FormatError: A file is missing, is not in the manifest, or is a link.
        StorageError: The store refused or failed.
    """
    patience = patience or Patience()
    require_listed(folder, patience.call(lambda: folder_tree(folder)), manifest)
    for file in manifest.files:
        place = folder / file.name
        require_equal(place, patience.call(partial(digested, place)), file)


def require_listed(folder: Location, tree: FolderTree, manifest: FolderManifest) -> None:
    """Compare a listing with a manifest.

    Raises:
        FormatError: A file is missing, has another size, or is not in the manifest.
    """
    found, expected = tree.sizes, manifest.sizes
    if missing := sorted(expected.keys() - found.keys()):
        raise FormatError(
            f"expected the {len(expected)} files of {TRANSFER_MANIFEST}, {len(missing)} are"
            f" missing, such as {missing[0]!r}",
            path=folder.uri,
        )
    if added := sorted(found.keys() - expected.keys()):
        raise FormatError(f"file {added[0]!r} is not in {TRANSFER_MANIFEST}", path=folder.uri)
    for name, size in expected.items():
        if found[name] != size:
            raise FormatError(f"expected {size} bytes, got {found[name]}", path=(folder / name).uri)


def _read(folder: Location) -> FolderManifest | None:
    place = folder / TRANSFER_MANIFEST
    try:
        data = place.read_bytes(max_bytes=canonical_json.MAX_BYTES)
    except NotFoundError:
        if folder.stat().is_dir:
            return None
        raise NotFoundError(f"{folder.uri}: expected a folder, got a file") from None
    return FolderManifest.from_bytes(data, path=place.uri)
