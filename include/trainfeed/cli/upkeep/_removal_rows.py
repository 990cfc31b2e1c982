"""What retention removed or kept, as lines of a table."""

from __future__ import annotations

from trainfeed.retention import Removals

__all__ = ["REMOVAL_COLUMNS", "removal_rows"]

REMOVAL_COLUMNS = ("", "what", "kind", "bytes", "why")


def removal_rows(name: str, removals: Removals, *, dry_run: bool) -> list[list[object]]:
    """Return a row for each item that went or would go, then for each that stays."""
    verb = "would remove" if dry_run else "removed"
    return [
        [word, f"{name}/{each.item.name}", each.item.kind, each.item.num_bytes, each.why]
        for word, items in ((verb, removals.expired), ("stays", removals.kept))
        for each in items
    ]
