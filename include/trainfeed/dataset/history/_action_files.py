"""The files of actions: one for each, complete before the action begins, and never changed.

A file stands for an action that began, also if a kill prevented the rest; no action is without one.
Files are in folders by month, and their names begin with the time, so that two writers, also on two
mounts, never write the same file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from trainfeed import canonical_json, faults
from trainfeed.dataset.history._action import Action, DamagedAction
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.sealed_json import read_sealed, sealed
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.intervals import parse_time
from trainfeed.paths import listed_folder
from trainfeed.storage import posix

__all__ = ["actions", "record_action"]


def record_action(folder: DatasetFolder, action: Action) -> None:
    """Write an action durably; if this fails, the caller changes nothing.

    Args:
        folder: The data set.
        action: The action that is about to begin.

    Raises:
        StorageError: The publication root refused or failed.
    """
    at = parse_time(action.at)
    month = folder.history / f"{at:%Y%m}"
    digest = canonical_json.sha256_of(action.to_json())[:8]
    posix.make_public_dir(month)
    path = month / f"{at:%Y%m%dT%H%M%S.%fZ}-{action.action}-{digest}.json"
    # A name that is taken is that of the very same action.
    posix.create_exclusive(path, sealed(action.to_json()), is_public=True)
    faults.point("history.after_action")


def actions(
    folder: DatasetFolder, names: Collection[str] | None = None
) -> Iterator[Action | DamagedAction]:
    """Yield the actions on a data set, the oldest first.

    Args:
        folder: The data set.
        names: Names of actions; others are passed over and not read. None: all actions.

    Raises:
        AccessDeniedError: This account may not read the history.
        FormatError: Something else than a folder is in the place of the history.
        StorageError: The publication root refused or failed.
    """
    for month in sorted(listed_folder(folder.history, "[0-9]*")):
        try:
            paths = sorted(listed_folder(month, "[0-9]*.json"))
        except FormatError as error:
            yield DamagedAction(month, str(error))
            continue
        yield from (_read(path) for path in paths if names is None or _name(path) in names)


def _name(path: Path) -> str:
    """Return the name of an action as its file has it: between the time and the digest."""
    return path.stem.partition("-")[2].rpartition("-")[0]


def _read(path: Path) -> Action | DamagedAction:
    try:
        value = read_sealed(path, "an action", "nothing else depends on the file")
        return Action.from_json(value)
    except (FormatError, NotFoundError, TypeError, WindowError) as error:
        return DamagedAction(path, str(error))
