"""``TRANSFER.json``: the files of a transferred folder, with their sizes and SHA-256.

The manifest is canonical JSON and a pure function of the files, so its own SHA-256 identifies the
content of the folder, on every store::

    {"files":[{"bytes":3,"name":"a/b.bin","sha256":"…"},…],"folders":["empty"],"format":1}

``folders`` lists the folders in which there is no file, and is left out if there are none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.errors import FormatError
from trainfeed.storage.folders._inner_names import check_inner_name

__all__ = ["TRANSFER_MANIFEST", "FolderFile", "FolderManifest"]

TRANSFER_MANIFEST: Final = "TRANSFER.json"

_FORMAT: Final = 1
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_KEYS: Final = ({"files", "format"}, {"files", "folders", "format"})


@dataclass(frozen=True)
class FolderFile:
    """A file of a folder.

    Attributes:
        name: Path relative to the folder, with ``/``.
        num_bytes: Size.
        sha256: SHA-256 of the content in hex.
    """

    name: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class FolderManifest:
    """The content of a folder.

    Attributes:
        files: The files, sorted by name.
        folders: Names of the folders in which there is no file, sorted.
    """

    files: tuple[FolderFile, ...]
    folders: tuple[str, ...] = ()

    @classmethod
    def of(cls, files: Iterable[FolderFile], folders: Iterable[str] = ()) -> FolderManifest:
        """Return the manifest of files in any order."""
        return cls(tuple(sorted(files, key=lambda file: file.name)), tuple(sorted(folders)))

    @property
    def num_bytes(self) -> int:
        """Sum of the sizes of all files."""
        return sum(file.num_bytes for file in self.files)

    @property
    def sizes(self) -> dict[str, int]:
        """Name of each file → its size."""
        return {file.name: file.num_bytes for file in self.files}

    @property
    def sha256(self) -> str:
        """SHA-256 of the manifest's bytes in hex; equal for equal contents."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        files = [
            {"name": file.name, "bytes": file.num_bytes, "sha256": file.sha256}
            for file in self.files
        ]
        folders = {"folders": list(self.folders)} if self.folders else {}
        return canonical_json.dumps({"format": _FORMAT, "files": files, **folders})

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str) -> FolderManifest:
        """Parse a manifest, trusting nothing.

        Raises:
            FormatError: The data are no manifest, name a path that leads out of the folder, or
                were written by a newer trainfeed.
        """
        value: Any = canonical_json.loads(data, path=path)
        try:
            manifest = _parsed(value)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"expected the manifest of a folder: {error}", path=path) from error
        if manifest.to_bytes() != data:
            raise FormatError("expected canonical JSON with sorted names, got another", path=path)
        return manifest


def _parsed(value: Any) -> FolderManifest:
    if value["format"] != _FORMAT:
        raise ValueError(f"format {_FORMAT}, got {value['format']!r}; a newer trainfeed wrote it")
    if set(value) not in _KEYS:
        raise ValueError(f"the keys {sorted(_KEYS[1])}, got {sorted(value)[:5]}")
    files = tuple(_file(each) for each in value["files"])
    folders = tuple(check_inner_name(_text(name)) for name in value.get("folders", ()))
    _check_tree([file.name for file in files], folders)
    return FolderManifest(files, folders)


def _file(value: Mapping[str, Any]) -> FolderFile:
    name, size, digest = _text(value["name"]), value["bytes"], _text(value["sha256"])
    if type(size) is not int or size < 0 or _SHA256.fullmatch(digest) is None:
        raise ValueError(f"a size and a SHA-256 of {name[:80]!r}, got {size!r} and {digest[:80]!r}")
    return FolderFile(check_inner_name(name), size, digest)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text, got {type(value).__name__}")
    return value


def _check_tree(files: Sequence[str], folders: Sequence[str]) -> None:
    """Refuse a tree in which a name stands twice, or a file is also a folder."""
    names = {*files, *folders}
    above = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    is_single = len(names) == len(files) + len(folders)
    if not files or not is_single or TRANSFER_MANIFEST in names | above:
        raise ValueError("at least one file, each name once, and not that of the manifest")
    if both := sorted(names & above):
        raise ValueError(f"a file or an empty folder, {both[0][:80]!r} is above another one")
