"""Whole folders between this machine and a store: complete under their name, or absent."""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from trainfeed.core import faults
from trainfeed.core.patience import Patience
from trainfeed.core.process_ties import mark_has_ended, process_mark
from trainfeed.errors import (
    ChecksumError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
)
from trainfeed.files import walk
from trainfeed.files.stores import posix
from trainfeed.files.stores.file_system import FileInfo
from trainfeed.files.stores.folder_manifest import (
    TRANSFER_MANIFEST,
    FolderFile,
    FolderManifest,
    FolderTree,
    copy_file,
    digested,
    folder_tree,
    is_local,
    read_manifest,
    require_listed,
    verify,
)
from trainfeed.files.stores.local import LocalFileSystem
from trainfeed.files.stores.location import (
    Location,
    RenamingLocation,
    require_store_clock,
)

# --- The temporary folder of a transfer or a proof: its name tells its owner; its removal

logger = logging.getLogger(__name__)

_OWNED: Final = re.compile(r"\.(?P<mark>[0-9a-f]{12}-[0-9]+-[0-9]+)-[0-9a-f]{12}\.transfer")
_REMOVED: Final = re.compile(r"\.[0-9a-f]{12}\.removed")
_ABANDONED_S: Final = 3 * 24 * 3600.0


@contextmanager
def temporary_folder(target: RenamingLocation, patience: Patience) -> Iterator[RenamingLocation]:
    """Make a folder beside ``target`` with a name of its own; delete what has the name at the end.

    Nothing else is deleted, whatever fails. An error of the deletion is logged: the next transfer
    to the target removes the folder.
    """
    temporary = target.parent / _owned_name(target.name)
    try:
        patience.call(temporary.make_dir)
        yield temporary
    finally:
        try:
            temporary.delete(recursive=True)
        except StorageError as error:
            logger.warning("%s is left, for the next transfer to remove: %s", temporary.uri, error)


def is_temporary(name: str) -> bool:
    """Return whether this is the name of a temporary folder, of whatever target."""
    return any(re.fullmatch(rf"\..+{kind.pattern}", name) for kind in (_OWNED, _REMOVED))


def remove_leftovers(target: RenamingLocation) -> tuple[str, ...]:
    """Remove the temporary folders of killed transfers to ``target``; return the names that stay.

    A temporary folder stays while its transfer may still run. Errors are logged: leftovers take
    space, and harm nothing else.

    Raises:
        StorageError: The folder above the target cannot be listed.
    """
    left = []
    for info in target.parent.list():
        kind = _kind(target.name, info.name)
        if kind is None:
            continue
        place = target.parent / info.name
        if (kind is _OWNED and not _is_dead(place, info)) or not _removed(place, target, kind):
            left.append(info.name)
    return tuple(left)


def _owned_name(name: str) -> str:
    return f".{name}.{process_mark()}-{secrets.token_hex(6)}.transfer"


def _kind(target: str, name: str) -> re.Pattern[str] | None:
    """Return the pattern of the name of a temporary folder of ``target``, or None."""
    if not name.startswith(f".{target}."):
        return None
    rest = name[len(target) + 1 :]
    return next((kind for kind in (_OWNED, _REMOVED) if kind.fullmatch(rest)), None)


def _is_dead(place: Location, info: FileInfo) -> bool:
    owner = _OWNED.search(info.name)
    if owner is None:
        return False
    has_ended = mark_has_ended(owner["mark"])
    if has_ended is not None:
        return has_ended
    try:
        newest_ms = max(_times_ms(place, info))
    except StorageError as error:
        logger.warning("%s is kept, its age is not known: %s", place.uri, error)
        return False
    return time.time() - newest_ms / 1000 > _ABANDONED_S and _is_clock_right(place)


def _is_clock_right(place: Location) -> bool:
    # To a clock that jumped ahead, a transfer that runs on another machine looks abandoned.
    try:
        require_store_clock(place.parent, "the folders of other transfers were kept")
    except StorageError as error:
        logger.warning("%s is kept: %s", place.uri, error)
        return False
    return True


