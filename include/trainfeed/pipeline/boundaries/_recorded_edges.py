"""What published versions recorded of boundaries, as an independent check of the boundary files.

Two intervals that meet share a boundary file, and their manifests have its offsets, too: the
earlier one as the ends of its ranges, the later one as their starts. A boundary file that was
changed, or that was removed and found again elsewhere, would make the next build lose or repeat
records. Its plan is therefore compared with both neighbours before anything is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import ConflictError, FormatError, NotFoundError
from trainfeed.intervals import Interval, Schedule, format_time, parse_time
from trainfeed.pipeline.boundaries._boundary_file import (
    WRONG,
    Boundary,
    milliseconds,
    read_boundary,
    replace_boundary,
)
from trainfeed.pipeline.boundaries._topic_boundaries import deciding
from trainfeed.pipeline.plans import Planned, PlannedInput, first_few
from trainfeed.sources import PartitionBoundary, TopicIdentity
from trainfeed.storage import posix

__all__ = [
    "Neighbour",
    "RestoredFile",
    "published_neighbours",
    "require_neighbours_agree",
    "restore_boundaries",
]

logger = logging.getLogger(__name__)

_Gaps: TypeAlias = Sequence[Mapping[str, Any]]


class Neighbour(NamedTuple):
    """What a published version recorded of topics: its ranges, and the gaps before them.

    Attributes:
        name: Interval and generation.
        inputs: Source string → range, of the partitions of topics.
        gaps: The losses that were accepted; ranges begin behind them.
        start: Start of the interval, as in the manifest.
        end: Its end.
    """

    name: str
    inputs: Mapping[str, PlannedInput]
    gaps: _Gaps
    start: str
    end: str

    @classmethod
    def of(cls, name: str, manifest: Manifest) -> Neighbour:
        """Return what a manifest has of topics."""
        inputs = {
            source: PlannedInput.model_validate(value)
            for source, value in manifest.inputs.items()
            if "topic_uuid" in value and value.get("kind") is None
        }
        name = f"{name}/{generation_name(manifest.generation)}"
        start, end = manifest.interval.start, manifest.interval.end
        return cls(name, inputs, manifest.gaps, start, end)


def published_neighbours(
    folder: DatasetFolder, schedule: Schedule, interval: Interval
) -> tuple[Neighbour | None, Neighbour | None]:
    """Return the published versions that end where an interval starts, and start where it ends.

    A version that is damaged is left out with a warning: it must not keep others from being built.
    """
    before, after = schedule.neighbours(interval)
    earlier, later = (_published(folder, each.name) for each in (before, after))
    # By an earlier schedule an interval of that name may have had another length.
    meets = earlier is not None and earlier.end == format_time(interval.start)
    return (
        earlier if meets else None,
        later if later is not None and later.start == format_time(interval.end) else None,
    )


def _published(folder: DatasetFolder, interval: str) -> Neighbour | None:
    """Return what readers get of an interval; if all of it is withdrawn, what was published last.

    A withdrawn version still shows where the boundaries were, and may be restored.
    """
    number = folder.current_generation(interval)
    if number is None:
        numbers = range(folder.last_generation(interval), 0, -1)
        number = next((each for each in numbers if folder.has_folder(interval, each)), None)
    if number is None:
        return None
    try:
        manifest, _ = Manifest.read(folder.version(interval, number))
    except NotFoundError:
        return None  # retention removed it meanwhile
    except FormatError as error:
        logger.warning("offsets are not compared with those of %s: %s", interval, error)
        return None
    return Neighbour.of(interval, manifest)


def require_neighbours_agree(
    folder: DatasetFolder,
    interval: Interval,
    neighbours: tuple[Neighbour | None, Neighbour | None],
    inputs: Mapping[str, Planned],
    gaps: _Gaps,
) -> None:
    """Refuse a plan whose ranges do not meet those of the published neighbours.

    Only partitions of the same topic in the same cluster are compared: offsets of a topic that was
    deleted and created again are others. A neighbour that recorded the offset of a file that was
    moved aside as wrong has to be built again, and does not count.

    Args:
        folder: The data set.
        interval: The planned interval.
        neighbours: See ``published_neighbours``.
        inputs: Source string → planned range.
        gaps: The losses that are accepted with the plan.

    Raises:
        ConflictError: Offsets would be in two intervals or in none.
    """
    times = (format_time(interval.start), format_time(interval.end))
    planned = Neighbour("this plan", _of_topics(inputs), gaps, *times)
    before, after = neighbours
    lines = []
    for earlier, later, at in ((before, planned, interval.start), (planned, after, interval.end)):
        if earlier is None or later is None:
            continue
        lines += [
            f"{edge.source}: {earlier.name} ends at {edge.end}, {later.name} starts at {edge.start}"
            for edge in _edges(earlier, later)
            if not edge.meets(edge.end)
            and not _is_moved_aside(folder, at, edge, is_earlier=later is planned)
        ]
    if lines:
        raise ConflictError(
            f"the boundaries of {folder.name}/{interval.name} are not those from which its"
            f" neighbours were published: {first_few(lines)}; expected equal offsets, else records"
            " would be in two intervals or in none; nothing was read or published; a boundary file"
            f" in {folder.path / 'boundaries'} was changed, or was removed and found again: write"
            f" the files again from the manifests: trainfeed boundaries restore {folder.name}; if a"
            f" neighbour is the wrong one, trainfeed boundaries check {folder.name} prints the"
            " commands that move a wrong file aside and build both intervals again"
        )


class _Edge(NamedTuple):
    """One partition at the time at which two intervals meet.

    Attributes:
        source: Source string.
        planned: The range of either interval.
        end: End of the range of the earlier interval; 0 without one, as the partition is younger.
        start: Start of the range of the later interval.
        limit: End of that range.
        gaps: The gaps of the later interval.
    """

    source: str
    planned: PlannedInput
    end: int
    start: int
    limit: int
    gaps: _Gaps

    def meets(self, offset: int) -> bool:
        """Return whether the range of the later interval follows from a boundary at an offset."""
        gaps = [gap for gap in self.gaps if gap["source"] == self.source]
        for gap in sorted(gaps, key=lambda gap: int(gap["start"])):
            if gap["start"] <= offset:
                offset = max(offset, gap["end"])
        return min(offset, self.limit) == self.start


def _edges(earlier: Neighbour, later: Neighbour) -> Iterator[_Edge]:
    """Yield the partitions of the topics that both intervals have read."""
    topics = {_topic(each) for each in earlier.inputs.values()}
    topics &= {_topic(each) for each in later.inputs.values()}
    for source in sorted({*earlier.inputs, *later.inputs}):
        old, new = earlier.inputs.get(source), later.inputs.get(source)
        planned = old or new
        if planned is not None and _topic(planned) in topics:
            end = 0 if old is None else old.end
            start, limit = (0, 0) if new is None else (new.start, new.end)
            # Without a range in the later interval, only an offset of 0 at its start is right.
            yield _Edge(source, planned, end, start, limit if new else end, later.gaps)


def _is_moved_aside(folder: DatasetFolder, at: datetime, edge: _Edge, *, is_earlier: bool) -> bool:
    """Return whether a neighbour recorded the offset of a file that was moved aside as wrong.

    Args:
        folder: The data set.
        at: The time at which both intervals meet.
        edge: What they have of a partition.
        is_earlier: Whether the neighbour is the earlier of them.
    """
    planned = edge.planned
    path = folder.boundary(planned.topic, planned.topic_uuid, at)
    wrong = path.with_name(path.name + WRONG)
    with suppress(NotFoundError, FormatError):
        offset = read_boundary(wrong, planned.cluster).offset(planned.partition)
        if offset == edge.end if is_earlier else edge.meets(offset):
            logger.warning(
                "a neighbour of %s was built from %s: build it again", edge.source, wrong
            )
            return True
    return False


def _topic(planned: PlannedInput) -> TopicIdentity:
    return TopicIdentity(planned.topic, planned.topic_uuid, planned.cluster)


def _of_topics(inputs: Mapping[str, Planned]) -> dict[str, PlannedInput]:
    return {
        source: planned
        for source, planned in inputs.items()
        if isinstance(planned, PlannedInput) and planned.kind is None
    }


class RestoredFile(NamedTuple):
    """A boundary file that was not as published versions recorded it.

    Attributes:
        path: The file.
        was: What was there: ``missing``, ``damaged`` or ``changed``.
        why_not: Why it is still so; None if the file was written again.
    """

    path: Path
    was: Literal["missing", "damaged", "changed"]
    why_not: str | None = None


def restore_boundaries(folder: DatasetFolder) -> Iterator[RestoredFile]:
    """Write boundary files again that are not as the published versions beside them recorded.

    The new files have no evidence; what a manifest has of a start or an end are offsets.

    Args:
        folder: The data set.

    Yields:
        The files that were missing, damaged or changed, by topic and time. A file stays as it is
        if the two intervals beside it recorded different offsets, or a gap hides the only one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    beside: dict[tuple[TopicIdentity, str], list[Neighbour | None]] = {}
    for name in folder.intervals():
        if (version := _published(folder, name)) is not None:
            for topic in {_topic(each) for each in version.inputs.values()}:
                beside.setdefault((topic, version.end), [None, None])[0] = version
                beside.setdefault((topic, version.start), [None, None])[1] = version
    for (topic, time), (before, after) in sorted(beside.items(), key=lambda item: item[0]):
        at = parse_time(time)
        path = folder.boundary(topic.topic, topic.uuid, at)
        posix.make_public_dir(path.parent)
        with deciding(path.parent):
            found = _recorded(topic, before, after)
            was = _state(path, topic, found)
            if was is not None and isinstance(found, str):
                yield RestoredFile(path, was, found)
            elif was is not None and not isinstance(found, str):
                now_ms = milliseconds(datetime.now(UTC))
                replace_boundary(path, topic, Boundary(at, found, now_ms))
                yield RestoredFile(path, was)


