"""The intervals and versions that a command is asked for, and the gates of one as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from trainfeed.cli.arguments import complete_target, known_folder, tell_withdrawal
from trainfeed.core.config import Environment, environment_from_environ
from trainfeed.core.intervals import Interval, parse_range
from trainfeed.core.version_names import split_version_name
from trainfeed.errors import ConfigError
from trainfeed.specification import (
    DatasetSpec,
    check_name,
    gate_limits,
    gate_name,
    load_spec,
    shown_number,
)
from trainfeed.versions import DatasetFolder
from trainfeed.versions.layout import is_generation, is_name, parse_generation
from trainfeed.versions.tag_files import Tag, require_tag
from trainfeed.versions.withdraw import look_for_withdrawal

if TYPE_CHECKING:
    from trainfeed.versions import Coverage, Version

# --- The intervals that a command is asked for, as NAME/INTERVAL, NAME/FIRST/LAST or --interval

Name = Annotated[
    str,
    typer.Argument(
        help="NAME of a data set, NAME/INTERVAL or NAME/FIRST/LAST.", autocompletion=complete_target
    ),
]
Intervals = Annotated[
    str | None,
    typer.Option(
        "--interval",
        help="Interval or range, both ends included: 2013-01-01, 2013-01, 2013-01-01T05, a/b.",
    ),
]
JsonOrList = Annotated[bool, typer.Option("--json", help="Print JSON; a list for a range.")]


def open_asked(name: str, interval: str | None) -> tuple[DatasetSpec, Environment, str]:
    """Return specification, environment, and the requested range."""
    name, _, place = name.partition("/")
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(name))
    if (asked := interval or place) == "" or (interval and place):
        raise ConfigError(
            "expected the interval or range once, as NAME/INTERVAL, NAME/FIRST/LAST or --interval,"
            f" got {'both' if place else 'none'}; such as"
            f" {name} --interval {spec.schedule_model().first_name}"
        )
    return spec, env, asked


def is_range(chosen: Sequence[Interval], asked: str) -> bool:
    """Whether a range was asked for: results are lists then, even of one interval."""
    return "/" in asked or len(chosen) > 1


# --- Targets of commands: ``NAME``, ``NAME/RANGE``, ``NAME/INTERVAL/gNNNN``, ``NAME@TAG/RANGE``


@dataclass(frozen=True)
class LookTarget:
    """A data set, and the selected intervals of it.

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


def parse_target(text: str) -> LookTarget:
    """Read a target of a known data set.

    Raises:
        ConfigError: ``text`` is no target.
        WindowError: The range is not valid.
        NotFoundError: The data set or its tag is unknown; the message has the nearest name.
        RootError: The publication root was not made by ``trainfeed init``.
    """
    name, asked, generation = target_parts(text)
    folder, tag = known_tag(name)
    if generation is not None and tag is not None:
        raise ConfigError(f"a tag names generations itself, {text[:80]!r} has both; leave one out")
    if not asked and generation is None:
        return LookTarget(folder, tag=tag)
    parse_range(asked)
    return LookTarget(folder, asked, generation, tag=tag)


def target_parts(text: str) -> tuple[str, str, int | None]:
    """Return the parts of ``NAME[/INTERVAL or RANGE[/gNNNN]]``; nothing of them is looked up.

    Returns:
        The name, with a tag if it has one; the interval or range, empty if there is none; and the
        number of the generation, None if there is none.
    """
    name, _, rest = text.partition("/")
    asked, slash, last = rest.rpartition("/")
    if slash and is_generation(last):
        return name, asked, parse_generation(last)
    return name, rest, None


def known_tag(name: str) -> tuple[DatasetFolder, Tag | None]:
    """Return the known data set of ``NAME`` or ``NAME@TAG``, and the tag; raises as above."""
    named = split_version_name(name)
    folder = known_folder(named.name)
    if named.version is None:
        return folder, None
    return folder, require_tag(folder, named.version, named.change)


def version_of(text: str) -> Version:
    """Open the one version of a target."""
    return parse_target(text).one()


def version_for_readers(text: str, *, withdrawn: str) -> Version:
    """Open the one version of a target by the rule of readers for withdrawn ones.

    Args:
        text: The target.
        withdrawn: ``fail`` or ``warn``, as of ``open_dataset``.

    Raises:
        WithdrawnError: It is withdrawn, and ``withdrawn`` is ``fail``.
    """
    found = parse_target(text)
    if found.asked is not None and found.generation is not None:
        look_for_withdrawal(found.folder, found.asked, found.generation, withdrawn=withdrawn)
    return found.one()


# --- ``NAME/INTERVAL`` or ``NAME/INTERVAL/gNNNN``, as commands are given one version to correct

Target = Annotated[
    str,
    typer.Argument(help="NAME/INTERVAL or NAME/INTERVAL/gNNNN.", autocompletion=complete_target),
]


class OneGeneration(NamedTuple):
    """Data set, interval, and number of a generation; None if the text names none."""

    name: str
    interval: str
    generation: int | None


def one_generation(text: str) -> OneGeneration:
    """Read the target of a known data set.

    Raises:
        ConfigError: It is another kind of target.
        NotFoundError: The data set is unknown; the message has the nearest name.
    """
    found = parse_target(text)
    if found.tag is not None or found.asked is None or "/" in found.asked:
        raise ConfigError(
            f"expected one interval, as NAME/INTERVAL or NAME/INTERVAL/gNNNN, got {text[:80]!r};"
            " nothing was changed"
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
