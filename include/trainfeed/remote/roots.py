"""Publication roots at a store: their small files are copied, their shards come through a cache.

The copies have the shape of a root, so all that finds, orders and opens versions works on them as
on a root that is mounted. Decisions of people are copied at every opening, under a lock;
manifests, which never change, are copied once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, cast

from trainfeed.core import canonical_json
from trainfeed.core.config import cache_place
from trainfeed.core.intervals import parse_range
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    RootError,
    WindowError,
)
from trainfeed.files import UnfinishedFile, make_folders, os_errors
from trainfeed.files.stores import FileSystem, Location
from trainfeed.files.stores.https import HttpsFiles
from trainfeed.files.stores.s3 import S3FileSystem
from trainfeed.remote.cache import cache_at
from trainfeed.remote.index import (
    INDEX,
    INDEXES,
    MAX_INDEX_BYTES,
    SMALL_FILES,
    is_decision,
    require_listed,
)
from trainfeed.remote.shards import CachePlace, RemoteShards
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.chunk_index import Chunk, ChunkTable
from trainfeed.versions.decision_log import STATES, DecisionLog, LogState
from trainfeed.versions.layout import (
    MANIFEST,
    MANIFEST_DIGEST,
    DatasetFolder,
    generation_name,
    is_generation,
    parse_generation,
)
from trainfeed.versions.manifest import Manifest
from trainfeed.versions.version import Version

_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?")
_COPIES: Final = "roots"
_LOCK: Final = "lock"
_FOLDER_MODE: Final = 0o700
# Intervals of a range that are looked up at once.
_NUM_LOOKS: Final = 16


# --- The names and small files of a root: listed by its store, or by its index


class RootFiles(Protocol):
    """The small files of a root; paths are relative to it."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file; None if there is none."""

    def read_listed(self, path: str, sha256: str) -> bytes | None:
        """Return the content of a file that a manifest lists with its digest; None likewise."""


@dataclass(frozen=True)
class ListedFiles:
    """A root at a store that lists folders."""

    root: Location

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; see ``RootFiles``."""
        try:
            return [entry.name for entry in (self.root / folder).list()]
        except NotFoundError:
            return []

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file; see ``RootFiles``."""
        try:
            return (self.root / path).read_bytes(max_bytes=canonical_json.MAX_BYTES)
        except NotFoundError:
            return None

    def read_listed(self, path: str, sha256: str) -> bytes | None:  # noqa: ARG002
        """Return the content of a listed file; see ``RootFiles``."""
        return self.read(path)


class BucketFiles:
    """A root in a bucket: decisions are in the log of a data set, which announces versions, too.

    Args:
        root: The root.
        copies: The folder of the copies; the end of a log is kept there.
    """

    def __init__(self, root: Location, copies: Path) -> None:
        self._root = root
        self._copies = copies
        self._states: dict[str, LogState] = {}

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; see ``RootFiles``."""
        dataset, _, below = folder.partition("/")
        state = self._state(dataset)
        paths = [*state.files, *(f"versions/{name}" for name in state.versions)]
        inside = (path.removeprefix(f"{below}/") for path in paths if path.startswith(f"{below}/"))
        return sorted({path.partition("/")[0] for path in inside})

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file; the digest of a manifest is in its metadata."""
        folder, _, name = path.rpartition("/")
        try:
            if name == MANIFEST_DIGEST:
                return f"{BucketVersion(self._root / folder).promised()}\n".encode()
            if name == MANIFEST:
                return (self._root / path).read_bytes(max_bytes=canonical_json.MAX_BYTES)
        except NotFoundError:
            return None
        dataset, _, below = path.partition("/")
        text = self._state(dataset).files.get(below)
        return None if text is None else text.encode()

    def read_listed(self, path: str, sha256: str) -> bytes | None:
        """Return the content of a listed file, which is under its digest; see ``RootFiles``."""
        folder, _, name = path.rpartition("/")
        place = BucketVersion(self._root / folder).file(name, sha256)
        try:
            return place.read_bytes(max_bytes=canonical_json.MAX_BYTES)
        except NotFoundError:
            return None

    def _state(self, dataset: str) -> LogState:
        if dataset not in self._states:
            copy = self._copies / f".{dataset}.decisions.json"
            known = None
            with suppress(FormatError):  # a copy that was damaged is read anew
                known = STATES.read(copy, dataset=dataset)
            found = DecisionLog(self._root / dataset).newest(known)
            if found != known:
                _write(copy, STATES.dumps(found))
            self._states[dataset] = found
        return self._states[dataset]


