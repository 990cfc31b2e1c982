"""The versions that aliases point to now, or would point to after one rollback."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trainfeed.models._alias_changes import AliasChange, numbered_changes
from trainfeed.models._models_folder import ModelFolder, parse_version

__all__ = ["PROD", "pointed_versions", "promoted_versions"]

# The alias that can be rolled back.
PROD: Final = "prod"


def promoted_versions(changes: Iterable[AliasChange]) -> list[str]:
    """Return the versions that an alias can still be rolled back to, and the current one, last.

    A rollback removes the version that it left, so a second rollback goes one step further back,
    and never to a version that was rolled back before.
    """
    stack: list[str] = []
    for change in changes:
        if change.kind == "promote":
            stack.append(change.version)
        else:
            del stack[-1:]
    return stack


def pointed_versions(folder: ModelFolder) -> dict[int, str]:
    """Return number → why it is needed, of the versions that aliases need.

    Raises:
        ConfigError: A change names something that is no version.
        FormatError: A change is damaged: what aliases need cannot be told.
        StorageError: The publication root refused or failed.
    """
    found: dict[int, str] = {}
    for alias in folder.aliases():
        stack = promoted_versions(change for _, change in numbered_changes(folder, alias))
        for version in stack[-2:-1] if alias == PROD else ():
            found.setdefault(parse_version(version), f"a rollback of {alias} leads to it")
        for version in stack[-1:]:
            found[parse_version(version)] = f"{alias} points to it"
    return found
