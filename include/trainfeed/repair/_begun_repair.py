"""Repairs of a version that began and have no end in the history, because a kill or an error came.

The next repair of the version ends them: its entry names their files, too, and the version keeps
the age that it had before the first of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.history import Action, actions
from trainfeed.errors import WindowError
from trainfeed.intervals import parse_time

__all__ = ["BEGAN", "FAILED", "REPAIRED", "SINCE", "BegunRepair", "begun_repair"]

BEGAN, REPAIRED, FAILED = "repair", "repaired", "repair-failed"
SINCE = "since"


@dataclass(frozen=True)
class BegunRepair:
    """What repairs began to do, after the last one that came to its end.

    Attributes:
        files: Names of the damaged files that they found.
        why: The reason of the last of them.
        since: Modification time of the version's folder before the first of them; None if that
            one was of a trainfeed that did not record it.
    """

    files: tuple[str, ...]
    why: str
    since: datetime | None


def begun_repair(folder: DatasetFolder, target: str) -> BegunRepair | None:
    """Return what was begun for a version, None if every repair of it came to its end.

    Args:
        folder: The data set.
        target: The version, as ``flights/2013-01-01/g0001``.

    Raises:
        AccessDeniedError: This account may not read the history.
        FormatError: Something else than a folder is in the place of the history.
        StorageError: The publication root refused or failed.
    """
    begun: list[Action] = []
    for each in actions(folder, {BEGAN, REPAIRED, FAILED}):
        if isinstance(each, Action) and each.target == target:
            begun = [*begun, each] if each.action == BEGAN else []
    if not begun:
        return None
    names = {name for each in begun for name in _files(each)}
    return BegunRepair(tuple(sorted(names)), begun[-1].why, _since(begun[0]))


def _files(action: Action) -> tuple[str, ...]:
    found = action.details.get("files")
    return tuple(found) if isinstance(found, dict) else ()


def _since(action: Action) -> datetime | None:
    try:
        return parse_time(action.details[SINCE])
    except (KeyError, TypeError, WindowError):
        return None
