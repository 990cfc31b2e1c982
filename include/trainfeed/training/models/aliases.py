"""The aliases ``candidate`` and ``prod``, which point to a version of a model; their history."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from trainfeed.core import faults
from trainfeed.core.accounts import account_name, require_decision
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.files.records import ONCE_UNSEALED, RecordFile, Time
from trainfeed.files.stores import posix
from trainfeed.training.models.model import (
    DAMAGED,
    Model,
    ModelFolder,
    model_version,
    parse_version,
    require_kept,
)

logger = logging.getLogger(__name__)

CANDIDATE: Final = "candidate"
# The alias that can be rolled back.
PROD: Final = "prod"

# --- The changes of an alias as files


@dataclass(frozen=True)
class AliasChange:
    """One change of an alias.

    Attributes:
        kind: ``promote`` to a version, or ``rollback`` to the previous one.
        version: Version that the alias points to after the change, such as ``v0003``.
        at: Time of the change, ISO 8601 in UTC.
        by: The person who made the change; by default the account.
        why: The reason, for people.
        request: Name of the job or run that asked for the change, which it makes only once; None
            for a change by command.
        account: The account or run that acted for the person; None in earlier files.
        alias: ``<model>/<alias>``; None in a file without a seal.
        number: Number of the change, from 1; None in a file without a seal.
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
    require_decision(who=by, account=account)
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
    """Hold the lock under which aliases change and retention removes versions.

    Raises:
        StorageError: Another process held the lock for a minute.
    """
    with posix.file_lock(folder.path / ".aliases.lock"):
        yield


# --- The versions that aliases point to now, or would point to after one rollback


def promoted_versions(changes: Iterable[AliasChange]) -> list[str]:
    """Return the versions that rollbacks of an alias lead to, the next one last but one.

    The last version is the current one. A rollback removes it from the list, so the next rollback
    goes one step further back, and none leads to a version that was rolled back. A promotion of the
    current version is a request that found it promoted, and no step of its own.
    """
    stack: list[str] = []
    for change in changes:
        if change.kind == "rollback":
            del stack[-1:]
        elif stack[-1:] != [change.version]:
            stack.append(change.version)
    return stack


def pointed_versions(folder: ModelFolder) -> dict[int, str]:
    """Return number → why it is needed, of the versions that aliases need.

    Raises:
        ConfigError: A change names something that is no version.
        FormatError: A change is damaged, so the versions that aliases need are unknown.
        StorageError: The publication root refused or failed.
    """
    found: dict[int, str] = {}
    for alias in folder.aliases():
        stack = promoted_versions(change for _, change in numbered_changes(folder, alias))
        if alias == PROD and len(stack) > 1:
            found.setdefault(parse_version(stack[-2]), f"a rollback of {alias} leads to it")
        if stack:
            found[parse_version(stack[-1])] = f"{alias} points to it"
    return found


# --- Reading, promotion and rollback of an alias


def history(folder: ModelFolder, alias: str) -> list[AliasChange]:
    """Return all changes of an alias, the oldest first.

    Raises:
        FormatError: A file of the history is damaged.
        StorageError: The publication root refused or failed.
    """
    return [change for _, change in numbered_changes(folder, alias)]


def current(folder: ModelFolder, alias: str) -> Model | None:
    """Return the model that an alias points to, or None while the alias has no change.

    Raises:
        FormatError: A change, or the manifest of the model, is damaged.
        NotFoundError: The model is gone.
        StorageError: The publication root refused or failed.
    """
    version = current_version(folder, alias)
    return None if version is None else Model.open(folder, parse_version(version))


def current_version(folder: ModelFolder, alias: str) -> str | None:
    """Return the name of the version that an alias points to, or None; the version is not read.

    Raises:
        FormatError: A file of the history is damaged.
        StorageError: The publication root refused or failed.
    """
    changes = history(folder, alias)
    return changes[-1].version if changes else None


