"""The builds whose quarantine a command is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trainfeed.cli._known_datasets import complete_target, known_folder, readable_environment
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.layout import is_generation, is_name, parse_generation
from trainfeed.dataset.retire import missing_remedies, told_missing
from trainfeed.errors import ConfigError, NotFoundError, WindowError
from trainfeed.intervals import TimeRange, parse_range
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.quarantine import (
    Quarantine,
    plans_with_work,
    quarantine_of_plan,
    unpublished_plans,
)
from trainfeed.pipeline.quarantine_access import quarantine_of_version

__all__ = ["PlanId", "Target", "Wanted", "as_builds", "as_last_builds", "as_one"]

Target = Annotated[
    str,
    typer.Argument(
        help="NAME/INTERVAL: the last build, published or not; NAME/INTERVAL/gNNNN: one version;"
        " where several are listed also NAME, NAME/RANGE.",
        autocompletion=complete_target,
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
    def parse(cls, target: str, plan: str | None) -> Wanted:
        """Read a target.

        Raises:
            ConfigError: It is none.
            WindowError: It has a range that is none.
        """
        name, _, rest = target.partition("/")
        asked, slash, last = rest.rpartition("/")
        env = readable_environment()
        if not (slash and is_generation(last)):
            asked, last = rest, ""
        if last and plan is not None:
            raise ConfigError(f"expected NAME/INTERVAL with --plan, got {target!r}")
        generation = parse_generation(last) if last else None
        return cls(env, DatasetFolder(Path(env.root), name), asked, generation, plan)

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
    span = parse_range(wanted.asked) if wanted.asked else None
    with_work = plans_with_work(wanted.env)
    names = [name for name in _intervals(wanted.folder) if span is None or _is_in(name, span)]
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


def _is_in(name: str, span: TimeRange) -> bool:
    try:
        return span.start <= parse_range(name).start < span.end
    except WindowError:
        return False


def _nothing(wanted: Wanted) -> NotFoundError:
    name, asked = wanted.folder.name, wanted.asked
    place = f"{name}/{asked}" if asked else name
    return NotFoundError(
        f"expected a published version of {place} in {wanted.folder.path}, or work"
        f" files of a build that failed in {wanted.env.work}, got neither;"
        f" {'; '.join(missing_remedies(wanted.folder, [asked or 'INTERVAL']))}"
        f"{told_missing(wanted.folder, [asked] if asked else [])}"
    )
