"""Published versions: their sizes, their removal, and generations that a person withdrew."""

from __future__ import annotations

import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import Any

from trainfeed.core import canonical_json, faults
from trainfeed.core.accounts import account_name
from trainfeed.core.intervals import parse_time
from trainfeed.errors import FormatError, NotFoundError, SnapshotError
from trainfeed.files import walk
from trainfeed.files.stores import Location, posix
from trainfeed.pipeline.leftovers import RETENTION, TRASH, discard
from trainfeed.upkeep.retention.context import Context, Judge, Kind
from trainfeed.upkeep.retention.items import Expired, Found, Item, Kept
from trainfeed.versions.bucket_objects import place_in_bucket
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.layout import DatasetFolder, generation_name
from trainfeed.versions.manifest import Manifest
from trainfeed.versions.state_folder import decide
from trainfeed.versions.withdraw import Withdrawal, withdrawal_of, withdrawals

# --- The rule about superseded generations of an interval


def superseded_by_rule(context: Context, interval: str) -> list[int]:
    """Return the generations of an interval that the rule does not keep."""
    folder, rule = context.look, context.spec.retention
    # Ascending, so the slice leaves out the newest. ``keep_days`` keeps further ones.
    beyond = folder.generations(interval)[: -rule.keep_generations]
    if beyond and rule.keep_days is not None:
        before = context.now - timedelta(days=rule.keep_days)
        beyond = [each for each in beyond if folder.published_at(interval, each) < before]
    readable = folder.readable_generation(interval) if beyond else None
    return [each for each in beyond if each != readable]


def generation_rule(context: Context) -> str:
    """Return the rule as it stands in dataset.yaml."""
    rule = context.spec.retention
    days = "" if rule.keep_days is None else f", keep_days: {rule.keep_days}"
    return f"keep_generations: {rule.keep_generations}{days}"


# --- A published version as retention sees it: size and age, from the file system alone


@dataclass(frozen=True)
class VersionItem(Item):
    """A generation of an interval.

    Attributes:
        interval: Name of the interval.
        generation: Its number.
    """

    interval: str
    generation: int


def version_item(folder: DatasetFolder, kind: str, interval: str, generation: int) -> VersionItem:
    """Return a generation as an item of a kind; its age begins with the publication."""
    path = folder.version(interval, generation)
    return VersionItem(
        kind=kind,
        name=f"{interval}/{generation_name(generation)}",
        num_bytes=size_of(path),
        since=time_of(path),
        places=(str(path),),
        interval=interval,
        generation=generation,
    )


def size_of(path: Path) -> int:
    """Return the size of the files in a folder, in bytes; of a version, wherever its shards are."""
    if place_in_bucket(path) is not None:
        try:
            return sum(size for size, _ in Manifest.read(path)[0].file_digests().values())
        except (FormatError, NotFoundError):
            return 0
    with posix.map_errors(path):
        found = (file.lstat() for file in walk(path))
        return sum(each.st_size for each in found if S_ISREG(each.st_mode))


