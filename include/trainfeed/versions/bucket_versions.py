"""Versions in a bucket: files under their digests, and a manifest that is created last.

``<root>/<data set>/versions/<interval>/gNNNN/MANIFEST.json`` is a version, if it is there; its
bytes are those of the same version in a folder. A file is ``+files/<SHA-256>/<name>`` beside it.
The metadata of the manifest have its SHA-256, and the content of ``BUILT.json``. No listing is
asked what belongs to a version. docs/authors/adr/0071-versions-without-a-rename.md has the reasons.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

from trainfeed.core import faults
from trainfeed.core.datacenters import local_source
from trainfeed.errors import (
    ChecksumError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    StorageError,
    UnsuitableStoreError,
    WithdrawnError,
)
from trainfeed.files import FilePath, open_plain, read_plain, write_all
from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_manifest import digested
from trainfeed.versions.bucket_root import bucket_of, require_bucket_root
from trainfeed.versions.layout import MANIFEST, DatasetFolder, check_name, generation_name
from trainfeed.versions.manifest import Manifest
from trainfeed.versions.publication import read_manifest_file
from trainfeed.versions.version import BUILT
from trainfeed.versions.withdraw import withdrawal_of

# Begins with what no name of a file or a data set begins with.
_FILES: Final = "+files"
# A manifest is one request: parts carry no condition.
MOST_MANIFEST_BYTES: Final = 8 << 20
_SHA256: Final = "sha256"
_BUILT: Final = "built"
# Metadata of an object have at most 2 KiB together.
_MOST_BUILT_BYTES: Final = 1024
_BLOCK_BYTES: Final = 1 << 20


class BucketVersion(NamedTuple):
    """The place of a version in a bucket; nothing is read or made.

    Attributes:
        folder: Where its objects are.
    """

    folder: Location

    @classmethod
    def at(cls, root: Location, dataset: str, interval: str, generation: int) -> BucketVersion:
        """Return the place of a version below a root.

        Raises:
            ConfigError: A name is none, or the root is not in a bucket.
        """
        bucket_of(root)
        path = f"{check_name(dataset)}/versions/{check_name(interval)}"
        return cls(root / path / generation_name(generation))

    def file(self, name: str, sha256: str) -> Location:
        """Return the place of a file that the manifest lists."""
        return self.folder / _FILES / sha256 / name

    def promised(self) -> str:
        """Return the SHA-256 of the manifest in hex, as its metadata have it.

        Raises:
            NotFoundError: The version is not there.
            ChecksumError: Nobody published it in the bucket; it was copied, or overwritten.
            StorageError: The store refused or failed.
        """
        place = self.folder / MANIFEST
        found = bucket_of(place).attributes(place.path).get(_SHA256)
        if found is None:
            raise ChecksumError(
                "expected a manifest with its digest in the metadata, got one without; files were"
                " copied here, and no version was published",
                path=place.uri,
            )
        return found

    def read(self) -> tuple[Manifest, str]:
        """Read the manifest, and compare it with the digest in its metadata.

        Returns:
            The manifest and its SHA-256 in hex.

        Raises:
            NotFoundError: The version is not there.
            ChecksumError: The manifest is not the one that was published.
            FormatError: The object is no manifest, or that of another version.
            StorageError: The store refused or failed.
        """
        place = self.folder / MANIFEST
        promised = self.promised()
        data = place.read_bytes(max_bytes=MOST_MANIFEST_BYTES)
        actual = hashlib.sha256(data).hexdigest()
        if actual != promised:
            raise ChecksumError(
                f"expected a manifest with SHA-256 {promised}, got {actual}", path=place.uri
            )
        manifest = Manifest.from_bytes(data, path=place.uri)
        found = f"{manifest.dataset}/{generation_name(manifest.generation)}"
        if found != f"{self.folder.parent.parent.parent.name}/{self.folder.name}":
            raise FormatError(f"expected the manifest of this version, got {found}", path=place.uri)
        return manifest, actual

    def built(self) -> dict[str, Any]:
        """Return when, where and by whom the version was built; empty if nobody said."""
        place = self.folder / MANIFEST
        found: dict[str, Any] = json.loads(
            bucket_of(place).attributes(place.path).get(_BUILT, "{}")
        )
        return found

    def problems(self) -> Iterator[FormatError | StorageError]:
        """Read every file, and yield what differs from the manifest.

        Raises:
            NotFoundError: The version is not there.
        """
        manifest, _ = self.read()
        for name, (num_bytes, sha256) in manifest.file_digests().items():
            try:
                _require_equal(self.file(name, sha256), num_bytes, sha256)
            except (FormatError, StorageError) as error:
                yield error


def publish_into(root: Location, folder: FilePath) -> Literal["published", "known"]:
    """Publish a version of a folder in a bucket: whole under its name, or absent.

    Every file is read back. What a killed call has sent is found by the next one.

    Args:
        root: The root in the bucket.
        folder: The published version, ``<root>/<data set>/versions/<interval>/gNNNN`` on a file
            system of this machine.

    Returns:
        Whether this call published it, or it was there with the same content.

    Raises:
        ConfigError: The folder is none of a publication root; the root is not in a bucket.
        RootError: The root was not made one.
        WithdrawnError: The version is withdrawn; nothing was published.
        ConflictError: Another version has the name; nothing was changed.
        ChecksumError: A file of the folder is not the one of its manifest; or the store gives back
            other bytes than it was given. Nothing was published.
        CommitUnknownError: The store did not say whether the version is there.
        UnsuitableStoreError: The manifest is too large for one request.
        StorageError: The store refused or failed; the version is absent.
    """
    require_bucket_root(root)
    source = Path(local_source(folder))
    manifest, sha256 = Manifest.read(source)
    data, _ = read_manifest_file(source, what="version")
    if len(data) > MOST_MANIFEST_BYTES:
        raise UnsuitableStoreError(
            f"{source / MANIFEST}: expected at most {MOST_MANIFEST_BYTES} bytes, which are one"
            f" request, got {len(data)}; nothing was published; shorten the interval of the set"
        )
    _require_wanted(source, manifest)
    version = BucketVersion.at(root, manifest.dataset, source.parent.name, manifest.generation)
    if _is_there(version, sha256):
        return "known"
    for name, (num_bytes, digest) in manifest.file_digests().items():
        _settle(source / name, version.file(name, digest), num_bytes, digest)
        faults.point("bucket.after_file")
    place = version.folder / MANIFEST
    faults.point("bucket.before_manifest")
    # Minutes may have passed since the first look.
    _require_wanted(source, manifest)
    metadata = {_SHA256: sha256, _BUILT: _built(source)}
    is_ours = bucket_of(place).create(place.path, data, metadata)
    faults.point("bucket.after_manifest")
    if not _is_there(version, sha256):
        raise CommitUnknownError(
            f"{place.uri}: the manifest was created, and is not there; another program may have"
            " removed it; run the same again: it first looks whether the version is there"
        )
    return "published" if is_ours else "known"


def _require_wanted(source: Path, manifest: Manifest) -> None:
    interval, dataset = source.parent, source.parent.parent.parent
    if interval.parent.name != "versions" or dataset.name != manifest.dataset:
        raise ConfigError(
            f"expected …/{manifest.dataset}/versions/<interval>/gNNNN, got {source}; nothing was"
            " published; name the version where its publication root has it"
        )
    folder = DatasetFolder(dataset.parent, dataset.name)
    mark = withdrawal_of(folder, interval.name, manifest.generation)
    if mark is not None:
        raise WithdrawnError(
            f"{mark.told}; nothing was published; if the version is right after all: trainfeed"
            f" restore {mark.name} --why WHY"
        )


def _is_there(version: BucketVersion, sha256: str) -> bool:
    try:
        manifest, found = version.read()
    except NotFoundError:
        return False
    if found != sha256:
        raise ConflictError(
            f"{version.folder.uri}: expected nothing, or the version with manifest {sha256[:12]},"
            f" got one with manifest {found[:12]} and fingerprint {manifest.fingerprint[:12]};"
            " nothing was changed; it was published from another plan: compare both"
        )
    return True


def _settle(source: Path, place: Location, num_bytes: int, sha256: str) -> None:
    """Bring a file into the bucket, unless it is there, and read it back."""
    try:
        if place.stat().size_bytes == num_bytes:
            _require_equal(place, num_bytes, sha256)
            return
    except (NotFoundError, ChecksumError):
        pass  # what has the name of these bytes, and is not these bytes, is replaced by them
    place.write_atomic(lambda file: _copy(source, file, num_bytes, sha256))
    _require_equal(place, num_bytes, sha256)


def _copy(source: Path, target: BinaryIO, num_bytes: int, sha256: str) -> None:
    digest, copied = hashlib.sha256(), 0
    with open_plain(source, follow=False) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            copied += len(block)
            write_all(target, block)
    _require(str(source), (copied, digest.hexdigest()), (num_bytes, sha256))


def _require_equal(place: Location, num_bytes: int, sha256: str) -> None:
    _require(place.uri, digested(place), (num_bytes, sha256))


def _require(path: str, found: tuple[int, str], expected: tuple[int, str]) -> None:
    if found != expected:
        shown = [
            f"{num_bytes} bytes with SHA-256 {sha256}" for num_bytes, sha256 in (expected, found)
        ]
        raise ChecksumError(f"expected {shown[0]}, got {shown[1]}", path=path)


def _built(folder: Path) -> str:
    """Return the content of ``BUILT.json`` as text for metadata; empty JSON if it is not there."""
    try:
        data = read_plain(folder / BUILT, follow=False, max_bytes=_MOST_BUILT_BYTES)
        return json.dumps(json.loads(data), separators=(",", ":"))
    except (NotFoundError, FormatError, ValueError):
        return "{}"
