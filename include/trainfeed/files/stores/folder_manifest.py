"""``TRANSFER.json`` and the files of a folder: listed, copied and verified in any store."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final

from trainfeed.core import canonical_json
from trainfeed.core.patience import Patience
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files import listed, open_plain, os_errors, write_all
from trainfeed.files.stores.file_system import FileInfo
from trainfeed.files.stores.location import Location

# --- The rule for names of files inside a folder that travels: relative, plain, and not too long

_MOST_CHARS: Final = 200
_MOST_FOLDERS: Final = 16


def check_inner_name(name: str) -> str:
    """Return ``name`` if it is a relative POSIX path of a file or folder below another folder.

    Raises:
        ValueError: The path is absolute or empty, has ``.`` or ``..``, is too long or too deep, or
            is not printable.
    """
    parts = PurePosixPath(name).parts
    is_plain = PurePosixPath(name).as_posix() == name and not name.startswith("/")
    is_plain = is_plain and name not in {"", "."} and ".." not in parts
    if not is_plain or not name.isprintable() or len(parts) > _MOST_FOLDERS:
        raise ValueError(f"expected a relative path of a file, got {name[:_MOST_CHARS]!r}")
    if any(len(part.encode()) > _MOST_CHARS for part in parts):
        raise ValueError(f"expected names of at most {_MOST_CHARS} bytes, got {name[:80]!r}")
    return name


# --- ``TRANSFER.json``: the files of a transferred folder, with their sizes and SHA-256

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


# --- The files below a folder of any store; links and special files are refused


@dataclass(frozen=True)
class FolderTree:
    """The content of a folder at the time of the listing.

    Attributes:
        files: Relative name → facts of each file, without the manifest of the folder.
        folders: Names of the folders in which there is nothing.
    """

    files: dict[str, FileInfo]
    folders: tuple[str, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """Name of each file → its size."""
        return {name: info.size_bytes for name, info in self.files.items()}


def is_local(location: Location) -> bool:
    """Return whether the location is a path of this machine."""
    return location.fs.scheme in {"file", "pfs"}


def folder_tree(folder: Location) -> FolderTree:
    """List a folder with everything below it.

    Raises:
        NotFoundError: The folder is not there, or is a file.
        ConfigError: There is no file in it.
        FormatError: An entry is a link, a pipe or another special file.
        UnsuitableStoreError: The name of an entry is not allowed in a transfer.
        StorageError: The store refused or failed.
    """
    if not folder.stat().is_dir:
        raise NotFoundError(f"{folder.uri}: expected a folder, got a file")
    files: dict[str, FileInfo] = {}
    folders: list[str] = []
    _collect(folder, "", files, folders)
    files.pop(TRANSFER_MANIFEST, None)
    if not files:
        raise ConfigError(
            f"expected files in {folder.uri}, found none; nothing was copied; name the folder that"
            " holds the files"
        )
    return FolderTree(files, tuple(folders))


def _collect(folder: Location, above: str, files: dict[str, FileInfo], folders: list[str]) -> None:
    found = False
    for info in _entries(folder):
        found = True
        name = f"{above}{info.name}"
        try:
            check_inner_name(name)
        except ValueError as error:
            raise UnsuitableStoreError(
                f"{folder.uri}: {error}; nothing was copied; rename it"
            ) from error
        if info.is_dir:
            if name == TRANSFER_MANIFEST:
                raise FormatError("expected a file or nothing, got a folder", path=info.path)
            _collect(folder / info.name, f"{name}/", files, folders)
        else:
            files[name] = info
    if not found and above:
        folders.append(above.removesuffix("/"))


def _entries(folder: Location) -> Iterator[FileInfo]:
    if not is_local(folder):
        yield from folder.list()
        return
    # Not ``list``, which follows links, and leaves out those without a target.
    for path in listed(folder.path):
        yield _local_entry(path)


def _local_entry(path: Path) -> FileInfo:
    with os_errors(path):
        found = path.lstat()
    is_dir = stat.S_ISDIR(found.st_mode)
    if not is_dir and not stat.S_ISREG(found.st_mode):
        raise FormatError(
            "expected files and folders only, got a link or a special file; nothing was copied;"
            " remove it, or copy the file that it points to into its place",
            path=str(path),
        )
    size_bytes = 0 if is_dir else found.st_size
    return FileInfo(path.name, str(path), size_bytes, found.st_mtime_ns // 10**6, is_dir=is_dir)


# --- Copies of single files, block by block, with a digest of what was read and of what arrived

_BLOCK_BYTES: Final = 4 << 20


def copy_file(
    source: Location, target: Location, expected: FolderFile | None, patience: Patience
) -> tuple[int, str]:
    """Copy a file to a free name, and read the copy back.

    Memory: two blocks of 4 MiB, whatever the size.

    Args:
        source: The file.
        target: The name of the copy, inside a temporary folder of this transfer; what has the name
            when a call is repeated is deleted.
        expected: Size and digest that the file must have; None if they are not known.
        patience: How often the copy is tried.

    Returns:
        Number of bytes, and their SHA-256 in hex.

    Raises:
        ChecksumError: The source is not ``expected``.
        StorageError: A store refused or failed, or gave back other bytes than it was given.
    """
    is_again = False

    def attempt() -> tuple[int, str]:
        nonlocal is_again
        if is_again:
            target.delete()
        is_again = True
        written = _copied(source, target)
        if expected is not None:
            require_equal(source, written, expected)
        if (found := digested(target)) != written:
            raise StorageError(
                f"{target.uri}: expected {_shown(written)} to be read back, got {_shown(found)};"
                " copy the folder again"
            )
        return written

    return patience.call(attempt)


def digested(file: Location) -> tuple[int, str]:
    """Return size and SHA-256 of a file, which is read from its store.

    Raises:
        NotFoundError: The file is not there.
        FormatError: The file is a link or a special file.
        StorageError: The store refused or failed.
    """
    digest, num_bytes = hashlib.sha256(), 0
    with _opened(file) as read:
        while block := read.read(_BLOCK_BYTES):
            digest.update(block)
            num_bytes += len(block)
    return num_bytes, digest.hexdigest()


def require_equal(file: Location, found: tuple[int, str], expected: FolderFile) -> None:
    """Compare size and digest of a file with those of a manifest.

    Raises:
        ChecksumError: They differ.
    """
    wanted = (expected.num_bytes, expected.sha256)
    if found != wanted:
        raise ChecksumError(f"expected {_shown(wanted)}, got {_shown(found)}", path=file.uri)


def _copied(source: Location, target: Location) -> tuple[int, str]:
    with _opened(source) as read:
        write = target.open_write()
        try:
            found = _pumped(read, write)
        except BaseException:
            # Closing may fail as well; the first error says more.
            with suppress(StorageError):
                write.close()
            raise
        write.close()
    return found


def _pumped(read: BinaryIO, write: BinaryIO) -> tuple[int, str]:
    digest, num_bytes = hashlib.sha256(), 0
    while block := read.read(_BLOCK_BYTES):
        digest.update(block)
        num_bytes += len(block)
        write_all(write, block)
    return num_bytes, digest.hexdigest()


@contextmanager
def _opened(file: Location) -> Iterator[BinaryIO]:
    if is_local(file):
        # A file that was replaced by a link after the listing is refused.
        with open_plain(file.path, follow=False) as local:
            yield local
    else:
        with file.open_read() as remote:
            yield remote


def _shown(found: tuple[int, str]) -> str:
    return f"{found[0]} bytes with SHA-256 {found[1]}"


# --- Compares a folder of any store with its manifest


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
