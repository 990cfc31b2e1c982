"""``trainfeed diff`` and ``drift``: how versions differ, in what they say and in their samples."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import known_folder, readable_environment, source_path
from trainfeed.cli.completion import complete_sides
from trainfeed.cli.named_versions import known
from trainfeed.cli.printing import DamagedEntries, Result, Table, print_message, with_json
from trainfeed.cli.targets import RangeWord, Target, name_argument
from trainfeed.core.intervals import parse_range
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.look.difference import (
    ComparedRecords,
    Difference,
    RecordChange,
    RecordCounts,
    Section,
    Side,
    ValueChange,
    difference,
    record_comparison,
)
from trainfeed.specification.names import cut
from trainfeed.versions import DatasetFolder, Version
from trainfeed.versions.coverage import published_in
from trainfeed.versions.drift import (
    LEAST_VERSIONS,
    MEASURES,
    DriftRule,
    Selection,
    Snapshot,
    VersionDrift,
    change,
    drift_of,
    judgement_to_json,
    rule_of,
    selection_of,
)
from trainfeed.versions.layout import is_generation, parse_generation

# --- The difference of two versions as lines for people

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
    for example in records.examples:
        yield f"  {_example(example)}"


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
    old, new = change.to_json()["samples"]
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
    return cut(text)


# --- ``trainfeed diff``: what two versions have not alike

_PATHS: Final = ("/", "./", "../", "pfs://")
_EXAMPLES: Final = 5
_USAGE: Final = (
    "expected NAME A B, as in NAME INTERVAL/g0001 INTERVAL/g0002, or two targets with their"
    " names, or two folders of versions, or one target NAME/INTERVAL, got {!r}"
)


@with_json
def diff(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME A B",
            help="A, B: I/gNNNN, I, gNNNN with --interval; or two NAME/I/gNNNN or NAME@TAG/I; or"
            " two folders; or one NAME/I[/gNNNN], which is compared with the version before it.",
            autocompletion=complete_sides,
        ),
    ],
    *,
    interval: Annotated[
        str | None, typer.Option("--interval", help="The interval, if A and B are generations.")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("-n", "--number", min=0, help="Samples of each kind; 5, of --records all."),
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", help="Only the samples that differ, as JSON lines.")
    ] = False,
) -> Result:
    """Show how two versions differ.

    In plan, code, specification, lookups, counts, statistics and samples.

    One version alone is compared with the one published before it for the same interval; if there
    is none, with that of the interval before. A line says which.

    Status 0 when they are equal, 3 when they differ or one is damaged, 1 when it cannot be told.
    """
    first, second = _sides(targets, interval)
    if records:
        return _records(first, second, number)
    found = difference(first, second, most_records=_EXAMPLES if number is None else number)
    is_unknown = not found.differs and not found.is_complete
    unknown = "a version was removed: whether its samples were the same cannot be told"
    return Result(
        found.to_json(),
        difference_lines(found),
        [unknown] if is_unknown else (),
        Result.DAMAGED if found.differs else Result.FAILED if is_unknown else 0,
    )


def _records(first: Side, second: Side, number: int | None) -> Result:
    comparison = record_comparison(first, second)
    if isinstance(comparison, str):
        return Result(None, (), [f"samples cannot be compared: {comparison}"], Result.FAILED)
    if isinstance(comparison, RecordCounts):
        return Result(None, ())

    def lines() -> Iterator[str]:
        for each in comparison.changes(number):
            yield json.dumps(each.to_json(), sort_keys=True)
        # Known when all of them were compared.
        if comparison.counts.has_changes:
            raise typer.Exit(Result.DAMAGED)

    return Result(None, lines())


def _sides(targets: list[str], interval: str | None) -> tuple[Side, Side]:
    if len(targets) == 3 and "/" not in targets[0]:
        folder = known_folder(targets[0])
        sides = [_side(folder, each, interval) for each in targets[1:]]
    elif (alone := _alone(targets, interval)) is not None:
        second = _named(alone)
        sides = [_before(second), second]
    elif len(targets) == 2 and interval is None:
        sides = [_named(each) for each in targets]
    else:
        raise ConfigError(_USAGE.format(" ".join(targets)[:80]))
    return sides[0], sides[1]


def _alone(targets: list[str], interval: str | None) -> str | None:
    """Return the one target, in one word or in two; None if there are others, or no interval."""
    words = [*targets, *([] if interval is None else [interval])]
    if len(words) == 1 and "/" in words[0]:
        return words[0]
    return "/".join(words) if len(words) == 2 and "/" not in words[0] else None


def _before(side: Side) -> Side:
    """Return the version that was published before one, and print which it is.

    Withdrawn ones count, because a correction is compared with what it corrects.

    Raises:
        ConfigError: The version lies outside of a publication root.
        NotFoundError: It is the first.
    """
    folder = side.folder
    interval, _, generation = side.name.partition("/")
    if folder is None:
        raise ConfigError(f"expected a second folder beside {side.name}, outside of a root")
    for number in range(parse_generation(generation) - 1, 0, -1):
        if folder.has_folder(interval, number) and not folder.is_removed(interval, number):
            found = Side.of(folder, interval, number)
            print_message(
                f"compared with {folder.name}/{found.name}, the version of the same interval that"
                " was published before it"
            )
            return found
    earlier = [each for each in folder.intervals() if each < interval]
    for each in reversed(earlier):
        if folder.readable_generation(each) is not None:
            found = Side.of(folder, each)
            print_message(
                f"compared with {folder.name}/{found.name}, of the interval before: {interval} has"
                f" no version before {generation}"
            )
            return found
    raise NotFoundError(
        f"expected a version before {folder.name}/{side.name}, got none of this interval and of"
        f" those before; it is the first; name the other one: trainfeed diff {folder.name}"
        f" INTERVAL {side.name}"
    )


def _named(target: str) -> Side:
    """Return the version of a path, or of a target with its name."""
    if target.startswith(_PATHS):
        return Side.at(source_path(target))
    parts = Target.parse(target)
    if parts.asked is None:
        raise ConfigError(_USAGE.format(target[:80]))
    if parts.tag is None:
        return Side.of(known_folder(parts.name), parts.asked, parts.generation)
    found = known(parts)
    version = found.one()
    return Side.of(found.folder, version.path.parent.name, version.manifest.generation)


def _side(folder: DatasetFolder, text: str, interval: str | None) -> Side:
    """Return the version of ``I``, ``I/gNNNN``, or of ``gNNNN`` with an interval, or of a path."""
    if text.startswith(_PATHS):
        return Side.at(source_path(text))
    if is_generation(text):
        if interval is None:
            raise ConfigError(f"expected --interval beside generations, or I/{text}, got {text!r}")
        text = f"{interval}/{text}"
    elif interval is not None:
        raise ConfigError(f"expected a generation beside --interval, such as g0001, got {text!r}")
    target = Target.parse(folder.name, text)
    if target.asked is None or "/" in target.asked:
        raise ConfigError(_USAGE.format(f"{folder.name} {text}"[:80]))
    return Side.of(folder, target.asked, target.generation)


# --- ``trainfeed drift``: how far the samples of published versions are from those before them

_COLUMNS: Final = ("version", "compared", "judged", "beyond their limit")
_DETAILS: Final = ("field or component", *MEASURES, "beyond its limit")
_MOST_NAMED: Final = 5


@with_json
def drift(
    name: Annotated[str, name_argument("NAME[/RANGE]; by default all of its versions.")],
    asked: RangeWord = None,
) -> Result:
    """Compare the distributions of versions with earlier ones.

    By their statistics alone; no sample is read.

    Distances and limits are those of the gate drift in the manifests; of versions without it they
    are computed. Status 3 when a distance is beyond its limit or a version is damaged; 1 when
    nothing is published.
    """
    readable_environment()
    target = known(Target.parse(name, asked).of_intervals())
    intervals, wanted = _intervals(target.folder, target.asked)
    rule, selection = _rule(target.folder, intervals)
    # Limits come from as many earlier versions, and the distances of these from others before.
    first = max(0, intervals.index(wanted[0]) - rule.history - rule.reference)
    damaged = DamagedEntries()
    versions = _opened(target.folder, intervals[first:], damaged)
    snapshots = (Snapshot.of(version, selection) for version in versions)
    drifts = drift_of(snapshots, rule, selection)
    found = [_drift_lines(each) for each in drifts if each.name.partition("/")[0] in wanted]
    is_one = len(found) == 1
    return Result(
        found,
        Table(_DETAILS, _details(found[0])) if is_one else Table(_COLUMNS, map(_row, found)),
        _not_judged(found),
        Result.DAMAGED if damaged.status or any(each["beyond"] for each in found) else 0,
    )


def _intervals(folder: DatasetFolder, asked: str | None) -> tuple[list[str], list[str]]:
    """Return the published intervals up to the last wanted one, and those that are wanted."""
    span = None if asked is None else published_in(folder, parse_range(asked))
    intervals = [name for name in folder.intervals() if folder.readable_generation(name)]
    wanted = intervals if span is None else [name for name in intervals if name in span]
    if not wanted:
        raise NotFoundError(
            f"data set {folder.name!r} has no published version of {asked or 'any interval'} in"
            f" {folder.path}; build one: trainfeed build {folder.name} --interval I"
        )
    return intervals[: intervals.index(wanted[-1]) + 1], wanted


def _opened(
    folder: DatasetFolder, intervals: Iterable[str], damaged: DamagedEntries
) -> Iterator[Version]:
    for interval in intervals:
        version = None
        with damaged.named(f"{folder.name}/{interval}", {}):
            version = Version.resolve(folder, interval)
        if version is not None:
            yield version


def _rule(folder: DatasetFolder, intervals: Iterable[str]) -> tuple[DriftRule, Selection]:
    """Return rule and selection of the newest version's gate; the defaults without one."""
    with suppress(FormatError, NotFoundError):
        for gate in Version.resolve(folder, list(intervals)[-1]).manifest.gates:
            if gate.get("check") == "drift":
                return rule_of(gate), selection_of(gate)
    return DriftRule(), Selection()


