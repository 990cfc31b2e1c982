"""``trainfeed quarantine ls`` and ``audit``: reasons with counts, and who read the bytes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli.arguments import known_folder, readable_environment
from trainfeed.cli.named_versions import starts_in
from trainfeed.cli.printing import Message, Result, Table, counts_line, program, with_json
from trainfeed.cli.targets import RangeWord, SetName, Target, name_argument
from trainfeed.core.config import Environment
from trainfeed.errors import ConfigError, NotFoundError
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.quarantine import (
    Quarantine,
    QuarantinedPlace,
    plans_with_work,
    quarantine_of_plan,
    unpublished_plans,
)
from trainfeed.pipeline.quarantine_access import (
    Access,
    DamagedLine,
    accesses,
    quarantine_of_version,
)
from trainfeed.versions import DatasetFolder, Version, range_of
from trainfeed.versions.layout import is_name
from trainfeed.versions.retire import missing_remedies, told_missing

# --- The builds whose quarantine a command is asked for

BuildName = Annotated[
    str,
    name_argument(
        "NAME/INTERVAL: the last build, published or not; NAME/INTERVAL/gNNNN: one version; where"
        " several are listed also NAME[/RANGE]."
    ),
]
PlanId = Annotated[
    str | None,
    typer.Option("--plan", help="Read the work files of this plan; error messages name it."),
]


@dataclass(frozen=True)
class Wanted:
    """What a command is asked for.

    Attributes:
        env: Folders and connections.
        folder: The data set.
        asked: The interval or range; empty for the whole data set.
        generation: The generation of the one interval, or None.
        plan: The plan of the one interval, or None.
    """

    env: Environment
    folder: DatasetFolder
    asked: str
    generation: int | None
    plan: str | None

    @classmethod
    def of(cls, target: Target, plan: str | None) -> Wanted:
        """Return what a target asks for.

        Raises:
            ConfigError: It has a tag, or a generation beside a plan.
        """
        if target.tag is not None:
            raise ConfigError(
                f"expected NAME without @TAG, got {str(target)!r}: quarantined records are those of"
                " builds; name the interval, and perhaps its gNNNN, which"
                f" trainfeed tags {target.name} {target.tag} lists"
            )
        env = readable_environment()
        if target.generation is not None and plan is not None:
            raise ConfigError(f"expected NAME/INTERVAL with --plan, got {str(target)!r}")
        folder = DatasetFolder(Path(env.root), target.name)
        return cls(env, folder, target.asked or "", target.generation, plan)

    @property
    def is_whole_set(self) -> bool:
        """Whether the target is the data set, without an interval or a plan."""
        return not self.asked and self.plan is None

    @property
    def is_one(self) -> bool:
        """Whether the target is one build: a version, a plan, or an interval."""
        if self.generation is not None or self.plan is not None:
            return True
        return is_name(self.asked) and self.asked in _intervals(self.folder)


def as_one(wanted: Wanted) -> Quarantine:
    """Return the quarantine of one version, of one plan, or of the last build of an interval.

    Raises:
        ConfigError: The target is the whole data set, or a range.
        NotFoundError: There is no such build.
    """
    env, folder, asked = wanted.env, wanted.folder, wanted.asked
    if not is_name(asked):
        raise ConfigError(
            f"expected one interval, as NAME/INTERVAL or NAME/INTERVAL/gNNNN, got"
            f" {'/'.join(filter(None, [folder.name, asked]))!r}"
        )
    if wanted.plan is not None:
        return quarantine_of_plan(env, PlanRef(folder.name, asked, wanted.plan))
    if wanted.generation is not None:
        path = folder.version(asked, wanted.generation)
        return quarantine_of_version(Version.open(path))
    found = _builds_of(wanted, asked, None)
    if not found:
        raise _nothing(wanted)
    return found[0]


def newest_with_records(wanted: Wanted, reason: str | None) -> Quarantine:
    """Return the quarantine of the newest published interval that has rejected records.

    Args:
        wanted: The whole data set.
        reason: The reason of the records; None for any. If no version has such records, that of
            the newest one is returned.

    Raises:
        NotFoundError: Nothing is published.
    """
    folder = known_folder(wanted.folder.name)
    newest: Quarantine | None = None
    for interval in reversed(folder.intervals()):
        generation = folder.readable_generation(interval)
        if generation is None:
            continue
        version = Version.open(folder.version(interval, generation))
        reasons = version.manifest.quarantine["reasons"]
        if reasons if reason is None else reason in reasons:
            return quarantine_of_version(version)
        newest = newest or quarantine_of_version(version)
    if newest is None:
        raise _nothing(wanted)
    return newest


def as_builds(wanted: Wanted) -> Iterator[Quarantine]:
    """Yield the quarantines of all builds of a range, those of the newest interval first.

    Raises:
        NotFoundError: The range has no build.
    """
    for builds in _each_interval(wanted):
        yield from builds


def as_last_builds(wanted: Wanted) -> Iterator[Quarantine]:
    """Yield the quarantine of the last build of each interval of a range, the oldest first.

    Raises:
        NotFoundError: The range has no build.
    """
    if wanted.is_one:
        yield as_one(wanted)
        return
    for builds in reversed(list(_each_interval(wanted))):
        yield builds[0]


def _each_interval(wanted: Wanted) -> Iterator[list[Quarantine]]:
    known_folder(wanted.folder.name)
    span = range_of(wanted.folder, wanted.asked) if wanted.asked else None
    with_work = plans_with_work(wanted.env)
    names = [name for name in _intervals(wanted.folder) if span is None or starts_in(name, span)]
    is_any = False
    for name in sorted(names, reverse=True):
        if builds := _builds_of(wanted, name, with_work):
            is_any = True
            yield builds
    if not is_any:
        raise _nothing(wanted)


def _builds_of(wanted: Wanted, interval: str, with_work: frozenset[str] | None) -> list[Quarantine]:
    """Return the quarantines of an interval's version and of its failed builds, newest first."""
    folder = wanted.folder
    found = unpublished_plans(wanted.env, folder.name, interval, with_work)
    generation = folder.readable_generation(interval)
    if generation is not None:
        version = Version.open(folder.version(interval, generation))
        found.append(quarantine_of_version(version))
    return sorted(found, key=lambda quarantine: -quarantine.modified_ms)


