"""``trainfeed build --dry-run``: what builds of some intervals would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import typer

from trainfeed.cli._printing import print_json, print_message
from trainfeed.cli.file import progress
from trainfeed.config import Environment
from trainfeed.errors import TrainFeedError
from trainfeed.intervals import Interval
from trainfeed.pipeline import JsonObject
from trainfeed.pipeline.local import BuildRequest
from trainfeed.pipeline.preview import DryRun, describe
from trainfeed.pipeline.preview import dry_run as run_dry
from trainfeed.specification import DatasetSpec

__all__ = ["print_dry_runs"]


def print_dry_runs(
    spec: DatasetSpec,
    env: Environment,
    intervals: Sequence[Interval],
    request: BuildRequest,
    *,
    as_json: bool,
    is_range: bool,
) -> bool:
    """Print what builds of the intervals would do; return whether all would be built.

    Args:
        spec: The data set.
        env: Folders and connections.
        intervals: The intervals.
        request: The options of the builds.
        as_json: Whether JSON is printed.
        is_range: Whether a list is printed, in which an error has the place of a report.

    Raises:
        TrainFeedError: The error of planning, without ``is_range``.
    """
    reports: list[DryRun | _Refused] = []
    failed = 0
    with progress(f"planning {spec.name}") as tell:
        for number, interval in enumerate(intervals):
            tell(len(intervals), number)
            try:
                reports.append(
                    run_dry(
                        spec,
                        interval,
                        env,
                        rebuild=request.rebuild,
                        allow_gap=request.allow_gap,
                        outdated=request.outdated,
                    )
                )
            except TrainFeedError as error:
                if not is_range:
                    raise
                failed += 1
                reports.append(_Refused(interval.name, type(error).__name__, str(error)))
    if as_json:
        told = [report.to_json() for report in reports]
        print_json(told if is_range else told[0])
    else:
        typer.echo("\n".join(line for report in reports for line in _told(spec, report)))
    if failed:
        print_message(f"{failed} of {len(intervals)} intervals would not be built")
    return failed == 0


@dataclass(frozen=True)
class _Refused:
    """An interval of a range that cannot be planned, with its error."""

    interval: str
    kind: str
    message: str

    def to_json(self) -> JsonObject:
        return {
            "interval": self.interval,
            "error": {"kind": self.kind, "message": self.message},
        }


def _told(spec: DatasetSpec, report: DryRun | _Refused) -> list[str]:
    if isinstance(report, _Refused):
        return [f"dry run of {spec.name}/{report.interval}: {report.kind}: {report.message}"]
    return describe(report)
