"""Repairs of a version in a bucket: its files are brought into its folder, mended there, and sent.

An object is overwritten only where its bytes are proven to be wrong, by bytes with the digest of
the manifest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainfeed.core import faults
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.files import UnfinishedFile, is_there, write_all
from trainfeed.files.stores import Location, posix
from trainfeed.upkeep.repair.damage import mode_of
from trainfeed.upkeep.repair.files import age_of, unchanged_age
from trainfeed.versions import Manifest
from trainfeed.versions.bucket_objects import BucketVersion, place_in_bucket
from trainfeed.versions.publication import compare_file, read_manifest_file

logger = logging.getLogger(__name__)

_BLOCK_BYTES = 4 << 20


@contextmanager
def brought_here(path: Path, *, changes: bool) -> Iterator[None]:
    """Have all files of a version in its folder for the block, and then send what was mended.

    Args:
        path: The folder of the version; nothing is done for one that follows no bucket.
        changes: Whether something is sent.

    Raises:
        ChecksumError: The bucket has another manifest than the folder.
        StorageError: The store, or the file system, refused or failed.
    """
    place = place_in_bucket(path)
    if place is None:
        yield
        return
    manifest, sha256 = Manifest.read(path)
    shards = manifest.file_digests().keys() - {entry.name for entry in manifest.files}
    with unchanged_age(path, age_of(path)):
        try:
            _require_manifest(place, path, sha256, changes=changes)
            for name, (_, digest) in manifest.file_digests().items():
                if name in shards or not is_there(path / name):
                    _bring(place.file(name, digest), path, name)
            faults.point("repair.after_bringing")
            yield
            if changes:
                _send(place, path, manifest)
        finally:
            for name in shards:
                with suppress(OSError):
                    (path / name).unlink()


def _require_manifest(place: BucketVersion, path: Path, sha256: str, *, changes: bool) -> None:
    """Mend a manifest that was overwritten in the bucket by the one of the folder."""
    with suppress(FormatError, NotFoundError):
        found = place.read()[1]
        if found == sha256:
            return
        raise ChecksumError(
            f"expected the manifest with SHA-256 {sha256} that {path} has, got {found}; nothing was"
            " changed; remove that folder, and it is copied anew",
            path=place.folder.uri,
        )
    logger.warning("%s: the manifest is damaged in the bucket", place.folder.uri)
    if changes:
        data, _ = read_manifest_file(path, what="version")
        place.replace_manifest(data, (path / "BUILT.json").read_text())


def _bring(source: Location, path: Path, name: str) -> None:
    """Copy an object as it is; a missing one stays missing."""
    with suppress(NotFoundError), source.open_read() as file:
        posix.make_public_dir((path / name).parent)
        with UnfinishedFile(path / name, mode=mode_of(name)) as new:
            while block := file.read(_BLOCK_BYTES):
                write_all(new.file, block)
            new.set_mode(mode_of(name))
            new.replace(is_folder_synced=False)


def _send(place: BucketVersion, path: Path, manifest: Manifest) -> None:
    """Overwrite the objects whose bytes are wrong, by files of the folder that are right."""
    for name, expected in manifest.file_digests().items():
        if is_there(path / name) and not list(compare_file(path / name, *expected)):
            place.send_file(path / name, name, *expected)
            faults.point("repair.after_sending")
    posix.sync_dir(path)
