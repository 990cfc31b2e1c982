"""The plan files of an interval up to a generation: of an interval that was retired."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.paths import listed
from trainfeed.retention._item import Item
from trainfeed.storage import posix

__all__ = ["plan_files", "plans_item", "remove_files"]

_PLAN_FILE: Final = re.compile(r"([0-9a-f]{16}-g([0-9]{4,}))\..*json")


def plan_files(folder: DatasetFolder, interval: str, last: int) -> list[Path]:
    """Return plans, refusals and waivers of generations up to ``last``, sorted.

    A plan comes after the files about it: while it is there, so are they.
    """
    matched = ((path, _PLAN_FILE.fullmatch(path.name)) for path in listed(folder.plans(interval)))
    found = [path for path, match in matched if match and int(match[2]) <= last]
    return sorted(found, key=lambda path: (path.name.count("."), path.name), reverse=True)


def plans_item(kind: str, interval: str, files: list[Path]) -> Item:
    """Return plan files as one item, whose age begins with the newest of them."""
    with posix.map_errors(files[0].parent):
        found = [path.lstat() for path in files]
    since = datetime.fromtimestamp(max(each.st_mtime for each in found), UTC)
    size = sum(each.st_size for each in found)
    return Item(kind, interval, size, since, tuple(map(str, files)))


def remove_files(files: list[Path]) -> None:
    """Delete files one by one; those that are gone are passed over."""
    for path in files:
        with posix.map_errors(path):
            path.unlink(missing_ok=True)
        faults.point("retention.after_file")
