"""What is wrong with one file of a version."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["MADE_AGAIN", "Finding", "FindingKind"]


class FindingKind(StrEnum):
    """The kinds of damage; each leads to one way of repair."""

    MISSING = "missing"
    CHANGED = "changed"
    SIZE = "wrong size"
    NOT_A_FILE = "not a file"
    SECOND_NAME = "second name"
    UNREADABLE = "unreadable"
    MODE = "wrong mode"
    EXTRA = "extra"


# The kinds after which the bytes of the file have to be made again, or copied.
MADE_AGAIN: Final = frozenset(
    {
        FindingKind.MISSING,
        FindingKind.CHANGED,
        FindingKind.SIZE,
        FindingKind.NOT_A_FILE,
        FindingKind.SECOND_NAME,
        FindingKind.UNREADABLE,
    }
)


@dataclass(frozen=True)
class Finding:
    """A file of a version that is not as the manifest says.

    Attributes:
        name: Path of the file, relative to the version.
        kind: The kind of damage.
        what: What was expected, and what was found.
    """

    name: str
    kind: FindingKind
    what: str

    def to_json(self) -> dict[str, str]:
        """Return the finding as commands print it."""
        return {"file": self.name, "kind": str(self.kind), "what": self.what}
