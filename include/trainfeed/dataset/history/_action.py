"""One action on a data set: what was done to what, who did it, when and why."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainfeed.accounts import account_name
from trainfeed.dataset.layout import check_name
from trainfeed.intervals import format_time, parse_time

__all__ = ["Action", "DamagedAction"]


@dataclass(frozen=True)
class Action:
    """An action that began; that it ended is seen in what it changes.

    Attributes:
        action: Name of the command, as ``withdraw`` or ``prune``.
        target: What it changes, as ``flights/2013-01-01/g0001``.
        why: The reason, "" if the command asks for none.
        who: The person, or the run of a DAG.
        account: The account of the process.
        host: Name of its machine.
        at: Time, UTC, to the microsecond, as ``2026-03-08T00:00:00.000001Z``.
        details: Further facts, as JSON: bytes, former values, single files.
    """

    action: str
    target: str
    why: str
    who: str
    account: str
    host: str
    at: str
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

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Action:
        """Return the action of a file; keys that later versions add are ignored.

        Raises:
            TypeError: A value is missing, or has another type.
            WindowError: The time is none.
        """
        names = {each.name for each in fields(cls)}
        found = cls(**{key: each for key, each in value.items() if key in names})
        texts = {name: each for name, each in vars(found).items() if name != "details"}
        if wrong := [name for name, each in texts.items() if not isinstance(each, str)]:
            raise TypeError(f"{wrong[0]}: expected text, got {texts[wrong[0]]!r}")
        if not isinstance(found.details, dict):
            raise TypeError(f"details: expected an object, got {found.details!r}")
        parse_time(found.at)
        return found

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

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the file."""
        return {**vars(self), "details": dict(self.details)}


@dataclass(frozen=True)
class DamagedAction:
    """A file of the history that holds no action: it was changed after it was written.

    Attributes:
        path: The file.
        why: What is wrong with it.
    """

    path: Path
    why: str
