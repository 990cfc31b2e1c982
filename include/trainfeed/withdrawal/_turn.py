"""To which generation the readers of an interval turn, whether it is good, and the turn itself."""

from __future__ import annotations

from contextlib import suppress

from trainfeed import faults
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.layout import CURRENT, generation_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.storage import posix

__all__ = ["turn_readers", "verified"]


def verified(folder: DatasetFolder, interval: str, generation: int, remedy: str) -> Version:
    """Return a generation after a comparison of all its files with the manifest.

    Args:
        folder: The data set.
        interval: Name of the interval.
        generation: Number of the generation.
        remedy: What to do about a damaged one, for the message.

    Raises:
        FormatError: It is damaged; nothing was changed.
        StorageError: It cannot be read.
    """
    path = folder.version(interval, generation)
    try:
        version = Version.open(path)
        version.verify()
    except (FormatError, NotFoundError) as error:
        name = f"{folder.name}/{interval}/{generation_name(generation)}"
        message = f"{name} is damaged: {error}; nothing was changed; {remedy}"
        raise FormatError(message) from error
    return version


def turn_readers(folder: DatasetFolder, interval: str, generation: int | None) -> None:
    """Let CURRENT name a generation; remove it for None. It only hints: marks decide.

    Raises:
        StorageError: The publication root refused or failed; readers get the right one all the
            same, because marks and folders have precedence.
    """
    pointer = folder.interval(interval) / CURRENT
    if generation is None:
        with posix.map_errors(pointer), suppress(FileNotFoundError):
            pointer.unlink()
            posix.sync_dir(pointer.parent)
    else:
        posix.replace_file(pointer, f"{generation_name(generation)}\n".encode(), is_public=True)
    faults.point("withdrawal.after_pointer")
