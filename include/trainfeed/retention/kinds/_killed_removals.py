"""The rest of removals of earlier runs that were killed between the rename and the deletion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from trainfeed.errors import NotFoundError, SnapshotError
from trainfeed.paths import listed
from trainfeed.pipeline.upkeep import RETENTION
from trainfeed.retention._context import Context
from trainfeed.retention._item import Expired, Item, Kept
from trainfeed.retention.kinds._found_version import size_of
from trainfeed.storage import posix

__all__ = ["KilledRemovals"]


class KilledRemovals:
    """Folders in ``_trash`` that a run of retention made.

    Such a run holds the lock of retention until they are deleted: whatever a run finds there when
    it has the lock was left by one that is dead.
    """

    name = "trash"

    def find(self, context: Context) -> Iterator[Expired]:
        """Yield what is there, by name."""
        for path in listed(context.folder.trash, f"{RETENTION}*"):
            with suppress(NotFoundError), posix.map_errors(path):  # else a run ends just now
                since = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
                item = Item(self.name, f"_trash/{path.name}", size_of(path), since, (str(path),))
                yield Expired(item, "a removal that was begun")

    def remove(self, _context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Delete the folders; one of which a snapshot is kept stays."""
        kept = []
        for each in items:
            try:
                posix.remove_tree(Path(each.item.places[0]))
            except SnapshotError as error:
                kept.append(Kept(each.item, str(error)))
        return kept