def time_of(path: Path) -> datetime:
    """Return the modification time of a version: nothing changes its folder later."""
    with posix.map_errors(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def half_removed(folder: DatasetFolder, interval: str) -> Iterator[int]:
    """Yield the generations that are marked as removed, and whose files are still there."""
    for generation in range(1, folder.last_generation(interval) + 1):
        if folder.is_removed(interval, generation) and folder.has_folder(interval, generation):
            yield generation


# --- The parts of a removal of versions: the mark, its undo, and the deletion

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
    is_wanted = partial(_is_read, context, interval, generation) if unless_read else _never
    write = partial(_write_mark, context.folder, mark, canonical_json.dumps(account), is_wanted)
    if not decide(context.folder, "retention", write):
        return False
    faults.point("prune.after_mark")
    return True


def _is_read(context: Context, interval: str, generation: int) -> bool:
    return context.folder.readable_generation(interval) == generation


def _never() -> bool:
    return False


def _write_mark(
    folder: DatasetFolder, mark: Path, data: bytes, is_wanted: Callable[[], bool]
) -> bool:
    # Under this lock nobody withdraws: a withdrawal counts on the generation that it has verified.
    with posix.file_lock(folder.interval_lock(mark.parent.name)):
        if is_wanted():
            return False
        posix.create_exclusive(mark, data, is_public=True)
    return True


def take_back(folder: DatasetFolder, interval: str, generation: int) -> None:
    """Show a version again whose files were not touched."""
    mark = folder.removal_mark(interval, generation)

    def remove() -> None:
        # Of several folders that follow a bucket, the one that marked it has the version's folder
        # until it deletes the files: the others dropped theirs with the mark.
        if bucket_mark(folder.root) is not None and not folder.has_folder(interval, generation):
            return
        with posix.map_errors(mark):
            mark.unlink(missing_ok=True)
        posix.sync_dir(mark.parent)

    decide(folder, "retention", remove)
    faults.point("prune.after_taking_back")


def delete_files(folder: DatasetFolder, interval: str, generation: int) -> None:
    """Delete the files of a marked version; does nothing if they are gone."""
    path = folder.version(interval, generation)
    if path.exists():
        # Before the first object goes: without the folder, nobody shows the version again.
        there = place_in_bucket(path)
        trash = Location.parse(str(folder.path / TRASH))
        try:
            discard(Location.parse(str(path)), trash, prefix=RETENTION)
        except SnapshotError as error:
            # Readers do not see it any more; the kind ``trash`` says so at the end of each run.
            logger.debug("a part of %s stays: %s", path, error)
            return
        if there is not None:
            faults.point("prune.before_objects")
            there.delete()
        logger.info("removed %s", path)


class Versions(Kind[VersionItem]):
    """Generations: marked, and deleted if they did not come into use before their mark."""

    def hide(self, context: Context, each: Expired[VersionItem]) -> str | None:
        """Mark a generation, but for the one that readers get."""
        item = each.item
        is_hidden = mark_removed(
            context, item.interval, item.generation, each.why, unless_read=True
        )
        return None if is_hidden else "it is the generation that readers get now"

    def look(self, context: Context) -> Judge[VersionItem]:
        """Look for uses; each generation is looked at once more in its turn."""
        uses, folder = context.fresh_uses(), context.folder
        return lambda each: (
            uses.why(each.item.interval, each.item.generation)
            or self.still_wanted(folder, each.item)
            or each
        )

    def show(self, context: Context, item: VersionItem) -> None:
        """Take the mark back."""
        take_back(context.folder, item.interval, item.generation)

    def ordered(self, hidden: Sequence[Expired[VersionItem]]) -> Sequence[Expired[VersionItem]]:
        """The newest first: readers do not get an older one while a newer one stays."""
        return sorted(hidden, key=lambda each: each.item.generation, reverse=True)

    def delete(self, context: Context, each: Expired[VersionItem]) -> None:
        """Delete the files of a generation."""
        delete_files(context.folder, each.item.interval, each.item.generation)

    @abstractmethod
    def still_wanted(self, folder: DatasetFolder, item: VersionItem) -> str | None:
        """Return why a marked generation has to stay although nobody uses it, or None."""


# --- Generations that a person withdrew, and did not restore


class WithdrawnGenerations(Versions):
    """Withdrawn generations, ``keep_withdrawn_days`` after their withdrawal.

    The mark of the withdrawal stays, so that the same content is not published again.
    """

    name = "withdrawn"

    def find(self, context: Context) -> Iterator[Found[VersionItem]]:
        """Yield generations that were withdrawn long enough ago, by interval and number."""
        days = context.spec.retention.keep_withdrawn_days
        if days is None:
            return
        for interval in context.look.intervals():
            for mark in withdrawals(context.look, interval):
                if _has_files(context.look, mark):
                    yield from self._judged(context, mark, days)

    def still_wanted(self, folder: DatasetFolder, item: VersionItem) -> str | None:
        """Return whether a person has restored it meanwhile."""
        is_withdrawn = withdrawal_of(folder, item.interval, item.generation) is not None
        return None if is_withdrawn else "it was restored meanwhile"

    def _judged(
        self, context: Context, mark: Withdrawal, days: int
    ) -> Iterator[Found[VersionItem]]:
        item = version_item(context.folder, self.name, mark.interval, mark.generation)
        if mark.damage is not None:
            # Then only the manifest tells which content must not be published again.
            yield Kept(item, f"its mark is damaged, and its files tell what it was: {mark.damage}")
            return
        item = replace(item, since=parse_time(mark.at))
        if item.since > context.now - timedelta(days=days):
            return
        user = context.uses.why(mark.interval, mark.generation)
        why = f"keep_withdrawn_days: {days}"
        yield Expired(item, why) if user is None else Kept(item, user)


def _has_files(folder: DatasetFolder, mark: Withdrawal) -> bool:
    is_removed = folder.is_removed(mark.interval, mark.generation)
    return not is_removed and folder.has_folder(mark.interval, mark.generation)
