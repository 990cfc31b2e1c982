"""``trainfeed build`` and ``trainfeed train``: intervals on this machine, without Airflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._look_target import complete_target
from trainfeed.cli._preview import print_preview
from trainfeed.cli._printing import (
    error_console,
    print_json,
    print_mapping,
    print_message,
    print_rows,
)
from trainfeed.cli._range_build import IntervalBuild, build_each
from trainfeed.cli._train_options import LauncherKind, print_rendered, with_launcher
from trainfeed.cli._training_wish import (
    Training,
    TrainingWish,
    declines,
    require_training,
    settle,
)
from trainfeed.cli.file import progress
from trainfeed.config import Environment, environment_from_environ
from trainfeed.dataset import DatasetFolder, TrainingMarks
from trainfeed.errors import ConfigError, TrainFeedError, WindowIncompleteError
from trainfeed.intervals import Interval, intervals_in, parse_range
from trainfeed.pipeline import JsonObject
from trainfeed.pipeline.local import BuildRequest
from trainfeed.pipeline.local import build as run_build
from trainfeed.pipeline.preview import DryRun, describe, preview
from trainfeed.pipeline.preview import dry_run as run_dry
from trainfeed.specification import DatasetSpec, check_name, load_spec
from trainfeed.training.catch_up import train_missed
from trainfeed.training.launch import train as run_train

__all__ = ["build", "train"]

_FAILED: Final = 1
_ENDED: Final = 130
_ERROR_CHARS: Final = 200
_COLUMNS: Final = ("interval", "outcome", "generation", "samples", "quarantined", "filtered")

Name = Annotated[
    str,
    typer.Argument(
        help="NAME of a data set, NAME/INTERVAL or NAME/FIRST/LAST.", autocompletion=complete_target
    ),
]
Intervals = Annotated[
    str | None,
    typer.Option(
        "--interval",
        help="Interval or range, both ends included: 2013-01-01, 2013-01, 2013-01-01T05, a/b.",
    ),
]
_TRAINED: Final = ("interval", "verdict", "job", "metrics", "note")
Json = Annotated[bool, typer.Option("--json", help="Print JSON; a list for a range.")]


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
    training: Training = None,
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
    spec, env, asked = _open(name, interval)
    require_training(spec, training)
    chosen = intervals_in(spec.schedule_model(), parse_range(asked))
    request = BuildRequest(rebuild=rebuild, allow_gap=allow_gap)
    if limit is not None:
        _preview(spec, env, _single(chosen, asked, "--limit"), request, limit, as_json=as_json)
    elif dry_run:
        _dry_run(spec, env, chosen, request, as_json=as_json, is_range=_is_range(chosen, asked))
    elif _is_range(chosen, asked):
        ranged = _Range(spec, env, [each.name for each in chosen], training)
        _build_range(ranged, request, jobs=jobs, as_json=as_json)
    else:
        why_none = declines(training, [chosen[0].name], chosen[0].name)
        _build(spec, env, chosen[0], replace(request, untrained=why_none), as_json=as_json)


def _build(
    spec: DatasetSpec, env: Environment, interval: Interval, request: BuildRequest, *, as_json: bool
) -> None:
    place = f"{spec.name}/{interval.name}"
    with error_console().status("") as status:
        report = run_build(
            spec,
            interval,
            env,
            request,
            on_stage=lambda stage: status.update(f"{place}: {stage}"),
        )
    print_json(report.to_json()) if as_json else print_mapping(report.to_json())


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
    _print_results(results, as_json=as_json)
    failed = [each.interval for each in results if each.status != 0]
    if failed:
        print_message(
            f"{len(failed)} of {len(names)} intervals are not built; run again:"
            " what is published is found identical"
        )
        raise typer.Exit(_ENDED if is_ended else _FAILED)


def _print_results(results: Sequence[IntervalBuild], *, as_json: bool) -> None:
    if as_json:
        print_json([each.to_json() for each in results])
        return
    print_rows(_COLUMNS, [_row(each) for each in results])


def _row(result: IntervalBuild) -> list[object]:
    if result.status == 0:
        report = result.report
        return [result.interval, report["verdict"], *(report.get(c, "") for c in _COLUMNS[2:])]
    kind, message = result.error
    first = message.partition("\n")[0][:_ERROR_CHARS]
    return [result.interval, f"{kind}: {first}" if kind else first, "", "", "", ""]


def _dry_run(
    spec: DatasetSpec,
    env: Environment,
    intervals: Sequence[Interval],
    request: BuildRequest,
    *,
    as_json: bool,
    is_range: bool,
) -> None:
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
        raise typer.Exit(_FAILED)


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


def _preview(
    spec: DatasetSpec,
    env: Environment,
    interval: Interval,
    request: BuildRequest,
    limit: int,
    *,
    as_json: bool,
) -> None:
    if request.rebuild is not None:
        raise ConfigError("expected no --rebuild beside --limit, which publishes nothing")
    # A preview also shows the output of the function.
    logging.getLogger("trainfeed.printed").setLevel(logging.INFO)
    with error_console().status(f"{spec.name}/{interval.name}: the first {limit} records"):
        report = preview(spec, interval, env, limit=limit, allow_gap=request.allow_gap)
    print_json(report) if as_json else print_preview(report)


class CatchUp(StrEnum):
    """Choices of untrained intervals."""

    MISSED = "missed"
    ALL = "all"


def train(  # noqa: PLR0913 - options of a command
    name: Name,
    *,
    interval: Intervals = None,
    catch_up: Annotated[
        CatchUp | None,
        typer.Option(
            help="Train on every published interval that no training has seen; all: also on"
            " intervals from before the data set had a training, and on declined ones."
        ),
    ] = None,
    launcher: Annotated[
        LauncherKind | None,
        typer.Option(help="Where the training runs, in the place of train.launcher."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be made, as YAML.")
    ] = False,
    again: Annotated[
        str | None,
        typer.Option(
            help="Start a job on a cluster that has failed again, for this reason; each reason"
            " starts it once."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train on the window of intervals that ends with --interval; reuse a finished job.

    The intervals of a range are trained on in order, until one fails. Status 0: done; 1: failed;
    2: wrong usage or settings.
    """
    if catch_up is not None:
        if launcher is not None or dry_run or again is not None:
            raise ConfigError(
                "expected no --launcher, --dry-run or --again beside --catch-up; leave it out"
            )
        _catch_up(name, interval, older=catch_up is CatchUp.ALL, as_json=as_json)
        return
    spec, env, asked = _open(name, interval)
    spec = with_launcher(spec, launcher)
    chosen = intervals_in(spec.schedule_model(), parse_range(asked))
    if dry_run:
        print_rendered(spec, env, chosen, as_json=as_json)
        return
    reports = []
    for each in chosen:
        with error_console().status(f"{spec.name}/{each.name}: train"):
            reports.append(run_train(spec, env, each, again=again))
        if not as_json:
            print_mapping(reports[-1])
    if as_json:
        print_json(reports if _is_range(chosen, asked) else reports[0])


