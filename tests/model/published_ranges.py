"""Random lives of a data set whose schedule moves, and which of its ranges may be opened.

A life publishes versions under schedules of two checkouts, moves them, skips, withdraws, retires
and accepts holes. The oracle knows the hours of every version and decision, and counts hours; it
shares no code with the library.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import numpy as np

from tests.unit.look.status.published import publish
from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import Schedule, format_time, range_text
from trainfeed.errors import ConflictError
from trainfeed.versions import Skip, lift_skip, record_schedule, write_skip
from trainfeed.versions.accept_hole import accept_hole, revoke_hole
from trainfeed.versions.retire import Retirement, write_retirement

__all__ = ["FIRST", "HOURS", "Life", "hour_of", "time_of"]

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 9
HOURS = DAYS * 24
CRONS = ("0 0 * * *", "0 6 * * *", "0 18 * * *", "0 0 */2 * *", "0 0 * * 1-5", "0 */6 * * *")
DECISION = Decision(why="why so", who="ada", account="builder", at="2026-02-01T00:00:00Z")


def time_of(hour):
    return FIRST + timedelta(hours=int(hour))


def hour_of(time):
    return int((time - FIRST) / timedelta(hours=1))


def hours(start, end):
    return set(range(start, end))


@dataclass
class Interval:
    """What happened to one name."""

    versions: dict = field(default_factory=dict)  # generation → (first hour, the one behind)
    withdrawn: set = field(default_factory=set)
    removed: set = field(default_factory=set)
    is_retired: bool = False
    skip: tuple | None = None  # first hour, the one behind, whether the marker has them

    @property
    def readable(self):
        numbers = [n for n in self.versions if n not in self.withdrawn | self.removed]
        return self.versions[max(numbers)] if numbers else None


class Life:
    """One data set: every action is done to the files and written down for the oracle."""

    def __init__(self, folder, seed):
        self.folder = folder
        self.rng = np.random.default_rng(seed)
        self.known = {}
        self.accepted = {}
        self.log = []
        self.checkouts = [self._schedule(), self._schedule()]
        if self.rng.random() < 0.9:
            self.checkouts[1] = self.checkouts[0]
        self.recorded = None

    # -- actions

    def act(self):
        actions = ["build", "skip", "move", "identical", "withdraw", "restore", "retire", "accept",
                   "revoke"]  # fmt: skip
        weights = [0.5, 0.1, 0.08, 0.05, 0.06, 0.03, 0.06, 0.09, 0.03]
        name = str(self.rng.choice(actions, p=weights))
        getattr(self, f"_{name}")()

    def _note(self, *what):
        self.log.append(" ".join(map(str, what)))

    def _schedule(self):
        cron = str(self.rng.choice(CRONS, p=[0.35, 0.2, 0.1, 0.1, 0.1, 0.15]))
        first = Schedule(cron, next_tick(cron, FIRST))
        ticks = [each.start for each in islice(first.intervals(), 40) if each.end < time_of(HOURS)]
        low = int(self.rng.integers(0, len(ticks) // 2)) if self.rng.random() < 0.4 else 0
        last = None
        if self.rng.random() < 0.4:
            last = ticks[int(self.rng.integers(low, len(ticks)))]
        return Schedule(cron, ticks[low], last)

    def _checkout(self):
        schedule = self.checkouts[int(self.rng.integers(2))]
        record_schedule(self.folder, schedule)
        self.recorded = schedule
        return schedule

    def _interval(self):
        schedule = self._checkout()
        found = [i for i in islice(schedule.intervals(), 40) if i.end <= time_of(HOURS)]
        return found[int(self.rng.integers(len(found)))] if found else None

    def _build(self):
        if (each := self._interval()) is None:
            return
        start, end = hour_of(each.start), hour_of(each.end)
        one = self.known.setdefault(each.name, Interval())
        others = [o.readable for name, o in self.known.items() if name != each.name and o.readable]
        overlaps = any(s < end and start < e for s, e in others)
        if one.readable == (start, end) or (overlaps and self.rng.random() < 0.85):
            self._note("identical or refused", each.name)
            return
        number = max(one.versions, default=0) + 1
        publish(self.folder, each, number)
        lift_skip(self.folder, each.name)
        one.versions[number], one.skip, one.is_retired = (start, end), None, False
        self._note("build", each.name, number, start, end)

    def _skip(self):
        if (each := self._interval()) is None:
            return
        one = self.known.setdefault(each.name, Interval())
        if one.readable or one.is_retired:
            return
        has_span = self.rng.random() < 0.7
        span = {"start": format_time(each.start), "end": format_time(each.end)} if has_span else {}
        skip = Skip(each.name, "no logs", "2026-02-01T00:00:00Z", None, **span)
        held = write_skip(self.folder, skip)
        if one.skip is None or held is skip or held.span == skip.span:
            is_old = one.skip is not None and not one.skip[2]
            if not is_old:
                one.skip = (hour_of(each.start), hour_of(each.end), has_span or self._has(held))
        self._note("skip", each.name, one.skip)

    @staticmethod
    def _has(skip):
        return skip.span is not None

    def _move(self):
        number = int(self.rng.integers(2))
        old = self.checkouts[number]
        self.checkouts[number] = self._schedule()
        if self.rng.random() < 0.5:  # only start or end
            drawn = self.checkouts[number]
            self.checkouts[number] = drawn if drawn.cron != old.cron else replace(drawn)
        self._note("move", number, self.checkouts[number])

    def _identical(self):
        self._note("identical", self._checkout())

    def _names(self, has):
        return sorted(name for name, one in self.known.items() if has(one))

    def _pick(self, has):
        names = self._names(has)
        return names[int(self.rng.integers(len(names)))] if names else None

    def _withdraw(self):
        if (name := self._pick(lambda one: one.readable)) is None:
            return
        one = self.known[name]
        number = max(n for n in one.versions if n not in one.withdrawn | one.removed)
        (self.folder.interval(name) / f"g{number:04d}.withdrawn").touch()
        one.withdrawn.add(number)
        self._note("withdraw", name, number)

    def _restore(self):
        if (name := self._pick(lambda one: one.withdrawn - one.removed)) is None:
            return
        one = self.known[name]
        number = max(one.withdrawn - one.removed)
        (self.folder.interval(name) / f"g{number:04d}.withdrawn").unlink()
        one.withdrawn.remove(number)
        (self.folder.interval(name) / "CURRENT").unlink(missing_ok=True)
        self._note("restore", name, number)

    def _retire(self):
        if (name := self._pick(lambda one: not one.is_retired)) is None:
            return
        one = self.known[name]
        last = max(one.versions, default=0)
        self.folder.interval(name).mkdir(parents=True, exist_ok=True)
        decided = {"who": "ada", "account": "ada", "why": "too old", "at": "2026-02-01T00:00:00Z"}
        write_retirement(self.folder, Retirement(name, last, **decided))
        for number in one.versions:
            (self.folder.interval(name) / f"g{number:04d}.removed").touch()
            shutil.rmtree(self.folder.version(name, number), ignore_errors=True)
        one.removed |= set(one.versions)
        one.is_retired = True
        self._note("retire", name)

    def _accept(self):
        start = int(self.rng.integers(HOURS - 1))
        end = start + int(self.rng.integers(1, 30))
        holes = self.holes()
        if holes and self.rng.random() < 0.8:
            start, end = holes[int(self.rng.integers(len(holes)))]
        text = range_text(time_of(start), time_of(end))
        if any(first <= start and end <= last for first, last in self.accepted):
            # The decision about all of it holds already; whether it still applies is judged later.
            found, is_new = accept_hole(self.folder, text, DECISION)
            assert not is_new
            assert found.span[0] <= time_of(start) < time_of(end) <= found.span[1]
            return
        may = self._may_accept(start, end)
        try:
            accept_hole(self.folder, text, DECISION)
        except ConflictError:
            assert may is not True, f"{text} is a hole, and was refused"
            return
        assert may is not False, f"{text} is no hole, and was accepted"
        self.accepted[start, end] = text
        self._note("accept", text)

    def _revoke(self):
        if self.accepted:
            key = sorted(self.accepted)[int(self.rng.integers(len(self.accepted)))]
            revoke_hole(self.folder, self.accepted.pop(key), DECISION)
            self._note("revoke", *key)

    # -- what the oracle knows

    @property
    def readable(self):
        return {name: one.readable for name, one in self.known.items() if one.readable}

    def covered(self):
        return set().union(*(hours(*each) for each in self.readable.values()))

    def holes(self):
        """Spans between versions that are in none."""
        covered = self.covered()
        if not covered:
            return []
        found, start = [], None
        for hour in range(min(covered), max(covered) + 1):
            if hour not in covered and start is None:
                start = hour
            if hour in covered and start is not None:
                found.append((start, hour))
                start = None
        return found

    def hole_of(self, hour):
        """The hole with an uncovered hour, where it is bounded by versions; else infinite."""
        covered = self.covered()
        low = max((h + 1 for h in covered if h < hour), default=-(10**6))
        high = min((h for h in covered if h > hour), default=10**6)
        return low, high

    def ticks(self, *, is_bounded=True):
        """Intervals of the recorded schedule, as hours with names."""
        schedule = self.recorded
        if schedule is None:
            return []
        whole = schedule
        if not is_bounded:
            whole = Schedule(schedule.cron, next_tick(schedule.cron, FIRST - timedelta(days=8)))
        found = []
        for each in whole.intervals():
            if each.start >= time_of(HOURS + 72):
                break
            found.append((hour_of(each.start), hour_of(each.end), each.name))
        return found

    def fits(self, start, end):
        if hours(start, end) & self.covered():
            return False
        low, high = self.hole_of(start)
        return low <= start and end <= high

    def decided(self):
        """Hours that decisions close for certain, and those that they may close."""
        sure = set().union(*(hours(*each) for each in self.accepted))
        perhaps = set(sure)
        today = {name: (s, e) for s, e, name in self.ticks()}
        for name, one in self.known.items():
            if one.skip is None or one.is_retired:
                continue
            start, end, has_span = one.skip
            perhaps |= hours(start, end)
            unit = 1 if "T" in name else 24
            if not has_span:  # it closes one unit that begins within its name
                perhaps |= hours(start // unit * unit, start // unit * unit + 2 * unit)
            if has_span:
                sure |= hours(start, end)
            elif name in today and self.fits(*today[name]):
                # A marker without start and end is taken for the interval of its name.
                sure |= hours(*today[name])
                perhaps |= hours(*today[name])
        return sure, perhaps

    def _may_accept(self, start, end):
        """True: it must be accepted; False: it must not; None: the decisions leave it open."""
        inside = hours(start, end)
        holes = [hours(*each) for each in self.holes() if inside <= hours(*each)]
        if not holes:
            return False
        if any(hours(s, e) & inside and self.fits(s, e) for s, e, _ in self.ticks()):
            return False
        sure, perhaps = self.decided()
        if inside & sure:
            return False
        return None if inside & perhaps else True

    def judged(self, begin, end):
        """Return ``overlap``, ``refused``, ``open``, or None where both are right."""
        inside = {n: each for n, each in self.readable.items() if begin <= each[0] < end}
        spans = sorted(inside.values())
        if any(later[0] < earlier[1] for earlier, later in pairwise(spans)):
            return "overlap"
        sure, perhaps = self.decided()
        if self._lacks(begin, end, perhaps, spans):
            return "refused"
        if self._lacks(begin, end, sure, spans):
            return None
        everything = sorted(self.readable.values())
        if any(b[0] < a[1] for a, b in pairwise(everything)):
            return None  # beside versions that overlap, a range without them may be refused
        return "open" if spans else "refused"

    def _lacks(self, begin, end, closed, spans):
        covered = self.covered()
        open_hours = hours(begin, end) - covered - closed
        ends = (min(covered), max(covered) + 1) if covered else (10**6, -(10**6))
        between = {h for h in open_hours if ends[0] <= h < ends[1]}
        if self.recorded is None:
            lowest = min(self.readable.values(), default=(0, 0))[0]
            return bool(open_hours - hours(lowest // 24 * 24, lowest))
        ticks = self.ticks(is_bounded=False)
        early = [(s, e) for s, e, _ in ticks if s < begin and self.fits(s, e)]
        between -= set().union(*(hours(*each) for each in early))
        if between:
            return True
        for start, stop, _ in self.ticks():
            if start < begin and self.fits(start, stop):
                continue
            if begin <= start < end and self.fits(start, stop) and hours(start, stop) - closed:
                return True
            if start < end and hours(start, stop) & (open_hours - between):
                return True
            # A version that starts before the range has all of an interval of the range.
            before = [e for s, e in self.readable.values() if s < begin < e]
            uncovered_begin = not any(s <= begin < e for s, e in spans)
            if begin <= start < end and uncovered_begin and before and stop <= max(before):
                return True
        return any(self._is_gone(name, begin, end, ends) for name in self.known)

    def _is_gone(self, name, begin, end, ends):
        """Whether an interval was there once, beyond all versions and the schedule of now."""
        one = self.known[name]
        if one.readable or not (one.versions or one.is_retired):
            return False
        text = name[:13] + (":00" if "T" in name else "")
        start = hour_of(datetime.fromisoformat(text).replace(tzinfo=UTC))
        named = hours(start, start + (1 if "T" in name else 24)) & hours(begin, end)
        accounted = set()
        for first, stop, _ in self.ticks():
            if self.fits(first, stop):
                accounted |= hours(first, stop)
        accepted = {h for each in self.accepted for h in hours(*each)}
        return bool({h for h in named if not ends[0] <= h < ends[1]} - accounted - accepted)


def next_tick(cron, time):
    from croniter import croniter

    return croniter(cron, time - timedelta(seconds=1)).get_next(datetime)
