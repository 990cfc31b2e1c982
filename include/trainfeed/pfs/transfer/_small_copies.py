"""Copies small files many in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from trainfeed.errors import TrainFeedError
from trainfeed.pfs.transfer._copy_values import CopyOptions, FileCopy, FileOutcome, name_taken
from trainfeed.pfs.trees import Kind, SmallFile

__all__ = ["batches", "copy_small", "failed"]

_BATCH_FILES: Final = 64
_BATCH_BYTES: Final = 4 << 20


def batches(copies: Iterable[FileCopy]) -> Iterator[list[FileCopy]]:
    """Yield copies in groups of at most 64 files and, but for one file, 4 MiB."""
    batch: list[FileCopy] = []
    num_bytes = 0
    for copy in copies:
        is_full = len(batch) == _BATCH_FILES or num_bytes + copy.num_bytes > _BATCH_BYTES
        if batch and is_full:
            yield batch
            batch, num_bytes = [], 0
        batch.append(copy)
        num_bytes += copy.num_bytes
    if batch:
        yield batch


def copy_small(
    copies: Sequence[FileCopy], options: CopyOptions, *, is_hidden: bool
) -> list[FileOutcome]:
    """Copy files of at most ``SMALL_BYTES`` between two trees; each is whole, or has an error.

    Args:
        copies: Files of one source tree, for one target tree.
        options: Options of all copies.
        is_hidden: Whether a folder above the targets has an unfinished name.

    Raises:
        Stopped: ``options.stop`` was set.
    """
    options.require_going()
    read = copies[0].source.tree.get_small([copy.source.parts for copy in copies])
    found: dict[FileCopy, FileOutcome] = {}
    data: dict[FileCopy, bytes] = {}
    for copy, each in zip(copies, read, strict=True):
        if isinstance(each, bytes):
            data[copy] = each
        else:
            found[copy] = failed(copy, each)
    files = {copy: SmallFile(copy.target.parts, each) for copy, each in data.items()}
    found.update(_compared(files, options))
    rest = {copy: file for copy, file in files.items() if copy not in found}
    found.update(_sent(rest, options, is_hidden=is_hidden))
    for copy in copies:
        options.tell(copy.num_bytes)
    return [found[copy] for copy in copies]


def failed(copy: FileCopy, error: TrainFeedError) -> FileOutcome:
    """Return the outcome of a file that was not copied."""
    return FileOutcome(copy.source.shown, copy.target.shown, "failed", error=error)


def _compared(
    files: dict[FileCopy, SmallFile], options: CopyOptions
) -> Iterator[tuple[FileCopy, FileOutcome]]:
    """Yield the outcome of each file whose name has its bytes, or must not get them."""
    there = [
        copy
        for copy, file in files.items()
        if copy.existing is not None
        and copy.existing.kind is Kind.FILE
        and (copy.existing.num_bytes == len(file.data) or not options.replace)
    ]
    if not there:
        return
    digests = there[0].target.tree.small_digests([copy.target.parts for copy in there])
    equal = [copy for copy, each in zip(there, digests, strict=True) if each == files[copy].digest]
    if equal:
        # The copy that gave the names may have been killed before they were durable.
        there[0].target.tree.sync_names_of([copy.target.parts for copy in equal])
    for copy, digest in zip(there, digests, strict=True):
        if digest == files[copy].digest:
            yield copy, _done(copy, files[copy], "equal")
        elif not options.replace:
            yield copy, failed(copy, name_taken(copy))


def _sent(
    files: dict[FileCopy, SmallFile], options: CopyOptions, *, is_hidden: bool
) -> Iterator[tuple[FileCopy, FileOutcome]]:
    if not files:
        return
    options.rate.wait(sum(len(file.data) for file in files.values()), options.stop)
    options.require_going()
    tree = next(iter(files)).target.tree
    errors = tree.put_small(list(files.values()), replace=options.replace, is_hidden=is_hidden)
    for (copy, file), error in zip(files.items(), errors, strict=True):
        yield copy, _done(copy, file, "copied") if error is None else failed(copy, error)


def _done(copy: FileCopy, file: SmallFile, verdict: Literal["copied", "equal"]) -> FileOutcome:
    num_bytes = len(file.data)
    sent = num_bytes if verdict == "copied" else 0
    return FileOutcome(copy.source.shown, copy.target.shown, verdict, num_bytes, sent)
