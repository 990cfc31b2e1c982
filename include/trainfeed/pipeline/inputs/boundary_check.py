"""Compares boundary files with the boundaries that today's rule finds."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.pipeline.inputs.boundary_files import (
    Boundary,
    folders_of_namesakes,
    known_boundaries,
    milliseconds,
)
from trainfeed.pipeline.inputs.topics import open_source, topics_of
from trainfeed.sources import (
    Known,
    PartitionBoundary,
    PartitionState,
    Records,
    Topic,
    View,
    find_boundaries,
    minutes_misplaced,
)
from trainfeed.specification import DatasetSpec
from trainfeed.versions import DatasetFolder

Verdict = Literal["right", "differs", "cannot be checked"]

# Most records between the stored and the found offset that are looked at.
_MOST: Final = 20_000


@dataclass(frozen=True)
class Difference:
    """A partition whose stored boundary differs from the rule, or cannot be found any more.

    Attributes:
        partition: Number of the partition.
        stored: Offset in the boundary file.
        found: Offset that the rule finds; None where the log no longer holds the records.
        records: Number of records between the two that were looked at, 20,000 at most.
    """

    partition: int
    stored: int
    found: int | None
    records: int


@dataclass(frozen=True)
class CheckedFile:
    """A boundary file, with the result of its check.

    Attributes:
        path: The file.
        topic: Name of the topic.
        at: Time of the boundary.
        verdict: Result of the check.
        differences: Partitions that differ or cannot be checked.
    """

    path: Path
    topic: str
    at: datetime
    verdict: Verdict
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Repair:
    """The commands that repair neighbouring wrong files of a topic.

    Attributes:
        topic: Name of the topic.
        intervals: Names of the intervals from the last right boundary to the next one.
        commands: Shell commands: move the files aside, then build the intervals.
    """

    topic: str
    intervals: tuple[str, ...]
    commands: tuple[str, ...]


def check_boundaries(spec: DatasetSpec, env: Environment) -> list[CheckedFile]:
    """Find every boundary of a data set again and compare it with its file; nothing is written.

    Args:
        spec: The data set.
        env: Folders and connections.

    Returns:
        Every boundary file, by topic and time; nothing for a data set of log files. The files of
        a topic that was deleted cannot be checked.

    Raises:
        TopicNotFoundError: A topic is not there.
        IngestError: A broker does not answer.
        FormatError: A file is damaged.
    """
    folder = DatasetFolder(Path(env.root), spec.name)
    checked: list[CheckedFile] = []
    found = {(place, name): part for place, name, part in topics_of(spec)}
    with ExitStack() as stack:
        topics = [
            (stack.enter_context(closing(open_source(env, *place))), part)
            for place, part in found.items()
        ]
        named = {(each.identity.topic, each.identity.uuid) for each, _ in topics}
        for topic, part in topics:
            skew_ms = int(part.skew / timedelta(milliseconds=1))
            checked += _of_earlier_topics(folder, topic, named)
            checked += _TopicCheck(folder, topic, skew_ms).files()
    return checked


def repairs(
    spec: DatasetSpec, env: Environment, checked: Sequence[CheckedFile]
) -> Iterator[Repair]:
    """Yield the repairs of the files that differ, one for each group of neighbouring files.

    Args:
        spec: The data set.
        env: Folders and connections.
        checked: The result of ``check_boundaries``.
    """
    folder = DatasetFolder(Path(env.root), spec.name)
    for topic in sorted({file.topic for file in checked}):
        files = (file for file in checked if file.topic == topic)
        for is_wrong, group in groupby(files, lambda file: file.verdict == "differs"):
            if is_wrong:
                yield _repair(spec, folder, list(group))


@dataclass(frozen=True)
class _TopicCheck:
    folder: DatasetFolder
    topic: Topic
    skew_ms: int

    def files(self) -> Iterator[CheckedFile]:
        """Yield every boundary file of the present topic, each with its verdict."""
        identity = self.topic.identity
        states = self.topic.states()
        earlier, stored = dict[int, PartitionBoundary](), None
        for boundary in known_boundaries(self.folder, identity.topic, identity.uuid):
            path = self.folder.boundary(identity.topic, identity.uuid, boundary.at)
            clock_ms = boundary.found_ms
            earlier = self._found(boundary, clock_ms, states, earlier)
            differences = (
                *_misplaced_new_partitions(boundary, stored),
                *self._differences(boundary, clock_ms, earlier),
            )
            verdict = _verdict(differences)
            yield CheckedFile(path, identity.topic, boundary.at, verdict, differences)
            stored = boundary

    def _found(
        self,
        boundary: Boundary,
        clock_ms: int,
        states: Mapping[int, PartitionState],
        earlier: Mapping[int, PartitionBoundary],
    ) -> dict[int, PartitionBoundary]:
        """Find a boundary again, in the log with the end that it had when the file was written."""
        then = {
            partition: _ended(states[partition], stored)
            for partition, stored in boundary.partitions.items()
        }
        return find_boundaries(
            self.topic,
            milliseconds(boundary.at),
            skew_ms=self.skew_ms,
            clock_ms=clock_ms,
            known={
                partition: _known(earlier.get(partition), then[partition]) for partition in then
            },
            states=then,
        )

    def _differences(
        self, boundary: Boundary, clock_ms: int, found: Mapping[int, PartitionBoundary]
    ) -> Iterator[Difference]:
        at_ms = milliseconds(boundary.at)
        for partition, new in found.items():
            stored = boundary.offset(partition)
            if new.offset == stored:
                continue
            if new.evidence is None or new.evidence.proof is None or stored < new.log_start:
                yield Difference(partition, stored, None, 0)
                continue
            seen = View(self.topic, partition, clock_ms)
            seen.read(min(stored, new.offset), max(stored, new.offset), _MOST)
            if _is_worse(seen.seen(), at_ms, is_early=stored < new.offset):
                yield Difference(partition, stored, new.offset, len(seen.all_seen().offsets))


def _is_worse(between: Records, at_ms: int, *, is_early: bool) -> bool:
    """Return whether the stored boundary misplaces more minutes of records than the found one.

    Args:
        between: The records between the two boundaries.
        at_ms: Time of the boundary, milliseconds since 1970.
        is_early: Whether the stored boundary is the one before the records.
    """
    early, late = (minutes_misplaced(between, after=after, at_ms=at_ms) for after in (False, True))
    return early > late if is_early else late > early


def _misplaced_new_partitions(boundary: Boundary, earlier: Boundary | None) -> Iterator[Difference]:
    """Yield partitions that are missing in a file, although an earlier file has an offset for them.

    A partition without an entry has the boundary 0, so later intervals read its records again.
    """
    for partition in sorted(earlier.partitions if earlier is not None else ()):
        offset = earlier.offset(partition) if earlier is not None else 0
        if partition not in boundary.partitions and offset > 0:
            yield Difference(partition, 0, offset, 0)


def _ended(state: PartitionState, stored: PartitionBoundary) -> PartitionState:
    """Return the state of a partition with the log end that the boundary file has."""
    end = min(max(stored.log_end, state.log_start), state.log_end)
    return replace(state, log_end=end, high_watermark=end)


def _known(earlier: PartitionBoundary | None, state: PartitionState) -> Known:
    if earlier is None or earlier.evidence is None:
        return Known()
    proved = earlier.evidence.proof is not None
    return Known(
        floor=min(earlier.offset, state.log_end),
        earlier=lambda log_start: (
            "earlier_boundary" if proved and earlier.offset >= log_start else None
        ),
    )


def _verdict(differences: Sequence[Difference]) -> Verdict:
    if any(difference.found is not None for difference in differences):
        return "differs"
    return "cannot be checked" if differences else "right"


def _of_earlier_topics(
    folder: DatasetFolder, topic: Topic, named: Collection[tuple[str, str]]
) -> Iterator[CheckedFile]:
    """Yield the files of deleted topics; other members of a union may have topics of its name."""
    identity = topic.identity
    own = folder.boundaries(identity.topic, identity.uuid)
    for other in folders_of_namesakes(own):
        if (identity.topic, other.name) in named:
            continue
        for boundary in known_boundaries(folder, identity.topic, other.name):
            path = folder.boundary(identity.topic, other.name, boundary.at)
            yield CheckedFile(path, identity.topic, boundary.at, "cannot be checked", ())


def _repair(spec: DatasetSpec, folder: DatasetFolder, group: Sequence[CheckedFile]) -> Repair:
    """Return the repair of neighbouring wrong files: move them aside, and build their intervals."""
    times = {file.at for file in group}
    intervals = [
        interval
        for interval in spec.schedule_model().intervals(None, max(times))
        if times & {interval.start, interval.end}
    ]
    moves = [f"mv {shlex.quote(str(f.path))} {shlex.quote(f'{f.path}.wrong')}" for f in group]
    builds = [_build(spec, folder, interval) for interval in intervals]
    names = tuple(interval.name for interval in intervals)
    return Repair(group[0].topic, names, (*moves, *builds))


def _build(spec: DatasetSpec, folder: DatasetFolder, interval: Interval) -> str:
    command = f"trainfeed build {spec.name} --interval {interval.name}"
    if folder.current_generation(interval.name) is None:
        return command
    return f"{command} --rebuild 'a boundary was wrong'"
