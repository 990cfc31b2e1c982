"""Which accepted uploads the published versions have, and which wait for a build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainfeed.dataset import Manifest
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.retirements import retirement_of
from trainfeed.uploads._receipt import Receipt
from trainfeed.uploads._receipt_book import ReceiptBook
from trainfeed.uploads._removed_uploads import removal_of_uploads

__all__ = ["IntervalUploads", "interval_uploads"]


@dataclass(frozen=True)
class IntervalUploads:
    """The accepted uploads of an interval.

    Attributes:
        interval: Name of the interval.
        receipts: All receipts in order of arrival, at least one.
        generation: Number of the newest version; None if the interval is not published.
        waiting: Those of ``receipts`` that the newest version does not have.
        is_retired: Whether the interval is retired, and built only with a reason.
        removed: Numbers of the receipts whose bytes retention has removed.
    """

    interval: str
    receipts: tuple[Receipt, ...]
    generation: int | None
    waiting: tuple[Receipt, ...]
    is_retired: bool = False
    removed: frozenset[int] = frozenset()

    @property
    def state(self) -> Literal["published", "not in its version", "not built", "retired"]:
        """Whether a build is left to do: a first one, or one with the reason of a rebuild."""
        if self.generation is None:
            return "retired" if self.is_retired else "not built"
        return "not in its version" if self.waiting else "published"


def interval_uploads(folder: DatasetFolder) -> list[IntervalUploads]:
    """Return the intervals with accepted uploads, in order of their names.

    Raises:
        FormatError: A receipt or a manifest is damaged.
        StorageError: The publication root refused or failed.
    """
    receipts: dict[str, list[Receipt]] = {}
    for receipt in ReceiptBook(folder).receipts():
        receipts.setdefault(receipt.interval, []).append(receipt)
    return [_state(folder, interval, receipts[interval]) for interval in sorted(receipts)]


def _state(folder: DatasetFolder, interval: str, receipts: list[Receipt]) -> IntervalUploads:
    generation = folder.current_generation(interval)
    has: set[int] = set()
    if generation is not None:
        manifest, _ = Manifest.read(folder.version(interval, generation))
        has = {file["number"] for file in manifest.uploads.get("files", [])}
    waiting = tuple(receipt for receipt in receipts if receipt.number not in has)
    is_retired = generation is None and retirement_of(folder, interval) is not None
    removal = removal_of_uploads(folder, interval)
    removed = frozenset() if removal is None else frozenset(removal.receipts)
    return IntervalUploads(interval, tuple(receipts), generation, waiting, is_retired, removed)