def _catch_up(name: str, interval: str | None, *, older: bool, as_json: bool) -> None:
    if interval is not None or "/" in name:
        raise ConfigError(
            "expected an interval or --catch-up, got both; leave one out: --catch-up finds the"
            " intervals itself"
        )
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(name))
    reports = []
    with error_console().status(f"{spec.name}: train") as status:
        for report in train_missed(spec, env, older=older):
            reports.append(report)
            status.update(f"{spec.name}: train, {len(reports)} intervals done")
    if as_json:
        print_json(reports)
    elif not reports:
        print_message("no published interval waits for a training")
    else:
        print_rows(_TRAINED, [_trained_row(report) for report in reports])
    _tell_declined(spec, env)
    if missing := [report["interval"] for report in reports if report["verdict"] == "incomplete"]:
        raise WindowIncompleteError(
            f"{len(missing)} intervals of {spec.name} wait for others of their window:"
            f" {', '.join(missing)}; they stay untrained; build what their notes name, and run"
            " this again"
        )


def _tell_declined(spec: DatasetSpec, env: Environment) -> None:
    """Name the versions that stay untrained because their builds wanted no training."""
    declined = TrainingMarks(DatasetFolder(Path(env.root), spec.name)).declined()
    if declined:
        first, last = declined[0].version.interval, declined[-1].version.interval
        print_message(
            f"{len(declined)} published intervals were declined, {first} to {last}"
            f" ({declined[-1].why}); --catch-up all trains on them, too"
        )


def _trained_row(report: Mapping[str, Any]) -> list[object]:
    metrics = ", ".join(f"{name} {value:g}" for name, value in report.get("metrics", {}).items())
    return [{**report, "metrics": metrics}.get(column, "") for column in _TRAINED]


def _open(name: str, interval: str | None) -> tuple[DatasetSpec, Environment, str]:
    """Return specification, environment, and the requested range."""
    name, _, place = name.partition("/")
    if (asked := interval or place) == "" or (interval and place):
        raise ConfigError(
            "expected the interval or range once, as NAME/INTERVAL, NAME/FIRST/LAST or --interval,"
            f" got {'both' if place else 'none'}; such as {name} --interval 2013-01-01"
        )
    env = environment_from_environ()
    return load_spec(env.datasets / check_name(name)), env, asked


def _is_range(chosen: Sequence[Interval], asked: str) -> bool:
    return "/" in asked or len(chosen) > 1


def _single(chosen: Sequence[Interval], asked: str, option: str) -> Interval:
    if len(chosen) > 1:
        raise ConfigError(
            f"expected one interval beside {option}, {asked} has {len(chosen)}; name one, such as"
            f" {chosen[0].name}"
        )
    return chosen[0]
