"""The intervals and versions that the target of a command names, and the gates of a version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from trainfeed.cli.arguments import known_folder, tell_withdrawal
from trainfeed.cli.targets import Target, name_argument
from trainfeed.core.config import Environment, environment_from_environ
from trainfeed.core.intervals import (
    Interval,
    TimeRange,
    intervals_in,
    parse_range,
    range_needs_zone,
)
from trainfeed.errors import ConfigError, WindowError
from trainfeed.specification import (
    DatasetSpec,
    check_name,
    gate_limits,
    gate_name,
    load_spec,
    shown_number,
)
from trainfeed.specification.names import cut
from trainfeed.versions import DatasetFolder, range_of, read_schedule
from trainfeed.versions.layout import is_name
from trainfeed.versions.tag_files import Tag, require_tag
from trainfeed.versions.withdraw import look_for_withdrawal

if TYPE_CHECKING:
    from trainfeed.versions import Coverage, Version

# --- The intervals that a command is asked for, in its target or by --interval

Name = Annotated[str, name_argument("NAME/RANGE, or NAME beside a range of its own.")]
Intervals = Annotated[
    str | None,
    typer.Option(
        "--interval",
        help="Interval or range, both ends included: 2013-01-01, 2013-01, 2013-01-01T05, a/b.",
    ),
]


def open_asked(
    target: Target, interval: str | None = None, *, has_option: bool = False
) -> tuple[DatasetSpec, Environment, str]:
    """Return specification, environment, and the requested range.

    Args:
        target: What the command is to build, train on or remove.
        interval: The value of ``--interval``.
        has_option: Whether the command has that option.

    Raises:
        ConfigError: The range is missing, or is there twice; or the target has a tag or a
            generation.
        SpecError: The specification is wrong.
    """
    target.to_change().of_intervals()
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(target.name))
    if not (asked := interval or target.asked) or (interval and target.asked):
        forms, between = "NAME/RANGE or NAME RANGE", "/"
        if has_option:
            forms, between = "NAME/RANGE, NAME RANGE or --interval", " --interval "
        raise ConfigError(
            f"expected the interval or range once, as {forms}, got {'both' if asked else 'none'};"
            f" such as {target.name}{between}{spec.schedule_model().first_name}"
        )
    return spec, env, asked


def intervals_asked(spec: DatasetSpec, asked: str) -> list[Interval]:
    """Return the intervals of a range that was typed; its days are those of the set's zone.

    Raises:
        WindowError: ``asked`` is no range, or no interval starts in it.
    """
    schedule = spec.schedule_model()
    return intervals_in(schedule, parse_range(asked, schedule.zone))


def one_interval(spec: DatasetSpec, asked: str) -> Interval:
    """Return the interval that was typed, by its name, or as a day or month of the set's zone.

    Raises:
        WindowError: There is no such interval, or the day has several.
    """
    schedule = spec.schedule_model()
    if schedule.zone is not None and range_needs_zone(asked):
        chosen = intervals_asked(spec, asked)
        if len(chosen) == 1:
            return chosen[0]
    return schedule.interval_named(asked)


def in_utc(folder: DatasetFolder, asked: str) -> str:
    """Return a range that was typed as a text that means the same without a zone.

    Of a day of a zone with one interval alone it is the name of that.

    Raises:
        WindowError: It is no range.
    """
    span = range_of(folder, asked)
    if span.local is None:
        return asked
    names = [name for name in folder.intervals() if starts_in(name, span)]
    schedule = read_schedule(folder)
    if "/" not in asked and schedule is not None and len(names) == 1:
        ticks = islice(schedule.intervals(span.start, span.end - timedelta(microseconds=1)), 2)
        if [each.name for each in ticks] == names:
            return names[0]
    return span.text


def starts_in(name: str, span: TimeRange) -> bool:
    """Whether the interval of a name starts in a range; a name that is none does not."""
    try:
        return span.start <= parse_range(name).start < span.end
    except WindowError:
        return False


def is_range(chosen: Sequence[Interval], asked: str) -> bool:
    """Whether a range was asked for: results are lists then, even of one interval."""
    return "/" in asked or len(chosen) > 1


# --- A target whose data set and tag are known, and its versions


@dataclass(frozen=True)
class KnownTarget:
    """A known data set, and the selected intervals of it.

    Attributes:
        folder: The data set below the publication root.
        asked: An interval or a range; None for the whole data set.
        generation: The generation of the one interval; None for the one that readers get.
        tag: The tag whose versions are selected; None for those that readers get.
    """

    folder: DatasetFolder
    asked: str | None = None
    generation: int | None = None
    tag: Tag | None = None

    def one(self) -> Version:
        """Open the one version of the target.

        Raises:
            ConfigError: The target is the whole data set, or a range of several intervals.
            WindowError: The interval is not valid.
            NotFoundError: The version is not published.
        """
        from trainfeed.versions import Version

        if self.asked is None and self.tag is None:
            raise ConfigError(
                f"expected NAME/INTERVAL or NAME/INTERVAL/gNNNN, got {self.folder.name!r}"
            )
        if self.asked is not None and self.generation is not None:
            tell_withdrawal(self.folder, self.asked, self.generation)
            return Version.resolve(self.folder, self.asked, self.generation)
        found = self.coverage()
        found.require("fail")
        if len(found.versions) > 1:
            raise ConfigError(
                f"expected one interval, {found.asked} has {len(found.versions)}; name one, such as"
                f" {self.name}/{found.versions[0].path.parent.name}"
            )
        return found.versions[0]

    def is_range(self) -> bool:
        """Return whether the target may have several versions, so that results are a list."""
        if self.asked is None or self.generation is not None:
            return self.asked is None
        if self.tag is not None:
            return self.asked not in self.tag.generations
        return "/" in self.asked or not _is_published(self.folder, self.asked)

    def coverage(self) -> Coverage:
        """Return the state of the intervals of the range, or of the tag."""
        from trainfeed.versions import cover
        from trainfeed.versions.tag import cover_tag

        if self.tag is not None:
            return cover_tag(self.folder, self.tag, self.asked)
        return cover(self.folder, self.asked or "")

    @property
    def name(self) -> str:
        """The data set, with its tag if one was named."""
        return self.folder.name if self.tag is None else f"{self.folder.name}@{self.tag.name}"


def _is_published(folder: DatasetFolder, name: str) -> bool:
    return is_name(name) and folder.readable_generation(name) is not None


def known(target: Target) -> KnownTarget:
    """Look up the data set and the tag of a target.

    Raises:
        ConfigError: No data set or tag may have that name.
        WindowError: The range is not valid.
        NotFoundError: The data set or its tag is unknown; the message has the nearest name.
        RootError: The publication root was not made by ``trainfeed init``.
    """
    folder = known_folder(target.name)
    tag = None
    if target.tag is not None:
        tag = require_tag(folder, target.tag_name, target.tag_change)
    asked = target.asked
    if asked is not None:
        asked = in_utc(folder, asked)
    return KnownTarget(folder, asked, target.generation, tag)


def version_for_readers(text: str, *, withdrawn: str) -> Version:
    """Open the one version of a target by the rule of readers for withdrawn ones.

    Args:
        text: The target.
        withdrawn: ``fail`` or ``warn``, as of ``open_dataset``.

    Raises:
        WithdrawnError: It is withdrawn, and ``withdrawn`` is ``fail``.
    """
    found = known(Target.parse(text))
    if found.asked is not None and found.generation is not None:
        look_for_withdrawal(found.folder, found.asked, found.generation, withdrawn=withdrawn)
    return found.one()


# --- ``NAME/INTERVAL[/gNNNN]``, as commands are given one version to correct

VersionName = Annotated[str, name_argument("NAME/INTERVAL[/gNNNN].")]


class OneGeneration(NamedTuple):
    """Data set, interval, and number of a generation; None if the text names none."""

    name: str
    interval: str
    generation: int | None


def one_generation(target: Target) -> OneGeneration:
    """Return the parts of the target of a known data set.

    Raises:
        ConfigError: It has a tag, or is another kind of target.
        NotFoundError: The data set is unknown; the message has the nearest name.
    """
    found = known(target.to_change())
    if found.asked is None or "/" in found.asked:
        raise ConfigError(
            "expected one interval, as NAME/INTERVAL or NAME/INTERVAL/gNNNN, got"
            f" {cut(str(target))!r}; nothing was changed"
        )
    return OneGeneration(found.folder.name, found.asked, found.generation)


# --- The gates of a version as a table for people

GATE_COLUMNS: Final = ("gate", "value", "allowed", "else", "passed", "counts")


def gate_rows(gates: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row of ``GATE_COLUMNS`` for every gate of a manifest."""
    return [
        {
            "gate": gate_name(gate),
            "value": "" if gate["passed"] is None else shown_number(gate["value"]),
            "allowed": gate_limits(gate),
            "else": str(gate["severity"]),
            "passed": _passed(gate["passed"]),
            "counts": str(gate.get("because", "")),
        }
        for gate in gates
    ]


def _passed(passed: bool | None) -> str:
    """Return the word for the outcome; a gate of a preview may not have been judged."""
    return "not judged" if passed is None else "yes" if passed else "no"
