"""Generations that a person withdrew, and did not restore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.withdraw import Withdrawal, withdrawal_of, withdrawals
from trainfeed.intervals import parse_time
from trainfeed.retention._context import Context
from trainfeed.retention._item import Expired, Kept
from trainfeed.retention.kinds._found_version import VersionItem, version_item
from trainfeed.retention.kinds._version_removal import remove_versions

__all__ = ["WithdrawnGenerations"]


class WithdrawnGenerations:
    """Withdrawn generations, ``keep_withdrawn_days`` after their withdrawal.

    The mark of the withdrawal stays, so that the same content is not published again.
    """

    name = "withdrawn"

    def find(self, context: Context) -> Iterator[Expired | Kept]:
        """Yield generations that were withdrawn long enough ago, by interval and number."""
        days = context.spec.retention.keep_withdrawn_days
        if days is None:
            return
        for interval in context.look.intervals():
            for mark in withdrawals(context.look, interval):
                if _has_files(context.look, mark):
                    yield from self._judged(context, mark, days)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Remove the files of the generations for good."""
        return remove_versions(context, items, partial(_restored, context.folder))

    def _judged(self, context: Context, mark: Withdrawal, days: int) -> Iterator[Expired | Kept]:
        item = version_item(context.folder, self.name, mark.interval, mark.generation)
        if mark.damage is not None:
            # Then only the manifest tells which content must not be published again.
            yield Kept(item, f"its mark is damaged, and its files tell what it was: {mark.damage}")
            return
        item = replace(item, since=_time(mark))
        if item.since > context.now - timedelta(days=days):
            return
        user = context.uses.why(mark.interval, mark.generation)
        why = f"keep_withdrawn_days: {days}"
        yield Expired(item, why) if user is None else Kept(item, user)


def _has_files(folder: DatasetFolder, mark: Withdrawal) -> bool:
    is_removed = folder.is_removed(mark.interval, mark.generation)
    return not is_removed and folder.has_folder(mark.interval, mark.generation)


def _time(mark: Withdrawal) -> datetime:
    return parse_time(mark.at)


def _restored(folder: DatasetFolder, item: VersionItem) -> str | None:
    """Return why a marked version is wanted after all: a person restored it meanwhile."""
    if withdrawal_of(folder, item.interval, item.generation) is not None:
        return None
    return "it was restored meanwhile"
