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
from trainfeed.core.datacenters import local_source
from trainfeed.errors import (
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    UnsuitableStoreError,
    WithdrawnError,
)
from trainfeed.files import FilePath, read_plain
from trainfeed.files.stores import Location
from trainfeed.versions.bucket_objects import MOST_MANIFEST_BYTES, BucketVersion
from trainfeed.versions.bucket_root import require_bucket_root
from trainfeed.versions.decision_log import DecisionLog, LogState
from trainfeed.versions.layout import BUILT, MANIFEST, DatasetFolder, generation_name
from trainfeed.versions.manifest import Manifest
from trainfeed.versions.publication import read_manifest_file
from trainfeed.versions.withdraw import withdrawal_of

# Metadata of an object have at most 2 KiB together.
_MOST_BUILT_BYTES: Final = 1024


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
    manifest, _ = Manifest.read(source)
    _require_wanted(source, manifest)
    interval, generation = source.parent.name, manifest.generation
    version = BucketVersion.at(root, manifest.dataset, interval, generation)
    log = DecisionLog(root / manifest.dataset)

    def announce() -> None:
        # Minutes may have passed since the first look.
        _require_wanted(source, manifest)
        name = f"{interval}/{generation_name(generation)}"
        state = log.newest()
        while name not in state.versions:
            _require_free(state, name)
            state = log.append(state, {}, "publish", [name]) or log.newest(state)

    return publish_folder(version, source, announce)


def publish_folder(
    version: BucketVersion, source: Path, announce: Callable[[], object]
) -> Literal["published", "known"]:
    """Publish the version of a folder at a place in a bucket.

    Args:
        version: The place.
        source: The folder: a published version, or a staged one.
        announce: Called when all files are there, before the manifest: whoever follows the log of
            decisions looks for it from then on. What it raises ends the call.

    Returns:
        Whether this call published it, or it was there with the same content.

    Raises:
        ConflictError, ChecksumError, CommitUnknownError, UnsuitableStoreError, StorageError: As of
            ``publish_into``.
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


def _require_free(state: LogState, name: str) -> None:
    """Refuse a version that was withdrawn or removed in the bucket."""
    for mark, error in ((f"{name}.withdrawn", WithdrawnError), (f"{name}.removed", ConflictError)):
        if f"versions/{mark}" in state.files:
            raise error(
                f"{state.dataset}/{name} has the mark {mark.rpartition('/')[2]} in the bucket;"
                " nothing was published; the decision there stands: look at it with trainfeed"
                f" history {state.dataset}"
            )


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


def _built(folder: Path) -> str:
    """Return the content of ``BUILT.json`` as text for metadata; empty JSON if it is not there."""
    try:
        data = read_plain(folder / BUILT, follow=False, max_bytes=_MOST_BUILT_BYTES)
        return json.dumps(json.loads(data), separators=(",", ":"))
    except (NotFoundError, FormatError, ValueError):
        return "{}"
