"""Uploads: files and kept bytes of retired intervals go; the receipts stay."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.core import faults
from trainfeed.core.intervals import parse_time
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files import is_there
from trainfeed.files.stores import posix
from trainfeed.specification import RetentionRule
from trainfeed.upkeep.retention.context import Context, Judge, Kind
from trainfeed.upkeep.retention.items import (
    Expired,
    Found,
    Item,
    Kept,
    by_name,
    held_against,
    open_plans,
)
from trainfeed.uploads import (
    Receipt,
    ReceiptBook,
    UploadsRemoval,
    keeping,
    lift_empty_folder,
    take_bytes,
    take_upload,
    write_uploads_removal,
)
from trainfeed.versions.lease import building
from trainfeed.versions.retire import Retirement, retirement_of

# --- The uploads of one retired interval as an item of retention

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


# --- The kind ``uploads``: labelled files of retired intervals, and their kept bytes, by a rule

_IN_USE: Final = "they came into use after they were found"
_CHANGED: Final = (
    "a file has changed since its receipt, and stays; remove it, or put it under another name"
)


class RetiredUploads(Kind[UploadItem]):
    """Uploads of retired intervals, by the rule ``uploads``, counted from the retirement."""

    name = KIND
    moves = True

    def find(self, context: Context) -> Iterator[Found[UploadItem]]:
        """Yield the uploads of retired intervals; without a rule nothing."""
        rule = context.spec.retention.uploads
        if rule == RetentionRule():
            return
        try:
            receipts = ReceiptBook(context.folder).receipts()
        except FormatError as error:
            unknown = Item(self.name, "receipts", 0, context.now, (str(context.folder.receipts),))
            yield Kept(unknown, f"which uploads there are cannot be told: {error}")
            return
        items = list(upload_items(context, receipts))
        found = list(held_against(rule, items, context.now, lambda item: _user(context, item)))
        yield from _without_shared(found, receipts)

    def remove(
        self, context: Context, expired: Sequence[Expired[UploadItem]]
    ) -> list[Kept[UploadItem]]:
        """Remove files, kept bytes, and folders that are empty then."""
        kept = super().remove(context, expired)
        for each in expired:
            lift_empty_folder(context.folder, each.item.name)
        return kept

    def alone(
        self, context: Context, _first: Expired[UploadItem]
    ) -> AbstractContextManager[object]:
        """Hold the lock of uploads.

        A check of uploads looks under it, after it has written a receipt, whether the bytes that
        the receipt names are still there.
        """
        return keeping(context.folder)

    def look(self, context: Context) -> Judge[UploadItem]:
        """Find all again; those that came into use since they were found stay."""
        again = by_name(self.find(context.again()))
        faults.point("uploads.after_look")

        def judge(each: Expired[UploadItem]) -> Expired[UploadItem] | str | None:
            now = again.get(each.item.name)
            if isinstance(now, Expired):
                return now
            # Held against the earlier look: an interval that was built again is not retired.
            return _IN_USE if any(upload_items(context, each.item.receipts)) else None

        return judge

    def delete(self, context: Context, each: Expired[UploadItem]) -> str | None:
        """Move files and kept bytes aside; a file that is not its receipt's any more stays."""
        item, numbers = each.item, tuple(receipt.number for receipt in each.item.receipts)
        removal = UploadsRemoval(numbers, **context.decided(each.why))
        write_uploads_removal(context.folder, item.interval, removal)
        for receipt in item.receipts:
            take_upload(context.folder, receipt, context.aside / f"{receipt.number:08d}")
            faults.point("uploads.after_file")
        take_bytes(context.folder, item.digests, context.aside)
        stays = any(is_there(context.folder.uploads / receipt.name) for receipt in item.receipts)
        return _CHANGED if stays else None


def _user(context: Context, found: UploadItem) -> str | None:
    """Return who needs the uploads of a retired interval, None if nobody does."""
    if plans := open_plans(context.look, found.interval):
        return f"plan {plans[0]} may still be published with them"
    lease = next(iter(building(context.folder, found.interval, context.now)), None)
    if lease is not None:
        return f"it is being built: {lease.told}"
    return context.uses.why(found.interval, found.last_generation)


def _without_shared(
    found: Sequence[Found[UploadItem]], receipts: Sequence[Receipt]
) -> Iterator[Found[UploadItem]]:
    """Yield items with the bytes that go with them: none that another interval's receipt names."""
    going = {each.item.name for each in found if isinstance(each, Expired)}
    taken = {receipt.sha256 for receipt in receipts if receipt.interval not in going}
    for each in found:
        if not isinstance(each, Expired):
            yield each
            continue
        digests = tuple(digest for digest in each.item.digests if digest not in taken)
        taken.update(digests)
        if (left := _left_of(each.item, digests)) is not None:
            yield Expired(left, each.why)


def _left_of(item: UploadItem, digests: tuple[str, ...]) -> UploadItem | None:
    """Return an item with some of its kept bytes; None if nothing of it is left to remove."""
    shared = set(item.digests) - set(digests)
    left = {
        place: size
        for place, size in zip(item.places, item.sizes, strict=True)
        if place.rpartition("/")[2] not in shared
    }
    if not left:
        return None
    return replace(
        item,
        digests=digests,
        places=tuple(left),
        sizes=tuple(left.values()),
        num_bytes=sum(left.values()),
    )
