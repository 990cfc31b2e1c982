"""The changes of an alias as files.

Each change is a sealed file of its own, ``aliases/<alias>/0001.json``, created exclusively; the
file with the largest number is the current one. So a change is whole or absent, and only one of two
simultaneous changes gets a number. ``LAST.json`` has the largest number, so the loss of the newest
file is noticed, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from trainfeed import faults
from trainfeed.accounts import account_name, name_problem
from trainfeed.errors import ConfigError
from trainfeed.models._models_folder import ModelFolder, parse_version
from trainfeed.models._removed_model import require_kept
from trainfeed.records import ONCE_UNSEALED, RecordFile, Time
from trainfeed.storage import posix

__all__ = [
    "AliasChange",
    "alias_lock",
    "append_change",
    "confirm_change",
    "new_change",
    "numbered_changes",
]


@dataclass(frozen=True)
class AliasChange:
    """One change of an alias.

    Attributes:
        kind: ``promote`` to a version, or ``rollback`` to the previous one.
        version: Version that the alias points to after the change, such as ``v0003``.
        at: Time of the change, ISO 8601 in UTC.
        by: The person who made the change; by default the account.
        why: The reason, for people.
        request: Name of the request, such as that of a job or a run; a repeated request changes
            nothing. None for a change by command.
        account: The account or run that acted for the person; None in earlier files.
        alias: ``<model>/<alias>``; None in a file that is not sealed.
        number: Number of the change, from 1; likewise.
    """

    kind: Literal["promote", "rollback"]
    version: str
    at: Time
    by: str
    why: str
    request: str | None = None
    account: str | None = None
    alias: str | None = field(default=None, compare=False, repr=False)
    number: int | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the change for reports and commands, as JSON values."""
        names = ("kind", "version", "at", "by", "account", "why")
        return {name: getattr(self, name) for name in names}


def _to_json(change: AliasChange) -> dict[str, Any]:
    return {name: value for name, value in asdict(change).items() if value is not None}


_FILE: Final = RecordFile(
    AliasChange,
    "a change of an alias, with kind, version, at, by and why",
    "nothing was changed; bring the file back from a backup; if it is the last one, it may be"
    " removed together with LAST.json: then the change before it is the current one",
    place=ONCE_UNSEALED["alias"],
    to_json=_to_json,
)


def numbered_changes(folder: ModelFolder, alias: str) -> list[tuple[int, AliasChange]]:
    """Return all changes of an alias with their numbers, the oldest first.

    Raises:
        FormatError: A file of the history is damaged.
        StorageError: The publication root refused or failed.
    """
    return _FILE.numbered(folder.alias(alias), alias=f"{folder.name}/{alias}")


def new_change(
    kind: Literal["promote", "rollback"],
    version: str,
    why: str,
    request: str | None,
    *,
    who: str | None = None,
    account: str | None = None,
) -> AliasChange:
    """Return a change that is made now, by default by the account of this process.

    Raises:
        ConfigError: The name of the person or of the account cannot be printed; nothing was
            changed.
    """
    account = account or account_name()
    by = account if who is None else who
    for problem in filter(None, (name_problem("who", by), name_problem("account", account))):
        raise ConfigError(f"{problem}; nothing was changed")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return AliasChange(
        kind=kind, version=version, at=at, by=by, why=why, request=request, account=account
    )


def append_change(
    folder: ModelFolder, alias: str, known: Sequence[tuple[int, AliasChange]], change: AliasChange
) -> bool:
    """Write a change under the next number; return False if another one took that number first.

    Raises:
        NotFoundError: Retention has removed the version meanwhile; nothing was changed.
        StorageError: The publication root refused or failed.
    """
    number = known[-1][0] + 1 if known else 1
    faults.point("alias.before_change")
    with alias_lock(folder):
        require_kept(folder, parse_version(change.version))
        named = replace(change, alias=f"{folder.name}/{alias}", number=number)
        is_ours = _FILE.append(folder.alias(alias), number, named)
    faults.point("alias.after_change")
    return is_ours


def confirm_change(
    folder: ModelFolder, alias: str, known: Sequence[tuple[int, AliasChange]]
) -> None:
    """Confirm the last change, which an earlier process may have written and not confirmed.

    Raises:
        StorageError: The publication root refused or failed.
    """
    if known:
        _FILE.confirm(folder.alias(alias), known[-1][0])


@contextmanager
def alias_lock(folder: ModelFolder) -> Iterator[None]:
    """Hold the lock under which aliases change, and versions to which none points are removed.

    Raises:
        StorageError: Another process held the lock for a minute.
    """
    with posix.file_lock(folder.path / ".aliases.lock"):
        yield
