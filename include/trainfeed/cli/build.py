"""``trainfeed build``: intervals on this machine, one or a range, previews and dry runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trainfeed.cli.build_ranges import IntervalBuild, build_each, result_of
from trainfeed.cli.named_versions import (
    Intervals,
    Name,
    gate_rows,
    intervals_asked,
    is_range,
    open_asked,
)
from trainfeed.cli.printing import (
    Part,
    Result,
    Table,
    counted_progress,
    error_console,
    print_message,
    progress,
    shown_at_work,
    with_dry_run,
    with_json_or_list,
)
from trainfeed.cli.targets import RangeWord, Target
from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.errors import ConfigError, TrainFeedError
from trainfeed.pipeline import BuildRequest, JsonObject, OutdatedRule
from trainfeed.pipeline.local import build as run_build
from trainfeed.specification import DatasetSpec, TrainingWish
from trainfeed.versions import DatasetFolder, TrainingMarks, Untrained
from trainfeed.versions.interval_notes import told_passed_over
from trainfeed.versions.layout import generation_name, parse_generation

if TYPE_CHECKING:
    from trainfeed.pipeline.preview import DryRun

# --- The options ``--engine`` and ``--spark-connection``: where preprocessing runs this time


class Engine(StrEnum):
    """The engines of ``preprocess.engine``."""

    LOCAL = "local"
    SPARK = "spark"


EngineChoice = Annotated[
    Engine | None,
    typer.Option(
        help="Where records are preprocessed and shards written: in processes of this machine, or"
        " on the Spark cluster of TRAINFEED_SPARK. By default as dataset.yaml says; the published"
        " bytes are the same."
    ),
]


SparkConnection = Annotated[
    str | None,
    typer.Option(
        help="The connection of the Spark cluster: a key of the file that TRAINFEED_SPARK names."
        " By default as dataset.yaml says."
    ),
]


def with_engine(spec: DatasetSpec, engine: Engine | None, connection: str | None) -> DatasetSpec:
    """Return a specification with the asked engine and connection, or as it is for None.

    Raises:
        ConfigError: A connection is asked for, and the engine is local.
    """
    asked = {"engine": engine and engine.value, "connection": connection}
    update = {name: value for name, value in asked.items() if value is not None}
    preprocess = spec.preprocess.model_copy(update=update)
    if connection is not None and preprocess.engine != "spark":
        raise ConfigError(
            f"expected the engine spark beside --spark-connection, got {preprocess.engine}; nothing"
            " was started; add --engine spark, or leave the connection out"
        )
    return spec.model_copy(update={"preprocess": preprocess})


def engine_options(spec: DatasetSpec) -> list[str]:
    """Return the options with which another command makes the same choice."""
    if spec.preprocess.engine != "spark":
        return [f"--engine={spec.preprocess.engine}"]
    return ["--engine=spark", f"--spark-connection={spec.preprocess.connection}"]


# --- One interval built in this process: the stage at work on the terminal, then the report


def build_one(
    spec: DatasetSpec, env: Environment, interval: Interval, request: BuildRequest
) -> Result:
    """Build an interval as asked."""
    place = f"{spec.name}/{interval.name}"
    with shown_at_work("") as tell:
        report = run_build(
            spec, interval, env, request, on_stage=lambda stage: tell(f"{place}: {stage}")
        )
    return Result(report.to_json())


# --- ``trainfeed build --training``: the built intervals that count as untrained

# Reason in the mark: it names both causes, because a build of one interval cannot tell them apart.
_WHY: Final = "built with --training none, or with last and a later interval"


Training = Annotated[
    TrainingWish | None,
    typer.Option(
        help="Which of the built intervals the next run in Airflow, or train --catch-up, trains on:"
        " each (the default), the last of the range, or none."
    ),
]


def require_training(spec: DatasetSpec, wish: TrainingWish | None) -> None:
    """Refuse ``--training`` for a data set without a training.

    Raises:
        ConfigError: The data set has no training.
    """
    if wish is not None and spec.train is None:
        raise ConfigError(
            f"expected no --training, {spec.name} has no training; nothing was built; leave it out,"
            " or add 'train' to dataset.yaml"
        )


def declines(wish: TrainingWish | None, names: Sequence[str], name: str) -> str | None:
    """Return the reason why no training of an interval is wanted; None when one is wanted.

    Args:
        wish: The value of ``--training``.
        names: Names of the intervals of the range, in order.
        name: Name of the interval.
    """
    is_before = wish is TrainingWish.LAST and name != names[-1]
    return _WHY if is_before or wish is TrainingWish.NONE else None


def settle(
    spec: DatasetSpec,
    env: Environment,
    wish: TrainingWish | None,
    results: Sequence[IntervalBuild],
) -> None:
    """With ``last``: mark the newest built interval as untrained if the last one was not built.

    The last one may have a version all the same, which an earlier build has published.

    Args:
        spec: The data set.
        env: The environment.
        wish: The value of ``--training``.
        results: Result of each interval of the range, in order.
    """
    built = [each for each in results if "generation" in each.report]
    if wish is not TrainingWish.LAST or not built or built[-1] is results[-1]:
        return
    newest, last = built[-1], results[-1]
    version = Untrained(newest.interval, parse_generation(newest.report["generation"]))
    folder = DatasetFolder(Path(env.root), spec.name)
    marks = TrainingMarks(folder)
    marks.accept(version)
    left, untrained = folder.current_generation(last.interval), marks.untrained()
    what = f"{last.interval} has no version"
    if left is not None:
        what = f"{last.interval} was not built, its version is still {generation_name(left)}"
    if version not in untrained:
        so = f"and a training has seen {newest.interval} already"
    elif left is not None and Untrained(last.interval, left) in untrained:
        so = f"and both it and {newest.interval} count as untrained"
    else:
        so = f"so {newest.interval} is the last that counts as untrained"
    print_message(f"training: {what}, {so}")


# --- The result of ``trainfeed build --limit`` as a text

_STATISTICS: Final = ("count", "nulls", "min", "max", "mean", "std")
_LENGTHS: Final = {"min": "min_length", "max": "max_length", "mean": "mean_length"}


def preview_text(report: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the report of ``preview``: counts, samples, quarantine, statistics, gates."""
    samples = ", ".join(f"{count} {split}" for split, count in report["samples"].items())
    yield (
        f"{report['dataset']}/{report['interval']}: {report['records']} records read, samples:"
        f" {samples}; quarantined: {_reasons(report['quarantined'])}; filtered:"
        f" {_reasons(report['filtered'])}; nothing was published"
    )
    if report["passed_over"]:
        yield f"passed over in the source: {told_passed_over(report['passed_over'])}"
    for title, rows in (
        ("first samples", report["first_samples"]),
        ("first quarantined records", report["first_quarantined"]),
        ("statistics", [_row(*item) for item in report["statistics"].items()]),
        ("quality gates, on these records alone", gate_rows(report["gates"])),
    ):
        if rows:
            yield f"\n{title}"
            yield Table(list(rows[0]), [{k: _cell(each) for k, each in r.items()} for r in rows])


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_cell, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", r"\n")


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items()) or "none"


