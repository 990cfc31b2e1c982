"""Copies folders: a new one appears whole by one rename, an existing one gets whole files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from trainfeed import faults
from trainfeed.errors import (
    AccessDeniedError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    StorageError,
    TrainFeedError,
)
from trainfeed.pfs.transfer._copy_globs import is_there
from trainfeed.pfs.transfer._copy_run import copy_files
from trainfeed.pfs.transfer._copy_values import CopyOptions, FileCopy, FileOutcome, Place
from trainfeed.pfs.transfer._unfinished_folder import unfinished_folder
from trainfeed.pfs.trees import Entry, Kind, is_unfinished_name

__all__ = ["copy_into_folder", "copy_new_folder"]


def copy_into_folder(source: Place, target: Place, options: CopyOptions) -> Iterator[FileOutcome]:
    """Copy what is in a folder into an existing one, file by file; each file is whole.

    Raises:
        StorageError: A folder cannot be listed or made.
    """
    listing = _Listing()
    listing.add(source, target, is_there=True)
    if target.parts:
        # The copy that named the folder may have been killed before the name was durable. A folder
        # above that may not be read cannot be one in which that copy has named it.
        with suppress(AccessDeniedError):
            target.tree.sync_names_of([target.parts])
    yield from listing.problems
    yield from copy_files(listing.copies, options, is_hidden=False)


def copy_new_folder(source: Place, target: Place, options: CopyOptions) -> Iterator[FileOutcome]:
    """Copy a folder under an unfinished name, and rename it when all files are there.

    If a file fails, the folder keeps its unfinished name, and the next try goes on with it.

    Raises:
        StorageError: A folder cannot be listed, made or renamed.
        CommitUnknownError: The rename failed, and the unfinished name is not there any more.
    """
    with unfinished_folder(source, target) as (hidden, is_resumed):
        faults.point("pfs.folder_made")
        yield from _filled(source, target, hidden, options, is_resumed=is_resumed)


def _filled(
    source: Place, target: Place, hidden: Place, options: CopyOptions, *, is_resumed: bool
) -> Iterator[FileOutcome]:
    """Copy all files into the unfinished folder; rename it if none failed."""
    # A kill may have cut a file of an earlier try; what the user has lies outside this folder.
    options = replace(options, replace=True)
    listing = _Listing(is_hidden=True)
    listing.add(source, hidden, is_there=is_resumed)
    for place in listing.extra:
        # Unfinished files stay: the copies below go on with them.
        if not is_unfinished_name(place.parts[-1]):
            place.tree.remove(place.parts, recursive=True)
    failures = 0
    outcomes = copy_files(listing.copies, options, is_hidden=True)
    for outcome in (*listing.problems, *_renamed(outcomes, hidden, target)):
        failures += outcome.verdict == "failed"
        yield outcome
    if failures:
        yield FileOutcome(source.shown, target.shown, "failed", error=_incomplete(target, failures))
        return
    for place in listing.extra:
        with suppress(NotFoundError):
            place.tree.remove(place.parts, recursive=True)
    faults.point("pfs.folder_filled")
    target.tree.sync_names(hidden.parts)
    faults.point("pfs.folder_before_name")
    _name(source, hidden, target)
    faults.point("pfs.folder_after_name")


def _name(source: Place, hidden: Place, target: Place) -> None:
    """Rename the unfinished folder; after a lost answer, say how the copy is repeated."""
    try:
        target.tree.rename(hidden.parts, target.parts, replace=False)
    except TrainFeedError as error:
        if is_there(hidden):
            raise
        raise CommitUnknownError(
            f"{target.shown}: all files were copied, and the unfinished folder was renamed, but"
            f" the rename ended with: {error}; look whether {target.shown} is there; a repeated"
            f" copy of {source.shown} would go below it; to compare the copy, repeat the command"
            f" with {source.shown}/. as its source"
        ) from error


def _renamed(
    outcomes: Iterator[FileOutcome], hidden: Place, target: Place
) -> Iterator[FileOutcome]:
    """Yield outcomes with the names that files have after the rename."""
    old, new = hidden.shown, target.shown
    for outcome in outcomes:
        yield replace(outcome, target=new + outcome.target.removeprefix(old))


@dataclass
class _Listing:
    """What a copy of a folder has to do.

    Attributes:
        is_hidden: Whether the target has an unfinished name; what an earlier try has left there is
            then removed if its kind is not that of the source.
        copies: The files.
        problems: Entries that are not copied.
        extra: Places in the target that are not in the source.
    """

    is_hidden: bool = False
    copies: list[FileCopy] = field(default_factory=list)
    problems: list[FileOutcome] = field(default_factory=list)
    extra: list[Place] = field(default_factory=list)

    def add(self, source: Place, target: Place, *, is_there: bool) -> None:
        """Note everything below ``source``, and make the folders below ``target``."""
        self._listed(source, target, source.tree.entries(source.parts), is_there=is_there)

    def _listed(
        self, source: Place, target: Place, entries: list[Entry], *, is_there: bool
    ) -> None:
        existing: dict[str, Entry] = {}
        if is_there:
            existing = {each.name: each for each in target.tree.entries(target.parts)}
        for entry in entries:
            if is_unfinished_name(entry.name):
                continue  # the copy of a file that another process makes
            place, has_name = source.joined(entry.name), existing.pop(entry.name, None)
            try:
                self._entry(place, target, entry, has_name)
            except TrainFeedError as error:
                self.problems.append(FileOutcome(place.shown, "", "failed", error=error))
        self.extra += [target.joined(name) for name in existing]

    def _entry(self, source: Place, above: Place, entry: Entry, existing: Entry | None) -> None:
        target = above.joined(entry.name)
        source.tree.require_names(source.parts)
        target.tree.require_names(target.parts)
        if entry.kind in (Kind.LINK, Kind.OTHER):
            raise FormatError(
                f"expected files and folders in a folder that is copied, got a"
                f" {'link' if entry.kind is Kind.LINK else 'special file'}; it was not copied;"
                " copy what it points to under a name of its own",
                path=source.shown,
            )
        if existing is not None and existing.kind is not entry.kind:
            self._clear(target, entry.kind, existing.kind)
            existing = None
        if entry.kind is Kind.FILE:
            self.copies.append(FileCopy(source, target, entry.num_bytes, existing))
            return
        # A folder that cannot be listed gets no copy.
        entries = source.tree.entries(source.parts)
        if existing is None:
            target.tree.make_folder(target.parts)
        self._listed(source, target, entries, is_there=existing is not None)

    def _clear(self, target: Place, expected: Kind, got: Kind) -> None:
        """Remove what has the name in an unfinished folder; elsewhere it is an error."""
        if self.is_hidden:
            target.tree.remove(target.parts, recursive=True)
            return
        raise ConflictError(
            f"{target.shown}: expected a free name or a {expected}, got a {got}; what has the name"
            " was kept; choose another target, or remove it"
        )


def _incomplete(target: Place, failures: int) -> StorageError:
    return StorageError(
        f"{target.shown}: the folder has no name yet, because {failures} files in it were not"
        " copied; the others are kept for the next try; look at the lines above, then repeat the"
        " command"
    )
