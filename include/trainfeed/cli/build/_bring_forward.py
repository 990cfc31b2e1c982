"""``trainfeed bring-forward``: builds the outdated intervals of a range again, and no others.

Each interval is a ``trainfeed build`` of its own with the rule ``rebuild``, which decides again
whether the interval is outdated. So the command can be repeated after a kill, and be at work twice:
what is done is found, and what is begun is adopted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from trainfeed.cli._asked_intervals import Name, open_asked
from trainfeed.cli._outdated_table import print_outdated
from trainfeed.cli._printing import print_json, print_message
from trainfeed.cli.build._range_build import IntervalBuild, build_each
from trainfeed.cli.build._range_results import print_results
from trainfeed.cli.build._training_wish import Training, declines, require_training, settle
from trainfeed.cli.file import progress
from trainfeed.config import Environment
from trainfeed.errors import ConfigError
from trainfeed.intervals import parse_range
from trainfeed.outdated import OutdatedReport, find_outdated
from trainfeed.pipeline import OutdatedRule
from trainfeed.specification import DatasetSpec, TrainingWish

__all__ = ["bring_forward"]

_FAILED: Final = 1
_DAMAGED: Final = 3
_ENDED: Final = 130


def bring_forward(  # noqa: PLR0913 - options of a command
    name: Name,
    asked: Annotated[
        str | None,
        typer.Argument(metavar="[RANGE]", help="Interval or range: 2013-01-01, 2013-01, a/b."),
    ] = None,
    *,
    jobs: Annotated[int, typer.Option(min=1, help="How many intervals are built at once.")] = 1,
    why: Annotated[
        str | None,
        typer.Option(help="A reason, recorded before the causes, which always are."),
    ] = None,
    training: Training = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the outdated intervals, and the cost.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Build the outdated intervals of a range again, oldest first; see trainfeed outdated.

    A failed interval does not stop the others. Run the command again after a failure or a kill: it
    goes on with what is still outdated. Status 0: none is outdated now; 1: one failed, or the
    range has no version; 3: a version of it cannot be read; 130: ended.
    """
    spec, env, chosen = open_asked(name, asked)
    require_training(spec, training)
    if why is not None and not why.strip():
        raise ConfigError(f"expected a reason for --why, got {why!r}; say why, or leave it out")
    report = find_outdated(spec, env, span=parse_range(chosen))
    if dry_run:
        print_json(report.to_json()) if as_json else print_outdated(report)
    else:
        for doubt in report.doubts:
            print_message(f"{spec.name}: {doubt}")
        _build(spec, env, report, _options(why), training, jobs=jobs, as_json=as_json)
    _refuse_unreadable(report)


def _options(why: str | None) -> list[str]:
    rule = f"--outdated={OutdatedRule.REBUILD}"
    return [rule] if why is None else [rule, f"--rebuild={why}"]


def _build(  # noqa: PLR0913 - options of a command
    spec: DatasetSpec,
    env: Environment,
    report: OutdatedReport,
    options: Sequence[str],
    training: TrainingWish | None,
    *,
    jobs: int,
    as_json: bool,
) -> None:
    names, done = sorted(each.interval for each in [*report.outdated, *report.unfinished]), 0

    def command(interval: str) -> list[str]:
        is_declined = declines(training, names, interval)
        return [*options, *(["--training=none"] if is_declined else [])]

    with progress(f"bringing {spec.name} forward") as tell:

        def count(_: IntervalBuild) -> None:
            nonlocal done
            done += 1
            tell(len(names), done)

        tell(len(names), 0)
        results, is_ended = build_each(spec.name, names, command, jobs=jobs, on_end=count)
    if results:
        settle(spec, env, training, results)
    print_results(results, as_json=as_json)
    _end(names, results, is_ended=is_ended)


def _end(names: Sequence[str], results: Sequence[IntervalBuild], *, is_ended: bool) -> None:
    failed = [each.interval for each in results if each.status != 0]
    if failed:
        print_message(
            f"{len(failed)} of {len(names)} intervals are not brought forward, their published"
            " versions stay; run again: it goes on with these"
        )
        raise typer.Exit(_ENDED if is_ended else _FAILED)
    if not names:
        print_message("no interval of the range is outdated, nothing was built")


def _refuse_unreadable(report: OutdatedReport) -> None:
    """End with status 3 if it is not known of an interval whether it is outdated."""
    names = [each.interval for each in report.intervals if each.state == "unreadable"]
    if names:
        print_message(
            f"{report.dataset}: {', '.join(names)} cannot be read, and were left as they are; see"
            f" trainfeed verify {report.dataset}/{names[0]}"
        )
        raise typer.Exit(_DAMAGED)
