"""Compares published intervals with their source: slower, and only on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.errors import (
    LogsMissingError,
    OffsetOutOfRangeError,
    SourceReplacedError,
    TrainFeedError,
    WindowOpenError,
)
from trainfeed.intervals import Interval
from trainfeed.outdated._outdated_report import IntervalFinding, OutdatedReport
from trainfeed.outdated._source_finding import SourceFinding, SourceState
from trainfeed.pipeline.inputs import is_away, reader_of
from trainfeed.pipeline.planner import Planner
from trainfeed.pipeline.preview import boundaries_apart
from trainfeed.specification import DatasetSpec
from trainfeed.status import Attempts, dataset_status
from trainfeed.storage import Location

__all__ = ["SourceFinding", "compare_with_source"]

_INPUTS: Final = "inputs."
_LOST: Final = (OffsetOutOfRangeError, LogsMissingError, WindowOpenError)


def compare_with_source(
    spec: DatasetSpec,
    env: Environment,
    report: OutdatedReport,
    *,
    on_interval: Callable[[int, int], object] = max,
) -> OutdatedReport:
    """Return a report with the comparison of every current and outdated interval with its source.

    An error about one interval becomes its finding, and does not end the comparison. No record is
    read, and nothing is written: a boundary that was not decided yet is decided for this comparison
    alone.

    Args:
        spec: The data set, as it is now.
        env: Folders and connections.
        report: The report without the source.
        on_interval: Called before every interval, with the number of all and of the done ones.

    Raises:
        FormatError: The recorded schedule is damaged.
        StorageError: The publication root refused or failed.
    """
    folder = DatasetFolder(Path(env.root), spec.name)
    late = _late(spec, env, folder)
    found: list[IntervalFinding] = []
    with boundaries_apart(folder) as apart:
        for done, each in enumerate(report.intervals):
            on_interval(len(report.intervals), done)
            if each.state in {"current", "outdated", "unfinished"}:
                interval = spec.schedule_model().interval_named(each.interval)
                finding = _compared(spec, env, (folder, apart), interval, each.generation)
                each = replace(  # noqa: PLW2901 - the same interval, with more
                    each, source=finding._replace(late=late.get(each.interval, ""))
                )
            found.append(each)
    return replace(report, intervals=tuple(found))


def _compared(
    spec: DatasetSpec,
    env: Environment,
    folders: tuple[DatasetFolder, DatasetFolder],
    interval: Interval,
    generation: int | None,
) -> SourceFinding:
    folder, apart = folders
    try:
        manifest, _ = Manifest.read(folder.version(interval.name, generation or 0))
        with reader_of(spec).open(spec, env, apart, interval) as source:
            found = Planner(spec, interval, env, folder).outdated(source)
            if found is not None:
                changes = [cause.text for cause in found.causes if cause.place.startswith(_INPUTS)]
                if changes:
                    return SourceFinding("changed", "; ".join(changes))
            source.without_losses(manifest, None)
    except TrainFeedError as error:
        return SourceFinding(_state_of(error), f"{type(error).__name__}: {error}")
    return SourceFinding("same")


def _state_of(error: TrainFeedError) -> SourceState:
    if isinstance(error, SourceReplacedError):
        return "replaced"
    if isinstance(error, _LOST):
        return "lost"
    return "away" if is_away(error) else "failed"


def _late(spec: DatasetSpec, env: Environment, folder: DatasetFolder) -> Mapping[str, str]:
    """Return interval → where its late records are, by the counters of later versions."""
    return dict(_late_intervals(spec, env, folder))


def _late_intervals(
    spec: DatasetSpec, env: Environment, folder: DatasetFolder
) -> Iterator[tuple[str, str]]:
    now = datetime.now(UTC)
    attempts = Attempts(Location.parse(env.work), now)
    found = dataset_status(folder, datasets=spec.folder.parent, attempts=attempts, now=now)
    for each in found.intervals:
        if each.state == "late":
            yield each.interval, each.reason
