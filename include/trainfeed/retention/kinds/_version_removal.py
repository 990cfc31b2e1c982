"""The removal of versions: mark, second look, rename, deletion.

A reader takes a lease and then looks for the mark; retention sets the mark and then looks for
leases. One of the two therefore sees the other, whatever the order of their steps. If retention
sees a use, it takes the mark back; only one run of retention works on a data set at a time, so no
other run relies on a mark that is taken back.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, cast

from trainfeed import canonical_json, faults
from trainfeed.accounts import account_name
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import SnapshotError, TrainFeedError
from trainfeed.pipeline.upkeep import RETENTION, TRASH, discard
from trainfeed.retention._context import Context
from trainfeed.retention._item import Expired, Kept
from trainfeed.retention._uses import Uses
from trainfeed.retention.kinds._found_version import VersionItem
from trainfeed.storage import Location, posix

__all__ = ["delete_files", "mark_removed", "remove_versions", "take_back", "uses_after_marks"]

logger = logging.getLogger(__name__)


def mark_removed(
    context: Context, interval: str, generation: int, why: str, *, unless_read: bool = False
) -> bool:
    """Hide a version from every reader that begins from now on; its number is never used again.

    Args:
        context: The data set.
        interval: Name of the interval.
        generation: Number of the generation.
        why: The reason.
        unless_read: Whether to leave it if readers get it by default, as since a withdrawal.

    Returns:
        Whether it is hidden.
    """
    account: dict[str, Any] = {
        "at": context.now.isoformat(),
        "uid": os.geteuid(),
        "who": context.who or account_name(),
        "why": why,
    }
    mark = context.folder.removal_mark(interval, generation)
    # Under this lock nobody withdraws: a withdrawal counts on the generation that it has verified.
    with posix.file_lock(context.folder.interval_lock(interval)):
        if unless_read and context.folder.readable_generation(interval) == generation:
            return False
        posix.create_exclusive(mark, canonical_json.dumps(account), is_public=True)
    faults.point("prune.after_mark")
    return True


def take_back(folder: DatasetFolder, interval: str, generation: int) -> None:
    """Show a version again whose files were not touched."""
    mark = folder.removal_mark(interval, generation)
    with posix.map_errors(mark):
        mark.unlink(missing_ok=True)
    posix.sync_dir(mark.parent)
    faults.point("prune.after_taking_back")


def delete_files(folder: DatasetFolder, interval: str, generation: int) -> None:
    """Delete the files of a marked version; does nothing if they are gone."""
    path = folder.version(interval, generation)
    if path.exists():
        trash = Location.parse(str(folder.path / TRASH))
        try:
            discard(Location.parse(str(path)), trash, prefix=RETENTION)
        except SnapshotError as error:
            # Readers do not see it any more; the kind ``trash`` says so at the end of each run.
            logger.debug("a part of %s stays: %s", path, error)
            return
        logger.info("removed %s", path)


def uses_after_marks(context: Context, marked: Sequence[tuple[str, int]]) -> Uses:
    """Return what is in use now; if that cannot be told, show the marked versions again."""
    try:
        return context.fresh_uses()
    except TrainFeedError:
        for interval, generation in reversed(marked):
            take_back(context.folder, interval, generation)
        raise


def remove_versions(
    context: Context,
    expired: Sequence[Expired],
    still_wanted: Callable[[VersionItem], str | None],
) -> list[Kept]:
    """Mark versions, and delete those that did not come into use before their mark.

    Args:
        context: The data set.
        expired: The versions, of each interval in ascending order.
        still_wanted: A further look at a version after its mark: why it has to stay, or None.

    Returns:
        The versions that stay.
    """
    items = [cast("VersionItem", each.item) for each in expired]
    kept = []
    for each, item in zip(expired, tuple(items), strict=True):
        if not mark_removed(context, item.interval, item.generation, each.why, unless_read=True):
            items.remove(item)
            kept.append(Kept(item, "it is the generation that readers get now"))
    uses = uses_after_marks(context, [(item.interval, item.generation) for item in items])
    # The newest first: an older one is not the one that readers get while a newer one stays.
    for item in sorted(items, key=lambda each: each.generation, reverse=True):
        why = uses.why(item.interval, item.generation) or still_wanted(item)
        if why is None:
            delete_files(context.folder, item.interval, item.generation)
        else:
            take_back(context.folder, item.interval, item.generation)
            kept.append(Kept(item, why))
    return kept
