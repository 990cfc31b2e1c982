"""A random topic and a random way to build it, as pure functions of a seed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from tests.model.lives import draw_life
from tests.model.partition_log import NEVER, Entries
from tests.model.simulated_topic import Incarnation
from tests.model.streams import DAY, HOUR, MINUTE, Windows, draw_entries

__all__ = ["ORDERS", "PAST", "Attempt", "History", "describe", "draw_history"]

# The window of everything before the first one.
PAST = -1

START = 1_704_067_200_000  # 2024-01-01
ORDERS = ("nightly", "outage", "random", "newest", "oldest")
SETTLE = 30 * MINUTE


@dataclass(frozen=True)
class Attempt:
    """A build of one window at one time."""

    now: int
    window: int


@dataclass(frozen=True)
class History:
    """A topic's life, and when which window is built.

    Attributes:
        seed: Seed of the random numbers.
        order: One of ``ORDERS``.
        windows: Those in which records arrive.
        incarnations: The topic, and the one that took its name, oldest first.
        attempts: Builds while the log grows, in the order of time.
        begin: The first window that is built; the log may be older.
        edges: Starts of all windows, and the end of the last, which lies far behind the log's.
        closing: When all that is left is built: nothing arrives, and nothing is open any more.
        step: Milliseconds that a question to the broker takes.
        skew: How far ahead of a boundary stamps may be.
        harsh: Whether producers with a wrong clock may write as long, and as much, as all others:
            which of two streams is right, no rule can tell.
    """

    seed: int
    order: str
    windows: Windows
    incarnations: tuple[Incarnation, ...]
    attempts: tuple[Attempt, ...]
    begin: int
    edges: tuple[int, ...]
    closing: int
    step: int
    skew: int
    harsh: bool

    def interval(self, window):
        """Return start and end of a window."""
        if window == PAST:
            return 0, self.edges[self.begin]
        return self.edges[window], self.edges[window + 1]

    def days(self, time):
        """Return a time in windows since the first one began."""
        return (time - self.windows.first) / self.windows.length

    @property
    def all_windows(self):
        """Every window that is built in the end: together they hold all of time."""
        built = list(range(self.begin, len(self.edges) - 1))
        return [PAST, *built] if self.seed % 2 else [*built, PAST]

    def incarnation(self, now):
        """Return the topic that has the name at ``now``."""
        return next(topic for topic in self.incarnations if now < topic.deleted)


def draw_history(seed):
    """Return the history of a seed."""
    rng = np.random.default_rng(seed)
    order = str(rng.choice(ORDERS, p=[0.4, 0.15, 0.2, 0.15, 0.1]))
    length = DAY if rng.random() < 0.85 else HOUR
    windows = Windows(START, length, int(rng.integers(3, 8)))
    harsh = bool(rng.random() < 0.15)
    incarnations = _incarnations(rng, windows, harsh=harsh)
    if len(incarnations) == 1 and order in {"random", "newest", "oldest"} and rng.random() < 0.3:
        incarnations = (_loaded_later(rng, incarnations[0], windows),)
    arrivals = [log.entries.arrived for i in incarnations for log in i.partitions.values()]
    last = max((int(a[-1]) for a in arrivals if len(a)), default=windows.end)
    first = min((int(a[0]) for a in arrivals if len(a)), default=windows.first)
    closing, far = _closing(incarnations, windows, last)
    begin = int(rng.integers(1, windows.count)) if rng.random() < 0.15 else 0
    attempts = _attempts(rng, order, windows, first, last)
    return History(
        seed=seed,
        order=order,
        windows=windows,
        incarnations=incarnations,
        attempts=tuple(a for a in attempts if a.window >= begin),
        begin=begin,
        edges=(*(windows.start(i) for i in range(windows.count + 2)), far),
        closing=closing,
        step=int(rng.choice([0, 1, 20], p=[0.8, 0.1, 0.1])),
        skew=DAY,
        harsh=harsh,
    )


def _incarnations(rng, windows, *, harsh):
    count = int(rng.choice([1, 2, 3, 4], p=[0.4, 0.3, 0.2, 0.1]))
    stream = {
        "bulk": int(rng.integers(20_000, 60_000)) if rng.random() < 0.02 else 0,
        "harsh": harsh,
    }
    replaced = int(rng.integers(windows.first, windows.end)) if rng.random() < 0.05 else NEVER
    lives = {"first": (windows.first - HOUR, replaced), "second": (replaced, NEVER)}
    return tuple(
        Incarnation(uuid, _partitions(rng, windows, count, life, stream), *life)
        for uuid, life in lives.items()
        if life[0] < NEVER
    )


def _partitions(rng, windows, count, life, stream):
    partitions, born = {}, life[0]
    for number in range(count):
        # Partitions are added in the order of their numbers.
        if number and rng.random() < 0.25:
            born = int(rng.integers(born, windows.end))
        entries = draw_entries(rng, windows, (born, life[1]), **stream)
        stream = stream | {"bulk": 0}
        partitions[number] = draw_life(rng, entries, windows, born)
    return partitions


def _loaded_later(rng, incarnation, windows):
    """Let the whole past arrive within an hour, long after the windows: a topic that was copied."""
    began = windows.end + int(rng.integers(0, 1000)) * DAY
    scale = max((windows.end - windows.first) // HOUR, 1)

    def later(times):
        moved = began + (times - windows.first) // scale
        return np.where((times > 0) & (times < NEVER), moved, times)

    for log in incarnation.partitions.values():
        entries = log.entries
        for field in fields(Entries):
            if field.name in {"arrived", "txn_end", "compacted"}:
                setattr(entries, field.name, later(getattr(entries, field.name)))
        log.deletions = [(int(later(np.int64(when))), first) for when, first in log.deletions]
        log.created = int(later(np.int64(log.created)))
    return replace(incarnation, created=int(later(np.int64(incarnation.created))))


def _attempts(rng, order, windows, first, last):
    """Return builds from the first record on, while the log grows, in the order of time."""
    ready = [max(windows.start(i + 1), first) + SETTLE for i in range(windows.count)]
    if order in {"nightly", "outage"}:
        found = [Attempt(at + int(rng.integers(0, windows.length // 3)), i)
                 for i, at in enumerate(ready)]  # fmt: skip
        if order == "outage":
            found = _after_outage(rng, found)
    else:
        latest = max(last, ready[-1]) + windows.length
        found = [Attempt(int(rng.integers(at, latest)), i) for i, at in enumerate(ready)]
        if order != "random":
            now = int(rng.integers(ready[-1], latest))
            found = [Attempt(now + i, i) for i in range(windows.count)]
        if order == "newest":
            found = [Attempt(a.now, windows.count - 1 - a.window) for a in found]
    again = [Attempt(a.now + int(rng.integers(1, windows.length)), a.window)
             for a in found if rng.random() < 0.15]  # fmt: skip
    return sorted([*found, *again], key=lambda attempt: attempt.now)


def _after_outage(rng, attempts):
    """Let no build take place for some nights; then all of them one after the other."""
    low, high = np.sort(rng.integers(0, len(attempts), 2)).tolist()
    back = attempts[high].now
    return [
        Attempt(back + a.window - low, a.window) if low <= a.window <= high else a for a in attempts
    ]


def _closing(incarnations, windows, last):
    """Return when the rest is built, and an edge that no believable stamp lies behind."""
    logs = [log for topic in incarnations for log in topic.partitions.values()]
    stamps = np.concatenate([log.entries.stamps for log in logs])
    busy = [
        last,
        windows.start(windows.count + 1),
        *(when for log in logs for when, _ in log.deletions),
    ]
    busy += [int(log.entries.txn_end.max(initial=0)) for log in logs]
    now = max(busy) + windows.length
    while True:
        believable = int(stamps[stamps <= now].max(initial=0))
        far = -(-max(believable + 1, windows.start(windows.count + 2)) // HOUR) * HOUR
        if far + SETTLE <= now:
            return now, far
        now = far + SETTLE


def describe(history):
    """Return what a person wants to know of a history at a glance; times in windows."""
    return {
        "seed": history.seed,
        "order": history.order,
        "harsh": history.harsh,
        "windows": [history.begin, history.windows.count],
        "topics": [
            {
                "uuid": topic.uuid,
                "created": round(history.days(topic.created), 3),
                "partitions": {p: _describe(history, log) for p, log in topic.partitions.items()},
            }
            for topic in history.incarnations
        ],
    }


def _describe(history, log):
    entries = log.entries
    return {
        "entries": len(entries),
        "regular": int(entries.is_main.sum()),
        "unstamped": int((entries.stamps < 0).sum()),
        "transactions": int(entries.is_marker.sum()),
        "compacted": int((entries.compacted < NEVER).sum()),
        "deleted": [(round(history.days(when), 3), first) for when, first in log.deletions],
        "segments": len(log.segments),
    }
