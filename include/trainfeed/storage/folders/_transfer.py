"""Uploads and downloads of whole folders: look, copy, verify, name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from trainfeed import faults
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
)
from trainfeed.storage._local_files import LocalFileSystem
from trainfeed.storage._location import Location
from trainfeed.storage.folders._commit import commit, is_there, write_manifest
from trainfeed.storage.folders._file_copy import copy_file
from trainfeed.storage.folders._folder_manifest import FolderFile, FolderManifest
from trainfeed.storage.folders._folder_source import Source, described, stored
from trainfeed.storage.folders._patience import Patience
from trainfeed.storage.folders._temporary_folder import remove_leftovers, temporary_folder
from trainfeed.storage.folders._transfer_report import TransferReport

__all__ = ["download", "download_below", "local_place", "upload"]

logger = logging.getLogger(__name__)

# Errors that a folder gives if it is replaced while it is read.
_DIFFERS: Final = (ChecksumError, FileReplacedError, FormatError, NotFoundError)
# Name in the temporary folder of a download whose final name is not known yet.
_UNNAMED: Final = "download"


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
        StorageError: The store refused or failed; nothing has the name.
    """
    patience = patience or Patience()
    source = described(local_place(folder), patience)
    try:
        return _Transfer(source, to, lambda _: to, patience).run()
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


def local_place(folder: Path) -> Location:
    """Return the location of a path of this machine; a link to the folder is followed.

    Raises:
        ConfigError: The path is that of the root.
    """
    path = folder.parent.resolve() / folder.name if folder.name != ".." else folder.resolve()
    if not path.name:
        raise ConfigError(f"expected a folder below the root, got {folder}; nothing was copied")
    return Location(LocalFileSystem(), str(path))


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
    label: Location
    name: Callable[[FolderManifest], Location]
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
    label: Location,
    name: Callable[[FolderManifest], Location],
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
