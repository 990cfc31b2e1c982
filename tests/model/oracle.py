"""Computes the interval of every committed record of a history, and compares builds with it.

Written from the promises alone: records are counted from the history's own arrays, and no part of
trainfeed is imported.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.model.histories import PAST
from tests.model.partition_log import NEVER

__all__ = ["judge"]


def judge(history, outcome):
    """Return counts, and one line for each thing that should not be.

    Records that were committed and never compacted (``records``) are each one of
        once, doubled: in so many versions;
        silent: deleted, of a window that was then built without a word;
        unnamed: the same, but the build had stopped, and no gap of any version holds them;
        named: deleted, and named by a version's gap;
        gone: of a topic that was deleted before they were built; ``gone_silent`` of them are of a
            window that was then built from the next topic, without a stop, although builds had
            seen the deleted one;
        lost: in no version, and nothing says so.
    ``outside`` of those that are there once are in the version of all the past, though they are
    of the first window or later.

    Versions: ``versions``, ``empty_wrong``; by partition ``parts``, ``empty_parts``,
    ``miscounted``, ``torn`` (planned from deleted offsets on); windows with ``stops``, and of
    these ``needless`` ones.
    """
    counts, lines = Counter(), []
    for built in outcome.built.values():
        counts += _judge_version(history, outcome, built, lines)
    for topic in history.incarnations:
        for partition, log in topic.partitions.items():
            counts += _judge_partition(history, outcome, topic, partition, log, lines)
    first_stops = {stop.window: stop for stop in reversed(outcome.stops) if stop.window != PAST}
    for stop in first_stops.values():
        counts += _judge_stop(history, outcome, stop)
    lines += [f"retry: {line}" for line in outcome.unlike] + [f"error: {e}" for e in outcome.errors]
    counts["unlike"] += len(outcome.unlike)
    counts["errors"] += len(outcome.errors)
    counts["waits"] += outcome.waits
    counts["unbuilt"] += len(history.all_windows) - len(outcome.built)
    return counts, lines


def _topic(history, uuid):
    return next(topic for topic in history.incarnations if topic.uuid == uuid)


def _judge_version(history, outcome, built, lines):
    """Look at emptiness and at what was counted."""
    counts, empty = Counter(), []
    frozen = _frozen(history, outcome)
    for partition, log in _topic(history, built.uuid).partitions.items():
        there = _there(log, built.now)
        at = np.arange(len(there))
        start, end = built.ranges.get(partition, (0, 0))
        read = log.entries.is_record & np.isin(at, built.read.get(partition, ()))
        unread = there & (at >= start) & (at < end) & ~read
        if unread.any() or start < min(end, log.log_start(built.now)):
            lines.append(f"torn: window {built.window}/{partition}: [{start}, {end}) not all read")
            counts["torn"] += 1
        own = there & _is_of(log.entries, history.interval(built.window))
        own &= log.entries.arrived <= frozen[built.window]
        empty.append((bool(own.any()), not read.any()))
        if partition in built.ranges:
            counts += _judge_counters(history, built, partition, log.entries.stamps[read], lines)
    if built.window == PAST:
        return counts
    wrong = any(own for own, _ in empty) and all(nothing for _, nothing in empty)
    if wrong:
        lines.append(f"empty: window {built.window} of {history.order}")
    empty_parts = sum(own and nothing for own, nothing in empty)
    return counts + Counter(
        versions=1, parts=len(empty), empty_parts=empty_parts, empty_wrong=int(wrong)
    )


def _frozen(history, outcome):
    """Return for each window since when its end, or a later boundary, has been fixed.

    What arrives later is late, as the boundaries of builds in any order cannot be moved any more.
    """
    found, earliest = {}, history.closing
    for window in sorted(outcome.built, reverse=True):
        looks = [outcome.built[window], *(s for s in outcome.stops if s.window == window)]
        earliest = min(earliest, *(look.now for look in looks))
        found[window] = earliest
    return found


def _there(log, now):
    """Return which records are in the log at a time, or will be when a transaction has ended."""
    entries = log.entries
    is_there = entries.is_record & (entries.compacted > now) & (entries.arrived <= now)
    return is_there & (np.arange(len(entries)) >= log.log_start(now))


def _is_of(entries, interval):
    """Return which records of the regular stream are of an interval: stamped and written in it."""
    own = entries.is_main & _in(entries.stamps, *interval)
    return own & _in(entries.nominal, *interval)


def _in(times, low, high):
    return (times >= low) & (times < high)


def _judge_counters(history, built, partition, stamps, lines):
    edges = history.interval(built.window)
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
    missing = held & (cover == 0)
    silent, unnamed = (missing & which for which in _deleted(history, versions, partition, log))
    kinds = {
        "once": held & (cover == 1),
        "doubled": held & (cover > 1),
        "silent": silent,
        "unnamed": unnamed & ~silent & ~named,
    }
    rest = missing & ~silent & ~kinds["unnamed"]
    kinds["named"] = rest & named
    rest &= ~named
    is_gone = topic.deleted < NEVER
    kinds["gone"] = rest if is_gone else rest & False
    kinds["gone_silent"] = kinds["gone"] & _rebuilt(history, outcome, topic, entries)
    kinds["lost"] = rest & False if is_gone else rest
    kinds["outside"] = kinds["once"] & _outside(history, versions, partition, entries)
    for kind in ("doubled", "silent", "unnamed", "gone_silent", "lost"):
        if kinds[kind].any():
            where = np.flatnonzero(kinds[kind])
            place = f"{topic.uuid}/{partition}: {len(where)} records from {where[0]} on"
            lines.append(f"{kind}: {place}")
    found = Counter({kind: int(which.sum()) for kind, which in kinds.items()})
    return found + Counter(records=int(held.sum()))


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


def _outside(history, versions, partition, entries):
    """Return which records of the first window or later are in the version of all the past."""
    found = np.zeros(len(entries), bool)
    begins = history.edges[history.begin]
    for built in versions:
        if built.window == PAST:
            start, end = built.ranges.get(partition, (0, 0))
            found[start:end] = True
    return found & entries.is_main & (entries.stamps >= begins) & (entries.nominal >= begins)


def _rebuilt(history, outcome, topic, entries):
    """Return which records are of a window that was built from another topic without a stop."""
    found = np.zeros(len(entries), bool)
    was_seen = any(b.uuid == topic.uuid for b in [*outcome.built.values(), *outcome.stops])
    stopped = {stop.window for stop in outcome.stops if stop.uuid != topic.uuid}
    for built in outcome.built.values():
        if was_seen and built.uuid != topic.uuid and built.window not in stopped:
            found |= _in(entries.nominal, *history.interval(built.window))
    return found


def _deleted(history, versions, partition, log):
    """Return which records are of a window that was built when they had been deleted already.

    A boundary that was found before the deletion gave them to another window; they count there.

    Returns:
        Those of versions without a gap, and those that are not in the gap of their version.
    """
    at = np.arange(len(log.entries))
    silent, unnamed = np.zeros(len(at), bool), np.zeros(len(at), bool)
    for built in versions:
        if built.window == PAST:
            continue
        offset, log_start = built.starts.get(partition, (0, 0))
        own = _is_of(log.entries, history.interval(built.window))
        own &= at < min(offset, log_start)
        gaps = [gap for gap in built.gaps if _partition(gap) == partition]
        for gap in gaps:
            own[gap["start"] : gap["end"]] = False
        (unnamed if gaps else silent)[own] = True
    return silent, unnamed


def _judge_stop(history, outcome, stop):
    """Tell whether the stopped build had lost anything."""
    topics = [topic for topic in history.incarnations if topic.created <= stop.now]
    missed = any(
        _misses(history, outcome, stop, topic, partition, log)
        for topic in topics
        for partition, log in topic.partitions.items()
    )
    return Counter(stops=1, needless=int(not missed))


def _misses(history, outcome, stop, topic, partition, log):
    """Return whether a partition has lost records of a stopped build's window."""
    entries = log.entries
    low, high = history.interval(stop.window)
    # A question to the broker takes time; what was deleted in that time counts as well.
    deleted = len(entries) if topic.uuid != stop.uuid else log.log_start(stop.now + 60_000)
    lost = entries.is_record & (entries.compacted > stop.now)
    lost &= (entries.arrived <= stop.now) & (np.arange(len(entries)) < deleted)
    for built in outcome.built.values():
        if built.uuid == topic.uuid and built.now < stop.now:
            start, end = built.ranges.get(partition, (0, 0))
            lost[start:end] = False
    own = _in(entries.stamps, low, high) | _in(entries.nominal, low, high)
    built = outcome.built.get(stop.window)
    if built is not None and built.uuid == topic.uuid:
        start, end = built.starts.get(partition, (0, 0))[0], built.ranges.get(partition, (0, 0))[1]
        own[start:end] = True
    return bool((lost & own).any())
