"""The files of actions: one for each, complete before the action begins, and never changed.

A file stands for an action that began, also if a kill prevented the rest; no action is without one.
Files are in folders by month, and their names begin with the time, so that two writers, also on two
mounts, never write the same file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json, faults
from trainfeed.dataset.history._action import Action, DamagedAction
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import FormatError
from trainfeed.intervals import parse_time
from trainfeed.paths import listed_folder
from trainfeed.records import RecordFile

__all__ = ["actions", "record_action"]


def record_action(folder: DatasetFolder, action: Action) -> None:
    """Write an action durably; if this fails, the caller changes nothing.

    Args:
        folder: The data set.
        action: The action that is about to begin.

    Raises:
        StorageError: The publication root refused or failed.
    """
    name = _name(action, action.to_json())
    # A name that is taken is that of the very same action.
    _FILE.write_once(folder.history / name, _Named(action, name))
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
        yield from (_read(path) for path in paths if names is None or _action_of(path) in names)


def _action_of(path: Path) -> str:
    """Return the name of an action as its file has it: between the time and the digest."""
    return path.stem.partition("-")[2].rpartition("-")[0]


def _read(path: Path) -> Action | DamagedAction:
    try:
        named = _FILE.read(path, name=f"{path.parent.name}/{path.name}")
    except FormatError as error:
        return DamagedAction(path, str(error))
    return DamagedAction(path, "it is gone") if named is None else named.action


@dataclass(frozen=True)
class _Named:
    """An action, and the name that its content gives its file: ``<month>/<time>-…``."""

    action: Action
    name: str


def _named(value: Mapping[str, Any]) -> _Named:
    action = Action.from_json(value)
    return _Named(action, _name(action, value))


def _name(action: Action, value: Mapping[str, Any]) -> str:
    at, digest = parse_time(action.at), canonical_json.sha256_of(value)[:8]
    return f"{at:%Y%m}/{at:%Y%m%dT%H%M%S.%fZ}-{action.action}-{digest}.json"


_FILE: Final = RecordFile(
    _Named,
    "an action",
    "nothing else depends on the file",
    max_bytes=1 << 20,
    to_json=lambda named: named.action.to_json(),
    from_json=_named,
)
