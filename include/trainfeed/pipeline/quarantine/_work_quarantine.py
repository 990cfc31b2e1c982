"""The quarantined records of builds that have not published: work files of their plans.

One file per task of ``preprocess``: ``<work>/spill/<plan id>/NNNNN.quarantine.arrow``. The files
stay when the build fails, until the next build of the same plan writes them again or
``housekeeping`` removes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow as pa

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.errors import NotFoundError
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.pipeline.quarantine._quarantined import Quarantine
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.storage import FileInfo, Location

__all__ = ["plans_with_work", "quarantine_of_plan", "unpublished_plans"]

_WORK_FILE: Final = re.compile(r"[0-9]{5,}\.quarantine\.arrow")
_SPILL: Final = "spill"


def quarantine_of_plan(env: Environment, ref: PlanRef) -> Quarantine:
    """Return the quarantine in the work files of a plan; during a build, the records so far.

    Raises:
        NotFoundError: There is no such plan, or its work files do not exist (any more).
    """
    plan = load_plan(DatasetFolder(Path(env.root), ref.dataset), ref)
    place = Location.parse(env.work) / _SPILL / plan.plan_id
    files = _work_files(place)
    if not files:
        raise NotFoundError(
            f"plan {plan.plan_id} of {ref.dataset}/{ref.interval} has no quarantined records in"
            f" {place.uri}: preprocess has not ended yet, the version is published, or the work"
            " files were removed by housekeeping; build the interval again to have them"
        )
    return _of_work_files(plan, place, files)


def plans_with_work(env: Environment) -> frozenset[str]:
    """Return the ids of the plans, of all data sets, that have a folder of work files."""
    try:
        return frozenset(info.name for info in (Location.parse(env.work) / _SPILL).list())
    except NotFoundError:
        return frozenset()


def unpublished_plans(
    env: Environment, dataset: str, interval: str, with_work: frozenset[str] | None = None
) -> list[Quarantine]:
    """Return the quarantines in the work files of an interval's plans, the newest last.

    Args:
        env: Folders and connections.
        dataset: Name of the data set.
        interval: Name of the interval.
        with_work: The result of ``plans_with_work``, for callers that ask for many intervals.
    """
    folder = DatasetFolder(Path(env.root), dataset)
    spill = Location.parse(env.work) / _SPILL
    found = []
    for plan_id in folder.plan_ids(interval):
        if with_work is not None and plan_id not in with_work:
            continue
        if files := _work_files(spill / plan_id):
            plan = load_plan(folder, PlanRef(dataset, interval, plan_id))
            found.append(_of_work_files(plan, spill / plan_id, files))
    return sorted(found, key=lambda quarantine: quarantine.modified_ms)


def _of_work_files(plan: Plan, place: Location, files: Iterable[FileInfo]) -> Quarantine:
    names = [info.name for info in files]
    return Quarantine(
        dataset=plan.dataset,
        interval=plan.interval["name"],
        origin=plan.plan_id,
        plan=plan.ref(),
        is_published=False,
        place=place.uri,
        modified_ms=max(info.modified_ms for info in files),
        _sources=tuple(plan.sources),
        _tables=lambda columns: _tables(place, names, columns),
    )


def _tables(place: Location, names: Iterable[str], columns: Sequence[str]) -> Iterator[pa.Table]:
    for name in names:
        with closing(ArrowWithTrailer(place / name, QUARANTINE_SCHEMA)) as file:
            for table in file.iter_tables():
                yield table.select(list(columns))


def _work_files(place: Location) -> list[FileInfo]:
    """Return the quarantine files in the work folder of a plan, by number."""
    try:
        found = place.list()
    except NotFoundError:
        return []
    return sorted(
        (info for info in found if _WORK_FILE.fullmatch(info.name)), key=lambda info: info.name
    )
