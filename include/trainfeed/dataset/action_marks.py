"""Decisions of the history whose mark is not there.

The mark of a withdrawal, a removal, a retirement or an accepted hole is one file. If that file is
lost, readers get the generation again, or a later build uses its number a second time. The history
has the decision, so that the loss can be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.accounts import person
from trainfeed.dataset.accepted_holes import hole_mark
from trainfeed.dataset.history import Action, DamagedAction, actions
from trainfeed.dataset.layout import DatasetFolder, is_generation, is_name, parse_generation
from trainfeed.dataset.retirements import begun_retirement
from trainfeed.errors import WindowError
from trainfeed.intervals import parse_time
from trainfeed.paths import is_there

__all__ = ["MissingMark", "missing_marks"]

# Action → the one that takes it back.
_TAKEN_BACK: Final = {"withdraw": "restore", "accept-hole": "revoke-hole"}
_ENDED: Final = {back: begun for begun, back in _TAKEN_BACK.items()}
# Kinds of retention whose items are intervals, and those whose items are generations.
_INTERVALS: Final = "intervals"
_GENERATIONS: Final = ("generations", "withdrawn")
_KEPT: Final = "-kept"


@dataclass(frozen=True)
class MissingMark:
    """An action that holds by the history, without the file that makes it hold.

    Attributes:
        action: The last action on its target.
        target: What it is about: ``clicks/2024-03-01/g0001``.
        path: The file that should be there.
    """

    action: Action
    target: str
    path: Path

    @property
    def told(self) -> str:
        """What is missing, who decided it, and what to do, for messages."""
        act = self.action
        return (
            f"expected {self.path}: by the history, {person(act.who, act.account)} began"
            f" {act.action!r} of {self.target} at {act.at} ({act.why}), and the file is not there;"
            " a call that was killed is completed by the same call; if the file was lost, bring it"
            " back from a backup, or decide again"
        )


def missing_marks(
    folder: DatasetFolder, done: Iterable[Action | DamagedAction] | None = None
) -> list[MissingMark]:
    """Return the actions that hold by the history and have no mark, the oldest first.

    Damaged files of the history are passed over; ``trainfeed history`` lists them.

    Args:
        folder: The data set.
        done: All its actions, the oldest first; by default they are read.

    Raises:
        AccessDeniedError: This account may not read the history.
        FormatError: Something else than a folder is in the place of the history.
        StorageError: The publication root refused or failed.
    """
    last: dict[tuple[str, str], tuple[Action, Path | None]] = {}
    for action in actions(folder) if done is None else done:
        if isinstance(action, Action):
            last |= {key: (action, path) for key, path in _marks(folder, action)}
    return [
        MissingMark(action, target, missing)
        for (_, target), (action, path) in last.items()
        if path is not None and not _is_past(folder, action)
        for missing in _missing(folder, path)
    ]


def _missing(folder: DatasetFolder, path: Path) -> Iterator[Path]:
    """Yield the mark if it is not there; of a retirement also the marks of its generations."""
    if not is_there(path):
        yield path
    elif path.name == folder.retirement(path.parent.name).name:
        interval = path.parent.name
        retired = begun_retirement(folder, interval)
        last = 0 if retired is None or retired.damage else retired.last_generation
        for number in range(1, last + 1):
            mark = folder.removal_mark(interval, number)
            if not is_there(mark) and not folder.has_folder(interval, number):
                yield mark


def _marks(folder: DatasetFolder, action: Action) -> Iterator[tuple[tuple[str, str], Path | None]]:
    """Yield what an action is about, and the mark that it leaves; None if it takes one away."""
    name = action.action
    if name in _ENDED:
        yield (_ENDED[name], action.target), None
    elif name == "withdraw":
        if (found := _generation(action.target.removeprefix(f"{folder.name}/"))) is not None:
            yield (name, action.target), folder.withdrawal_mark(*found)
    elif name == "accept-hole":
        if (hole := _hole(folder, action.details)) is not None:
            yield (name, action.target), hole
    else:
        yield from _removals(folder, action)


def _removals(
    folder: DatasetFolder, action: Action
) -> Iterator[tuple[tuple[str, str], Path | None]]:
    kind, items = action.details.get("kind"), action.details.get("items")
    if not isinstance(items, list):
        return
    is_kept = action.action.endswith(_KEPT)
    for item in items:
        match item:
            case {"name": str(name)} if kind == _INTERVALS and is_name(name):
                path = folder.retirement(name)
            case {"name": str(name)} if kind in _GENERATIONS and (found := _generation(name)):
                path = folder.removal_mark(*found)
            case _:
                continue
        yield ("remove", f"{folder.name}/{name}"), None if is_kept else path


def _generation(name: str) -> tuple[str, int] | None:
    """Return interval and number of ``2024-03-01/g0001``; None if it is something else."""
    interval, _, generation = name.partition("/")
    if not (is_name(interval) and is_generation(generation)):
        return None
    return interval, parse_generation(generation)


def _hole(folder: DatasetFolder, details: Mapping[str, Any]) -> Path | None:
    match details:
        case {"hole": str(start), "end": str(end)}:
            try:
                return hole_mark(folder, parse_time(start), parse_time(end))
            except WindowError:
                return None
        case _:
            return None


def _is_past(folder: DatasetFolder, action: Action) -> bool:
    """Whether a later removal or retirement made the mark superfluous."""
    found = _generation(action.target.removeprefix(f"{folder.name}/"))
    if action.action != "withdraw" or found is None:
        return False
    return is_there(folder.removal_mark(*found)) or is_there(folder.retirement(found[0]))
