"""Models and their versions as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from trainfeed.cli._damaged_entries import DamagedEntries
from trainfeed.errors import NotFoundError
from trainfeed.models import (
    CANDIDATE,
    PROD,
    Model,
    ModelFolder,
    RemovedModel,
    current_version,
    model_version,
    parse_version,
)

__all__ = [
    "REMOVED_COLUMNS",
    "VERSION_COLUMNS",
    "aliases_of",
    "model_row",
    "removed_rows",
    "version_rows",
]

VERSION_COLUMNS: Final[tuple[str, ...]] = ("version", "alias", "job", "metrics", "bytes")
REMOVED_COLUMNS: Final[tuple[str, ...]] = (
    "version", "job", "metrics", "bytes", "at", "who", "why"
)  # fmt: skip


def model_row(folder: ModelFolder, damaged: DamagedEntries) -> dict[str, Any]:
    """Return a model: how many versions it has, and those that its main aliases point to."""
    row: dict[str, Any] = {"model": folder.name, "versions": len(folder.versions())}
    return row | _pointed(folder, (CANDIDATE, PROD), damaged)


def version_rows(folder: ModelFolder, damaged: DamagedEntries) -> list[dict[str, Any]]:
    """Return the versions of a model, the newest first; ``damaged`` gets those it cannot read."""
    pointed = _pointed(folder, folder.aliases(), damaged)
    rows = []
    for version in map(model_version, reversed(folder.versions())):
        row = {**dict.fromkeys(VERSION_COLUMNS), "version": version}
        with damaged.named(f"{folder.name}/{version}", row):
            row |= Model.open(folder, parse_version(version)).to_json()
        rows.append({**row, "alias": [name for name in pointed if pointed[name] == version]})
    lost = (_lost_row(folder, number, damaged) for number in reversed(folder.lost_versions()))
    return [*rows, *lost]


def _lost_row(folder: ModelFolder, number: int, damaged: DamagedEntries) -> dict[str, Any]:
    version = model_version(number)
    row = {**dict.fromkeys(VERSION_COLUMNS), "version": version}
    with damaged.named(f"{folder.name}/{version}", row):
        _require_there(folder, number)
    return row


def _require_there(folder: ModelFolder, number: int) -> None:
    if number in folder.lost_versions():
        raise NotFoundError(
            f"expected its folder, or {folder.removal(number)} that tells who removed it, and both"
            " are gone; bring one of them back from a backup; its number is not used again"
        )


def removed_rows(folder: ModelFolder, damaged: DamagedEntries) -> list[dict[str, Any]]:
    """Return the versions that retention removed, the newest first; ``damaged`` as above."""
    rows = []
    for number in reversed(folder.removed_versions()):
        row = {**dict.fromkeys(REMOVED_COLUMNS), "version": model_version(number)}
        with damaged.named(f"{folder.name}/{model_version(number)}", row):
            removed = RemovedModel.read(folder, number)
            row |= {} if removed is None else _flat(removed)
        rows.append(row)
    return rows


def _flat(removed: RemovedModel) -> dict[str, Any]:
    facts = removed.to_json()
    return {**facts, **facts.pop("removed")}


def _pointed(
    folder: ModelFolder, aliases: Iterable[str], damaged: DamagedEntries
) -> dict[str, str | None]:
    """Return alias → version; None, and ``damaged``, for an alias with a damaged history."""
    pointed: dict[str, str | None] = {}
    for alias in aliases:
        pointed[alias] = None
        with damaged.named(f"{folder.name}@{alias}", pointed):
            pointed[alias] = current_version(folder, alias)
    return pointed


def aliases_of(folder: ModelFolder, number: int) -> list[str]:
    """Return the aliases that point to a version."""
    version = model_version(number)
    return [alias for alias in folder.aliases() if current_version(folder, alias) == version]
