"""The lease of an opened data set: retention removes none of its versions while it is open."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.layout import is_generation, is_name, parse_generation
from trainfeed.dataset.leases import USUAL, hold_versions
from trainfeed.errors import ConfigError
from trainfeed.readers._dataset import DatasetReader

__all__ = ["leased"]


def leased(reader: DatasetReader, lease: timedelta | bool) -> DatasetReader:
    """Give an opened data set a lease of its versions; return it.

    Args:
        reader: The data set.
        lease: How long the lease holds without a renewal, True for the usual hour; False changes
            nothing.

    Raises:
        AccessDeniedError: This account may not write leases.
        ConfigError: A version is in no publication root, or the length is out of range.
        NotFoundError: Retention has removed a version meanwhile.
        StorageError: The publication root refused or failed.
    """
    if lease is False:
        return reader
    length = lease if isinstance(lease, timedelta) else USUAL
    folder = _folder_of(reader.versions)
    versions = [_named(version) for version in reader.versions]
    what = f"open_dataset, split {reader.split}"
    reader.lease = hold_versions(folder, versions, what, length=length)
    return reader


def _named(version: Version) -> tuple[str, int]:
    path = version.path.absolute()
    return path.parent.name, parse_generation(path.name)


def _folder_of(versions: Sequence[Version]) -> DatasetFolder:
    """Return the data set with these versions, from the places of their folders.

    Raises:
        ConfigError: A folder has another place than those of versions below a publication root.
    """
    folders = {_folder(version.path.absolute()) for version in versions}
    if len(folders) > 1:
        raise ConfigError("expected versions of one data set for a lease; lease each by itself")
    return folders.pop()


def _folder(path: Path) -> DatasetFolder:
    home = path.parents[2] if len(path.parents) > 3 else path
    if not (is_generation(path.name) and path.parents[1].name == "versions" and is_name(home.name)):
        raise ConfigError(
            f"expected the path of a version below a publication root for a lease, got {path};"
            " nothing was leased; open it without a lease, for retention removes nothing there"
        )
    return DatasetFolder(home.parent, home.name)
