"""The unfinished name of a folder that is copied, and its adoption by the next try.

::

    .pfs-<machine>-<process>-<start>.<digits of target and source>.tmp

The name says which process fills the folder. After that process has ended, the next try renames the
folder to a name of its own, which only one of several tries can do, and goes on with it.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.pfs.transfer._copy_values import Place
from trainfeed.pfs.trees import Entry
from trainfeed.process_ties import mark_has_ended, process_mark

__all__ = ["ABANDONED_S", "may_be_removed", "unfinished_folder"]

# Age after which the unfinished copy of another machine counts as abandoned.
ABANDONED_S: Final = 3 * 24 * 3600.0
_NAME: Final = re.compile(
    r"\.pfs-(?P<mark>[0-9a-f]{12}-[0-9]+-[0-9]+)\.(?P<digits>[0-9a-f]{32})\.tmp"
)

_lock = threading.Lock()
# Addresses of the folders that this process fills now.
_in_use: set[str] = set()


@contextmanager
def unfinished_folder(source: Place, target: Place) -> Iterator[tuple[Place, bool]]:
    """Yield the unfinished folder of a copy, and whether an earlier try has left it.

    Raises:
        ConflictError: This process copies the folder to this name already.
        StorageError: The tree refused or failed.
    """
    text = f"{target.parts[-1]}\0{source.address}".encode(errors="surrogateescape")
    digits = hashlib.sha256(text).hexdigest()[:32]
    own = Place(target.tree, target.parts[:-1]).joined(f".pfs-{process_mark()}.{digits}.tmp")
    with _used_once(own, target):
        yield own, _is_resumed(own, digits)


@contextmanager
def _used_once(own: Place, target: Place) -> Iterator[None]:
    address = own.address
    with _lock:
        if address in _in_use:
            raise ConflictError(
                f"{target.shown}: this process copies the same folder to this name; nothing was"
                " changed; name each target once"
            )
        _in_use.add(address)
    try:
        yield
    finally:
        with _lock:
            _in_use.discard(address)


def _is_resumed(own: Place, digits: str) -> bool:
    """Adopt what an earlier try has left, or make the folder; return whether it was there."""
    above, name = own.parts[:-1], own.parts[-1]
    entries = own.tree.entries(above)
    if any(entry.name == name for entry in entries):
        return True  # of an earlier try of this process
    for entry in entries:
        found = _NAME.fullmatch(entry.name)
        if found and found["digits"] == digits and may_be_removed(entry):
            # Of several tries that find it, one can rename it.
            with suppress(NotFoundError):
                own.tree.rename((*above, entry.name), own.parts, replace=False)
                return True
    own.tree.make_folder(own.parts)
    return False


def may_be_removed(entry: Entry, *, older_than_s: float = ABANDONED_S) -> bool:
    """Return whether no process fills an unfinished file or folder any more.

    Args:
        entry: Its entry.
        older_than_s: Age in seconds that counts when the process is not known, or was on another
            machine.
    """
    owned = _NAME.fullmatch(entry.name)
    has_ended = mark_has_ended(owned["mark"]) if owned else None
    if has_ended is None:
        return time.time() - entry.modified_ns / 1e9 > older_than_s
    return has_ended
