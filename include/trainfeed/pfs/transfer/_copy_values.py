"""Values of copies: places, single copies, options, and what became of each file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from trainfeed.errors import ConflictError, TrainFeedError
from trainfeed.pfs.transfer._rate_limit import RateLimit
from trainfeed.pfs.trees import Entry, Parts, Tree

__all__ = ["CopyOptions", "FileCopy", "FileOutcome", "Place", "Stopped", "name_taken"]


class Stopped(Exception):  # noqa: N818 - an end that was asked for
    """The copy was stopped by a signal, or by the failure of another thread."""


@dataclass(frozen=True)
class Place:
    """A file or folder of a tree, as it was named.

    Attributes:
        tree: The tree.
        parts: The place in it.
        is_folder: Whether the text ended with a slash, which only a folder may have.
        is_content: Whether the text ended with ``/.``: what is in the folder, not the folder.
        makes_folder: Whether a target that ends with a slash is made if it is missing.
    """

    tree: Tree
    parts: Parts
    is_folder: bool = False
    is_content: bool = False
    makes_folder: bool = False

    @property
    def shown(self) -> str:
        """The place as people type it."""
        return self.tree.show(self.parts)

    @property
    def address(self) -> str:
        """A text that is the same for the same place."""
        return self.tree.address(self.parts)

    def joined(self, *names: str) -> Place:
        """Return a place below this one."""
        return Place(self.tree, (*self.parts, *names))


@dataclass(frozen=True)
class FileCopy:
    """One file that is to be copied.

    Attributes:
        source: The file.
        target: The name of the copy.
        num_bytes: Size of the source as it was listed.
        existing: What has the name of the copy, as it was listed.
    """

    source: Place
    target: Place
    num_bytes: int
    existing: Entry | None = None


@dataclass(frozen=True)
class FileOutcome:
    """What became of one file.

    Attributes:
        source: The file, as people type it.
        target: The copy; empty if no name was found for it.
        verdict: ``copied``; ``equal`` if a file with these bytes was there; or ``failed``.
        num_bytes: Size; 0 if it failed.
        sent_bytes: Bytes written by this call; without chunks that an earlier try has left.
        error: Why it failed.
    """

    source: str
    target: str
    verdict: Literal["copied", "equal", "failed"]
    num_bytes: int = 0
    sent_bytes: int = 0
    error: TrainFeedError | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        error = None if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return {**self.__dict__, "error": error}


@dataclass(frozen=True)
class CopyOptions:
    """How files are copied.

    Attributes:
        replace: Whether a file that has the name of a copy is replaced.
        is_recursive: Whether folders are copied.
        threads: Number of threads.
        rate: Limit of the bytes that are sent.
        tell: Called with the bytes of each chunk that is done, from any thread.
        stop: Set when the copy is to end between two chunks.
    """

    replace: bool = True
    is_recursive: bool = False
    threads: int = 4
    rate: RateLimit = field(default_factory=RateLimit)
    tell: Callable[[int], object] = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)

    def require_going(self) -> None:
        """Raise ``Stopped`` after ``stop`` was set."""
        if self.stop.is_set():
            raise Stopped("the copy was stopped; what was sent is kept for the next try")


def name_taken(copy: FileCopy) -> ConflictError:
    """Return the error of a name that has other bytes, and is not to be replaced."""
    return ConflictError(
        f"{copy.target.shown}: expected a free name or the same bytes, got a file with other"
        " bytes; nothing was changed; choose another name, or allow that it is replaced"
    )