def _recorded(
    topic: TopicIdentity, before: Neighbour | None, after: Neighbour | None
) -> dict[int, PartitionBoundary] | str:
    """Return the boundary between two versions by their ranges, or why it is not known."""
    edges = [] if before is None or after is None else [*_edges(before, after)]
    if wrong := [
        f"{edge.source} ends at {edge.end} and starts at {edge.start}"
        for edge in edges
        if _topic(edge.planned) == topic and not edge.meets(edge.end)
    ]:
        return f"the intervals beside it recorded different offsets: {first_few(wrong)}"
    if before is not None:
        ranges = [each for each in before.inputs.values() if _topic(each) == topic]
        return {each.partition: _bare(each.end, each.start) for each in ranges}
    if after is None or any(gap["source"] in after.inputs for gap in after.gaps):
        return "the only interval beside it begins behind a gap"
    ranges = [each for each in after.inputs.values() if _topic(each) == topic]
    return {each.partition: _bare(each.start, each.start) for each in ranges}


def _bare(offset: int, log_start: int) -> PartitionBoundary:
    """Return a boundary that proves nothing but its offset.

    Args:
        offset: The boundary.
        log_start: First offset that is known to have been readable.
    """
    # An end behind the offset: the log's end at the boundary would prove that nothing followed.
    return PartitionBoundary(offset, log_start, offset + 1, None, None, "scan")


def _state(
    path: Path, topic: TopicIdentity, recorded: dict[int, PartitionBoundary] | str
) -> Literal["missing", "damaged", "changed"] | None:
    """Return what is wrong with a boundary file, or None."""
    try:
        found = read_boundary(path, topic.cluster)
    except NotFoundError:
        return "missing"
    except FormatError:
        return "damaged"
    if isinstance(recorded, str):
        return "changed" if "different" in recorded else None
    numbers = {*recorded, *found.partitions}
    wanted = {number: recorded[number].offset if number in recorded else 0 for number in numbers}
    is_right = all(found.offset(number) == offset for number, offset in wanted.items())
    return None if is_right else "changed"