def _intervals(folder: DatasetFolder) -> set[str]:
    return {*folder.intervals(), *folder.planned_intervals()}


def _nothing(wanted: Wanted) -> NotFoundError:
    name, asked = wanted.folder.name, wanted.asked
    place = f"{name}/{asked}" if asked else name
    return NotFoundError(
        f"expected a published version of {place} in {wanted.folder.path}, or work"
        f" files of a build that failed in {wanted.env.work}, got neither;"
        f" {'; '.join(missing_remedies(wanted.folder, [asked or 'INTERVAL']))}"
        f"{told_missing(wanted.folder, [asked] if asked else [])}"
    )


# --- ``trainfeed quarantine ls``: reasons with counts and positions; no value is read

_MOST_EXAMPLES: Final = 3


@dataclass(frozen=True)
class _Listed:
    """The reasons of one build, the most frequent first, each with its first records."""

    quarantine: Quarantine
    reasons: dict[str, int]
    examples: dict[str, list[QuarantinedPlace]]

    @classmethod
    def of(cls, quarantine: Quarantine) -> _Listed:
        reasons = quarantine.reasons()
        return cls(quarantine, reasons, _examples(quarantine, reasons))

    def to_json(self) -> dict[str, Any]:
        rows = [
            {
                "reason": reason,
                "records": count,
                "first": _as_json(self.examples[reason][0]),
                "examples": [_as_json(each) for each in self.examples[reason]],
            }
            for reason, count in self.reasons.items()
        ]
        records = sum(self.reasons.values())
        return {**origin_of(self.quarantine), "records": records, "reasons": rows}


@with_json
def list_reasons(name: BuildName, asked: RangeWord = None, *, plan: PlanId = None) -> Result:
    """Count quarantined records by reason.

    With the first positions of each.
    Values and messages, which often quote values, are not read: `show` has them, and is audited.

    Of an interval: those of its last build, published or not. Of a range, or of all intervals:
    those of all versions and failed builds that are there, the newest interval first.
    """
    target = Target.parse(name, asked)
    wanted = Wanted.of(target, plan)
    if wanted.is_one:
        return _of_one(_Listed.of(as_one(wanted)), target)
    return _of_all([_Listed.of(each) for each in as_builds(wanted)])


