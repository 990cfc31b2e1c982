"""The difference of two versions as lines for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from trainfeed.difference import (
    ComparedRecords,
    Difference,
    RecordChange,
    RecordCounts,
    Section,
    Side,
    ValueChange,
    change_to_json,
)

__all__ = ["difference_lines"]

_SHOWN_CHARS: Final = 60
_MOST_LINES: Final = 60
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
# Only in the JSON: lists of many numbers.
_NOT_SHOWN: Final = ("histogram", "components")


def difference_lines(found: Difference) -> Iterator[str]:
    """Yield the lines: first what is equal, then each part that differs, the samples last."""
    yield f"{_told(found.first)} → {_told(found.second)}"
    equal = [each.name for each in found.sections if not each.differs and not each.left_out]
    yield f"equal: {', '.join(equal) or 'nothing'}"
    for section in found.sections:
        yield from _section_lines(section)
    yield from _record_lines(found.records)


def _told(side: Side) -> str:
    told = side.name if side.state == "published" else f"{side.name} ({_state(side)})"
    why = side.to_json()["rebuild"]
    return told if why is None else f"{told}, built because: {why}"


def _state(side: Side) -> str:
    return side.state if side.withdrawn is None else side.withdrawn


def _section_lines(section: Section) -> Iterator[str]:
    if section.left_out:
        yield f"\n{section.name}: not compared, {section.left_out}"
    if not section.differs:
        return
    yield f"\n{section.name}"
    shown = [each for each in section.changes if not each.place.endswith(_NOT_SHOWN)]
    lines = list(_change_lines(section, shown))
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"  and {len(lines) - _MOST_LINES} more lines, which --json has"
    if hidden := len(section.changes) - len(shown):
        yield f"  and {hidden} histograms and lists of components, which --json has"
    for text in section.texts:
        yield from (f"    {line}" for line in text.lines)
        if text.note:
            yield f"    {text.name}: {text.note}"


def _change_lines(section: Section, shown: list[ValueChange]) -> Iterator[str]:
    """Yield a line for all values of one place."""
    for place, changes in groupby(shown, lambda change: change.path[: _depth(section, change)]):
        told = ", ".join(_change(change, len(place)) for change in changes)
        yield f"  {'.'.join(place)}: {told}" if place else f"  {told}"


def _depth(section: Section, change: ValueChange) -> int:
    """Return how many names of a path are shared by a line: all but one, of statistics two."""
    return 2 if section.name == "statistics" else len(change.path) - 1


def _change(change: ValueChange, depth: int) -> str:
    return f"{' '.join(change.path[depth:])} {_short(change.old)} → {_short(change.new)}"


def _record_lines(records: ComparedRecords) -> Iterator[str]:
    if records.counts is None:
        yield f"\nsamples: not compared, {records.left_out}"
        return
    yield "\nsamples"
    yield f"  {_kinds(records.counts)}"
    counts = records.counts
    for title, each in (
        ("changed fields", counts.fields),
        ("other split", counts.moves),
        ("removed", counts.removed_fates),
        ("added, before", counts.added_fates),
    ):
        if told := _counted(each):
            yield f"  {title}: {told}"
    for change in records.examples:
        yield f"  {_example(change)}"


def _kinds(counts: RecordCounts) -> str:
    names = ("added", "removed", "changed", "moved")
    told = ", ".join(f"{counts.kinds[name]} {name}" for name in names)
    also = f"; {counts.changed_and_moved} of the changed ones moved, too"
    return f"{counts.equal} equal, {told}{also if counts.changed_and_moved else ''}"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.most_common() if number)


def _example(change: RecordChange) -> str:
    position = f"{change.source}@{change.offset}"
    if change.ordinal:
        position += f" sample {change.ordinal}"
    return f"{change.kind} {position} ({_place(change)}){_values(change)}"


def _place(change: RecordChange) -> str:
    ours, theirs = change.splits
    if ours is None or theirs is None:
        place = str(ours or theirs)
        return f"{place}, {change.fate}" if change.fate else place
    return ours if ours == theirs else f"{ours} → {theirs}"


def _values(change: RecordChange) -> str:
    old, new = change_to_json(change)["samples"]
    if old is None or new is None:
        return ""
    told = [f"{name} {_short(old[name])} → {_short(new[name])}" for name in change.fields]
    return f": {', '.join(told)}" if told else ""


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = "nothing" if value is None else str(value)
    if _DIGEST.fullmatch(text):
        return f"{text[:16]}…"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
