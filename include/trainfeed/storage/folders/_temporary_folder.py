"""The temporary folder of a transfer or a proof: its name, which tells its owner, and its removal.

::

    .<name>.<machine>-<process>-<start>-<random>.transfer   being written, or left by a kill
    .<name>.<random>.removed                                 left over, and being deleted

``machine`` stands for one boot of one kernel and one namespace of process ids, so a process on the
same machine is known to run or to have ended. A temporary folder of another machine counts as
abandoned when nothing in it has changed for three days, by a clock that agrees with the store's.

A leftover is renamed before it is deleted. If its owner runs after all, its commit finds no folder
to rename and fails; half of a deleted folder can never get the final name.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from trainfeed.errors import StorageError
from trainfeed.process_ties import mark_has_ended, process_mark
from trainfeed.storage._base import FileInfo
from trainfeed.storage._location import Location
from trainfeed.storage._store_clock import require_store_clock
from trainfeed.storage.folders._patience import Patience

__all__ = ["is_temporary", "remove_leftovers", "temporary_folder"]

logger = logging.getLogger(__name__)

_OWNED: Final = re.compile(r"\.(?P<mark>[0-9a-f]{12}-[0-9]+-[0-9]+)-[0-9a-f]{12}\.transfer")
_REMOVED: Final = re.compile(r"\.[0-9a-f]{12}\.removed")
_ABANDONED_S: Final = 3 * 24 * 3600.0


@contextmanager
def temporary_folder(target: Location, patience: Patience) -> Iterator[Location]:
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


def remove_leftovers(target: Location) -> tuple[str, ...]:
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


def _removed(place: Location, target: Location, kind: re.Pattern[str]) -> bool:
    try:
        if kind is _OWNED:
            owned, place = place, place.parent / f".{target.name}.{secrets.token_hex(6)}.removed"
            owned.rename(place)
        place.delete(recursive=True)
    except StorageError as error:
        logger.warning("%s of a killed transfer could not be removed: %s", place.uri, error)
        return False
    return True
