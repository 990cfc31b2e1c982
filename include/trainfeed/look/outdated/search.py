"""Compares published versions with what a build of now would make, and on request with sources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.core import canonical_json
from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval, Schedule, TimeRange, parse_range
from trainfeed.errors import (
    ConfigError,
    FormatError,
    LogsMissingError,
    NotFoundError,
    OffsetOutOfRangeError,
    SourceReplacedError,
    TrainFeedError,
    WindowError,
    WindowOpenError,
)
from trainfeed.files.stores import Location
from trainfeed.look.outdated.report import (
    Costs,
    IntervalFinding,
    OutdatedReport,
    SourceFinding,
    SourceState,
)
from trainfeed.look.status import Attempts, dataset_status
from trainfeed.pipeline.inputs.kept_inputs import is_away
from trainfeed.pipeline.inputs.source_readers import reader_of
from trainfeed.pipeline.parameters import interval_spec
from trainfeed.pipeline.planner.fingerprint import PublishedVersion, Recipe, causes_of
from trainfeed.pipeline.planner.planner import Planner
from trainfeed.pipeline.plans import first_few, planned_of
from trainfeed.pipeline.preview import boundaries_apart
from trainfeed.specification import DatasetSpec
from trainfeed.uploads import AppliedUpload, ReceiptBook
from trainfeed.versions import DatasetFolder, Manifest
from trainfeed.versions.layout import generation_name
from trainfeed.versions.withdraw import Withdrawal, withdrawals, withdrawn_alike

# --- Intervals of a range that have no version: they are neither outdated nor current


def without_version(spec: DatasetSpec, span: TimeRange, found: Collection[str]) -> Iterator[str]:
    """Yield a line about the ended intervals of a range that have no version, if there are any.

    Args:
        spec: The data set.
        span: The range that was asked for.
        found: Names of the intervals that were found.

    Raises:
        NotFoundError: Nothing was found: an answer without a version would look like a good one.
    """
    if not found:
        raise NotFoundError(
            f"data set {spec.name!r} has no published version in {span.text}, so nothing was"
            f" compared or built; what is there: trainfeed status {spec.name}"
        )
    end = min(span.end, datetime.now(UTC))
    ticks = [t.name for t in spec.schedule_model().intervals(span.start, end) if t.end <= end]
    lacking = [name for name in ticks if name not in found]
    if lacking:
        yield (
            f"{len(lacking)} intervals of {span.text} have no version, and were not compared:"
            f" {first_few(lacking)}; see trainfeed status {spec.name} {span.text}"
        )


# --- Compares every published version with what a build of now would make, without the source


def find_outdated(
    spec: DatasetSpec, env: Environment, *, span: TimeRange | None = None
) -> OutdatedReport:
    """Return which versions of a data set a build of now would make otherwise, and why.

    Nothing is written, and the source is not asked. Uploads without a receipt do not count: the
    next build gives them one.

    Args:
        spec: The data set, as it is now.
        env: Folders and connections.
        span: The range to look at; None for all intervals.

    Raises:
        ConfigError: A file of the data set is missing, or its code imports code from elsewhere.
        NotFoundError: No interval of the range was ever published.
        StorageError: The publication root or the folder of the data set refused or failed.
    """
    search = _Search(spec, env)
    found = tuple(search.findings(span))
    doubts = [] if search.costs.doubt is None else [search.costs.doubt]
    if span is not None:
        doubts += without_version(spec, span, {each.interval for each in found})
    return OutdatedReport(
        dataset=spec.name,
        asked=None if span is None else span.text,
        intervals=found,
        doubts=tuple(doubts),
    )


class _Search:
    """One look at all versions of a data set.

    Args:
        spec: The data set.
        env: Folders and connections.
    """

    def __init__(self, spec: DatasetSpec, env: Environment) -> None:
        self._spec = spec
        self._folder = DatasetFolder(Path(env.root), spec.name)
        self._recipes = [Recipe.of(each) for each in spec.of_each_source]
        self._uploads = None if spec.uploads is None else ReceiptBook(self._folder)
        self.costs = Costs(spec, env)

    def findings(self, span: TimeRange | None) -> Iterator[IntervalFinding]:
        """Yield every interval of the range that has a folder, in order of names."""
        names = self._folder.intervals()
        ticks = _ticks(self._spec.schedule_model(), names)
        for name in names:
            if span is None or _is_in(span, name, ticks):
                found = self._finding(name, ticks.get(name))
                if found is not None:
                    yield found

    def _finding(self, name: str, tick: Interval | None) -> IntervalFinding | None:
        generations = self._folder.generations(name)
        if not generations:
            is_used = self._folder.last_generation(name) > 0
            if marks := withdrawals(self._folder, name):
                return _withdrawn(name, None, marks)
            why = "every generation was removed"
            return IntervalFinding(name, "removed", reason=why) if is_used else None
        generation = generations[-1]
        if tick is None:
            why = f"the schedule {self._spec.schedule} has no interval of this name"
            return IntervalFinding(name, "unscheduled", generation, reason=why)
        try:
            manifest, _ = Manifest.read(self._folder.version(name, generation))
            found = self._compared(tick, manifest)
        except (ConfigError, FormatError, NotFoundError, KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            return IntervalFinding(name, "unreadable", generation, reason=why)
        if found.state == "current" and len(generations) > 1:
            return self._pointed_at(found)
        return found

    def _pointed_at(self, found: IntervalFinding) -> IntervalFinding:
        """Return the finding about a current version, which readers may not get yet."""
        read = self._folder.readable_generation(found.interval)
        if read is None or read == found.generation:
            return found
        why = f"readers still get {generation_name(read)}: the publication was not finished"
        return replace(found, state="unfinished", reason=why)

    def _compared(self, tick: Interval, manifest: Manifest) -> IntervalFinding:
        inputs = {source: planned_of(value) for source, value in manifest.inputs.items()}
        uploads = _uploads(self._uploads, tick.name, manifest)
        spec = interval_spec(self._spec, self._folder, tick)
        recipe = replace(self._recipes[self._spec.source_at(tick.start)], spec=spec)
        now = recipe.fingerprint_of(tick, inputs, uploads, manifest.rules)
        fingerprint = canonical_json.sha256_of(now)
        if fingerprint == manifest.fingerprint:
            return IntervalFinding(tick.name, "current", manifest.generation)
        if marks := withdrawn_alike(self._folder, tick.name, fingerprint=fingerprint):
            return _withdrawn(tick.name, manifest.generation, marks)
        version = PublishedVersion(self._folder, tick.name, manifest)
        return IntervalFinding(
            tick.name,
            "outdated",
            manifest.generation,
            causes=causes_of(version, recipe, now, uploads),
            cost=self.costs.of(version, inputs),
        )


def _withdrawn(name: str, generation: int | None, marks: Sequence[Withdrawal]) -> IntervalFinding:
    """Return the finding about an interval of which a person decides, not a build."""
    last = marks[-1]
    why = (
        f"{last.told}; correct the cause and build, or: trainfeed restore {last.name} --why WHY,"
        f" trainfeed build {last.dataset} --interval {name} --rebuild WHY"
    )
    return IntervalFinding(name, "withdrawn", generation, reason=why)


def _uploads(
    book: ReceiptBook | None, interval: str, manifest: Manifest
) -> Sequence[AppliedUpload]:
    """Return the uploads of an interval in order of arrival, by their receipts."""
    if book is None:
        return ()
    has = [(each["number"], each["name"]) for each in manifest.uploads.get("files", [])]
    book.require_known(interval, has)
    return [AppliedUpload.of(receipt) for receipt in book.receipts(interval)]


def _ticks(schedule: Schedule, names: list[str]) -> Mapping[str, Interval]:
    """Return name → interval of the schedule, for the time from the first name to the last."""
    spans = [span for name in (names[:1] + names[-1:]) if (span := _span_of(name)) is not None]
    if not spans:
        return {}
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    return {each.name: each for each in schedule.intervals(begin, end)}


def _is_in(span: TimeRange, name: str, ticks: Mapping[str, Interval]) -> bool:
    own = ticks.get(name) or _span_of(name)
    return own is not None and span.start <= own.start < span.end


def _span_of(name: str) -> TimeRange | None:
    try:
        return parse_range(name)
    except WindowError:
        return None


# --- Compares published intervals with their source: slower, and only on request

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
    spec = spec.for_interval(interval.start)
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
