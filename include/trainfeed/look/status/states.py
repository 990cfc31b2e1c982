"""The state of an interval: a function of the evidence about it, and that evidence.

The evidence is attempts, the expected end, retirements and marks; nothing else is asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from trainfeed.core.intervals import Schedule, format_time, parse_time
from trainfeed.errors import (
    AccessDeniedError,
    FormatError,
    NotFoundError,
    SpecError,
    TrainFeedError,
)
from trainfeed.files import listed
from trainfeed.files.attempts import ATTEMPTS, FoundMark, found_marks
from trainfeed.files.stores import Location
from trainfeed.specification import SPEC_FILE, DatasetSpec, MissingRule, load_spec
from trainfeed.versions import Skip, Unpublished, read_schedule
from trainfeed.versions.layout import DatasetFolder, is_generation, parse_generation
from trainfeed.versions.lease import FoundLease, LeaseKind, leases
from trainfeed.versions.retire import retirement_of
from trainfeed.versions.withdraw import withdrawal_of

# --- Attempts that are at work on an unpublished interval, or were killed

# An attempt writes every few minutes. After this long without a write it has probably been killed.
_QUIET: Final = timedelta(hours=1)

Life = Literal["at work", "elsewhere", "quiet", "killed"]


@dataclass(frozen=True)
class FoundAttempt:
    """An attempt that has not ended in good order.

    Attributes:
        life: ``at work`` on this machine; ``elsewhere``, and wrote within the last hour; ``quiet``:
            elsewhere, and did not; ``killed`` on this machine.
        began: Begin, ISO 8601 in UTC.
        text: Where it is or was, for people.
    """

    life: Life
    began: str
    text: str

    @property
    def is_alive(self) -> bool:
        """Whether the attempt is, as far as can be told, at work."""
        return self.life in {"at work", "elsewhere"}


class Attempts:
    """The marks of attempts in a work folder, listed once.

    Args:
        work: The work folder.
        now: Aware UTC time.
    """

    def __init__(self, work: Location, now: datetime) -> None:
        self._work = work
        self._now = now
        self._error: TrainFeedError | None = None
        self._leases: dict[Path, list[FoundLease]] = {}

    @property
    def doubt(self) -> str | None:
        """Why attempts may be at work that ``of`` did not return, or None."""
        return None if self._error is None else f"builds at work are not known: {self._error}"

    def of(self, folder: DatasetFolder, plans: Iterable[str]) -> FoundAttempt | None:
        """Return the attempt at one of these plans that is most alive, or None."""
        marks = {plan: [n for n in self._names if n.startswith(f"{plan}.")] for plan in plans}
        read = [(plan, mark) for plan, names in marks.items() for mark in self._read(names)]
        found = [self._judged(folder, plan, mark) for plan, mark in read]
        found += self._elsewhere(folder, [*marks], [mark for _, mark in read])
        order: tuple[Life, ...] = ("at work", "elsewhere", "quiet", "killed")
        return min(found, key=lambda each: order.index(each.life), default=None)

    def _elsewhere(
        self, folder: DatasetFolder, plans: list[str], marks: list[FoundMark]
    ) -> list[FoundAttempt]:
        """Return the builds of plans that hold a lease and have no mark in this work folder."""
        known = {(mark.host.partition(" ")[0], mark.pid) for mark in marks}
        held = [
            each.lease
            for each in self._held(folder)
            if each.lease and (each.lease.host, each.lease.pid) not in known
        ]
        return [
            FoundAttempt("elsewhere", lease.at, lease.told)
            for lease in held
            if lease.kind is LeaseKind.BUILD and any(lease.what.endswith(plan) for plan in plans)
        ]

    def _held(self, folder: DatasetFolder) -> list[FoundLease]:
        if folder.path not in self._leases:
            try:
                found = leases(folder)
            except TrainFeedError as error:
                self._error, found = error, []
            self._leases[folder.path] = [each for each in found if each.is_held(self._now)]
        return self._leases[folder.path]

    @cached_property
    def _names(self) -> list[str]:
        try:
            return [info.name for info in (self._work / ATTEMPTS).list()]
        except NotFoundError:
            return []
        except TrainFeedError as error:
            self._error = error
            return []

    def _read(self, names: list[str]) -> list[FoundMark]:
        try:
            return found_marks(self._work / ATTEMPTS, names)
        except TrainFeedError as error:
            self._error = error
            return []

    def _judged(self, folder: DatasetFolder, plan: str, mark: FoundMark) -> FoundAttempt:
        work = mark.name.removeprefix(f"{plan}.").removesuffix(".json")
        text = f"{work}, begun at {mark.began} by process {mark.pid}"
        if mark.is_at_work is not None:
            life: Life = "at work" if mark.is_at_work else "killed"
            return FoundAttempt(
                life, mark.began, text if mark.is_at_work else f"{text}, was killed"
            )
        where = f"{text} on {mark.host}"
        wrote = max([_parsed(mark.began), *self._writes(folder, plan)])
        if self._now - wrote < _QUIET:
            return FoundAttempt("elsewhere", mark.began, where)
        last = wrote.isoformat(timespec="seconds")
        return FoundAttempt(
            "quiet", mark.began, f"{where}, has written nothing since {last}: perhaps killed"
        )

    def _writes(self, folder: DatasetFolder, plan: str) -> list[datetime]:
        """Return the times of last writes to the files of a plan."""
        try:
            spilled = [info.modified_ms / 1000 for info in (self._work / "spill" / plan).list()]
        except TrainFeedError:
            spilled = []
        try:
            staged = [path.stat().st_mtime for path in _staged(folder, plan)]
        except (OSError, TrainFeedError):
            staged = []
        return [datetime.fromtimestamp(seconds, UTC) for seconds in [*spilled, *staged]]


def _staged(folder: DatasetFolder, plan: str) -> list[Path]:
    return [*listed(folder.staged(plan)), *listed(folder.staging / "tmp", f"*{plan}*")]


def _parsed(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = datetime.fromtimestamp(0, UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# --- The intervals that should exist by now, and how long each is waited for

_NO_TIME: Final = timedelta(0)


@dataclass(frozen=True)
class Expected:
    """The rules from which the expected intervals follow.

    Attributes:
        schedule: The schedule; None if it is not known.
        settle: Time after the end of an interval before which it is not planned.
        wait: How long after that runs wait for the source and for uploads; None if nothing is
            waited for.
        missing: What is decided about an interval that never came: ``fail``, ``empty`` or
            ``skip``, with the place in dataset.yaml if there are several; None without a policy.
        patience: How long after ``settle`` runs wait for anything else.
        doubt: Why the rules may be others; None if they are those of the specification.
        earlier: Ends of the sources before the last one, and the rules until then.
    """

    schedule: Schedule | None
    settle: timedelta = _NO_TIME
    wait: timedelta | None = None
    missing: str | None = None
    patience: timedelta = _NO_TIME
    doubt: str | None = None
    earlier: Sequence[tuple[datetime | None, Expected]] = ()

    @classmethod
    def of(cls, spec: DatasetSpec) -> Expected:
        """Return the rules of a specification; ``at`` has those of one interval."""
        *earlier, last = map(cls._of_one_source, spec.of_each_source)
        *ends, _ = spec.ends_of_sources
        return replace(last, earlier=tuple(zip(ends, earlier, strict=True)))

    def at(self, end: datetime) -> Expected:
        """Return the rules of the interval with this end."""
        return next((rules for until, rules in self.earlier if until and end <= until), self)

    @classmethod
    def _of_one_source(cls, spec: DatasetSpec) -> Expected:
        kind, rules = spec.source.kind, spec.missing_rules
        waits = [topic.transaction_wait for topic in kind.topics]
        return cls(
            spec.schedule_model(),
            kind.settle,
            spec.wait if rules else None,
            _policies_text(rules),
            max(waits, default=_NO_TIME),
        )

    def ready(self, end: datetime) -> datetime:
        """Return the time from which an interval can be planned."""
        return end + self.settle

    def deadline(self, end: datetime) -> datetime:
        """Return the time at which every wait for an interval is over."""
        return self.ready(end) + max(self.wait or _NO_TIME, self.patience)


def _policies_text(rules: Mapping[str, MissingRule]) -> str | None:
    policies = {rule.missing for rule in rules.values()}
    if len(policies) < 2:
        return next(iter(policies), None)
    return ", ".join(f"{rule.missing} ({setting})" for setting, rule in rules.items())


def expected_of(folder: DatasetFolder, datasets: Path | None) -> Expected:
    """Return the rules of a data set: of its specification, or of the recorded schedule.

    Args:
        folder: The data set.
        datasets: The folder of specifications; None to use the recorded schedule.

    Raises:
        ConfigError: There is no valid specification, and the zone database of this process would
            cut published intervals otherwise than the recorded schedule.
        FormatError: There is no specification, and the recorded schedule is damaged.
        StorageError: The publication root refused or failed.
    """
    if datasets is None or not (datasets / folder.name / SPEC_FILE).exists():
        return Expected(read_schedule(folder), doubt="it has no specification here")
    try:
        return Expected.of(load_spec(datasets / folder.name))
    except SpecError as error:
        first, *_ = str(error).splitlines()
        return Expected(_recorded(folder), doubt=f"its specification is wrong: {first}")


def _recorded(folder: DatasetFolder) -> Schedule | None:
    try:
        return read_schedule(folder)
    except FormatError:
        return None


# --- Why readers get no generation of an interval: its retirement, or marks, and who made them

_SUFFIXES: Final[tuple[Literal["withdrawn", "removed"], ...]] = ("withdrawn", "removed")


class Gone(NamedTuple):
    """The retirement of an interval, or its newest generation, hidden from readers.

    Attributes:
        state: Why: ``retired`` as a whole; ``withdrawn`` by a person; ``removed``, its files are
            deleted. A generation with both marks was withdrawn.
        mark: Who retired it and why; or the name of the mark, like ``g0002.withdrawn``, with who
            and why if it can be read.
        since: When the mark was written, seconds since 1970; 0 if it cannot be looked at.
    """

    state: Literal["retired", "withdrawn", "removed"]
    mark: str
    since: int


def gone_of(folder: DatasetFolder, interval: str, names: Sequence[str]) -> Gone | None:
    """Return why readers get no generation of an interval, None if it never had one.

    Args:
        folder: The data set.
        interval: An interval without a generation for readers.
        names: Names in the folder of its versions.

    Raises:
        StorageError: The publication root refused or failed.
    """
    retired = retirement_of(folder, interval) if names else None
    if retired is None:
        return _newest_gone(folder, interval, names)
    # A damaged file does not tell the time; the marks are as old.
    path = str(folder.retirement(interval))
    since = _written(path) if retired.damage else int(parse_time(retired.at).timestamp())
    return Gone("retired", retired.told, since)


def _newest_gone(folder: DatasetFolder, interval: str, names: Sequence[str]) -> Gone | None:
    """Return the newest generation with a mark, or None.

    Args:
        folder: The data set.
        interval: Name of the interval.
        names: Names in the folder of its versions.
    """
    marks = [
        (parse_generation(generation), -_SUFFIXES.index(suffix), suffix, f"{generation}.{suffix}")
        for generation, suffix in _marked(names)
    ]
    if not marks:
        return None
    number, _, state, mark = max(marks)
    told = _mark_text(folder, interval, number) if state == "withdrawn" else mark
    return Gone(state, told, _written(f"{folder.interval(interval)}/{mark}"))


def withdrawn_since(
    folder: DatasetFolder, interval: str, names: Sequence[str], generation: int
) -> str:
    """Return who withdrew the newest generation, if it is newer than the one for readers, or ""."""
    numbers = [parse_generation(each) for each, suffix in _marked(names) if suffix == "withdrawn"]
    newest = max(numbers, default=0)
    return _mark_text(folder, interval, newest) if newest > generation else ""


def _mark_text(folder: DatasetFolder, interval: str, generation: int) -> str:
    """Return the name of a mark, with who and why if it can be read."""
    name = folder.withdrawal_mark(interval, generation).name
    try:
        mark = withdrawal_of(folder, interval, generation)
    except AccessDeniedError:
        return name
    if mark is None or mark.damage is not None:
        return name
    return f"{name}: {mark.by} at {mark.at}: {mark.why}"


def _marked(names: Sequence[str]) -> list[tuple[str, Literal["withdrawn", "removed"]]]:
    """Return generation and suffix of every mark."""
    return [
        (name.removesuffix(f".{suffix}"), suffix)
        for name in names
        for suffix in _SUFFIXES
        if name.endswith(f".{suffix}") and is_generation(name.removesuffix(f".{suffix}"))
    ]


def _written(mark: str) -> int:
    try:
        return int(os.lstat(mark).st_mtime)
    except OSError:
        return 0


# --- The state of an interval: a function of the evidence about it, and of nothing else

State: TypeAlias = Literal[
    "published",
    "late",
    "empty",
    "unread",
    "gap",
    "skipped",
    "accepted",
    "retired",
    "withdrawn",
    "removed",
    "building",
    "waiting",
    "missing",
    "failed",
    "damaged",
]
STATES: Final[tuple[State, ...]] = get_args(State)


# Named tuples, of which there is one for each of thousands of versions.
class Judgement(NamedTuple):
    """A state, with its reason.

    Attributes:
        state: The state.
        reason: Why, in one line; empty where the state says it all.
        since: Since when, seconds since 1970; None where that is not known.
    """

    state: State
    reason: str
    since: int | None


class Published(NamedTuple):
    """The evidence about an interval with a version for readers.

    Attributes:
        published: When it was published, seconds since 1970.
        damage: Why the manifest cannot be used, or None.
        unread: Offsets that no interval has read, or two have, one line for each range.
        lost: Recorded losses of the version, likewise.
        late: Time since which late records of the interval are known, seconds since 1970, and the
            interval that has them; None without such records.
        empty: Why the version is empty; None if it is not.
        ended: The last attempt, if it is younger than the version and published nothing.
    """

    published: int
    damage: str | None = None
    unread: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    late: tuple[int, str] | None = None
    empty: str | None = None
    ended: Unpublished | None = None


def judge_published(found: Published) -> Judgement:
    """Return the state of an interval with a version."""
    attempt = "" if found.ended is None else f"the next generation failed: {found.ended.text}"
    if found.damage is not None:
        return Judgement("damaged", found.damage, None)
    if found.unread:
        reason = _joined(*found.unread, *found.lost, attempt)
        return Judgement("unread", reason, found.published)
    if found.lost:
        return Judgement("gap", _joined(*found.lost, attempt), found.published)
    if found.late is not None:
        since, interval = found.late
        return Judgement("late", _joined(f"late records are in {interval}", attempt), since)
    if found.empty is not None:
        return Judgement("empty", _joined(found.empty, attempt), found.published)
    return Judgement("published", attempt, found.published)


@dataclass(frozen=True)
class Absent:
    """The evidence about an expected interval without a version for readers.

    Attributes:
        end: End of the interval, aware UTC.
        damage: Why a record about the interval cannot be used, or None.
        gone: The retirement; or the newest generation, if marks hide all of them; or None.
        skip: The decision to leave it out, or None.
        attempt: An attempt that has not ended in good order, or None.
        ended: The record of the last attempt that ended, or None.
        plans: Ids of the plans.
    """

    end: datetime
    damage: str | None = None
    gone: Gone | None = None
    skip: Skip | None = None
    attempt: FoundAttempt | None = None
    ended: Unpublished | None = None
    plans: tuple[str, ...] = ()


def judge_absent(found: Absent, expected: Expected, now: datetime) -> Judgement:
    """Return the state of an interval without a version.

    Args:
        found: The evidence.
        expected: The rules of the data set.
        now: Aware UTC time.
    """
    if found.damage is not None:
        return Judgement("damaged", found.damage, None)
    if found.attempt is not None and found.attempt.is_alive:
        return Judgement("building", found.attempt.text, _seconds(found.attempt.began))
    is_retired = found.gone is not None and found.gone.state == "retired"
    if found.skip is not None and not is_retired:
        return Judgement("skipped", found.skip.why, _seconds(found.skip.at))
    if found.gone is not None:
        return _by_mark(found, found.gone, expected, now)
    return (
        _by_clock(found, expected, now)
        or _by_attempt(found)
        or _by_record(found, expected, now)
        or _by_wait(found, expected, now)
        or _missing(found, expected)
    )


def _by_mark(found: Absent, gone: Gone, expected: Expected, now: datetime) -> Judgement:
    """Return the state after a mark, unless an attempt at a further generation ended later."""
    attempt, ended = found.attempt, found.ended
    later = replace(
        found,
        attempt=None if attempt is None or _is_before(attempt.began, gone) else attempt,
        ended=None if ended is None or _is_before(ended.since, gone) else ended,
    )
    judged = _by_attempt(later) or _by_record(later, expected, now)
    if judged is not None:
        return judged._replace(reason=_joined(gone.mark, judged.reason))
    return Judgement(gone.state, gone.mark, gone.since or None)


def _is_before(time: str, gone: Gone) -> bool:
    return (_seconds(time) or 0) < gone.since


def _by_clock(found: Absent, expected: Expected, now: datetime) -> Judgement | None:
    ready = expected.ready(found.end)
    if now >= ready:
        return None
    reason = f"it ends at {format_time(found.end)}"
    if now >= found.end:
        reason = f"it has ended, and settles until {format_time(ready)}"
    return Judgement("waiting", reason, None)


def _by_attempt(found: Absent) -> Judgement | None:
    """Return the state after an attempt that was killed, unless a later one ended with an error."""
    if found.attempt is None:
        return None
    began = _seconds(found.attempt.began)
    if found.ended is not None and (_seconds(found.ended.since) or 0) >= (began or 0):
        return None
    return Judgement("failed", found.attempt.text, began)


def _by_record(found: Absent, expected: Expected, now: datetime) -> Judgement | None:
    ended = found.ended
    if ended is None:
        return None
    since = _seconds(ended.since)
    if ended.outcome != "waiting":
        again = "; the next attempt may succeed" if ended.outcome == "retry" else ""
        return Judgement("failed", f"{ended.work}: {ended.text}{again}", since)
    deadline = expected.deadline(found.end)
    if expected.schedule is None or now < deadline:
        return Judgement("waiting", f"{ended.work}: {ended.text}", since)
    if expected.wait is not None:
        return None
    over = f"the wait ended at {format_time(deadline)}; {ended.work}: {ended.text}"
    return Judgement("failed", over, int(deadline.timestamp()))


def _by_wait(found: Absent, expected: Expected, now: datetime) -> Judgement | None:
    if expected.wait is None or now >= expected.deadline(found.end):
        return None
    until = format_time(expected.deadline(found.end))
    since = int(expected.ready(found.end).timestamp())
    return Judgement("waiting", f"its source may come until {until}", since)


def _missing(found: Absent, expected: Expected) -> Judgement:
    due = expected.deadline(found.end) if expected.wait is not None else expected.ready(found.end)
    reasons = []
    if found.ended is not None:
        reasons.append(f"{found.ended.work}: {found.ended.text}")
    if expected.missing is not None:
        reasons.append(
            f"the wait for its source ended at {format_time(due)}; the next build decides by"
            f" 'missing: {expected.missing}'"
        )
    if found.plans:
        reasons.append(f"planned as {found.plans[-1]}, and no attempt is at work")
    return Judgement("missing", _joined(*reasons), int(due.timestamp()))


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _seconds(text: str) -> int | None:
    """Return a time of a record as seconds since 1970."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return int(parse_time(text).timestamp())
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
