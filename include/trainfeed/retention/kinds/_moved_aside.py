"""Files that go after a second look: moved aside, and put back if something wants them after all.

A planner that finds a file missing makes it again. Whatever the order of the steps, either the
second look finds the plan, or the planner finds the file missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainfeed import faults
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import TrainFeedError
from trainfeed.pipeline.upkeep import RETENTION
from trainfeed.retention._item import Expired, Item, Kept
from trainfeed.storage import posix

__all__ = ["file_item", "move_aside"]


def file_item(kind: str, name: str, path: Path) -> Item | None:
    """Return a file as an item, aged since its last change; None if it is gone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    since = datetime.fromtimestamp(found.st_mtime, UTC)
    return Item(kind, name, found.st_size, since, (str(path),))


def move_aside(
    folder: DatasetFolder,
    expired: Sequence[Expired],
    still_wanted: Callable[[], Callable[[Item], str | None]],
) -> list[Kept]:
    """Remove files of one place each, but for those that a second look wants.

    Args:
        folder: The data set.
        expired: The files.
        still_wanted: Looks again, after the files are aside; what it returns says why one is
            wanted.

    Returns:
        The files that stay.

    Raises:
        TrainFeedError: The second look failed; all files were put back.
    """
    aside = folder.trash / f"{RETENTION}{uuid.uuid4().hex}"
    posix.make_public_dir(aside)
    moved = list(_moved(expired, aside))
    faults.point("retention.after_aside")
    try:
        why_of = still_wanted()
    except TrainFeedError:
        for item, place in moved:
            _put_back(item, place)
        raise
    kept = []
    for item, place in moved:
        why = why_of(item)
        if why is not None:
            _put_back(item, place)
            kept.append(Kept(item, why))
    posix.remove_tree(aside)
    return kept


def _moved(expired: Sequence[Expired], aside: Path) -> Iterator[tuple[Item, Path]]:
    for number, each in enumerate(expired):
        path, place = Path(each.item.places[0]), aside / f"{number:06d}"
        with posix.map_errors(path):
            try:
                path.rename(place)
            except FileNotFoundError:
                continue
        yield each.item, place


def _put_back(item: Item, place: Path) -> None:
    path = Path(item.places[0])
    with posix.map_errors(path):
        # A file that was made again meanwhile has the same content.
        place.rename(path)
    posix.sync_dir(path.parent)