def _times_ms(place: Location, info: FileInfo) -> Iterator[int]:
    yield info.modified_ms
    if info.is_dir:
        for entry in place.list():
            yield from _times_ms(place / entry.name, entry)


def _removed(place: RenamingLocation, target: RenamingLocation, kind: re.Pattern[str]) -> bool:
    try:
        if kind is _OWNED:
            owned, place = place, place.parent / f".{target.name}.{secrets.token_hex(6)}.removed"
            owned.rename(place)
        place.delete(recursive=True)
    except StorageError as error:
        logger.warning("%s of a killed transfer could not be removed: %s", place.uri, error)
        return False
    return True


# --- The rename that gives a complete temporary folder its name, and the look at what it did


def is_there(target: Location, manifest: FolderManifest, patience: Patience) -> bool:
    """Return whether the target is a folder with this content; False if nothing has the name.

    All files of an existing folder are read.

    Raises:
        ConflictError: The name is taken by a file, or by a folder of another or an unknown content.
        ChecksumError: The folder has this manifest, but a file differs from it.
        FormatError: The folder has this manifest, but a file is missing or foreign.
        StorageError: The store refused or failed.
    """
    if not _has_manifest(target, manifest, patience):
        return False
    verify(target, manifest, patience)
    return True


def write_manifest(temporary: Location, manifest: FolderManifest, patience: Patience) -> None:
    """Write the manifest as the last file, and make all names of the folder durable."""
    place = temporary / TRANSFER_MANIFEST
    data = manifest.to_bytes()

    def write() -> None:
        place.delete()
        with place.open_write() as file:
            file.write(data)
        if place.read_bytes() != data:
            raise StorageError(f"{place.uri}: read back other bytes; copy the folder again")

    patience.call(write)
    if is_local(temporary):
        folders = [path for path in walk(temporary.path) if path.is_dir()]
        for folder in [*sorted(folders, reverse=True), Path(temporary.path)]:
            posix.sync_dir(folder)


def commit(
    temporary: RenamingLocation,
    target: RenamingLocation,
    manifest: FolderManifest,
    patience: Patience,
) -> bool:
    """Rename a complete folder to its name, and look for it there.

    Returns:
        Whether this call named the folder; False if an equal one has come there meanwhile.

    Raises:
        ConflictError: The name was taken meanwhile by another content; nothing was moved.
        CommitUnknownError: The store did not say whether the folder has its name.
        StorageError: The store refused; the name is free.
    """
    faults.point("transfer.before_rename")
    try:
        patience.call(lambda: temporary.rename(target))
    except StorageError as error:
        # A repeated rename whose first answer was lost finds the name taken, or the source gone.
        if not _looked(target, manifest, patience, error):
            raise
    else:
        if not _looked(target, manifest, patience, None):
            raise CommitUnknownError(
                f"{target.uri}: the folder was renamed, and is not there; another program may have"
                " moved it; look for it, and copy it again"
            )
    faults.point("transfer.after_rename")
    if is_local(target):
        posix.sync_dir(Path(target.parent.path))
    return not patience.call(temporary.exists)


def _looked(
    target: Location, manifest: FolderManifest, patience: Patience, cause: StorageError | None
) -> bool:
    try:
        return _has_manifest(target, manifest, patience)
    except ConflictError:
        raise
    except (StorageError, FormatError) as error:
        raise CommitUnknownError(
            f"{target.uri}: it is not known whether the folder has its name: {cause or error};"
            " what has the name stays; only the temporary folder of this copy is deleted; copy it"
            " again: a copy first looks whether the folder is there"
        ) from error


def _has_manifest(target: Location, manifest: FolderManifest, patience: Patience) -> bool:
    try:
        is_dir = patience.call(target.stat).is_dir
        found = read_manifest(target, patience) if is_dir else None
    except NotFoundError:
        return False
    if found == manifest:
        return True
    got = "a file" if not is_dir else f"a folder without {TRANSFER_MANIFEST}"
    if found is not None:
        got = f"one with content {found.sha256[:12]}"
    raise ConflictError(
        f"{target.uri}: expected nothing, or the folder with content {manifest.sha256[:12]}, got"
        f" {got}; nothing was changed; choose another name, or move what has this one away"
    )