def _drift_lines(found: VersionDrift) -> dict[str, Any]:
    compared = found.compared() if found.beyond else {}
    return {
        "version": found.name,
        "recorded": found.is_recorded,
        "versions": found.versions,
        "distances": judgement_to_json(found.judgement),
        "beyond": {part: change(compared[part]) for part in found.beyond if part in compared},
    }


def _row(found: dict[str, Any]) -> list[object]:
    parts = found["distances"].values()
    judged = sum(any(limit is not None for _, limit in part.values()) for part in parts)
    named = list(found["beyond"])
    more = f", and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return [found["version"], len(parts), judged, ", ".join(named[:_MOST_NAMED]) + more]


def _details(found: dict[str, Any]) -> Iterator[list[object]]:
    for part in sorted(found["distances"], key=_field_place):
        measures = found["distances"][part]
        cells = [_cell(*measures[name]) if name in measures else "" for name in MEASURES]
        yield [part, *cells, found["beyond"].get(part, "")]


def _field_place(part: str) -> tuple[str, list[int]]:
    """Return field and place of a component, so that ``values[2]`` precedes ``values[10]``."""
    field, _, place = part.partition("[")
    return field, [int(number) for number in re.findall("[0-9]+", place)]


def _cell(distance: float, limit: float | None) -> str:
    """Return a distance, and its limit as what it is below or beyond."""
    if limit is None:
        return f"{distance:.3g}"
    return f"{distance:.3g} {'>' if distance > limit else '≤'} {limit:.3g}"


def _not_judged(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield why there are versions without limits."""
    early = [each for each in found if each["versions"] < LEAST_VERSIONS]
    if early:
        yield (
            f"{len(early)} of {len(found)} versions are not judged: they have fewer than"
            f" {LEAST_VERSIONS} versions before them"
        )