def _row(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {"field": name} | {column: _shown(found, column) for column in _STATISTICS}


def _shown(found: Mapping[str, Any], column: str) -> str:
    """Return a statistic of values; for texts and bytes, that of their lengths."""
    if found.get(column) is not None:
        return _cell(found[column])
    length = found.get(_LENGTHS.get(column, ""))
    return "" if length is None else f"{length:.6g} bytes"


# --- ``trainfeed build --dry-run``: what builds of some intervals would do

# What they warn of stands in the report of a dry run.
_REPORTED: Final = ("trainfeed.pipeline.plan", "trainfeed.pipeline.planner.decision")


@contextmanager
def _without_warnings(names: Iterable[str]) -> Iterator[None]:
    """Keep loggers from warnings."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def dry_runs(
    spec: DatasetSpec,
    env: Environment,
    intervals: Sequence[Interval],
    request: BuildRequest,
    *,
    is_range: bool,
) -> Result:
    """Return what builds of the intervals would do; failed if one of them cannot be planned.

    Args:
        spec: The data set.
        env: Folders and connections.
        intervals: The intervals.
        request: The options of the builds.
        is_range: Whether the result is a list, in which an error has the place of a report.

    Raises:
        TrainFeedError: The error of planning, without ``is_range``.
    """
    from trainfeed.pipeline.preview import describe, dry_run

    reports: list[DryRun | _Refused] = []
    failed = 0
    with progress(f"planning {spec.name}") as tell, _without_warnings(_REPORTED):
        for number, interval in enumerate(intervals):
            tell(len(intervals), number)
            try:
                reports.append(
                    dry_run(
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
    told = [report.to_json() for report in reports]
    refused = (
        f"{failed} of {len(intervals)} intervals cannot be planned: a build of them would fail"
    )
    return Result(
        told if is_range else told[0],
        chain.from_iterable(
            report.lines(spec) if isinstance(report, _Refused) else describe(report)
            for report in reports
        ),
        [refused] if failed else (),
        Result.FAILED if failed else 0,
    )


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

    def lines(self, spec: DatasetSpec) -> list[str]:
        return [f"dry run of {spec.name}/{self.interval}: {self.kind}: {self.message}"]


# --- ``trainfeed build``: intervals on this machine, without Airflow


@with_json_or_list
@with_dry_run("Only print what a build would read, make and publish.")
def build(  # noqa: PLR0913 - options of a command
    name: Name,
    asked: RangeWord = None,
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
    dry_run: bool = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Build only the first N records in a temporary folder, and show the result."
        ),
    ] = None,
) -> Result:
    """Build and publish intervals of a data set.

    With --limit the result of the first records is shown, with --dry-run what would be done;
    nothing is published then.

    A range is built interval by interval; a failed interval does not stop the others, and one
    table lists all results. Status 0: all published; 1: one failed; 2: wrong usage or settings;
    130: ended.
    """
    if dry_run and limit is not None:
        raise ConfigError("expected --dry-run or --limit, got both; leave one out")
    target = Target.parse(name, asked)
    spec, env, asked = open_asked(target, interval, has_option=True)
    spec = with_engine(spec, engine, spark_connection)
    require_training(spec, training)
    chosen = intervals_asked(spec, asked)
    request = BuildRequest(rebuild=rebuild, allow_gap=allow_gap, outdated=outdated)
    if limit is not None:
        return _preview(spec, env, _single(chosen, asked, "--limit"), request, limit)
    if dry_run:
        return dry_runs(spec, env, chosen, request, is_range=is_range(chosen, asked))
    if is_range(chosen, asked):
        ranged = _Range(spec, env, [each.name for each in chosen], training)
        return _build_range(ranged, request, jobs=jobs)
    why_none = declines(training, [chosen[0].name], chosen[0].name)
    return build_one(spec, env, chosen[0], replace(request, untrained=why_none))


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


def _build_range(ranged: _Range, request: BuildRequest, *, jobs: int) -> Result:
    reasons = {"--rebuild": request.rebuild, "--allow-gap": request.allow_gap}
    options = [f"{option}={why}" for option, why in reasons.items() if why is not None]
    options += [f"--outdated={request.outdated}", *engine_options(ranged.spec)]
    names = ranged.names
    with counted_progress(f"building {ranged.spec.name}", len(names)) as count:
        results, is_ended = build_each(
            ranged.spec.name,
            names,
            lambda name: [*options, *ranged.training_option(name)],
            jobs=jobs,
            on_end=count,
        )
    settle(ranged.spec, ranged.env, ranged.training, results)
    again = "are not built; run again: what is published is found identical"
    return result_of(results, again, is_ended=is_ended)


def _preview(
    spec: DatasetSpec,
    env: Environment,
    interval: Interval,
    request: BuildRequest,
    limit: int,
) -> Result:
    if request.rebuild is not None or request.outdated is not OutdatedRule.FAIL:
        raise ConfigError(
            "expected no --rebuild and no --outdated beside --limit, which publishes nothing"
        )
    from trainfeed.pipeline.preview import preview

    # A preview also shows the output of the function.
    logging.getLogger("trainfeed.printed").setLevel(logging.INFO)
    with error_console().status(f"{spec.name}/{interval.name}: the first {limit} records"):
        report = preview(spec, interval, env, limit=limit, allow_gap=request.allow_gap)
    return Result(report, preview_text(report))


def _single(chosen: Sequence[Interval], asked: str, option: str) -> Interval:
    if len(chosen) > 1:
        raise ConfigError(
            f"expected one interval beside {option}, {asked} has {len(chosen)}; name one, such as"
            f" {chosen[0].name}"
        )
    return chosen[0]
