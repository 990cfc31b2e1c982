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
from typing import Any

from trainfeed import canonical_json, faults
from trainfeed.accounts import account_name
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.pipeline.upkeep import TRASH, discard
from trainfeed.retention._context import Context
from trainfeed.retention.kinds._found_version import VersionItem
from trainfeed.storage import Location, posix

__all__ = ["mark_removed", "remove_marked", "take_back"]

logger = logging.getLogger(__name__)


def mark_removed(context: Context, item: VersionItem, why: str) -> None:
    """Hide a version from every reader that begins from now on; its number is never used again."""
    account: dict[str, Any] = {
        "at": context.now.isoformat(),
        "uid": os.geteuid(),
        "who": context.who or account_name(),
        "why": why,
    }
    mark = context.folder.removal_mark(item.interval, item.generation)
    posix.create_exclusive(mark, canonical_json.dumps(account), is_public=True)
    faults.point("prune.after_mark")


def take_back(folder: DatasetFolder, item: VersionItem) -> None:
    """Show a version again whose files were not touched."""
    mark = folder.removal_mark(item.interval, item.generation)
    with posix.map_errors(mark):
        mark.unlink(missing_ok=True)
    posix.sync_dir(mark.parent)
    faults.point("prune.after_taking_back")


def remove_marked(
    context: Context,
    items: Sequence[VersionItem],
    still_wanted: Callable[[VersionItem], str | None],
) -> dict[str, str]:
    """Delete marked versions, but for those that came into use before their mark.

    Args:
        context: The data set.
        items: Marked versions.
        still_wanted: A further look at a version: why it has to stay, or None.

    Returns:
        Name of a version that stays → why.
    """
    folder, uses = context.folder, context.fresh_uses()
    trash, kept = Location.parse(str(folder.path / TRASH)), {}
    # The newest first: an older one is not the one that readers get while a newer one stays.
    for item in sorted(items, key=lambda each: each.generation, reverse=True):
        why = uses.why(item.interval, item.generation) or still_wanted(item)
        if why is not None:
            take_back(folder, item)
            kept[item.name] = why
            continue
        path = folder.version(item.interval, item.generation)
        discard(Location.parse(str(path)), trash)
        logger.info("removed %s", path)
    return kept
