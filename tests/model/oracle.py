"""Says where every committed record of a history has to be, and holds what was built against it.

Written from the promises alone: records are counted from the history's own arrays, and no part of
trainfeed is imported.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.model.partition_log import NEVER

__all__ = ["judge"]


def judge(history, outcome):
    """Return counts, and one line for each thing that should not be.

    Records that were committed and never compacted (``records``) are each one of
        once, doubled: in so many versions;
        named: deleted, and named by a version's gap;
        before: before the first boundary, and stamped or written before it (or unstamped);
        front: before the first boundary, though nothing says that they are;
        gone: of a topic that was deleted before they were built; ``gone_silent`` of them are of a
            window that was then built from the next topic without a word;
        silent: deleted, of a window that was then built without a word;
        lost: in no version, and nothing says so.

    Versions: ``versions``, ``empty_wrong``; by partition ``parts``, ``empty_parts``,
    ``miscounted``, ``torn`` (planned from deleted offsets on); windows with ``stops``, and of
    these ``needless`` ones.
    """
    counts, lines = Counter(), []
    for built in outcome.built.values():
        counts += _judge_version(history, built, lines)
    for topic in history.incarnations:
        for partition, log in topic.partitions.items():
            counts += _judge_partition(history, outcome, topic, partition, log, lines)
    for stop in {stop.window: stop for stop in reversed(outcome.stops)}.values():
        counts += _judge_stop(history, outcome, stop)
    lines += [f"retry: {line}" for line in outcome.unlike] + [f"error: {e}" for e in outcome.errors]
    counts["unlike"] += len(outcome.unlike)
    counts["errors"] += len(outcome.errors)
    counts["waits"] += outcome.waits
    counts["unbuilt"] += len(history.edges) - 1 - history.begin - len(outcome.built)
    return counts, lines


def _topic(history, uuid):
    return next(topic for topic in history.incarnations if topic.uuid == uuid)


def _judge_version(history, built, lines):
    """Look at emptiness and at what was counted."""
    counts = Counter(versions=1)
    low, high = history.edges[built.window], history.edges[built.window + 1]
    any_record = any_expected = False
    for partition, log in _topic(history, built.uuid).partitions.items():
        entries = log.entries
        at = np.arange(len(entries))
        deleted = log.log_start(built.now)
        there = (
            entries.is_record & (entries.compacted > built.now)
            & (entries.arrived <= built.now) & (at >= deleted)
        )  # fmt: skip
        start, end = built.ranges.get(partition, (0, 0))
        if start < end and start < deleted:
            lines.append(f"torn: window {built.window}/{partition}: from {start} < {deleted} on")
            counts["torn"] += 1
        read = entries.is_record & np.isin(at, built.read.get(partition, ()))
        if (there & (at >= start) & (at < end) & ~read).any():
            lines.append(f"torn: window {built.window}/{partition}: records of the range unread")
            counts["torn"] += 1
        expected = there & entries.is_main & _in(entries.stamps, low, high)
        expected &= _in(entries.nominal, low, high)
        any_record |= bool(read.any())
        any_expected |= bool(expected.any())
        counts["parts"] += 1
        if expected.any() and not read.any():
            counts["empty_parts"] += 1
        if partition in built.ranges:
            counts += _judge_counters(built, partition, entries.stamps[read], (low, high), lines)
    if any_expected and not any_record:
        counts["empty_wrong"] += 1
        lines.append(f"empty: window {built.window} of {history.order}")
    return counts


def _in(times, low, high):
    return (times >= low) & (times < high)


def _judge_counters(built, partition, stamps, edges, lines):
    late = unstamped = future = lateness = 0
    for stamp in stamps.tolist():
        if stamp < 0:
            unstamped += 1
        elif stamp < edges[0]:
            late += 1
            lateness = max(lateness, edges[0] - stamp)
        elif stamp >= edges[1]:
            future += 1
    wanted = {"late": late, "future": future, "max_lateness_ms": lateness, "unstamped": unstamped}
    counted = {"unstamped": 0} | built.counted[partition].to_json()
    if all(counted[name] == number for name, number in wanted.items()):
        return Counter()
    lines.append(f"counters: window {built.window}/{partition}: {counted}, expected {wanted}")
    return Counter(miscounted=1)


def _judge_partition(history, outcome, topic, partition, log, lines):
    """Look for the place of every record that was committed and that no cleaner took away."""
    entries = log.entries
    held = entries.is_record & (entries.compacted == NEVER)
    versions = [built for built in outcome.built.values() if built.uuid == topic.uuid]
    cover, named = _places(versions, partition, len(entries))
    kinds = {
        "once": held & (cover == 1),
        "doubled": held & (cover > 1),
        "named": held & (cover == 0) & named,
    }
    rest = held & (cover == 0) & ~named
    for kind, which in (
        ("before", _before(history, versions, partition, log)),
        ("silent", _silent(history, versions, partition, log)),
        ("gone", np.full(len(entries), topic.deleted < NEVER)),
        ("front", np.arange(len(entries)) < _first(history, versions, partition)),
        ("lost", True),
    ):
        kinds[kind] = rest & which
        rest = rest & ~which
    kinds["gone_silent"] = kinds["gone"] & _rebuilt(history, outcome, topic, partition, entries)
    for kind in ("doubled", "silent", "front", "lost"):
        if kinds[kind].any():
            where = np.flatnonzero(kinds[kind])
            place = f"{topic.uuid}/{partition}: {len(where)} records from {where[0]} on"
            lines.append(f"{kind}: {place}")
    return Counter({kind: int(which.sum()) for kind, which in kinds.items()}) + Counter(
        records=int(held.sum())
    )


def _places(versions, partition, count):
    """Return in how many versions every offset is, and whether a gap names it."""
    cover, named = np.zeros(count, int), np.zeros(count, bool)
    for built in versions:
        start, end = built.ranges.get(partition, (0, 0))
        cover[start:end] += 1
        for gap in built.gaps:
            if _partition(gap) == partition:
                named[gap["start"] : gap["end"]] = True
    return cover, named


def _partition(gap):
    """Return the partition number of a source string, ``kafka:<topic>/<number>``."""
    return int(gap["source"].rpartition("/")[2])


def _first(history, versions, partition):
    """Return the offset of the first boundary of all."""
    starts = [b.starts.get(partition, (0, 0)) for b in versions if b.window == history.begin]
    return starts[0][0] if starts else 0


def _before(history, versions, partition, log):
    """Return which records lie before the first boundary, and rightly so."""
    entries = log.entries
    begins = history.edges[history.begin]
    believed = _in(entries.stamps, 0, history.closing)
    belongs = np.where(believed, entries.stamps, entries.nominal)
    earlier = (belongs < begins) | (entries.nominal < begins) | (~believed & (history.begin > 0))
    return earlier & (np.arange(len(entries)) < _first(history, versions, partition))


def _rebuilt(history, outcome, topic, partition, entries):
    """Return which records are of a window whose version, without a gap, is of another topic."""
    found = np.zeros(len(entries), bool)
    for built in outcome.built.values():
        if built.uuid != topic.uuid and partition not in map(_partition, built.gaps):
            low, high = history.edges[built.window], history.edges[built.window + 1]
            found |= _in(entries.nominal, low, high)
    return found


def _silent(history, versions, partition, log):
    """Return which records are of a window that was built when they had been deleted already.

    A boundary that was found before the deletion gave them to another window; that is no silence.
    """
    entries = log.entries
    at = np.arange(len(entries))
    found = np.zeros(len(entries), bool)
    for built in versions:
        low, high = history.edges[built.window], history.edges[built.window + 1]
        offset, log_start = built.starts.get(partition, (0, 0))
        of_window = (
            entries.is_main & _in(entries.stamps, low, high) & _in(entries.nominal, low, high)
        )
        found |= of_window & (at < offset) & (at < log_start)
    return found


def _judge_stop(history, outcome, stop):
    """Tell whether the stopped build had lost anything."""
    counts = Counter(stops=1)
    low, high = history.edges[stop.window], history.edges[stop.window + 1]
    earlier = [b for b in outcome.built.values() if b.uuid == stop.uuid and b.now < stop.now]
    for partition, log in _topic(history, stop.uuid).partitions.items():
        entries = log.entries
        deleted = min(log.log_start(stop.now + 60_000), len(entries))
        held = (entries.is_record & (entries.compacted > stop.now))[:deleted]
        for built in earlier:
            start, end = built.ranges.get(partition, (0, 0))
            held[start:end] = False
        own = _in(entries.stamps, low, high) | _in(entries.nominal, low, high)
        built = outcome.built.get(stop.window)
        if built is not None:
            start, end = (
                built.starts.get(partition, (0, 0))[0],
                built.ranges.get(partition, (0, 0))[1],
            )
            own[start:end] = True
        if (held & own[:deleted]).any():
            return counts
    counts["needless"] += 1
    return counts
