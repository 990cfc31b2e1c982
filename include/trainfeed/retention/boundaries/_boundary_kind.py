"""The kind ``boundaries``: files of points in time that no interval needs any more.

A boundary belongs to the interval that ends there and to the one that starts there. It goes when
both have ended: they are retired, and no plan of them is left. Nothing reads it then. If a reason
makes such an interval again, the boundary is decided again, between those that stayed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.errors import FormatError
from trainfeed.paths import listed
from trainfeed.pipeline.boundaries import boundary_files, deciding
from trainfeed.pipeline.upkeep import RETENTION
from trainfeed.retention._context import Context
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention.boundaries._boundary_evidence import evidence_of
from trainfeed.retention.boundaries._ended_intervals import Ended, ended_at, needed_times
from trainfeed.storage import posix

__all__ = ["BoundaryFiles"]

_NEEDED: Final = "an interval that was or may be planned starts or ends there"


@dataclass(frozen=True)
class _BoundaryItem(Item):
    at: datetime


class BoundaryFiles:
    """Boundary files between retired intervals; there is no rule: nobody can want them."""

    name: Final = "boundaries"

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield the files at which retired intervals start or end, by topic and time."""
        topics = {folder: dict(boundary_files(folder)) for folder in _topics(context)}
        times = {at for paths in topics.values() for at in paths}
        ended = ended_at(context, times)
        if not ended.of:
            return
        needed: set[datetime] | str
        try:
            needed = needed_times(context, ended)
        except FormatError as error:
            needed = f"which boundaries are needed cannot be told: {error}"
        for folder, paths in topics.items():
            yield from _of_topic(folder, paths, ended, needed)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Remove files, but for those that came into use since they were found.

        The last look and the renames hold the lock of the topic: a planner looks under it, when
        its plan is written, whether the boundaries of the plan are still there.
        """
        kept: list[Kept] = []
        for folder, group in groupby(items, lambda each: Path(each.item.places[0]).parent):
            aside = context.folder.trash / f"{RETENTION}{uuid.uuid4().hex}"
            posix.make_public_dir(aside)
            with deciding(folder):
                kept += self._some_removed(context, list(group), aside)
            faults.point("boundaries.after_renames")
            posix.remove_tree(aside)
        return kept

    def _some_removed(
        self, context: Context, items: Sequence[Expired], aside: Path
    ) -> Iterator[Kept]:
        found = (each for each in self.find(context.again()) if not isinstance(each, Excess))
        again = {each.item.name: each for each in found}
        faults.point("boundaries.after_look")
        for each in items:
            now, path = again.get(each.item.name), Path(each.item.places[0])
            if isinstance(now, Kept):
                yield now
            elif now is None and path.exists():
                yield Kept(each.item, _NEEDED)
            elif now is not None:
                with posix.map_errors(path):
                    path.rename(aside / path.name)
                faults.point("boundaries.after_rename")


def _topics(context: Context) -> list[Path]:
    """Return the folders of boundary files: one for each topic, and each time it was made."""
    places = [place for place in listed(context.folder.path / "boundaries") if place.is_dir()]
    return sorted(folder for place in places for folder in listed(place) if folder.is_dir())


def _of_topic(
    folder: Path, paths: dict[datetime, Path], ended: Ended, needed: set[datetime] | str
) -> Iterator[Expired | Kept]:
    asked = [at for at in sorted(paths) if at in ended.of]
    why: dict[datetime, str]
    if isinstance(needed, str):
        why = dict.fromkeys(asked, needed)
    else:
        why = {at: _NEEDED for at in asked if at in needed}
        free = [at for at in asked if at not in needed]
        try:
            why |= evidence_of(paths, free, needed) if free else {}
        except FormatError as error:
            why |= dict.fromkeys(free, f"a boundary file of the topic is damaged: {error}")
    for at in asked:
        with posix.map_errors(paths[at]):
            item = _item(folder, paths[at], at)
        if at in why:
            yield Kept(item, why[at])
        else:
            yield Expired(item, f"{ended.of[at]} is retired, and no plan of it is left")


def _item(folder: Path, path: Path, at: datetime) -> _BoundaryItem:
    found = path.lstat()
    return _BoundaryItem(
        kind=BoundaryFiles.name,
        name=f"{folder.parent.name}/{folder.name}/{path.stem}",
        num_bytes=found.st_size,
        since=datetime.fromtimestamp(found.st_mtime, UTC),
        places=(str(path),),
        at=at,
    )
