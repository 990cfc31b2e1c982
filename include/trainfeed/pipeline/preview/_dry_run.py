"""Reports what a build would do, without doing it: reads, tasks, shards, version, space.

The stage ``plan`` itself plans the interval, in a shadow of the publication root. The report is
therefore that of a real build, while root, landing area and work area stay unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.intervals import Interval
from trainfeed.pipeline._outdated_rule import OutdatedRule
from trainfeed.pipeline._plan_report import SkipReport
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.pipeline.preview._dry_run_report import (
    DryRun,
    DryRunReport,
    DryRunSkip,
    PlannedRead,
    PlannedVersion,
)
from trainfeed.pipeline.preview._shadow import shadowed
from trainfeed.pipeline.stage import Experience, Space, Stage, landed_bytes, space
from trainfeed.specification import DatasetSpec

__all__ = ["dry_run"]

# Most sources in a report, so that JSON and log stay small.
_SHOWN_READS = 100


def dry_run(
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    *,
    rebuild: str | None = None,
    allow_gap: str | None = None,
    outdated: OutdatedRule = OutdatedRule.FAIL,
) -> DryRun:
    """Report what a build of an interval would read, make and publish.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Folders and connections.
        rebuild: The reason for building a published interval again, or None.
        allow_gap: The reason for accepting that retention deleted records, or None.
        outdated: The rule for a published version that is outdated.

    Returns:
        The report; for an interval that a build would skip, the reason.

    Raises:
        TrainFeedError: The error of planning; a build would raise the same.
    """
    started = time.perf_counter()
    schedule = spec.schedule_model()
    near = [schedule.beside(interval.start)[0].name, schedule.beside(interval.end)[1].name]
    with shadowed(env, spec.name, interval.name, published=True, neighbours=near) as shadow:
        planned = plan(
            spec,
            interval,
            shadow,
            rebuild=rebuild,
            allow_gap=allow_gap,
            outdated=outdated,
            checks_space=False,
        )
        if isinstance(planned, SkipReport):
            note = planned.note.partition("; nothing was read")[0]
            return DryRunSkip(planned.dataset, planned.interval, planned.seconds, note)
        found = load_plan(DatasetFolder(Path(shadow.root), spec.name), planned.ref)
    stage = Stage(spec, env, found)
    landed = landed_bytes(stage)
    places = space(stage, landed)
    return DryRunReport(
        dataset=planned.ref.dataset,
        interval=planned.ref.interval,
        verdict=planned.verdict,
        generation=planned.generation,
        lands=spec.source.kind.lands,
        reads=list(islice(_reads(found, landed), _SHOWN_READS)),
        sources=len(found.sources),
        offsets=_span(found, "offsets"),
        read_bytes=_read_bytes(found, places[0]),
        tasks=planned.tasks,
        shards=found.shards,
        publishes=_publishes(found, env, planned.generation),
        gaps=found.gaps,
        space=places,
        seconds=round(time.perf_counter() - started, 3),
        note=planned.note,
        empty_because=planned.empty_because,
        passed_over=planned.passed_over,
    )


def _reads(found: Plan, landed: Mapping[int, int]) -> Iterator[PlannedRead]:
    ranges_of: dict[str, list[int]] = {source: [] for source in found.sources}
    for index, piece in enumerate(found.ranges):
        ranges_of[piece.source].append(index)
    for source, ranges in ranges_of.items():
        planned = found.inputs[source]
        is_counted_in_bytes = planned.unit == "bytes"
        is_landed = all(index in landed for index in ranges)
        size = sum(landed[index] for index in ranges) if is_landed else None
        yield PlannedRead(
            source=source,
            start=planned.start,
            end=planned.end,
            unit=planned.unit,
            pieces=len(ranges),
            landed_pieces=sum(index in landed for index in ranges),
            bytes=planned.end - planned.start if is_counted_in_bytes else size,
        )


def _read_bytes(found: Plan, landing: Space) -> int | None:
    """Return about how many bytes come from the source: log files, or what has not landed."""
    is_counted_in_bytes = any(part.unit == "bytes" for part in found.inputs.values())
    return _span(found, "bytes") if is_counted_in_bytes else landing.needed_bytes


def _span(found: Plan, unit: str) -> int:
    return sum(part.end - part.start for part in found.inputs.values() if part.unit == unit)


def _publishes(found: Plan, env: Environment, generation: str) -> PlannedVersion:
    folder = DatasetFolder(Path(env.root), found.dataset)
    experience = Experience.for_plan(found, env.root)
    positions = sum(piece.end - piece.start for piece in found.ranges)
    return PlannedVersion(
        version=f"{found.dataset}/{found.interval['name']}/{generation}",
        path=str(folder.version(found.interval["name"], found.generation)),
        supersedes=found.supersedes,
        bytes=None if experience is None else round(positions * experience.published_bytes),
        estimated_from=None if experience is None else experience.version,
    )
