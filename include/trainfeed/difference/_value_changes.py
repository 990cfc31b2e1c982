"""Values that differ between two JSON documents, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ValueChange", "value_changes"]


@dataclass(frozen=True)
class ValueChange:
    """A value that differs.

    Attributes:
        path: Names of the keys that lead to it.
        old: JSON value in the first version; None where it has none.
        new: The same of the second.
    """

    path: tuple[str, ...]
    old: Any
    new: Any

    @property
    def place(self) -> str:
        """The names of the path, joined by dots."""
        return ".".join(self.path)

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        return {"place": self.place, "old": self.old, "new": self.new}


def value_changes(
    old: object, new: object, path: tuple[str, ...] = (), *, only_shared: bool = False
) -> Iterator[ValueChange]:
    """Yield every value that differs, in order of places; lists are compared as a whole.

    Args:
        old: JSON value in the first version.
        new: The same of the second.
        path: Names of the keys that lead to both.
        only_shared: Whether keys that only one of them has are passed over.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old} & {*new} if only_shared else {*old, *new}):
            yield from value_changes(
                old.get(key), new.get(key), (*path, key), only_shared=only_shared
            )
    elif old != new:
        yield ValueChange(path, old, new)
