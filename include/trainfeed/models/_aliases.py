"""Names that lead to a version of a model, ``candidate`` and ``prod``, and all they ever led to.

Each change is a file of its own, ``aliases/<alias>/0001.json``, made exclusively; the one with the
largest number counts. So a change is whole or absent, two at once cannot both win, and the history
is the alias itself. ``rollback`` leads back to what was there before the current version came.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trainfeed import faults
from trainfeed.dataset import canonical
from trainfeed.dataset.root import account_name
from trainfeed.errors import ConflictError, FormatError, NotFoundError
from trainfeed.models._model import Model
from trainfeed.models._models_folder import ModelFolder, model_version, parse_version
from trainfeed.paths import listed, read_plain
from trainfeed.storage import posix

__all__ = ["CANDIDATE", "PROD", "AliasChange", "current", "history", "promote", "rollback"]

CANDIDATE: Final = "candidate"
PROD: Final = "prod"

_FILE: Final = re.compile(r"([0-9]{4,})\.json")
_MAX_BYTES: Final = 64 << 10


class AliasChange(BaseModel):
    """One change of an alias.

    Attributes:
        kind: ``promote`` to a version, or ``rollback`` to the one before.
        version: Where the alias leads since, such as ``v0003``.
        at: When, ISO 8601 in UTC.
        by: The account that did it.
        why: The reason, for people.
        request: What asked for it, such as a job or a run; asked again, it changes nothing.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    kind: Literal["promote", "rollback"]
    version: str
    at: str
    by: str
    why: str
    request: str | None = None


def history(folder: ModelFolder, alias: str) -> list[AliasChange]:
    """Return all changes of an alias, the oldest first.

    Raises:
        FormatError: One of them is damaged.
        StorageError: The publication root refused or failed.
    """
    return [change for _, change in _changes(folder, alias)]


def current(folder: ModelFolder, alias: str) -> Model | None:
    """Return the model that an alias leads to, or None while it leads nowhere.

    Raises:
        FormatError: A change, or the manifest of the model, is damaged.
        NotFoundError: The model is gone.
        StorageError: The publication root refused or failed.
    """
    changes = history(folder, alias)
    return Model.open(folder, parse_version(changes[-1].version)) if changes else None


def promote(
    folder: ModelFolder,
    alias: str,
    number: int,
    why: str,
    *,
    request: str | None = None,
    is_forward: bool = False,
) -> tuple[AliasChange, bool]:
    """Let an alias lead to a version.

    Args:
        folder: The model.
        alias: ``candidate`` or ``prod``.
        number: The version; it is verified first.
        why: The reason, for people.
        request: What asks; a request that was carried out once changes nothing any more, also when
            the alias was rolled back since.
        is_forward: Whether an alias that leads to a model of a later interval stays: trainings of
            past intervals end in any order.

    Returns:
        The change that holds for the request, and whether this call made it. A version that the
        alias leads to already is not promoted again.

    Raises:
        NotFoundError: There is no such version.
        ChecksumError: The model is damaged.
        StorageError: The publication root refused or failed.
    """
    model = Model.open(folder, number)
    model.verify()
    while True:
        changes = _changes(folder, alias)
        for _, change in changes:
            if request is not None and (change.kind, change.request) == ("promote", request):
                return change, False
        if changes and changes[-1][1].version == model_version(number):
            return changes[-1][1], False
        if is_forward and changes and _is_later(folder, changes[-1][1], model):
            return changes[-1][1], False
        change = _change("promote", model_version(number), why, request)
        if _append(folder, alias, changes, change):
            return change, True


def rollback(
    folder: ModelFolder, why: str, *, expected: int | None = None, request: str | None = None
) -> tuple[AliasChange, bool]:
    """Let ``prod`` lead to what it led to before its current version was promoted.

    Args:
        folder: The model.
        why: The reason, for people.
        expected: The version that is to be left; any when None.
        request: As for ``promote``.

    Returns:
        The change, and whether this call made it.

    Raises:
        NotFoundError: There is no version to go back to.
        ConflictError: ``prod`` leads to another version than ``expected``.
        ChecksumError: The model is damaged.
        StorageError: The publication root refused or failed.
    """
    while True:
        changes = _changes(folder, PROD)
        for _, change in changes:
            if request is not None and (change.kind, change.request) == ("rollback", request):
                return change, False
        before = _before(folder, [change for _, change in changes], expected)
        Model.open(folder, parse_version(before)).verify()
        change = _change("rollback", before, why, request)
        if _append(folder, PROD, changes, change):
            return change, True


def _is_later(folder: ModelFolder, change: AliasChange, model: Model) -> bool:
    there = Model.open(folder, parse_version(change.version)).manifest.job
    return there.interval > model.manifest.job.interval


def _before(folder: ModelFolder, changes: Sequence[AliasChange], expected: int | None) -> str:
    stack: list[str] = []
    for change in changes:
        if change.kind == "promote":
            stack.append(change.version)
        else:
            del stack[-1:]
    if expected is not None and stack[-1:] != [model_version(expected)]:
        raise ConflictError(
            f"expected prod of model {folder.name} to lead to {model_version(expected)}, it leads"
            f" to {stack[-1] if stack else 'no version'}; nothing was changed; look with"
            f" trainfeed models show {folder.name}"
        )
    if len(stack) < 2:
        raise NotFoundError(
            f"model {folder.name} has no version that prod led to before; nothing was changed;"
            f" promote another one: trainfeed models promote {folder.name}/vNNNN"
        )
    return stack[-2]


def _change(
    kind: Literal["promote", "rollback"], version: str, why: str, request: str | None
) -> AliasChange:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return AliasChange(
        kind=kind, version=version, at=at, by=account_name(), why=why, request=request
    )


def _append(
    folder: ModelFolder, alias: str, known: Sequence[tuple[int, AliasChange]], change: AliasChange
) -> bool:
    """Make the change the newest; return whether no other one came first."""
    number = known[-1][0] + 1 if known else 1
    place = folder.alias(alias)
    posix.make_public_dir(place)
    faults.point("alias.before_change")
    data = canonical.dumps(change.model_dump(exclude_none=True))
    is_ours = posix.create_exclusive(place / f"{number:04d}.json", data, is_public=True)
    faults.point("alias.after_change")
    return is_ours


def _changes(folder: ModelFolder, alias: str) -> list[tuple[int, AliasChange]]:
    place = folder.alias(alias)
    numbers = sorted(
        int(match[1]) for path in listed(place) if (match := _FILE.fullmatch(path.name))
    )
    found = []
    for number in numbers:
        path = place / f"{number:04d}.json"
        try:
            data = canonical.loads(
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
