"""``trainfeed build``: intervals on this machine, without Airflow."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import typer

from trainfeed.cli._asked_intervals import Intervals, Json, Name, is_range, open_asked
from trainfeed.cli._printing import error_console, print_json, print_message
from trainfeed.cli.build._dry_runs import print_dry_runs
from trainfeed.cli.build._engine_choice import (
    EngineChoice,
    SparkConnection,
    engine_options,
    with_engine,
)
from trainfeed.cli.build._one_build import build_one
from trainfeed.cli.build._preview import print_preview
from trainfeed.cli.build._range_build import IntervalBuild, build_each
from trainfeed.cli.build._range_results import print_results
from trainfeed.cli.build._training_wish import (
    Training,
    declines,
    require_training,
    settle,
)
from trainfeed.cli.file import progress
from trainfeed.config import Environment
from trainfeed.errors import ConfigError
from trainfeed.intervals import Interval, intervals_in, parse_range
from trainfeed.pipeline import OutdatedRule
from trainfeed.pipeline.local import BuildRequest
from trainfeed.pipeline.preview import preview
from trainfeed.specification import DatasetSpec, TrainingWish

__all__ = ["build"]

_FAILED: Final = 1
_ENDED: Final = 130


def build(  # noqa: PLR0913 - options of a command
    name: Name,
    *,
    interval: Intervals = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="How many intervals of a range are built at once.")
    ] = 1,
    rebuild: Annotated[
        str | None,
        typer.Option(
            help="Build a published interval again for this reason; each reason builds once."
        ),
    ] = None,
    allow_gap: Annotated[
        str | None, typer.Option(help="Accept that retention deleted records, for this reason.")
    ] = None,
    outdated: Annotated[
        OutdatedRule,
        typer.Option(
            help="What happens to a published interval that today's code, specification or lookups"
            " would build otherwise: fail; keep it; or rebuild it, with the causes as the reason."
        ),
    ] = OutdatedRule.FAIL,
    training: Training = None,
    engine: EngineChoice = None,
    spark_connection: SparkConnection = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print what a build would read, make and publish."),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Build only the first N records in a temporary folder, and show the result."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build and publish intervals of a data set, or preview the result of a build.

    A range is built interval by interval; a failed interval does not stop the others, and one
    table lists all results. Status 0: all published; 1: one failed; 2: wrong usage or settings;
    130: ended.
    """
    if dry_run and limit is not None:
        raise ConfigError("expected --dry-run or --limit, got both; leave one out")
    spec, env, asked = open_asked(name, interval)
    spec = with_engine(spec, engine, spark_connection)
    require_training(spec, training)
    chosen = intervals_in(spec.schedule_model(), parse_range(asked))
    request = BuildRequest(rebuild=rebuild, allow_gap=allow_gap, outdated=outdated)
    if limit is not None:
        _preview(spec, env, _single(chosen, asked, "--limit"), request, limit, as_json=as_json)
    elif dry_run:
        is_list = is_range(chosen, asked)
        if not print_dry_runs(spec, env, chosen, request, as_json=as_json, is_range=is_list):
            raise typer.Exit(_FAILED)
    elif is_range(chosen, asked):
        ranged = _Range(spec, env, [each.name for each in chosen], training)
        _build_range(ranged, request, jobs=jobs, as_json=as_json)
    else:
        why_none = declines(training, [chosen[0].name], chosen[0].name)
        build_one(spec, env, chosen[0], replace(request, untrained=why_none), as_json=as_json)


@dataclass(frozen=True)
class _Range:
    """The intervals that one command builds, and which of them a training should see."""

    spec: DatasetSpec
    env: Environment
    names: Sequence[str]
    training: TrainingWish | None

    def training_option(self, name: str) -> list[str]:
        """Return what the command of one interval gets."""
        return ["--training=none"] if declines(self.training, self.names, name) else []


def _build_range(ranged: _Range, request: BuildRequest, *, jobs: int, as_json: bool) -> None:
    reasons = {"--rebuild": request.rebuild, "--allow-gap": request.allow_gap}
    options = [f"{option}={why}" for option, why in reasons.items() if why is not None]
    options += [f"--outdated={request.outdated}", *engine_options(ranged.spec)]
    names, done = ranged.names, 0
    with progress(f"building {ranged.spec.name}") as tell:

        def count(_: IntervalBuild) -> None:
            nonlocal done
            done += 1
            tell(len(names), done)

        tell(len(names), 0)
        results, is_ended = build_each(
            ranged.spec.name,
            names,
            lambda name: [*options, *ranged.training_option(name)],
            jobs=jobs,
            on_end=count,
        )
    settle(ranged.spec, ranged.env, ranged.training, results)
    print_results(results, as_json=as_json)
    failed = [each.interval for each in results if each.status != 0]
    if failed:
        print_message(
            f"{len(failed)} of {len(names)} intervals are not built; run again:"
            " what is published is found identical"
        )
        raise typer.Exit(_ENDED if is_ended else _FAILED)


def _preview(
    spec: DatasetSpec,
    env: Environment,
    interval: Interval,
    request: BuildRequest,
    limit: int,
    *,
    as_json: bool,
) -> None:
    if request.rebuild is not None or request.outdated is not OutdatedRule.FAIL:
        raise ConfigError(
            "expected no --rebuild and no --outdated beside --limit, which publishes nothing"
        )
    # A preview also shows the output of the function.
    logging.getLogger("trainfeed.printed").setLevel(logging.INFO)
    with error_console().status(f"{spec.name}/{interval.name}: the first {limit} records"):
        report = preview(spec, interval, env, limit=limit, allow_gap=request.allow_gap)
    print_json(report) if as_json else print_preview(report)


def _single(chosen: Sequence[Interval], asked: str, option: str) -> Interval:
    if len(chosen) > 1:
        raise ConfigError(
            f"expected one interval beside {option}, {asked} has {len(chosen)}; name one, such as"
            f" {chosen[0].name}"
        )
    return chosen[0]