# --- The folder that a transfer reads, and what is known about its content before the copy

# End of the name under which ``hadoop fs -put`` writes a file.
_COPYING: Final = "._COPYING_"


@dataclass(frozen=True)
class Source:
    """A folder before its copy.

    Attributes:
        place: The folder.
        tree: Its listing.
        manifest: Its manifest; None for a folder that another program has put there.
        is_published: Whether the manifest was read from the folder, so that it shows whether the
            folder is still the same.
        checksums: The store's checksum of each file, as far as it has them.
    """

    place: Location
    tree: FolderTree
    manifest: FolderManifest | None
    is_published: bool = False
    checksums: dict[str, str | None] = field(default_factory=dict)

    def is_same(self, patience: Patience) -> bool:
        """Return whether the folder still has the content that it had before the copy.

        Raises:
            StorageError: The store refused or failed.
        """
        try:
            if self.is_published:
                return read_manifest(self.place, patience) == self.manifest
            return self._is_listed_equal(patience)
        except (FormatError, NotFoundError):
            return False

    def require_same(self, patience: Patience) -> None:
        """Look once more at a folder without a manifest of its own, after its copy.

        Raises:
            FileReplacedError: A file was added, removed or changed meanwhile.
        """
        if not self.is_published and not self.is_same(patience):
            raise FileReplacedError(
                f"{self.place.uri}: the folder changed while it was copied; nothing was kept; copy"
                " it again when its writer has ended"
            )

    def _is_listed_equal(self, patience: Patience) -> bool:
        now = patience.call(lambda: folder_tree(self.place))
        return _facts(now) == _facts(self.tree) and self.checksums == {
            name: _checksum(self.place / name, patience) for name in self.checksums
        }


def described(place: Location, patience: Patience) -> Source:
    """Return a folder of this machine, with a manifest that is computed from its files.

    Raises:
        FormatError: There is a link, a special file, or a file ``TRANSFER.json`` that is none.
        ConflictError: There is a ``TRANSFER.json`` of another content.
        TrainFeedError: The other errors of ``folder_tree``.
    """
    known = read_manifest(place, patience)
    tree = patience.call(lambda: folder_tree(place))
    files = [FolderFile(name, *digested(place / name)) for name in tree.files]
    manifest = FolderManifest.of(files, tree.folders)
    if known not in (None, manifest):
        raise ConflictError(
            f"{place.uri}: expected no {TRANSFER_MANIFEST}, or that of its files, got another one;"
            " nothing was copied; remove it if the files were changed on purpose"
        )
    return Source(place, tree, manifest)


def stored(place: Location, patience: Patience) -> Source:
    """Return a folder of a store, with its manifest if it has one.

    Raises:
        NotFoundError: The folder is not there.
        FormatError: The manifest is damaged, or the listing differs from it: the folder is partial.
        StorageError: A writer is still at work in a folder without manifest; or the store refused
            or failed.
    """
    manifest = read_manifest(place, patience)
    tree = patience.call(lambda: folder_tree(place))
    if manifest is not None:
        require_listed(place, tree, manifest)
        return Source(place, tree, manifest, is_published=True)
    for name in tree.files:
        _require_closed(place / name, patience)
    logger.warning(
        "%s has no %s: its files have the sizes that the store says, and no more is known",
        place.uri,
        TRANSFER_MANIFEST,
    )
    checksums = {name: _checksum(place / name, patience) for name in tree.files}
    return Source(place, tree, None, checksums=checksums)


def _require_closed(file: Location, patience: Patience) -> None:
    if file.name.endswith(_COPYING) or patience.call(file.is_open):
        raise StorageError(
            f"{file.uri}: a writer is still at work on this file; nothing was copied; copy the"
            " folder when the writer has ended"
        )


def _checksum(file: Location, patience: Patience) -> str | None:
    return patience.call(file.checksum)


