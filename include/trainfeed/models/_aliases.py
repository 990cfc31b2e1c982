"""The aliases ``candidate`` and ``prod``, which point to a version of a model, and their history.

The last change of an alias is the current one. ``promote`` adds a change to a version, and
``rollback`` adds a change back to the previous version.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.models._alias_changes import (
    AliasChange,
    append_change,
    confirm_change,
    new_change,
    numbered_changes,
)
from trainfeed.models._model import DAMAGED, Model
from trainfeed.models._models_folder import ModelFolder, model_version, parse_version
from trainfeed.models._pointed_versions import PROD, promoted_versions

__all__ = [
    "CANDIDATE",
    "PROD",
    "current",
    "current_version",
    "history",
    "promote",
    "rollback",
]

logger = logging.getLogger(__name__)

CANDIDATE: Final = "candidate"


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
    is_forward: bool = False,
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
            if the alias was rolled back afterwards.
        is_forward: Whether an alias that points to a model of a later interval is left unchanged:
            trainings of past intervals may end in any order. An alias that points to a damaged
            version is changed, with a warning.
        who: The person; the account if None.
        account: The run that acts for the person; the account of this process if None.

    Returns:
        The change that made or keeps the alias as it is, and whether this call made it. If the
        alias points to the version already, no change is added.

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
        for _, change in changes:
            if request is not None and (change.kind, change.request) == ("promote", request):
                return change, False
        if changes and changes[-1][1].version == model_version(number):
            return changes[-1][1], False
        if is_forward and changes and _is_later(folder, changes[-1][1], model):
            return changes[-1][1], False
        change = new_change(
            "promote", model_version(number), why, request, who=who, account=account
        )
        if append_change(folder, alias, changes, change):
            return change, True


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
        expected: Number of the version that ``prod`` must point to now; None allows any.
        request: Name of the request, as for ``promote``.
        who: The person, as for ``promote``.
        account: The run that acts for the person, as for ``promote``.

    Returns:
        The change, and whether this call made it.

    Raises:
        ConfigError: The name of the person cannot be printed.
        NotFoundError: There is no previous version, or retention removed it.
        ConflictError: ``prod`` points to another version than ``expected``.
        ChecksumError: A file of the previous model differs from its manifest.
        FormatError: A file of that model or of the history is damaged, missing or foreign.
        StorageError: The publication root refused or failed.
    """
    while True:
        changes = numbered_changes(folder, PROD)
        confirm_change(folder, PROD, changes)
        for _, change in changes:
            if request is not None and (change.kind, change.request) == ("rollback", request):
                return change, False
        before = _before(folder, [change for _, change in changes], expected)
        Model.open(folder, parse_version(before)).verify()
        change = new_change("rollback", before, why, request, who=who, account=account)
        if append_change(folder, PROD, changes, change):
            return change, True


def _is_later(folder: ModelFolder, change: AliasChange, model: Model) -> bool:
    try:
        there = Model.open(folder, parse_version(change.version)).manifest.job
    except DAMAGED as error:
        logger.warning("%s/%s is replaced, it is damaged: %s", folder.name, change.version, error)
        return False
    return there.interval > model.manifest.job.interval


def _before(folder: ModelFolder, changes: Sequence[AliasChange], expected: int | None) -> str:
    stack = promoted_versions(changes)
    if expected is not None and stack[-1:] != [model_version(expected)]:
        raise ConflictError(
            f"expected prod of model {folder.name} to point to {model_version(expected)}, it points"
            f" to {stack[-1] if stack else 'no version'}; nothing was changed; look with"
            f" trainfeed models show {folder.name}"
        )
    if len(stack) < 2:
        raise NotFoundError(
            f"model {folder.name} has no version that prod pointed to before; nothing was changed;"
            f" promote another one: trainfeed models promote {folder.name}/vNNNN"
        )
    return stack[-2]
