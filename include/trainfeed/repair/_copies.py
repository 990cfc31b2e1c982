"""Intact copies of a damaged file: in a backup, in another generation, or in the data set's folder.

The name of a copy proves nothing: it is read once, while it is copied, and used only if the copied
bytes have the size and SHA-256 of the manifest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from trainfeed.dataset import Manifest, Version
from trainfeed.dataset.publication import StagedFile
from trainfeed.dataset.version import DOCUMENTS
from trainfeed.errors import FormatError, NotFoundError, StorageError
from trainfeed.paths import open_plain
from trainfeed.repair._damage_search import mode_of
from trainfeed.repair._repair_order import RepairOrder

__all__ = ["Copies", "Copy"]

logger = logging.getLogger(__name__)

_BLOCK_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Copy:
    """A file that may be a copy, and where it is, for the report."""

    path: Path
    where: str
    follow: bool = False


class Copies:
    """Finds copies of the files of one version.

    Args:
        order: The version, and where its files may come from.
        version: The version, opened.
    """

    def __init__(self, order: RepairOrder, version: Version) -> None:
        self._spec = order.spec
        self._version = version
        self._backup = order.backup
        self._expected = version.manifest.file_digests()
        self._others = _other_generations(order)

    def stage(self, name: str, staged: Path) -> str | None:
        """Copy a file into a staged folder; return where it was found, or None if nowhere."""
        for copy in self._candidates(name):
            with _opened(copy) as source:
                if source is not None and _copied(source, staged, name, self._expected[name]):
                    return copy.where
        return None

    def _candidates(self, name: str) -> Iterator[Copy]:
        # A file with a second name, or a link, may have the right bytes.
        yield Copy(self._version.path / name, "its own bytes", follow=True)
        if self._backup is not None:
            yield Copy(self._backup / name, str(self._backup / name), follow=True)
        for other, manifest in self._others:
            for theirs, digest in manifest.file_digests().items():
                if digest == self._expected[name]:
                    yield Copy(other / theirs, f"{other.name}/{theirs}")
        folder, _, last = name.rpartition("/")
        if folder == DOCUMENTS:
            for place in self._spec.documents:
                if PurePosixPath(place).name == last:
                    yield Copy(self._spec.folder / place, str(self._spec.folder / place), True)


def _other_generations(order: RepairOrder) -> list[tuple[Path, Manifest]]:
    found = []
    for number in order.folder.generations(order.interval):
        path = order.folder.version(order.interval, number)
        if number != order.generation:
            with suppress(FormatError, StorageError):
                found.append((path, Manifest.read(path)[0]))
    return found


@contextmanager
def _opened(copy: Copy) -> Iterator[BinaryIO | None]:
    """Open a copy; yield None if there is none, or none that can be opened, which is logged."""
    with ExitStack() as stack:
        try:
            source = stack.enter_context(open_plain(copy.path, follow=copy.follow))
        except NotFoundError:
            source = None
        except (FormatError, StorageError) as error:
            logger.warning("%s cannot be used for a repair: %s", copy.where, error)
            source = None
        yield source


def _copied(source: BinaryIO, staged: Path, name: str, expected: tuple[int, str]) -> bool:
    """Copy a file, and keep the copy only if it has the expected size and digest."""
    num_bytes, sha256 = expected
    target = StagedFile(staged, name, mode=mode_of(name))
    with suppress(_OtherBytesError), target as file:
        while file.num_bytes <= num_bytes and (block := _block(source)):
            file.write(block)
        if (file.num_bytes, file.sha256) != (num_bytes, sha256):
            raise _OtherBytesError
        return True
    return False


def _block(source: BinaryIO) -> bytes:
    """Return the next block; a copy that cannot be read to its end has other bytes."""
    try:
        return source.read(_BLOCK_BYTES)
    except OSError as error:
        logger.warning("a copy cannot be used for a repair: %s", error)
        raise _OtherBytesError from error


class _OtherBytesError(Exception):
    """Leaves the block of a staged file, which then is removed."""
