"""The files of one plan: the plan, its failed gates, and its waivers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainfeed import faults
from trainfeed.dataset.layout import DatasetFolder, generation_of_plan
from trainfeed.paths import listed
from trainfeed.retention._item import Item
from trainfeed.storage import posix

__all__ = ["PlanItem", "open_plans", "plan_item", "remove_plan_files"]


@dataclass(frozen=True)
class PlanItem(Item):
    """A plan, with the files about it.

    Attributes:
        interval: Name of the interval.
        plan_id: Id of the plan.
        generation: Number of the generation that it plans.
        is_retired: Whether the interval was retired.
    """

    interval: str
    plan_id: str
    generation: int
    is_retired: bool


def open_plans(folder: DatasetFolder, interval: str) -> list[str]:
    """Return the ids of the plans of an interval whose generation may still be published, sorted.

    Raises:
        StorageError: The publication root refused or failed.
    """
    last = folder.last_generation(interval)
    return [each for each in folder.plan_ids(interval) if generation_of_plan(each) > last]


def plan_item(
    folder: DatasetFolder, kind: str, interval: str, plan_id: str, *, is_retired: bool
) -> PlanItem:
    """Return a plan as an item, whose age begins with the newest of its files.

    The plan comes after the files about it: while it is there, so are they.
    """
    about = sorted(listed(folder.plans(interval), f"{plan_id}.*.json"))
    files = [*about, folder.plan(interval, plan_id)]
    with posix.map_errors(files[-1]):
        found = [path.lstat() for path in files]
    return PlanItem(
        kind=kind,
        name=f"{interval}/{plan_id}",
        num_bytes=sum(each.st_size for each in found),
        since=datetime.fromtimestamp(max(each.st_mtime for each in found), UTC),
        places=tuple(map(str, files)),
        interval=interval,
        plan_id=plan_id,
        generation=generation_of_plan(plan_id),
        is_retired=is_retired,
    )


def remove_plan_files(item: PlanItem) -> None:
    """Delete the files one by one; those that are gone are passed over."""
    for path in map(Path, item.places):
        with posix.map_errors(path):
            path.unlink(missing_ok=True)
        faults.point("retention.after_file")
