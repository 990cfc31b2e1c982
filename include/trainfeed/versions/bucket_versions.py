"""Publishes versions in a bucket: files under their digests, and a manifest that is created last.

Which objects a version has: ``bucket_objects``. What is announced in the log of decisions before:
docs/authors/adr/0074-decisions-in-a-bucket.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from trainfeed.core import faults
from trainfeed.errors import (
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    UnsuitableStoreError,
)
from trainfeed.files import read_plain
from trainfeed.versions.bucket_objects import MOST_MANIFEST_BYTES, BucketVersion
from trainfeed.versions.layout import BUILT, MANIFEST
from trainfeed.versions.manifest import Manifest
from trainfeed.versions.publication import read_manifest_file

# Metadata of an object have at most 2 KiB together.
_MOST_BUILT_BYTES: Final = 1024


def publish_folder(
    version: BucketVersion, source: Path, announce: Callable[[], object]
) -> Literal["published", "known"]:
    """Publish the version of a folder at a place in a bucket: whole under its name, or absent.

    Every file is read back. What a killed call has sent is found by the next one.

    Args:
        version: The place.
        source: The folder: a published version, or a staged one.
        announce: Is called when all files are there, before the manifest is. It puts the name of
            the version into the log of decisions; what it raises ends the call.

    Returns:
        Whether this call published it, or it was there with the same content.

    Raises:
        ConflictError: Another version has the name; nothing was changed.
        ChecksumError: A file of the folder is not the one of its manifest; or the store gives back
            other bytes than it was given. Nothing was published.
        CommitUnknownError: The store did not say whether the version is there.
        UnsuitableStoreError: The manifest is too large for one request.
        StorageError: The store refused or failed; the version is absent.
    """
    manifest, sha256 = Manifest.read(source)
    data, _ = read_manifest_file(source, what="version")
    if len(data) > MOST_MANIFEST_BYTES:
        raise UnsuitableStoreError(
            f"{source / MANIFEST}: expected at most {MOST_MANIFEST_BYTES} bytes, which are one"
            f" request, got {len(data)}; nothing was published; shorten the interval of the set"
        )
    if _is_there(version, sha256):
        return "known"
    for _ in version.send(source, manifest):
        faults.point("bucket.after_file")
    faults.point("bucket.before_manifest")
    announce()
    faults.point("bucket.announced")
    is_ours = version.create(data, _built(source))
    faults.point("bucket.after_manifest")
    if not _is_there(version, sha256):
        raise CommitUnknownError(
            f"{(version.folder / MANIFEST).uri}: the manifest was created, and is not there;"
            " another program may have removed it; run the same again: it first looks whether the"
            " version is there"
        )
    return "published" if is_ours else "known"


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


def _built(folder: Path) -> str:
    """Return the content of ``BUILT.json`` as text for metadata; empty JSON if it is not there."""
    try:
        data = read_plain(folder / BUILT, follow=False, max_bytes=_MOST_BUILT_BYTES)
        return json.dumps(json.loads(data), separators=(",", ":"))
    except (NotFoundError, FormatError, ValueError):
        return "{}"
