"""Versions that the gates of an open build compare with."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from trainfeed.errors import FormatError, NotFoundError
from trainfeed.retention._folder_look import Look
from trainfeed.retention._plan_files import open_plans
from trainfeed.retention._use import Use

__all__ = ["used_by_open_plans"]


def used_by_open_plans(folder: Look, _now: datetime) -> Iterator[Use]:
    """Yield the references of plans whose generation may still be published.

    A plan that cannot be read can no longer be built, and uses nothing.

    Raises:
        StorageError: The plans cannot be listed.
    """
    for interval in folder.planned_intervals():
        for plan_id in open_plans(folder, interval):
            yield from _references(folder, interval, plan_id)


def _references(folder: Look, interval: str, plan_id: str) -> list[Use]:
    try:
        plan = folder.plan_of(interval, plan_id)
    except (FormatError, NotFoundError):
        return []
    why = f"plan {plan_id} of {interval} compares with it and may still be published"
    return [Use(each.interval, each.generation, why) for each in plan.references]
