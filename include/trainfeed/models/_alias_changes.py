"""The changes of an alias as files.

Each change is a file of its own, ``aliases/<alias>/0001.json``, created exclusively; the file with
the largest number is the current one. So a change is whole or absent, and only one of two
simultaneous changes gets a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trainfeed import canonical_json, faults
from trainfeed.accounts import account_name, name_problem
from trainfeed.errors import ConfigError, FormatError
from trainfeed.models._models_folder import ModelFolder, parse_version
from trainfeed.models._removed_model import require_kept
from trainfeed.paths import listed_folder, read_plain
from trainfeed.storage import posix

__all__ = ["AliasChange", "alias_lock", "append_change", "new_change", "numbered_changes"]

_FILE: Final = re.compile(r"([0-9]{4,})\.json")
_MAX_BYTES: Final = 64 << 10


class AliasChange(BaseModel):
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
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    kind: Literal["promote", "rollback"]
    version: str
    at: str
    by: str
    why: str
    request: str | None = None
    account: str | None = None


def numbered_changes(folder: ModelFolder, alias: str) -> list[tuple[int, AliasChange]]:
    """Return all changes of an alias with their numbers, the oldest first.

    Raises:
        FormatError: A file of the history is damaged.
        StorageError: The publication root refused or failed.
    """
    place = folder.alias(alias)
    numbers = sorted(
        int(match[1]) for path in listed_folder(place) if (match := _FILE.fullmatch(path.name))
    )
    found = []
    for number in numbers:
        path = place / f"{number:04d}.json"
        try:
            data = canonical_json.loads(
                read_plain(path, follow=False, max_bytes=_MAX_BYTES), path=str(path)
            )
            found.append((number, AliasChange.model_validate(data)))
        except ValidationError as error:
            raise FormatError(
                "expected a change of an alias, with kind, version, at, by and why; nothing was"
                " changed; bring the file back from a backup, or remove it",
                path=str(path),
            ) from error
    return found


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
    place = folder.alias(alias)
    posix.make_public_dir(place)
    faults.point("alias.before_change")
    data = canonical_json.dumps(change.model_dump(exclude_none=True))
    with alias_lock(folder):
        require_kept(folder, parse_version(change.version))
        is_ours = posix.create_exclusive(place / f"{number:04d}.json", data, is_public=True)
    faults.point("alias.after_change")
    return is_ours


@contextmanager
def alias_lock(folder: ModelFolder) -> Iterator[None]:
    """Hold the lock under which aliases change, and versions to which none points are removed.

    Raises:
        StorageError: Another process held the lock for a minute.
    """
    with posix.file_lock(folder.path / ".aliases.lock"):
        yield
