"""Events in the life of a partition: transactions, segments, cleaning, deletion."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from tests.model.partition_log import NEVER, Entries, PartitionLog
from tests.model.streams import HOUR, MINUTE

__all__ = ["draw_life"]


def draw_life(rng, entries, windows, created):
    """Return a partition in which these entries arrived; ``created`` is when it began."""
    if len(entries):
        entries = _with_transactions(rng, entries, windows)
    segments = _segments(rng, len(entries))
    log = PartitionLog(entries, segments, [], created)
    if len(entries) and rng.random() < 0.25:
        _clean(rng, log, windows)
    if len(entries) and rng.random() < 0.35:
        log.deletions = _deletions(rng, log, windows)
    return log


def _with_transactions(rng, entries, windows):
    kind = rng.choice(["none", "small", "long"], p=[0.6, 0.2, 0.2])
    if kind == "none":
        return entries
    spans = _small(rng, entries) if kind == "small" else _long(rng, entries, windows)
    ends, committed = [], []
    for number, (members, end) in enumerate(spans):
        ends.append(end)
        committed.append(rng.random() < 0.85)
        entries.txn[members] = number
        entries.txn_end[members] = end
        entries.committed[members] = committed[-1]
    return _with_markers(entries, np.array(ends, np.int64), np.array(committed, bool))


def _small(rng, entries):
    """Yield transactions of some records in a row, which is how exactly-once producers write."""
    size = int(rng.integers(1, 60))
    for first in range(0, len(entries), size):
        members = np.arange(first, min(first + size, len(entries)))
        yield members, int(entries.arrived[members[-1]]) + 1


def _long(rng, entries, windows):
    """Yield one or two that stay open for minutes to windows while others write on."""
    free = np.ones(len(entries), bool)
    for _ in range(int(rng.integers(1, 3))):
        lasts = int(rng.choice([MINUTE, HOUR, windows.length, 2 * windows.length]))
        begins = int(rng.integers(windows.first, windows.end))
        during = (entries.arrived >= begins) & (entries.arrived < begins + lasts) & free
        members = np.flatnonzero(during & (rng.random(len(entries)) < rng.choice([0.05, 0.5])))
        if len(members):
            free[members] = False
            yield members, begins + lasts


def _with_markers(entries, ends, committed):
    """Return the entries with a control marker behind everything that arrived by each end."""
    order = np.argsort(ends, kind="stable")
    ends, count = ends[order], len(ends)
    places = np.searchsorted(entries.arrived, ends, "right")
    marker = {
        "stamps": ends,
        "arrived": ends,
        "nominal": np.full(count, -1),
        "is_main": np.zeros(count, bool),
        "is_marker": np.ones(count, bool),
        "committed": committed[order],
        "txn": order,
        "txn_end": np.zeros(count, np.int64),
        "compacted": np.full(count, NEVER),
    }
    return Entries(
        **{f.name: np.insert(getattr(entries, f.name), places, marker[f.name])
           for f in fields(Entries)}
    )  # fmt: skip


def _segments(rng, count):
    size = int(rng.choice([20, 200, 2000, 1 << 30]))
    return np.arange(0, max(count, 1), size)


def _clean(rng, log, windows):
    """Let the cleaner pass a few times over closed segments below the last stable offset."""
    for _ in range(int(rng.integers(1, 4))):
        now = int(rng.integers(windows.first, windows.end + windows.length))
        view = log.at(now)
        closed = log.segments[log.segments <= min(view.last_stable, view.high_watermark - 1)]
        if not len(closed):
            continue
        bound = int(closed[-1])
        drawn = rng.random(bound) < rng.choice([0.3, 0.9, 1.0])
        compacted = log.entries.compacted[:bound]
        compacted[drawn & (compacted > now)] = now
    log.at(-2)  # what was looked at before is out of date


def _deletions(rng, log, windows):
    """Return how retention by age, or a person, moves the log start."""
    moves = _by_age(rng, log, windows) if rng.random() < 0.7 else _by_hand(rng, log, windows)
    found = [(0, 0)]
    for when, wanted in moves:
        first = min(wanted, log.at(when).high_watermark)
        if first > found[-1][1]:
            found.append((when, first))
    return found[1:]


def _by_age(rng, log, windows):
    age = int(windows.length * rng.choice([0.6, 1.3, 2.2, 3.5]))
    whole_segments = rng.random() < 0.5
    offset_in_window = int(rng.integers(0, windows.length))
    for index in range(1, windows.count + 2):
        when = windows.start(index) + offset_in_window
        kept = int(np.searchsorted(log.entries.arrived, when - age))
        if whole_segments:
            kept = int(log.segments[np.searchsorted(log.segments, kept, "right") - 1])
        yield when, kept


def _by_hand(rng, log, windows):
    when = int(rng.integers(windows.first, windows.end + windows.length))
    yield when, int(rng.integers(0, max(log.at(when).high_watermark, 1) + 1))
