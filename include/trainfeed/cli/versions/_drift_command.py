"""``trainfeed drift``: how far the samples of published versions are from those before them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._damaged_entries import DamagedEntries
from trainfeed.cli._known_datasets import complete_target, readable_environment
from trainfeed.cli._look_target import parse_target
from trainfeed.cli._printing import print_json, print_message, print_rows
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.coverage import published_in
from trainfeed.drift import (
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
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.intervals import parse_range

__all__ = ["drift"]

_COLUMNS: Final = ("version", "compared", "judged", "beyond their limit")
_DETAILS: Final = ("field or component", *MEASURES, "beyond its limit")
_MOST_NAMED: Final = 5
_DIFFERENCE: Final = 3


def drift(
    name: Annotated[
        str, typer.Argument(help="NAME or NAME/RANGE.", autocompletion=complete_target)
    ],
    asked: Annotated[
        str | None,
        typer.Argument(metavar="[RANGE]", help="2013-01-01, 2013-01, a/b; by default all."),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare the distributions of versions with those before them, by their statistics alone.

    Distances and limits are those of the gate drift in the manifests; of versions without it they
    are computed. Status 3 when a distance is beyond its limit or a version is damaged; 1 when
    nothing is published.
    """
    readable_environment()
    target = parse_target(name if asked is None else f"{name}/{asked}")
    if target.tag is not None:
        raise ConfigError(
            f"drift looks at the versions that readers get, not at tags, got {target.name!r}; leave"
            " the tag out"
        )
    if target.generation is not None or (asked is not None and "/" in name):
        raise ConfigError(f"expected NAME and perhaps a RANGE, got {name!r} and {asked!r}")
    intervals, wanted = _intervals(target.folder, target.asked)
    rule, selection = _rule(target.folder, intervals)
    # Limits come from as many earlier versions, and the distances of these from others before.
    first = max(0, intervals.index(wanted[0]) - rule.history - rule.reference)
    damaged = DamagedEntries()
    versions = _opened(target.folder, intervals[first:], damaged)
    snapshots = (Snapshot.of(version, selection) for version in versions)
    drifts = drift_of(snapshots, rule, selection)
    found = [_told(each) for each in drifts if each.name.partition("/")[0] in wanted]
    if as_json:
        print_json(found)
    elif len(found) == 1:
        print_rows(_DETAILS, list(_details(found[0])))
    else:
        print_rows(_COLUMNS, [_row(each) for each in found])
    _tell(found)
    damaged.end()
    if any(each["beyond"] for each in found):
        raise typer.Exit(_DIFFERENCE)


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


def _told(found: VersionDrift) -> dict[str, Any]:
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
    for part in sorted(found["distances"], key=_place):
        measures = found["distances"][part]
        cells = [_cell(*measures[name]) if name in measures else "" for name in MEASURES]
        yield [part, *cells, found["beyond"].get(part, "")]


def _place(part: str) -> tuple[str, list[int]]:
    """Return field and place of a component, so that ``values[2]`` precedes ``values[10]``."""
    field, _, place = part.partition("[")
    return field, [int(number) for number in re.findall("[0-9]+", place)]


def _cell(distance: float, limit: float | None) -> str:
    """Return a distance, and its limit as what it is below or beyond."""
    if limit is None:
        return f"{distance:.3g}"
    return f"{distance:.3g} {'>' if distance > limit else '≤'} {limit:.3g}"


def _tell(found: list[dict[str, Any]]) -> None:
    """Say why there are versions without limits."""
    early = [each for each in found if each["versions"] < LEAST_VERSIONS]
    if early:
        print_message(
            f"{len(early)} of {len(found)} versions are not judged: they have fewer than"
            f" {LEAST_VERSIONS} versions before them"
        )