def _facts(tree: FolderTree) -> dict[str, tuple[int, int, int | None]]:
    return {
        name: (info.size_bytes, info.modified_ms, info.file_id) for name, info in tree.files.items()
    }


# --- The report of one transfer


@dataclass(frozen=True)
class TransferReport:
    """The result of one transfer, which is complete when this value exists.

    Attributes:
        source: URI of the folder that was read.
        target: URI of the folder that is there now.
        verdict: ``copied``, or ``adopted`` if an equal folder was there already.
        files: Number of files, without the manifest.
        num_bytes: Sum of their sizes.
        manifest_sha256: SHA-256 of the folder's manifest in hex; it identifies the content.
        is_proven: Whether the source had a manifest, or is a folder of this machine. If False, the
            files have the sizes, and as far as the store has them the checksums, that the store
            said before and after the copy, and no more is known.
        leftovers: Names beside the target of unfinished transfers that may still run, and of
            killed ones that could not be removed.
    """

    source: str
    target: str
    verdict: Literal["copied", "adopted"]
    files: int
    num_bytes: int
    manifest_sha256: str
    is_proven: bool
    leftovers: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, for reports."""
        return {**asdict(self), "leftovers": list(self.leftovers)}


# --- Uploads and downloads of whole folders: look, copy, verify, name

# Errors that a folder gives if it is replaced while it is read.
_DIFFERS: Final = (ChecksumError, FileReplacedError, FormatError, NotFoundError)
# Name in the temporary folder of a download whose final name is not known yet.
_UNNAMED: Final = "download"
# What needs a rename, in the refusal of a store without one.
_NEEDS: Final = "a transfer of a folder"


def upload(folder: Path, to: Location, *, patience: Patience | None = None) -> TransferReport:
    """Copy a folder of this machine to a name on a store: complete, or absent.

    Every file is read back from the store. A kill leaves at most a temporary folder beside the
    name, which a later upload to the name removes when its owner has ended.

    Args:
        folder: The folder; without links, and with at least one file.
        to: The name of the new folder; the folder above it must exist.
        patience: How often calls to the store are repeated; five times by default.

    Raises:
        ConflictError: The name is taken by another content; nothing was changed.
        NotFoundError: The folder, or the folder above the target, is not there.
        FileReplacedError: A file of the folder changed during the upload.
        FormatError: The folder holds a link or a special file; or an equal folder that was
            uploaded before is damaged.
        ConfigError: There is no file in the folder.
        CommitUnknownError: The store did not say whether the folder got its name.
        UnsuitableStoreError: The store has no rename.
        StorageError: The store refused or failed; nothing has the name.
    """
    patience = patience or Patience()
    target = to.renaming(_NEEDS)
    source = described(local_place(folder), patience)
    try:
        return _Transfer(source, target, lambda _: target, patience).run()
    except _DIFFERS as error:
        if source.is_same(patience):
            raise
        raise FileReplacedError(
            f"{folder}: the folder changed while it was uploaded: {error}; nothing was kept; upload"
            " it again when its writer has ended"
        ) from error


def download(source: Location, folder: Path, *, patience: Patience | None = None) -> TransferReport:
    """Copy a folder of a store to this machine: complete, or absent.

    All files are those of one manifest. If the folder is replaced during the download, the
    download starts again once, with the new folder. A folder without a manifest, which another
    program has put there, is copied by the sizes of its files.

    Args:
        source: The folder on the store.
        folder: The new folder; the folder above it must exist. A folder that is there is kept: an
            equal one is adopted, every other one, even an empty one, is a conflict.
        patience: How often calls to the store are repeated; five times by default.

    Raises:
        ConflictError: The name is taken by another content; nothing was changed.
        NotFoundError: The folder on the store, or the folder above the target, is not there.
        FormatError: The folder on the store is partial, damaged, or names paths outside itself.
        FileReplacedError: The folder was replaced twice during the download.
        QuotaExceededError: There is too little space.
        StorageError: The store refused or failed; nothing has the name.
    """
    target = local_place(folder)
    return _downloaded(source, target, lambda _: target, patience or Patience())


def download_below(
    source: Location, parent: Path, *, patience: Patience | None = None
) -> TransferReport:
    """Copy a folder of a store into ``parent``, under the SHA-256 of its manifest as name.

    Equal contents have one name, so downloads can be repeated, and different ones never meet.

    Raises:
        TrainFeedError: The errors of ``download``.
    """
    above = local_place(parent)
    return _downloaded(
        source, above / _UNNAMED, lambda manifest: above / manifest.sha256, patience or Patience()
    )


def local_place(folder: Path) -> RenamingLocation:
    """Return the location of a path of this machine; a link to the folder is followed.

    Raises:
        ConfigError: The path is that of the root.
    """
    path = folder.parent.resolve() / folder.name if folder.name != ".." else folder.resolve()
    if not path.name:
        raise ConfigError(f"expected a folder below the root, got {folder}; nothing was copied")
    return RenamingLocation(LocalFileSystem(), str(path))


@dataclass(frozen=True)
class _Transfer:
    """One copy of a folder.

    Attributes:
        source: The folder that is read.
        label: Target, or a name beside it, from which the name of the temporary folder is made.
        name: Content → target.
        patience: How often calls to a store are repeated.
    """

    source: Source
    label: RenamingLocation
    name: Callable[[FolderManifest], RenamingLocation]
    patience: Patience

    def run(self) -> TransferReport:
        """Adopt the target, or copy the folder."""
        self._require_parent()
        leftovers = self.patience.call(lambda: remove_leftovers(self.label))
        manifest = self.source.manifest
        if manifest and is_there(self.name(manifest), manifest, self.patience):
            return self._report(manifest, "adopted", leftovers)
        self._require_space()
        with temporary_folder(self.label, self.patience) as temporary:
            faults.point("transfer.after_temporary")
            manifest = self._fill(temporary)
            is_ours = commit(temporary, self.name(manifest), manifest, self.patience)
        return self._report(manifest, "copied" if is_ours else "adopted", leftovers)

    def _fill(self, temporary: Location) -> FolderManifest:
        """Copy all files, and write the manifest."""
        known = self.source.manifest.files if self.source.manifest else ()
        expected = {file.name: file for file in known}
        files = [
            self._copied(temporary, name, expected.get(name)) for name in self.source.tree.files
        ]
        for name in self.source.tree.folders:
            self.patience.call((temporary / name).make_dir)
        faults.point("transfer.after_files")
        self.source.require_same(self.patience)
        manifest = self.source.manifest or FolderManifest.of(files, self.source.tree.folders)
        write_manifest(temporary, manifest, self.patience)
        faults.point("transfer.after_manifest")
        return manifest

    def _copied(self, temporary: Location, name: str, expected: FolderFile | None) -> FolderFile:
        source = self.source.place / name
        num_bytes, sha256 = copy_file(source, temporary / name, expected, self.patience)
        if num_bytes != self.source.tree.files[name].size_bytes:
            raise FileReplacedError(
                f"{source.uri}: expected {self.source.tree.files[name].size_bytes} bytes, got"
                f" {num_bytes}; nothing was kept; copy the folder when its writer has ended"
            )
        faults.point("transfer.after_file")
        return FolderFile(name, num_bytes, sha256)

    def _require_parent(self) -> None:
        above = self.label.parent
        if not self.patience.call(above.stat).is_dir:
            raise NotFoundError(f"{above.uri}: expected a folder, got a file; nothing was copied")

    def _require_space(self) -> None:
        free = self.patience.call(self.label.parent.free_bytes)
        needed = sum(self.source.tree.sizes.values())
        if free is not None and free < needed:
            raise QuotaExceededError(
                f"{self.label.parent.uri}: {needed} bytes are needed, {free} are free; nothing was"
                " copied; free space or choose another folder"
            )

    def _report(
        self,
        manifest: FolderManifest,
        verdict: Literal["copied", "adopted"],
        leftovers: tuple[str, ...],
    ) -> TransferReport:
        report = TransferReport(
            source=self.source.place.uri,
            target=self.name(manifest).uri,
            verdict=verdict,
            files=len(manifest.files),
            num_bytes=manifest.num_bytes,
            manifest_sha256=manifest.sha256,
            is_proven=self.source.manifest is not None,
            leftovers=leftovers,
        )
        logger.info("%s: %s from %s", report.target, report.verdict, report.source)
        return report


def _downloaded(
    place: Location,
    label: RenamingLocation,
    name: Callable[[FolderManifest], RenamingLocation],
    patience: Patience,
) -> TransferReport:
    source = None
    try:
        source = stored(place, patience)
        return _Transfer(source, label, name, patience).run()
    except _DIFFERS as error:
        if source is not None and source.is_same(patience):
            raise
        logger.warning("%s: perhaps replaced meanwhile, once again: %s", place.uri, error)
    # The name is free for a moment while one folder is removed and another one renamed.
    patience.pause(patience.first_pause_s)
    source = stored(place, patience)
    try:
        return _Transfer(source, label, name, patience).run()
    except _DIFFERS as error:
        if source.is_same(patience):
            raise
        raise FileReplacedError(
            f"{place.uri}: the folder was replaced twice during the download: {error}; nothing was"
            " kept; download it again"
        ) from error


# --- Waits for a folder that another process downloads

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0


def wait_for(
    folder: Path,
    *,
    timeout_s: float,
    manifest_sha256: str | None = None,
    pause: Callable[[float], object] | None = None,
) -> FolderManifest:
    """Wait until a download of another process has named a folder, and return its manifest.

    A folder gets its name complete, so one that is there is whole; its listing and sizes are
    compared with the manifest, its bytes are not.

    Args:
        folder: The folder that ``download`` makes, on a file system that both processes see.
        timeout_s: Longest wait in seconds.
        manifest_sha256: SHA-256 of the expected manifest; None accepts every content.
        pause: Called with the seconds to wait between two looks.

    Raises:
        StorageError: The folder did not come in time.
        ConflictError: The folder has another content, or no manifest.
        FormatError: The folder differs from its manifest.
    """
    wait = threading.Event().wait if pause is None else pause
    place = Location(LocalFileSystem(), str(folder.absolute()))
    deadline_s, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
    while True:
        try:
            return _whole(place, manifest_sha256)
        except NotFoundError as error:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise StorageError(
                    f"expected {folder} to be downloaded within {timeout_s:g} s, it is not there;"
                    " nothing was read; look at the log of the process that downloads it, rank 0"
                ) from error
        wait(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _whole(place: Location, manifest_sha256: str | None) -> FolderManifest:
    # The folder may get its name between the two looks of the first call, at its manifest and then
    # at itself; the second call finds both.
    manifest = read_manifest(place) or read_manifest(place)
    if manifest is None or manifest_sha256 not in (None, manifest.sha256):
        got = "no manifest" if manifest is None else manifest.sha256
        raise ConflictError(
            f"{place.path}: expected the folder with manifest {manifest_sha256 or 'of a download'},"
            f" got {got}; nothing was read; remove the folder, and start again"
        )
    require_listed(place, folder_tree(place), manifest)
    return manifest


# --- The proof, hours before an upload, that the store lets this account make and delete folders


def require_writable(target: Location, *, patience: Patience | None = None) -> None:
    """Make a temporary folder beside ``target`` and delete it: only this shows rights and quotas.

    What a kill leaves, the next proof or upload for the target removes.

    Args:
        target: A name that an upload will use; the folder above it must exist.
        patience: How often calls to the store are repeated; five times by default.

    Raises:
        NotFoundError: The folder above the target is not there.
        AccessDeniedError: The account may not list, make or delete folders there.
        UnsuitableStoreError: The store has no rename.
        StorageError: The store refused or failed.
    """
    patience = patience or Patience()
    place = target.renaming(_NEEDS)
    patience.call(lambda: remove_leftovers(place))
    with temporary_folder(place, patience) as temporary:
        # The end of the block only logs an error of the deletion.
        patience.call(temporary.delete)
