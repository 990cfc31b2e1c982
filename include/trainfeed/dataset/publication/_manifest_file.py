"""The two manifest files of a published folder, equal for versions of data sets and of models.

``MANIFEST.json`` is canonical JSON with the digests of all other files; ``MANIFEST.sha256`` holds
the digest of ``MANIFEST.json``. So a change of any byte in the folder is found.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from trainfeed import canonical_json
from trainfeed.dataset._intact import Problem, compare_files, list_files
from trainfeed.dataset.layout import MANIFEST, MANIFEST_DIGEST
from trainfeed.dataset.publication._staging import StagedFile
from trainfeed.errors import ChecksumError, FormatError, NotFoundError, StorageError
from trainfeed.paths import read_plain
from trainfeed.storage.posix import map_errors

__all__ = ["folder_problems", "read_manifest_file", "write_manifest_file"]

_SHA256: Final = re.compile(rb"[0-9a-f]{64}")
# 64 digits and a newline, with room for the blanks of an editor.
_DIGEST_BYTES: Final = 256
_MODE: Final = 0o444


def write_manifest_file(staged: Path, manifest: bytes) -> None:
    """Write ``MANIFEST.json`` and ``MANIFEST.sha256`` into a staged folder.

    Raises:
        StorageError: The file system refused or failed.
    """
    with StagedFile(staged, MANIFEST, mode=_MODE) as file:
        file.write(manifest)
    with StagedFile(staged, MANIFEST_DIGEST, mode=_MODE) as digest:
        digest.write(f"{file.sha256}\n".encode())


def read_manifest_file(folder: Path, *, what: str) -> tuple[bytes, str]:
    """Return the bytes of a published folder's manifest, and their verified SHA-256 in hex.

    Args:
        folder: The published folder.
        what: Kind of the folder for messages, such as "version" or "model".

    Raises:
        NotFoundError: A manifest file is missing.
        ChecksumError: The manifest was changed after its publication.
        FormatError: ``MANIFEST.sha256`` holds no digest.
        StorageError: The file system refused or failed.
    """
    path = folder / MANIFEST
    try:
        data = read_plain(path, follow=False, max_bytes=canonical_json.MAX_BYTES)
        promised = _read_digest(folder / MANIFEST_DIGEST)
    except NotFoundError as error:
        raise NotFoundError(f"{folder} is not a {what}: {error}") from error
    actual = hashlib.sha256(data).hexdigest()
    if actual != promised:
        raise ChecksumError(
            f"expected a manifest with SHA-256 {promised}, got {actual}", path=str(path)
        )
    return data, actual


def folder_problems(
    folder: Path, expected: Mapping[str, tuple[int, str]], own: Collection[str]
) -> Iterator[Problem]:
    """Yield every difference between a published folder and its manifest.

    Args:
        folder: The published folder.
        expected: Relative path of each file → (number of bytes, SHA-256 in hex).
        own: Files that the manifest does not list: the manifest files themselves.
    """
    try:
        with map_errors(folder):
            present = set(list_files(folder))
    except StorageError as error:
        yield error
        return
    for name in sorted(expected.keys() - present):
        yield FormatError(f"file {name!r} of the manifest is missing", path=str(folder))
    for name in sorted(present - expected.keys() - set(own)):
        yield FormatError(f"file {name!r} is not in the manifest", path=str(folder))
    names = sorted(expected.keys() & present)
    yield from compare_files([(folder / name, *expected[name]) for name in names])


def _read_digest(path: Path) -> str:
    digest = read_plain(path, follow=False, max_bytes=_DIGEST_BYTES).strip()
    if not _SHA256.fullmatch(digest):
        raise FormatError(f"expected 64 hex digits, got {digest[:80]!r}", path=str(path))
    return digest.decode()
