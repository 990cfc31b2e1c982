"""Attempts at a build: after a kill the next one reports it, and others see who is at work.

A mark in the work folder serves the first purpose, a build lease in the publication root the
second: builders with work folders of their own, on other machines too, see only the lease. Both are
advice. What makes two builders safe is the exclusive rename of ``publish``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from trainfeed.errors import TrainFeedError
from trainfeed.files.attempts import ATTEMPTS, attempt
from trainfeed.files.stores import Location
from trainfeed.pipeline.functions.jobs import memory_remedy
from trainfeed.pipeline.reports import Build
from trainfeed.versions import DatasetFolder
from trainfeed.versions.layout import generation_of_plan
from trainfeed.versions.lease import building, hold_build

logger = logging.getLogger(__name__)

# Short, because ``status`` shows a killed build as at work for so long, and the margin.
_LENGTH: Final = timedelta(minutes=5)


@contextmanager
def build_attempt(build: Build, work: str) -> Iterator[None]:
    """Mark that a process works on a plan; first report a kill of the last attempt, and others.

    Args:
        build: The build.
        work: The part of the build: a stage and the number of its task, fit for a file name.
    """
    ref = build.ref
    mark = Location.parse(build.env.work) / ATTEMPTS / f"{ref.plan_id}.{work}.json"
    what = f"{work} of {ref.dataset}/{ref.interval}"
    with attempt(mark, what, memory_remedy(build.spec)), _lease(build, work):
        yield


def _lease(build: Build, work: str) -> AbstractContextManager[object]:
    """Hold a lease of the interval; it is only advice, so a failure does not stop the build."""
    ref = build.ref
    folder = DatasetFolder(Path(build.env.root), ref.dataset)
    try:
        _tell_of_others(folder, ref.interval, ref.plan_id)
        generation = generation_of_plan(ref.plan_id)
        what = f"{work} of plan {ref.plan_id}"
        return hold_build(folder, ref.interval, generation, what, length=_LENGTH)
    except TrainFeedError as error:
        logger.warning("others do not see that this process builds %s: %s", ref.interval, error)
        return nullcontext()


def _tell_of_others(folder: DatasetFolder, interval: str, plan_id: str) -> None:
    """Log who builds the interval by another plan; tasks of one plan share their work."""
    for other in building(folder, interval, datetime.now(UTC)):
        if other.lease and not other.lease.what.endswith(plan_id):
            logger.warning(
                "%s/%s is being built by another plan, too: %s; one of the two is published, and"
                " the other ends with a conflict or finds it identical",
                folder.name,
                interval,
                other.told,
            )
