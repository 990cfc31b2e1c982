"""The history of a data set: who changed what, when and why, and decisions without a mark."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json, faults
from trainfeed.core.accounts import Decided, account_name
from trainfeed.core.intervals import format_time, parse_time
from trainfeed.errors import FormatError, WindowError
from trainfeed.files import is_there, listed_folder
from trainfeed.files.records import RecordFile, record_of
from trainfeed.versions.layout import (
    DatasetFolder,
    check_name,
    is_generation,
    is_name,
    parse_generation,
)
from trainfeed.versions.retire import begun_retirement
from trainfeed.versions.skip import hole_mark

# --- One action on a data set: what was done to what, who did it, when and why


@dataclass(frozen=True)
class Action(Decided):
    """An action that began; that it ended is seen in what it changes.

    Its ``why`` is "" if the command asks for none, and ``at`` has microseconds.

    Attributes:
        action: Name of the command, as ``withdraw`` or ``prune``.
        target: What it changes, as ``flights/2013-01-01/g0001``.
        host: Name of the machine.
        details: Further facts, as JSON: bytes, former values, single files.
    """

    action: str
    target: str
    host: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def now(
        cls,
        action: str,
        target: str,
        *,
        why: str,
        who: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Action:
        """Return an action of this process at this time.

        Args:
            action: Name of the command.
            target: What it changes.
            why: The reason, "" if the command asks for none.
            who: The person; the account if None.
            details: Further facts, as JSON.
        """
        account = account_name()
        return cls(
            action=check_name(action),
            target=target,
            why=why,
            who=who or account,
            account=account,
            host=socket.gethostname(),
            at=format_time(datetime.now(UTC)),
            details=dict(details or {}),
        )

    @property
    def told_target(self) -> str:
        """What it changes, for people: with the items that an action on several of them names."""
        found = self.details.get("items")
        items = found if isinstance(found, list) else []
        names = [str(each["name"]) for each in items if isinstance(each, dict) and "name" in each]
        if not names:
            return self.target
        more = f" and {len(names) - 1} more, up to {names[-1]}" if len(names) > 1 else ""
        return f"{self.target}/{names[0]}{more}"


@dataclass(frozen=True)
class DamagedAction:
    """A file of the history that holds no action: it was changed after it was written.

    Attributes:
        path: The file.
        why: What is wrong with it.
    """

    path: Path
    why: str


# --- The files of actions: one for each, complete before the action begins, and never changed


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
    action = record_of(Action, value)
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


# --- Decisions of the history whose mark is not there

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
            f"expected {self.path}: by the history, {act.by} began"
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
