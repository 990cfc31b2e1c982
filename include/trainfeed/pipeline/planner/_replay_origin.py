"""The build of an interval that a replay repeats, and the comparison of its log files with today's.

The offsets of a topic are final once they are planned. A folder of log files is not: a file may
come or be replaced after a build that failed. A replay that is the first publication of an interval
therefore looks at the folder, as a build does, before it takes the files of the earlier plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest, Skip
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.retire import missing_remedies, told_missing
from trainfeed.errors import NotFoundError, SourceReplacedError
from trainfeed.intervals import Interval
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.inputs import Inputs, KeptInputs, reader_of
from trainfeed.pipeline.planner._planner import Planner
from trainfeed.pipeline.plans import Planned, first_few, load_plan, plan_of_version
from trainfeed.pipeline.quarantine import unpublished_plans
from trainfeed.specification import DatasetSpec

__all__ = ["Origin", "find_origin", "skip_unpublished"]


class Origin(NamedTuple):
    """The build that is replayed.

    Attributes:
        name: Its generation, or the id of a failed plan.
        inputs: What it read.
        reasons: Reason → number of records that it quarantined.
        is_published: Whether it is the published version.
    """

    name: str
    inputs: KeptInputs
    reasons: Mapping[str, int]
    is_published: bool


def find_origin(planner: Planner, env: Environment) -> Origin:
    """Return the build to replay: the published version, else the last that failed.

    Raises:
        NotFoundError: The interval was never built.
    """
    name, interval = planner.folder.name, planner.interval
    if planner.current is not None:
        return _of_version(planner.folder, interval, planner.current)
    found = unpublished_plans(env, name, interval)
    if not found:
        raise NotFoundError(
            f"expected a published version of {name}/{interval}, or work files of a build that"
            f" failed in {env.work}, got neither: there is nothing to replay;"
            f" {'; '.join(missing_remedies(planner.folder, [interval]))}"
            f"{told_missing(planner.folder, [interval])}"
        )
    plan = load_plan(planner.folder, PlanRef(name, interval, found[-1].origin))
    return Origin(plan.plan_id, KeptInputs.of_plan(plan), found[-1].reasons(), is_published=False)


def skip_unpublished(
    planner: Planner, spec: DatasetSpec, env: Environment, interval: Interval, origin: Origin
) -> Skip | None:
    """Ask what a build would ask before it publishes an interval for the first time.

    Returns:
        The decision to skip the interval, or None.

    Raises:
        WindowOpenError: Its log files, or its uploads, are waited for.
        SourceReplacedError: Its log files are not those that the failed build planned.
        StorageError: The file system of the log files does not answer.
    """
    if all(planned.unit == "offsets" for planned in origin.inputs.planned.values()):
        return planner.skip(origin.inputs)
    with reader_of(spec).open(spec, env, planner.folder, interval) as source:
        skip = planner.skip(source)
        if skip is None:
            _require_same(planner, origin, source)
    return skip


def _require_same(planner: Planner, origin: Origin, source: Inputs) -> None:
    """Refuse log files that came, went or changed since the build that failed."""
    found, _ = source.without_losses(None, None)
    lines = _changes(origin.inputs.planned, found)
    if lines:
        name, interval = planner.folder.name, planner.interval
        raise SourceReplacedError(
            f"{name}/{interval} is not published, and its log files are not those of the build"
            f" {origin.name} that failed: {first_few(lines)}; a replay would leave out what is"
            " there now; nothing was read or published; build the interval from them: trainfeed"
            f" build {name} --interval {interval}{told_missing(planner.folder, [interval])}"
        )


def _changes(old: Mapping[str, Planned], new: Mapping[str, Planned]) -> list[str]:
    further = [f"{source} came" for source in sorted(new.keys() - old.keys())]
    gone = [f"{source} is gone" for source in sorted(old.keys() - new.keys())]
    common = sorted(old.keys() & new.keys())
    lines = [new[source].replaced(old[source].model_dump()) for source in common]
    return [*further, *gone, *(line for line in lines if line is not None)]


def _of_version(folder: DatasetFolder, interval: str, current: Manifest) -> Origin:
    plan = plan_of_version(folder, interval, current.plan)
    inputs = KeptInputs.of_version(current) if plan is None else KeptInputs.of_plan(plan)
    reasons = current.quarantine["reasons"]
    return Origin(generation_name(current.generation), inputs, reasons, is_published=True)
