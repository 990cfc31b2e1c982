"""The uploads of one retired interval as an item of retention."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.dataset.retire import Retirement, retirement_of
from trainfeed.errors import NotFoundError
from trainfeed.intervals import parse_time
from trainfeed.retention._context import Context
from trainfeed.retention._item import Item
from trainfeed.storage import posix
from trainfeed.uploads import Receipt, ReceiptBook

__all__ = ["KIND", "UploadItem", "upload_items"]

KIND: Final = "uploads"


@dataclass(frozen=True)
class UploadItem(Item):
    """The uploads of a retired interval.

    Attributes:
        interval: Name of the interval.
        last_generation: The largest number that a generation of it had.
        receipts: Its receipts.
        digests: Digests of kept bytes that are there, sorted.
        sizes: Bytes of each of ``places``.
    """

    interval: str
    last_generation: int
    receipts: tuple[Receipt, ...]
    digests: tuple[str, ...]
    sizes: tuple[int, ...]


def upload_items(context: Context, receipts: Iterable[Receipt]) -> Iterator[UploadItem]:
    """Yield the uploads of retired intervals that are there, by name.

    Raises:
        StorageError: The publication root refused or failed.
    """
    by_interval: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        by_interval.setdefault(receipt.interval, []).append(receipt)
    for interval in sorted(by_interval):
        retired = retirement_of(context.look, interval)
        item = None if retired is None else _item(context, retired, by_interval[interval])
        if item is not None:
            yield item


def _item(context: Context, retired: Retirement, receipts: list[Receipt]) -> UploadItem | None:
    folder, book = context.folder, ReceiptBook(context.folder)
    digests = sorted({receipt.sha256 for receipt in receipts})
    files = [folder.uploads / receipt.name for receipt in receipts]
    kept = {digest: book.content(digest) for digest in digests}
    found = {path: each for path in (*files, *kept.values()) if (each := _plain(path))}
    if not found:
        return None
    # What was put back since is as old as its place, not as its content: no copy sets this time.
    ages = [datetime.fromtimestamp(each.st_ctime, UTC) for each in found.values()]
    ended = context.now if retired.damage else parse_time(retired.at)
    return UploadItem(
        kind=KIND,
        name=retired.interval,
        num_bytes=sum(each.st_size for each in found.values()),
        since=max(ended, *ages),
        places=tuple(map(str, found)),
        interval=retired.interval,
        last_generation=retired.last_generation,
        receipts=tuple(receipts),
        digests=tuple(digest for digest, path in kept.items() if path in found),
        sizes=tuple(each.st_size for each in found.values()),
    )


def _plain(path: Path) -> os.stat_result | None:
    """Return the state of a plain file, None if nothing or something else has the name."""
    try:
        with posix.map_errors(path):
            found = path.lstat()
    except NotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None