def origin_of(quarantine: Quarantine) -> dict[str, Any]:
    """Return the build of a quarantine as JSON."""
    return {
        "dataset": quarantine.dataset,
        "interval": quarantine.interval,
        "generation" if quarantine.is_published else "plan": quarantine.origin,
        "published": quarantine.is_published,
        "place": quarantine.place,
    }


def title_of(quarantine: Quarantine, reasons: dict[str, int]) -> str:
    """Return the line about a build that stands above its records."""
    return (
        f"{quarantine.dataset}/{quarantine.interval} ({_state(quarantine)}): quarantined:"
        f" {counts_line(reasons)}; in {quarantine.place}"
    )


def _state(quarantine: Quarantine) -> str:
    if quarantine.is_published:
        return quarantine.origin
    return f"plan {quarantine.origin}, not published"


def _of_one(listed: _Listed, target: Target) -> Result:
    more = [
        Message(f"their messages and bytes: {program()} quarantine show {target} --reason {first}")
        for first in list(listed.reasons)[:1]
    ]
    rows = Table(("reason", "records", "first at"), _rows(listed))
    title = title_of(listed.quarantine, listed.reasons)
    return Result(listed.to_json(), [title, rows, *more])


def _of_all(builds: Sequence[_Listed]) -> Result:
    total: Counter[str] = Counter()
    for build in builds:
        total += Counter(build.reasons)
    reasons = dict(total.most_common())
    columns = ("interval", "build", "reason", "records", "first at")
    rows = [
        (build.quarantine.interval, _state(build.quarantine), *row)
        for build in builds
        for row in _rows(build)
    ]
    return Result(
        {
            "records": total.total(),
            "reasons": reasons,
            "builds": [build.to_json() for build in builds],
        },
        [Table(columns, rows), f"{len(builds)} builds; quarantined: {counts_line(reasons)}"],
    )


def _rows(listed: _Listed) -> Iterator[tuple[object, ...]]:
    for reason, count in listed.reasons.items():
        first = listed.examples[reason][0]
        yield reason, count, f"{first.source} offset {first.offset}"


def _examples(quarantine: Quarantine, reasons: dict[str, int]) -> dict[str, list[QuarantinedPlace]]:
    found: dict[str, list[QuarantinedPlace]] = {reason: [] for reason in reasons}
    missing = {reason: min(_MOST_EXAMPLES, count) for reason, count in reasons.items()}
    for place in quarantine.places() if missing else ():
        if place.reason in missing:
            found[place.reason].append(place)
            if len(found[place.reason]) == missing[place.reason]:
                del missing[place.reason]
        if not missing:
            break
    return found


def _as_json(place: QuarantinedPlace) -> dict[str, Any]:
    return {"source": place.source, "offset": place.offset, "reason": place.reason}


# --- ``trainfeed quarantine audit``: who read quarantined bytes

_ACCESS_COLUMNS: Final = (
    "at",
    "account",
    "host",
    "command",
    "interval",
    "origin",
    "reason",
    "records",
)


@with_json
def list_accesses(
    name: SetName,
    *,
    limit: Annotated[int, typer.Option("-n", min=1, help="At most this many, the last ones.")] = 50,
) -> Result:
    """List who read quarantined bytes, and when.

    The last reading first.
    Status 3 when a line of the file is damaged; the others are listed all the same.
    """
    folder = known_folder(Target.parse(name).of_whole_set())
    last: deque[Access] = deque(maxlen=limit)
    damaged: list[int] = []
    number = 0
    for each in accesses(folder):
        if isinstance(each, DamagedLine):
            damaged.append(each.number)
        else:
            number += 1
            last.append(each)
    rows = [asdict(each) for each in reversed(last)]
    more = f"{len(rows)} of {number} are shown; -n {number} shows all"
    unread = (
        f"{folder.quarantine_audit}: {len(damaged)} lines are damaged, the first are"
        f" {', '.join(map(str, damaged[:10]))}: a kill or a full disk cut them, or the file was"
        " changed"
    )
    return Result(
        {"dataset": folder.name, "accesses": number, "shown": rows, "damaged_lines": damaged},
        [Table(_ACCESS_COLUMNS, rows), *([Message(more)] if len(rows) < number else [])],
        [unread] if damaged else (),
        Result.DAMAGED if damaged else 0,
    )