def promote(  # noqa: PLR0913 - the options of a change
    folder: ModelFolder,
    alias: str,
    number: int,
    why: str,
    *,
    request: str | None = None,
    only_if_newer: bool = False,
    who: str | None = None,
    account: str | None = None,
) -> tuple[AliasChange, bool]:
    """Point an alias to a version.

    Args:
        folder: The model.
        alias: ``candidate`` or ``prod``.
        number: Number of the version, whose files are verified first.
        why: The reason, for people.
        request: Name of the request; a request that is in the history already changes nothing, even
            if the alias was rolled back afterwards. So one that finds the version promoted is
            written to the history, too; without a name it is not.
        only_if_newer: Whether an alias that points to a model of a later interval stays as it is,
            because trainings of past intervals may end in any order. An alias that points to a
            damaged version is changed, with a warning.
        who: The person; the account if None.
        account: The run that acts for the person; the account of this process if None.

    Returns:
        The change, and whether this call moved the alias. If the alias stays as it is, the change
        is that of the same request, or else the last one.

    Raises:
        ConfigError: The name of the person cannot be printed.
        NotFoundError: There is no such version, or retention removed it.
        ChecksumError: A file of the model differs from its manifest.
        FormatError: A file of the model or of the history is damaged, missing or foreign.
        StorageError: The publication root refused or failed.
    """
    model = Model.open(folder, number)
    model.verify()
    # Repeated if another process adds a change between the reading and the writing here.
    while True:
        changes = numbered_changes(folder, alias)
        confirm_change(folder, alias, changes)
        if (known := _change_of_request(changes, "promote", request)) is not None:
            return known, False
        is_there = bool(changes) and changes[-1][1].version == model_version(number)
        if is_there and request is None:
            return changes[-1][1], False
        if only_if_newer and changes and not is_there and _is_later(folder, changes[-1][1], model):
            return changes[-1][1], False
        change = new_change(
            "promote", model_version(number), why, request, who=who, account=account
        )
        if append_change(folder, alias, changes, change):
            return change, not is_there


def rollback(
    folder: ModelFolder,
    why: str,
    *,
    expected: int | None = None,
    request: str | None = None,
    who: str | None = None,
    account: str | None = None,
) -> tuple[AliasChange, bool]:
    """Point ``prod`` to the version before the current one.

    Args:
        folder: The model.
        why: The reason, for people.
        expected: Number of the version that ``prod`` must point to now; None takes the one that it
            points to when this call begins.
        request: Name of the request, as for ``promote``.
        who: The person, as for ``promote``.
        account: The run that acts for the person, as for ``promote``.

    Returns:
        The change, and whether this call made it.

    Raises:
        ConfigError: The name of the person cannot be printed.
        NotFoundError: There is no previous version, or retention removed it.
        ConflictError: ``prod`` points to another version than ``expected``, also because another
            process has moved it during this call; this call changed nothing.
        ChecksumError: A file of the previous model differs from its manifest.
        FormatError: A file of that model or of the history is damaged, missing or foreign.
        StorageError: The publication root refused or failed.
    """
    while True:
        changes = numbered_changes(folder, PROD)
        confirm_change(folder, PROD, changes)
        if (known := _change_of_request(changes, "rollback", request)) is not None:
            return known, False
        versions = promoted_versions(change for _, change in changes)
        # The version of the first round is the one to leave: if another rollback comes first, this
        # one must not go a step further.
        if expected is None and versions:
            expected = parse_version(versions[-1])
        target = _rollback_target(folder, versions, expected)
        Model.open(folder, parse_version(target)).verify()
        change = new_change("rollback", target, why, request, who=who, account=account)
        if append_change(folder, PROD, changes, change):
            return change, True


def _change_of_request(
    changes: Iterable[tuple[int, AliasChange]], kind: str, request: str | None
) -> AliasChange | None:
    """Return the change that a request has made before, or None."""
    for _, change in changes:
        if request is not None and (change.kind, change.request) == (kind, request):
            return change
    return None


def _is_later(folder: ModelFolder, change: AliasChange, model: Model) -> bool:
    try:
        job = Model.open(folder, parse_version(change.version)).manifest.job
    except DAMAGED as error:
        logger.warning("%s/%s is replaced, it is damaged: %s", folder.name, change.version, error)
        return False
    return job.interval > model.manifest.job.interval


def _rollback_target(folder: ModelFolder, versions: Sequence[str], expected: int | None) -> str:
    if expected is not None and versions[-1:] != [model_version(expected)]:
        raise ConflictError(
            f"expected prod of model {folder.name} to point to {model_version(expected)}, it points"
            f" to {versions[-1] if versions else 'no version'}; nothing was changed; look with"
            f" trainfeed models show {folder.name}"
        )
    if len(versions) < 2:
        raise NotFoundError(
            f"model {folder.name} has no version that prod pointed to before; nothing was changed;"
            f" promote another one: trainfeed models promote {folder.name}/vNNNN"
        )
    return versions[-2]