class IndexedFiles:
    """A root with an index, at a store that lists nothing.

    Args:
        root: The root.

    Raises:
        RootError: There is no index.
        FormatError: It is damaged.
        StorageError: The store refused or failed.
    """

    def __init__(self, root: Location) -> None:
        self._root = root
        place = root / INDEX
        try:
            data = place.read_bytes(max_bytes=MAX_INDEX_BYTES)
        except NotFoundError as error:
            raise RootError(
                f"expected a publication root with {INDEX} at {root.uri}, got: {error}; nothing was"
                " read; write it where the root is mounted: trainfeed index ROOT"
            ) from error
        self._entries = INDEXES.parse(data, place.uri).files
        folders = defaultdict[str, set[str]](set)
        for path in self._entries:
            parts = path.split("/")
            for depth, name in enumerate(parts):
                folders["/".join(parts[:depth])].add(name)
        self._names = {folder: sorted(names) for folder, names in folders.items()}

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; see ``RootFiles``."""
        return list(self._names.get(folder, ()))

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file, compared with the index; see ``RootFiles``."""
        if (entry := self._entries.get(path)) is None:
            return None
        place = self._root / path
        with suppress(FormatError):
            return require_listed(place.read_bytes(max_bytes=entry[0]), entry, place.uri)
        return require_listed(place.read_bytes(max_bytes=entry[0]), entry, place.uri)

    def read_listed(self, path: str, sha256: str) -> bytes | None:  # noqa: ARG002
        """Return the content of a listed file, compared with the index; see ``RootFiles``."""
        return self.read(path)


# --- A data set at a store, by copies of its small files


class RemoteFolder(DatasetFolder):
    """The folder of the copies of one data set; what is asked for is copied first, once.

    Args:
        root: The folder of the copies of the root.
        name: The data set.
        files: The root.
    """

    def __init__(self, root: Path, name: str, files: RootFiles) -> None:
        super().__init__(root, name)
        # The paths of a data set are a frozen value; these are not part of it.
        object.__setattr__(self, "_files", files)
        object.__setattr__(self, "_done", set())

    _files: RootFiles
    _done: set[str]

    def names_in(self, folder: Path, *, strictly: bool = False) -> list[str]:
        """Names in a folder of the data set; see ``DatasetFolder``."""
        if folder in (self.path / "versions", self.path / "plans"):
            return self._files.names(self._relative(folder))
        return super().names_in(folder, strictly=strictly)

    @property
    def schedule(self) -> Path:
        """The file of the recorded schedule."""
        return self._copied(super().schedule, self._copy)

    def interval(self, interval: str) -> Path:
        """The folder of an interval's versions."""
        return self._copied(super().interval(interval), self._copy_interval)

    def version(self, interval: str, generation: int) -> Path:
        """The folder of one version."""
        path = self.interval(interval) / generation_name(generation)
        return self._copied(path, self._copy_version) if path.is_dir() else path

    def skip(self, interval: str) -> Path:
        """The file with the decision to skip an interval."""
        return self._copied(super().skip(interval), self._copy)

    def unpublished(self, interval: str) -> Path:
        """The file that says why the last attempt at an interval did not publish it."""
        return self._copied(super().unpublished(interval), self._copy)

    @property
    def holes(self) -> Path:
        """The folder of accepted holes between versions."""
        return self._copied(super().holes, self._copy_folder)

    @property
    def tags(self) -> Path:
        """The folder of tags, with one folder for each."""
        return self._copied(super().tags, self._make_folders)

    def tag(self, tag: str) -> Path:
        """The folder with the changes of a tag."""
        return self._copied(super().tag(tag), self._copy_folder)

    def look_at(self, asked: str | None) -> None:
        """Copy what a range needs, several intervals at once; the rest is copied by need."""
        if asked is None:
            return
        try:
            span = parse_range(asked)
        except WindowError:
            return  # the call that opens the range reports it

        def may_start(name: str) -> bool:
            with suppress(WindowError):
                named = parse_range(name)
                return named.start < span.end and span.start < named.end
            return False

        with ThreadPoolExecutor(_NUM_LOOKS, thread_name_prefix="trainfeed-look") as pool:
            list(pool.map(self.interval, filter(may_start, self.intervals())))

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _copied(self, path: Path, copy: Callable[[Path], object]) -> Path:
        relative = self._relative(path)
        if relative not in self._done:
            copy(path)
            self._done.add(relative)
        return path

    def _copy(self, path: Path) -> None:
        """Copy a file that may change, or remove the copy of one that is gone."""
        data = self._files.read(self._relative(path))
        if data is None:
            with os_errors(path):
                path.unlink(missing_ok=True)
        else:
            _write(path, data)

    def _copy_folder(self, folder: Path) -> None:
        found = self._files.names(self._relative(folder))
        names = [name for name in found if name.endswith(".json")]
        for name in {*names, *_local_names(folder)}:
            self._copy(folder / name)

    def _make_folders(self, folder: Path) -> None:
        names = self._files.names(self._relative(folder))
        for name in names:
            _make(folder / name)
        for name in set(_local_names(folder)) - set(names):
            shutil.rmtree(folder / name)

    def _copy_interval(self, folder: Path) -> None:
        """Copy the decisions about an interval, and the manifest of its newest generation."""
        names = set(self._files.names(self._relative(folder)))
        for name in {*filter(is_decision, names), *filter(is_decision, _local_names(folder))}:
            self._copy(folder / name)
        generations = sorted(filter(is_generation, names), key=parse_generation, reverse=True)
        for name in set(filter(is_generation, _local_names(folder))) - names:
            shutil.rmtree(folder / name)
        is_readable = False
        for name in generations:
            _make(folder / name)
            if is_readable or {f"{name}.withdrawn", f"{name}.removed"} & names:
                continue
            # A copy that is under way has no manifest yet: its version is absent.
            is_readable = self._copy_version(folder / name)

    def _copy_version(self, folder: Path) -> bool:
        """Copy manifest and index of a version; return whether it is there, whole."""
        relative = self._relative(folder)
        if relative in self._done:
            return True
        manifest = self._manifest(folder, relative)
        if manifest is None:
            shutil.rmtree(folder)
            return False
        digests = manifest.file_digests()
        for name in SMALL_FILES:
            if name in digests:
                self._copy_listed(folder / name, digests[name])
        self._done.add(relative)
        return True

    def _manifest(self, folder: Path, relative: str) -> Manifest | None:
        """Return the manifest of a version, from its copy if that is whole."""
        with suppress(ChecksumError, FormatError, NotFoundError):
            return Manifest.read(folder)[0]
        for name in (MANIFEST_DIGEST, MANIFEST):
            if (data := self._files.read(f"{relative}/{name}")) is None:
                return None
            _write(folder / name, data)
        return Manifest.read(folder)[0]

    def _copy_listed(self, path: Path, entry: tuple[int, str]) -> None:
        """Copy a file that the manifest names, twice if it differs."""
        with suppress(OSError):
            if _digest(path.read_bytes()) == entry:
                return
        found = None
        for _ in range(2):
            data = self._files.read_listed(self._relative(path), entry[1])
            found = None if data is None else _digest(data)
            if data is not None and found == entry:
                _write(path, data)
                return
        got = "no file" if found is None else f"{found[0]} bytes with {found[1]}"
        raise ChecksumError(
            f"expected {entry[0]} bytes with SHA-256 {entry[1]} as in the manifest, got {got},"
            " twice",
            path=self._relative(path),
        )


