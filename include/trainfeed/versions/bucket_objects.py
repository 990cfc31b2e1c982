"""The objects of a version in a bucket: its files under their digests, and the manifest.

``<root>/<data set>/versions/<interval>/gNNNN/MANIFEST.json`` is a version, if it is there; its
bytes are those of the same version in a folder. A file is ``+files/<SHA-256>/<name>`` beside it.
The metadata of the manifest have its SHA-256, and the content of ``BUILT.json``. No listing is
asked what belongs to a version. docs/authors/adr/0071-versions-without-a-rename.md has the reasons.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from trainfeed.errors import ChecksumError, FormatError, NotFoundError, StorageError
from trainfeed.files import UnfinishedFile, open_plain, write_all
from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_manifest import digested
from trainfeed.versions.bucket_root import bucket_mark, bucket_of
from trainfeed.versions.layout import MANIFEST, check_name, generation_name, is_generation
from trainfeed.versions.manifest import Manifest

# Begins with what no name of a file or a data set begins with.
FILES: Final = "+files"
# A manifest is one request: parts carry no condition.
MOST_MANIFEST_BYTES: Final = 8 << 20
_SHA256: Final = "sha256"
_BUILT: Final = "built"
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
        return self.folder / FILES / sha256 / name

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

    def read_file(self, name: str, num_bytes: int, sha256: str) -> bytes:
        """Return the content of a small file that the manifest lists, compared with its digest.

        Raises:
            ChecksumError: It differs, twice.
            NotFoundError: It is not there.
            StorageError: The store refused or failed.
        """
        place = self.file(name, sha256)
        data = place.read_bytes(max_bytes=max(num_bytes, 1))
        if _digest(data) != (num_bytes, sha256):
            data = place.read_bytes(max_bytes=max(num_bytes, 1))
        _require(place.uri, _digest(data), (num_bytes, sha256))
        return data

    def fetch_file(self, name: str, num_bytes: int, sha256: str, target: Path) -> None:
        """Copy a file that the manifest lists, of any size: whole, or not at all.

        Raises:
            ChecksumError: It differs, twice.
            NotFoundError: It is not there.
            StorageError: The store, or the file system, refused or failed.
        """
        place, found = self.file(name, sha256), (0, "")
        with UnfinishedFile(target, mode=0o444) as new:
            for _ in range(2):
                digest = hashlib.sha256()
                new.file.seek(0)
                with place.open_read() as file:
                    while block := file.read(_BLOCK_BYTES):
                        digest.update(block)
                        write_all(new.file, block)
                found = new.file.tell(), digest.hexdigest()
                new.file.truncate()
                if found == (num_bytes, sha256):
                    new.replace(is_folder_synced=False)
                    return
        _require(place.uri, found, (num_bytes, sha256))

    def built(self) -> dict[str, Any]:
        """Return when, where and by whom the version was built; empty if nobody said."""
        place = self.folder / MANIFEST
        found: dict[str, Any] = json.loads(
            bucket_of(place).attributes(place.path).get(_BUILT, "{}")
        )
        return found

    def send(self, source: Path, manifest: Manifest) -> Iterator[str]:
        """Bring the files of a manifest into the bucket, those that are not there, and read each.

        Args:
            source: The folder with the files.
            manifest: Their manifest.

        Yields:
            The name of each file when it is there, whole.

        Raises:
            ChecksumError: A file of the folder is not the one of the manifest; or the store gives
                back other bytes than it was given.
            StorageError: The store, or the file system, refused or failed.
        """
        for name, (num_bytes, digest) in manifest.file_digests().items():
            self.send_file(source / name, name, num_bytes, digest)
            yield name

    def send_file(self, source: Path, name: str, num_bytes: int, sha256: str) -> None:
        """Bring one file into the bucket, unless it is there whole, and read it back.

        Raises:
            ChecksumError, StorageError: As of ``send``.
        """
        _settle(source, self.file(name, sha256), num_bytes, sha256)

    def create(self, data: bytes, built: str) -> bool:
        """Create the manifest, which makes the version appear; return whether this call did.

        Args:
            data: The manifest.
            built: When, where and by whom it was built: JSON of at most 1 KiB.

        Raises:
            CommitUnknownError: The store did not say whether the version is there.
            StorageError: The store refused or failed; it is absent.
        """
        place = self.folder / MANIFEST
        metadata = {_SHA256: hashlib.sha256(data).hexdigest(), _BUILT: built}
        return bucket_of(place).create(place.path, data, metadata)

    def replace_manifest(self, data: bytes, built: str) -> None:
        """Overwrite a manifest that is damaged by the one that was published.

        Raises:
            StorageError: The store refused or failed.
        """
        place = self.folder / MANIFEST
        metadata = {_SHA256: hashlib.sha256(data).hexdigest(), _BUILT: built}
        bucket_of(place).put(place.path, data, attributes=metadata)

    def delete(self) -> None:
        """Delete the version, its manifest first; what is gone already is passed over.

        Raises:
            StorageError: The store refused or failed; the next call goes on.
        """
        (self.folder / MANIFEST).delete()
        self.folder.delete(recursive=True)

    def published_at(self) -> datetime:
        """Return when the manifest was created, by the clock of the store.

        Raises:
            NotFoundError: The version is not there.
            StorageError: The store refused or failed.
        """
        found = (self.folder / MANIFEST).stat()
        return datetime.fromtimestamp(found.modified_ms / 1000, UTC)

    def problems(self, *names: str) -> Iterator[FormatError | StorageError]:
        """Read every file, or those of some names, and yield what differs from the manifest.

        Raises:
            NotFoundError: The version is not there.
        """
        manifest, _ = self.read()
        for name, (num_bytes, sha256) in manifest.file_digests().items():
            if names and name not in names:
                continue
            try:
                _require_equal(self.file(name, sha256), num_bytes, sha256)
            except (FormatError, StorageError) as error:
                yield error


def place_in_bucket(path: Path) -> BucketVersion | None:
    """Return the place in a bucket of a version whose folder follows it; None for any other folder.

    Args:
        path: The folder of the version.

    Raises:
        FormatError: The mark of the state folder is damaged.
    """
    above = path.absolute().parents
    if not is_generation(path.name) or len(above) < 4 or above[1].name != "versions":
        return None
    mark = bucket_mark(above[3])
    if mark is None:
        return None
    return BucketVersion(mark.place / path.absolute().relative_to(above[3]).as_posix())


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


def _digest(data: bytes) -> tuple[int, str]:
    return len(data), hashlib.sha256(data).hexdigest()


def _require(path: str, found: tuple[int, str], expected: tuple[int, str]) -> None:
    if found != expected:
        shown = [
            f"{num_bytes} bytes with SHA-256 {sha256}" for num_bytes, sha256 in (expected, found)
        ]
        raise ChecksumError(f"expected {shown[0]}, got {shown[1]}", path=path)
