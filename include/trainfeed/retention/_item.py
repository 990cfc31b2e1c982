"""What retention removes or keeps: one item of a kind, with its size and its age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Excess", "Expired", "Item", "Kept"]


@dataclass(frozen=True)
class Item:
    """Something that is removed as a whole, or stays as a whole.

    Attributes:
        kind: Name of its kind, as ``generations``.
        name: What it is within the data set, as ``2013-01-01/g0001``.
        num_bytes: Size of its files.
        since: Begin of its age, aware UTC time: the publication, or the last change.
        places: Paths and URIs of its files and folders, the first to be hidden first.
    """

    kind: str
    name: str
    num_bytes: int
    since: datetime
    places: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the item for ``--json`` and for the history."""
        since = self.since.isoformat(timespec="seconds")
        return {"kind": self.kind, "name": self.name, "bytes": self.num_bytes, "since": since}


@dataclass(frozen=True)
class Expired:
    """An item that a rule does not keep and nothing uses.

    Attributes:
        item: The item.
        why: The rule, as ``keep_generations: 3``.
    """

    item: Item
    why: str


@dataclass(frozen=True)
class Kept:
    """An item that a rule does not keep, but that stays.

    Attributes:
        item: The item.
        why: Who uses it, or what cannot be told, with the remedy.
    """

    item: Item
    why: str


@dataclass(frozen=True)
class Excess:
    """A limit of bytes that is exceeded although all was removed that may be removed.

    Attributes:
        kind: Name of the kind.
        num_bytes: Size of what stays.
        max_bytes: The limit.
    """

    kind: str
    num_bytes: int
    max_bytes: int

    @property
    def told(self) -> str:
        """The excess in one line."""
        return (
            f"{self.kind}: {self.num_bytes} bytes stay, max_bytes is {self.max_bytes}: what stays"
            " is in use or the newest; raise max_bytes, or end the uses that are listed as kept"
        )
