"""``trainfeed outdated`` and ``bring-forward``: versions that would be built otherwise today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import known_folder, readable_environment
from trainfeed.cli.build import Training, declines, require_training, settle
from trainfeed.cli.build_ranges import build_each, result_of
from trainfeed.cli.completion import specified
from trainfeed.cli.named_versions import Name, open_asked
from trainfeed.cli.printing import (
    Message,
    Part,
    Result,
    Table,
    counted_progress,
    counts_line,
    first_to_last,
    print_message,
    program,
    progress,
    with_dry_run,
    with_json,
)
from trainfeed.cli.targets import IntervalsOrAll, RangeWord, Target
from trainfeed.core.accounts import Decision
from trainfeed.core.config import Environment
from trainfeed.core.intervals import TimeRange, parse_range
from trainfeed.errors import ConfigError, NotFoundError, TrainFeedError
from trainfeed.look.outdated import (
    CauseCount,
    IntervalFinding,
    OutdatedReport,
    TotalCost,
    compare_with_source,
    find_outdated,
)
from trainfeed.pipeline import OutdatedRule
from trainfeed.pipeline.parameters import choose_parameters, overridden
from trainfeed.pipeline.preview import shown_size
from trainfeed.specification import DatasetSpec, TrainingWish, load_spec
from trainfeed.versions import range_of
from trainfeed.versions.layout import DatasetFolder
from trainfeed.versions.overrides import Override
from trainfeed.versions.root import data_sets_of

# --- The report about outdated versions on a terminal, for the commands that show it

_COLUMNS: Final = ("intervals", "state", "number", "why")
_CAUSE_COLUMNS: Final = ("cause", "intervals", "first version")
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600


def outdated_text(report: OutdatedReport) -> Iterator[Part]:
    """Yield runs of intervals with the same state and causes, then the causes and the cost."""
    yield Table(_COLUMNS, _runs(report))
    if report.causes:
        yield Table(_CAUSE_COLUMNS, map(_cause_row, report.causes))
    yield _summary(report)
    yield from map(Message, _doubts(report))


def _doubts(report: OutdatedReport) -> list[str]:
    return [f"{report.dataset}: {doubt}" for doubt in report.doubts]


def told_cost(cost: TotalCost) -> str:
    """Return the cost as one line."""
    parts = [f"{cost.records} records ({shown_size(cost.record_bytes)})"]
    source = "all landed, the source is not read again"
    if cost.not_landed:
        source = f"{cost.not_landed} of {cost.intervals} intervals from the source"
    parts.append(source)
    parts.append(f"about {shown_size(cost.version_bytes)} for the new generations")
    parts.append(_time(cost))
    return "; ".join(parts)


def _time(cost: TotalCost) -> str:
    if cost.seconds is None:
        return "no time is known: the plan files of these versions are gone"
    return (
        f"about {_duration(cost.seconds)} one after another, by the median time from plan to"
        f" publication of {cost.seconds_known} of them"
    )


def _duration(seconds: float) -> str:
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.1f} h"


def _runs(report: OutdatedReport) -> Iterator[list[object]]:
    for (state, why), run in groupby(report.intervals, _alike):
        each = list(run)
        yield [first_to_last(each[0].interval, each[-1].interval), state, len(each), why]


def _alike(each: IntervalFinding) -> tuple[str, str]:
    return each.state, each.why


def _cause_row(cause: CauseCount) -> list[object]:
    return [cause.text, cause.intervals, cause.first]


def _summary(report: OutdatedReport) -> str:
    if not report.outdated:
        finish = f"; {program()} bring-forward finishes them" if report.unfinished else ""
        return f"{report.dataset}: no version is outdated ({counts_line(report.counts)}){finish}"
    first, last = report.outdated[0].interval, report.outdated[-1].interval
    span = first if first == last else f"{first}/{last}"
    return (
        f"{report.dataset}: {counts_line(report.counts)}; bringing the outdated ones forward:"
        f" {told_cost(report.cost)}; {program()} bring-forward {report.dataset} {span}"
    )


# --- ``trainfeed outdated``: which versions today's code and specification would build otherwise

_SET_COLUMNS: Final = ("dataset", "intervals", "first cause", "cost of bringing forward")


@with_json
def outdated(
    name: IntervalsOrAll = None,
    asked: RangeWord = None,
    *,
    against_source: Annotated[
        bool,
        typer.Option(
            "--against-source",
            help="Also ask the source: changed files, replaced topics, deleted and late records."
            " Slower.",
        ),
    ] = False,
) -> Result:
    """Show versions that a build of today would make otherwise.

    Because code, specification, lookups or uploads are others than those of the version.

    Status 0 when there are none; 1 when there are some, a source differs, or nothing is
    published; 3 when a version cannot be read.
    """
    env = readable_environment()
    if name is None:
        return _of_all(env, against_source=against_source)
    target = Target.parse(name, asked).of_intervals()
    name = known_folder(target.name).name
    span = range_of(known_folder(name), target.asked) if target.asked else None
    report = _report(env, name, span, against_source=against_source)
    if not report.intervals:
        raise NotFoundError(
            f"data set {name!r} has no published version, so nothing was compared; build one:"
            f" trainfeed build {name} --interval I"
        )
    chosen = [
        f"{name}/{each.interval} has {each.told}; trainfeed build {name}/{each.interval} --outdated"
        " rebuild builds it so, and bring-forward ends that"
        for each in _overridden(env, report)
    ]
    status = _status([report], is_whole=True)
    return Result(report.to_json(), outdated_text(report), chosen, status)


def _report(
    env: Environment, name: str, span: TimeRange | None, *, against_source: bool
) -> OutdatedReport:
    spec = load_spec(env.datasets / name)
    report = find_outdated(spec, env, span=span)
    if not against_source:
        return report
    with progress(f"asking the source of {name}") as tell:
        return compare_with_source(spec, env, report, on_interval=tell)


def _of_all(env: Environment, *, against_source: bool) -> Result:
    found: list[OutdatedReport] = []
    errors: dict[str, TrainFeedError] = {}
    names = specified(env)
    for name in sorted(names):
        try:
            found.append(_report(env, name, None, against_source=against_source))
        except TrainFeedError as error:
            errors[name] = error
    failed = [{"dataset": name, "error": str(problem)} for name, problem in errors.items()]
    unknown = sorted({*data_sets_of(Path(env.root))} - {*names})
    return Result(
        [*(_without_intervals(each) for each in found), *failed],
        Table(_SET_COLUMNS, map(_line, found)),
        [
            *(f"{name}: {type(error).__name__}: {error}" for name, error in errors.items()),
            *(line for each in found for line in _doubts(each)),
            *(
                f"{name}: it has no specification in {env.datasets}, and is not compared"
                for name in unknown
            ),
        ],
        _status(found, is_whole=not errors),
    )


def _status(found: list[OutdatedReport], *, is_whole: bool) -> int:
    """Return the exit status for monitors."""
    if any(each.is_unreadable for each in found):
        return Result.DAMAGED
    return 0 if is_whole and all(each.is_in_order for each in found) else Result.FAILED


def _line(found: OutdatedReport) -> list[object]:
    causes = found.causes
    more = f", and {len(causes) - 1} more" if len(causes) > 1 else ""
    return [
        found.dataset,
        counts_line(found.counts),
        f"{causes[0].text}{more}" if causes else "",
        told_cost(found.cost) if found.outdated else "",
    ]


def _without_intervals(found: OutdatedReport) -> dict[str, Any]:
    told = found.to_json()
    del told["intervals"]
    return told


# --- ``trainfeed bring-forward``: builds the outdated intervals of a range again, and no others


@with_json
@with_dry_run("Only show the outdated intervals, and the cost.")
def bring_forward(
    name: Name,
    asked: RangeWord = None,
    *,
    jobs: Annotated[int, typer.Option(min=1, help="How many intervals are built at once.")] = 1,
    why: Annotated[
        str | None,
        typer.Option(help="A reason, recorded before the causes, which always are."),
    ] = None,
    training: Training = None,
    dry_run: bool = False,
) -> Result:
    """Build the outdated intervals of a range again.

    Those that trainfeed outdated shows, the oldest first. Parameters that were chosen for one of
    them are those of dataset.yaml again.

    A failed interval does not stop the others. Run the command again after a failure or a kill: it
    goes on with what is still outdated. Status 0: none is outdated now; 1: one failed, or the
    range has no version; 3: a version of it cannot be read; 130: ended.
    """
    spec, env, chosen = open_asked(Target.parse(name, asked))
    require_training(spec, training)
    if why is not None and not why.strip():
        raise ConfigError(f"expected a reason for --why, got {why!r}; say why, or leave it out")
    span = parse_range(chosen, spec.schedule_model().zone)
    report = find_outdated(spec, env, span=span)
    ended = _end_overrides(spec, env, report, why, dry_run=dry_run)
    if dry_run:
        found = Result(report.to_json(), outdated_text(report), ended)
    else:
        if ended:
            report = find_outdated(spec, env, span=span)
        for doubt in [*ended, *report.doubts]:
            print_message(f"{spec.name}: {doubt}")
        found = _build(spec, env, report, _options(why), training, jobs=jobs)
    return found if found.status else _without_unreadable(report, found)


def _overridden(env: Environment, report: OutdatedReport) -> list[Override]:
    """Return what was chosen for published intervals of a range."""
    names = {each.interval for each in report.intervals}
    found = overridden(DatasetFolder(Path(env.root), report.dataset))
    return [each for each in found if each.interval in names]


def _end_overrides(
    spec: DatasetSpec, env: Environment, report: OutdatedReport, why: str | None, *, dry_run: bool
) -> list[str]:
    """End what was chosen for published intervals of a range; return a line for each."""
    chosen = _overridden(env, report)
    folder = DatasetFolder(Path(env.root), spec.name)
    for each in () if dry_run else chosen:
        decision = Decision.now(why or "brought forward to the values of dataset.yaml")
        choose_parameters(spec, folder, each.interval, {}, decision)
    ends = "would end that" if dry_run else "ended that"
    return [f"{spec.name}/{each.interval} had {each.told}; bring-forward {ends}" for each in chosen]


def _options(why: str | None) -> list[str]:
    rule = f"--outdated={OutdatedRule.REBUILD}"
    return [rule] if why is None else [rule, f"--rebuild={why}"]


def _build(
    spec: DatasetSpec,
    env: Environment,
    report: OutdatedReport,
    options: Sequence[str],
    training: TrainingWish | None,
    *,
    jobs: int,
) -> Result:
    names = sorted(each.interval for each in [*report.outdated, *report.unfinished])

    def command(interval: str) -> list[str]:
        is_declined = declines(training, names, interval)
        return [*options, *(["--training=none"] if is_declined else [])]

    with counted_progress(f"bringing {spec.name} forward", len(names)) as count:
        results, is_ended = build_each(spec.name, names, command, jobs=jobs, on_end=count)
    if results:
        settle(spec, env, training, results)
    found = result_of(
        results,
        "are not brought forward, their published versions stay; run again: it goes on with these",
        is_ended=is_ended,
    )
    nothing = "no interval of the range is outdated, nothing was built"
    return found if names else replace(found, messages=[nothing])


def _without_unreadable(report: OutdatedReport, found: Result) -> Result:
    """Return a result, with status 3 if of an interval it is not known whether it is outdated."""
    names = [each.interval for each in report.intervals if each.state == "unreadable"]
    if not names:
        return found
    unread = (
        f"{report.dataset}: {', '.join(names)} cannot be read, and were left as they are; see"
        f" trainfeed verify {report.dataset}/{names[0]}"
    )
    return replace(found, messages=[*found.messages, unread], status=Result.DAMAGED)
