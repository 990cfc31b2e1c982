"""One call of ``cp``: plans what is copied, and copies it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from trainfeed.errors import QuotaExceededError, TrainFeedError
from trainfeed.pfs.transfer._copy_rules import PlannedCopy, RefusedCopy, planned_copies
from trainfeed.pfs.transfer._copy_run import copy_files
from trainfeed.pfs.transfer._copy_values import CopyOptions, FileCopy, FileOutcome, Place
from trainfeed.pfs.transfer._folder_copy import copy_into_folder, copy_new_folder
from trainfeed.pfs.trees import Kind

__all__ = ["copy_places"]


def copy_places(
    sources: Sequence[Place], target: Place, options: CopyOptions
) -> Generator[FileOutcome, None, None]:
    """Copy files and folders as ``cp`` does; yield what became of each file.

    A file that fails does not stop the others. After each step, every target is complete or has
    its former content.

    Args:
        sources: Files, folders and patterns, of one tree or several.
        target: A folder, or the name of the copy.
        options: How files are copied.

    Raises:
        ConfigError: The target does not suit the sources; nothing was copied.
        QuotaExceededError: The disk or a quota is full; what was sent is kept.
        Stopped: ``options.stop`` was set.
    """
    files: list[FileCopy] = []
    folders: list[PlannedCopy] = []
    for planned in planned_copies(sources, target, options):
        if isinstance(planned, RefusedCopy):
            yield FileOutcome(planned.source.shown, "", "failed", error=planned.error)
        elif planned.entry.kind is Kind.FOLDER:
            folders.append(planned)
        else:
            size = planned.entry.num_bytes
            files.append(FileCopy(planned.source, planned.target, size, planned.existing))
    for group in _of_one_tree(files):
        yield from copy_files(group, options, is_hidden=False)
    for planned in folders:
        yield from _folder(planned, options)


def _of_one_tree(files: list[FileCopy]) -> list[list[FileCopy]]:
    groups: dict[int, list[FileCopy]] = {}
    for copy in files:
        groups.setdefault(id(copy.source.tree), []).append(copy)
    return list(groups.values())


def _folder(planned: PlannedCopy, options: CopyOptions) -> Iterator[FileOutcome]:
    copy = copy_new_folder if planned.existing is None else copy_into_folder
    try:
        yield from copy(planned.source, planned.target, options)
    except QuotaExceededError:
        raise
    except TrainFeedError as error:
        yield FileOutcome(planned.source.shown, planned.target.shown, "failed", error=error)
