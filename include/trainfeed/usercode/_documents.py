"""The documents of a data set: files of its folder that every version gets, as they are.

A version stays readable for years and is mounted where the data set's folder is not. A licence, the
origin of the data and a list of words therefore belong into the version itself; their digests enter
the fingerprint, so another licence gives another version.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from typing import Final

from trainfeed.errors import CodeChangedError, ConfigError, NotFoundError
from trainfeed.paths import read_plain
from trainfeed.specification import DatasetSpec

__all__ = ["document_digests", "read_document"]

_MAX_BYTES: Final = 16 << 20


def document_digests(spec: DatasetSpec) -> dict[str, str]:
    """Return name → SHA-256 of every document; the name is the last part of its path.

    Raises:
        ConfigError: A file is missing.
        FormatError: A path is that of something else than a plain file, or the file is larger than
            16 MiB.
        StorageError: A file cannot be read.
    """
    paths = {PurePosixPath(path).name: spec.folder / path for path in spec.documents}
    return {
        name: hashlib.sha256(_read(spec, name, paths[name])).hexdigest() for name in sorted(paths)
    }


def read_document(spec: DatasetSpec, name: str, planned: str) -> bytes:
    """Return a document.

    Args:
        spec: The data set.
        name: Last part of its path.
        planned: Digest of the plan.

    Raises:
        CodeChangedError: The file is not the one of the plan.
        ConfigError: The file is missing.
        FormatError: The path is that of something else than a plain file.
        StorageError: The file cannot be read.
    """
    paths = {PurePosixPath(path).name: spec.folder / path for path in spec.documents}
    data = _read(spec, name, paths[name]) if name in paths else b""
    if name not in paths or hashlib.sha256(data).hexdigest() != planned:
        raise CodeChangedError(
            f"document {name!r} of data set {spec.name!r} changed since the plan was made; nothing"
            " was published; run the build again"
        )
    return data


def _read(spec: DatasetSpec, name: str, path: Path) -> bytes:
    try:
        return read_plain(path, follow=True, max_bytes=_MAX_BYTES)
    except NotFoundError as error:
        raise ConfigError(
            f"document {name!r} of data set {spec.name!r} is missing: {path}; nothing was"
            " published; put the file there, or take it out of 'documents' in dataset.yaml"
        ) from error