def _digest(data: bytes) -> tuple[int, str]:
    return len(data), hashlib.sha256(data).hexdigest()


def _make(folder: Path) -> None:
    with os_errors(folder):
        make_folders(folder, _FOLDER_MODE)


def _local_names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []


def _write(path: Path, data: bytes) -> None:
    """Write a copy, unless it is there."""
    with suppress(OSError):
        if path.read_bytes() == data:
            return
    _make(path.parent)
    with UnfinishedFile(path, mode=0o600) as new:
        new.file.write(data)
        new.replace(is_folder_synced=False)


# --- A root at a store


@dataclass(frozen=True)
class RemoteRoot:
    """A publication root at a store, as this machine reads it.

    Attributes:
        location: The root.
        place: The cache.
        state: A folder that follows the root and has its small files; None for copies in the cache.
    """

    location: Location
    place: CachePlace
    state: Path | None = None

    @property
    def copies(self) -> Path:
        """The folder of the copies of its small files; it has the shape of a root."""
        if self.state is not None:
            return self.state
        name = hashlib.sha256(self.location.uri.encode()).hexdigest()[:32]
        return self.place.folder / _COPIES / name

    @property
    def bucket(self) -> Location | None:
        """The root, if it is in a bucket, where leases are written; else None."""
        return self.location if isinstance(self.location.fs, S3FileSystem) else None

    @classmethod
    def open(
        cls,
        uri: str,
        *,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
    ) -> RemoteRoot:
        """Open the root of an address.

        Args:
            uri: ``hdfs://…``, ``webhdfs://…``, ``https://…`` or ``s3://…``.
            cache: Folder of the cache, on a disk of this machine; None for ``TRAINFEED_CACHE`` or
                its default.
            cache_bytes: Most bytes of chunks in it; None for ``TRAINFEED_CACHE_BYTES`` or its
                default.

        Raises:
            ConfigError: The address or a setting is not valid, or the cache is in use with another
                bound.
            StorageError: The cache cannot be made.
        """
        place = CachePlace(*cache_place(cache, cache_bytes))
        return cls.at(_location(uri), place)

    @classmethod
    def at(cls, location: Location, place: CachePlace) -> RemoteRoot:
        """Return the root of a location."""
        cache_at(*place)
        return cls(location, place)

    @classmethod
    def followed(
        cls,
        folder: Path,
        *,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
    ) -> RemoteRoot | None:
        """Return the root in a bucket that a state folder follows; None for any other folder.

        Args:
            folder: The folder.
            cache: See ``open``.
            cache_bytes: See ``open``.

        Raises:
            ConfigError, StorageError: As of ``open``.
            FormatError: The mark of the folder is damaged.
        """
        if (mark := bucket_mark(folder)) is None:
            return None
        place = CachePlace(*cache_place(cache, cache_bytes))
        cache_at(*place)
        return cls(mark.place, place, folder)

    @contextmanager
    def held(self) -> Iterator[Callable[[Path, str], RemoteFolder]]:
        """Hold the lock of the copies, and return what makes the folder of a data set.

        Raises:
            RootError: The root has no index, where it needs one.
            StorageError: The store or the disk refused or failed.
        """
        _make(self.copies)
        with os_errors(self.copies):
            fd = os.open(self.copies / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Two openings at once would mix a decision with one that came after it.
            fcntl.flock(fd, fcntl.LOCK_EX)
            files = self._files()
            yield lambda root, name: RemoteFolder(root, name, files)
        finally:
            os.close(fd)

    def _files(self) -> RootFiles:
        if self.bucket is not None:
            return BucketFiles(self.bucket, self.copies)
        if isinstance(self.location.fs, HttpsFiles):
            return IndexedFiles(self.location)
        return ListedFiles(self.location)

    def look_at(self, folder: DatasetFolder, asked: str | None) -> None:
        """Copy what a range needs; see ``RemoteFolder.look_at``."""
        if isinstance(folder, RemoteFolder):
            folder.look_at(asked)

    def shards(
        self, versions: Sequence[Version], split: str, *, deadline_s: float | None = None
    ) -> RemoteShards:
        """Return the shards of a split of versions, in their order.

        Raises:
            ChecksumError: The copy of an index was changed.
            ConfigError: A version has no such split, or the cache is too small for its chunks.
        """
        shards: list[Location] = []
        chunks: list[tuple[int, Chunk]] = []
        parts: list[tuple[str, int]] = []
        for version in versions:
            first, num_before = len(shards), len(chunks)
            home = self.location / version.path.relative_to(self.copies).as_posix()
            shards += self._shards(home, version, split)
            own = [(first + c.shard, c.info) for c in version.chunks(split) if c.info.num_records]
            chunks += own
            if own:
                part = hashlib.sha256(f"{version.manifest_sha256}/{split}".encode()).hexdigest()
                parts.append((part[:32], len(chunks) - num_before))
        deadline = {} if deadline_s is None else {"deadline_s": deadline_s}
        return RemoteShards(shards, ChunkTable.of(chunks), parts, self.place, **deadline)

    def _shards(self, home: Location, version: Version, split: str) -> list[Location]:
        names = [path.name for path in version.shard_paths(split, sizes=False)]
        if self.bucket is None:
            return [home / name for name in names]
        digests = version.manifest.file_digests()
        return [BucketVersion(home).file(name, digests[name][1]) for name in names]


def _location(uri: str) -> Location:
    scheme, _, rest = uri.partition("://")
    if scheme != HttpsFiles.scheme:
        return Location.parse(uri)
    address, _, path = rest.partition("/")
    if not _ADDRESS.fullmatch(address) or any(sign in path for sign in "?#%\\"):
        shown = rest.rpartition("@")[2][:200]
        raise ConfigError(
            "expected https://host[:port]/path without a login, a query or escapes, got"
            f" {shown!r} behind https://"
        )
    parts = [part for part in path.split("/") if part]
    if {".", ".."} & set(parts):
        raise ConfigError(f"expected a path without '.' and '..', got https://{rest[:200]!r}")
    # It only reads, which is all that is asked of it here.
    files = cast("FileSystem", HttpsFiles(address))
    return Location(files, "/" + "/".join(parts))
