"""What published versions recorded of boundaries, and the offsets that retention deleted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from trainfeed.core.intervals import Interval, Schedule, format_time, parse_time
from trainfeed.errors import ConflictError, FormatError, NotFoundError, OffsetOutOfRangeError
from trainfeed.files.stores import posix
from trainfeed.pipeline.inputs.boundaries import topic_lock
from trainfeed.pipeline.inputs.boundary_files import (
    WRONG,
    Boundary,
    milliseconds,
    read_boundary,
    replace_boundary,
)
from trainfeed.pipeline.plans import Planned, PlannedInput, first_few
from trainfeed.sources import PartitionBoundary, TopicIdentity
from trainfeed.versions import DatasetFolder, Manifest
from trainfeed.versions.layout import generation_name
from trainfeed.versions.order import kafka_source

# --- Offsets of an interval that retention deleted or may have deleted, and their acceptance

_PAST: Final = "retention is past the interval"


@dataclass(frozen=True)
class Loss:
    """Offsets ``[start, end)`` of a source that are gone, or may be.

    Attributes:
        source: Source string of the partition.
        start: First offset.
        end: Offset behind the last.
        is_certain: True if the records are gone; False if they may be gone. An empty range, which
            is never certain, stands for records of a topic that was deleted.
    """

    source: str
    start: int
    end: int
    is_certain: bool

    def is_in(self, gaps: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether one of the known gaps covers the loss."""
        return any(gap["source"] == self.source and gap["end"] >= self.end for gap in gaps)

    @property
    def is_of_earlier_topic(self) -> bool:
        """Whether the records are of an earlier topic with the same name: the range is empty."""
        return self.start == self.end

    def __str__(self) -> str:
        if self.is_of_earlier_topic:
            return (
                f"the topic of {self.source} was deleted and created again, and records of the"
                " deleted one may belong to the interval"
            )
        what = "were deleted" if self.is_certain else "may have been deleted"
        return f"{self.source} offsets [{self.start}, {self.end}) {what}"


def without(
    losses: Sequence[Loss],
    inputs: Mapping[str, PlannedInput],
    known: Sequence[Mapping[str, Any]],
    *,
    allow_gap: str | None,
) -> tuple[dict[str, PlannedInput], list[dict[str, Any]]]:
    """Return the ranges that can still be read, and all gaps that were allowed.

    Args:
        losses: Ranges that are gone, or may be.
        inputs: The planned ranges, already without the ``known`` gaps.
        known: Gaps of the published version.
        allow_gap: The reason given for accepting further losses, or None to refuse them.

    Raises:
        OffsetOutOfRangeError: Retention deleted records of the interval, or nothing shows that
            it did not.
    """
    if losses and allow_gap is None:
        is_older = all(loss.is_of_earlier_topic for loss in losses)
        raise OffsetOutOfRangeError(
            f"{'the interval is older than the topic' if is_older else _PAST}: "
            + "; ".join(map(str, losses))
            + "; nothing was read or published; restore the records, or accept the loss with"
            " --allow-gap WHY (Airflow: parameter 'allow_gap')"
        )
    kept = dict(inputs)
    gaps = [dict(gap) for gap in known]
    for loss in losses:
        planned = kept[loss.source]
        # The loss may end behind the planned range; then nothing of the source remains to read.
        start = min(max(planned.start, loss.end), planned.end)
        kept[loss.source] = planned.model_copy(update={"start": start})
        # The records of a deleted topic have no offsets in the present one, hence no gap.
        if not loss.is_of_earlier_topic:
            gaps.append(_gap(loss, allow_gap))
    return kept, gaps


def _gap(loss: Loss, why: str | None) -> dict[str, Any]:
    return {"source": loss.source, "start": loss.start, "end": loss.end, "why": why}


# --- What published versions recorded of boundaries, as an independent check of the boundary files

logger = logging.getLogger(__name__)

_HIDDEN: Final = "the only interval beside it begins behind a gap"

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


def ending_at(folder: DatasetFolder, schedule: Schedule, at: datetime) -> Neighbour | None:
    """Return the published version of the interval that ends at a time, or None."""
    found = _published(folder, schedule.beside(at)[0].name)
    # By an earlier schedule an interval of that name may have had another length.
    return found if found is not None and found.end == format_time(at) else None


def starting_at(folder: DatasetFolder, schedule: Schedule, at: datetime) -> Neighbour | None:
    """Return the published version of the interval that starts at a time, or None."""
    found = _published(folder, schedule.beside(at)[1].name)
    return found if found is not None and found.start == format_time(at) else None


def _published(folder: DatasetFolder, interval: str) -> Neighbour | None:
    """Return what readers get of an interval; if all of it is withdrawn, what was published last.

    A withdrawn version still shows where the boundaries were, and may be restored. A damaged one
    is left out with a warning: it must not keep others from being built.
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
    schedule: Schedule,
    interval: Interval,
    inputs: Mapping[str, Planned],
    gaps: _Gaps,
) -> None:
    """Refuse a plan whose ranges do not meet those of the published neighbours.

    Only partitions of the same topic in the same cluster are compared: offsets of a topic that was
    deleted and created again are others. A neighbour that recorded the offset of a file that was
    moved aside as wrong has to be built again, and does not count.

    Args:
        folder: The data set.
        schedule: Its schedule.
        interval: The planned interval.
        inputs: Source string → planned range.
        gaps: The losses that are accepted with the plan.

    Raises:
        ConflictError: Offsets would be in two intervals or in none.
    """
    times = (format_time(interval.start), format_time(interval.end))
    planned = Neighbour("this plan", _of_topics(inputs), gaps, *times)
    if planned.inputs:
        before = ending_at(folder, schedule, interval.start)
        after = starting_at(folder, schedule, interval.end)
        lines = [*_differences(folder, interval.start, before, planned, by_earlier=True)]
        lines += _differences(folder, interval.end, planned, after, by_earlier=False)
        _refuse(folder, f"a plan of {interval.name}", lines)


def require_recorded(
    folder: DatasetFolder, schedule: Schedule, topic: TopicIdentity, boundary: Boundary
) -> None:
    """Refuse a boundary that is not the one from which the versions beside it were published.

    Args:
        folder: The data set.
        schedule: Its schedule.
        topic: The open topic.
        boundary: A boundary of it, from its file.

    Raises:
        ConflictError: They recorded other offsets.
    """
    before = ending_at(folder, schedule, boundary.at)
    after = starting_at(folder, schedule, boundary.at)
    time = format_time(boundary.at)
    ranges = {
        kafka_source(topic.topic, partition): PlannedInput(
            connection="", topic=topic.topic, topic_uuid=topic.uuid, cluster=topic.cluster,
            partition=partition, start=found.offset, end=found.offset,
        )
        for partition, found in boundary.partitions.items()
    }  # fmt: skip
    file = Neighbour("its file", ranges, [], time, time)
    lines = [*_differences(folder, boundary.at, before, file, by_earlier=True)]
    lines += _differences(folder, boundary.at, file, after, by_earlier=False)
    _refuse(folder, f"the boundary at {time}", lines)


def _differences(
    folder: DatasetFolder,
    at: datetime,
    earlier: Neighbour | None,
    later: Neighbour | None,
    *,
    by_earlier: bool,
) -> Iterator[str]:
    """Yield one line for each partition whose ranges do not meet at a time."""
    for edge in _edges(earlier, later) if earlier is not None and later is not None else ():
        if not edge.meets(edge.end) and not _is_moved_aside(
            folder, at, edge, by_earlier=by_earlier
        ):
            yield (
                f"{edge.source}: {earlier.name if earlier else None} ends at {edge.end},"
                f" {later.name if later else None} starts at {edge.start}"
            )


def _refuse(folder: DatasetFolder, what: str, lines: Sequence[str]) -> None:
    if lines:
        raise ConflictError(
            f"{folder.name}: {what} and published intervals beside it have different offsets:"
            f" {first_few(lines)}; expected equal ones, else records would be in two intervals or"
            " in none; nothing was read or published; a boundary file in"
            f" {folder.path / 'boundaries'} was changed, or was removed and found again: write the"
            f" files again from the manifests: trainfeed boundaries restore {folder.name}; if a"
            f" published interval is the wrong one, trainfeed boundaries check {folder.name} prints"
            " the commands that move a wrong file aside and build both intervals again"
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
        """Return whether the later range begins at an offset, or behind the gaps from there."""
        behind = offset
        gaps = [gap for gap in self.gaps if gap["source"] == self.source]
        for gap in sorted(gaps, key=lambda gap: int(gap["start"])):
            if gap["start"] <= behind < gap["end"]:
                behind = gap["end"]
        # A gap may end behind the range, which then has nothing left to read.
        return (offset if behind == offset else min(behind, self.limit)) == self.start


def _edges(earlier: Neighbour, later: Neighbour) -> Iterator[_Edge]:
    """Yield the partitions of the topics that both intervals have read."""
    topics = {_topic(each) for each in earlier.inputs.values()}
    topics &= {_topic(each) for each in later.inputs.values()}
    # By topic, and not by source string: a member of a union has another one than the topic alone.
    olds, news = _by_partition(earlier), _by_partition(later)
    named = {key: each.source for key, each in [*olds.items(), *news.items()]}
    for key in sorted(named, key=lambda key: named[key]):
        old, new = olds.get(key), news.get(key)
        found = old or new
        if found is not None and key[0] in topics:
            end = 0 if old is None else old.planned.end
            start, limit = (0, 0) if new is None else (new.planned.start, new.planned.end)
            # Without a range in the later interval, only an offset of 0 at its start is right.
            yield _Edge(named[key], found.planned, end, start, limit if new else end, later.gaps)


class _OfPartition(NamedTuple):
    source: str
    planned: PlannedInput


def _by_partition(neighbour: Neighbour) -> dict[tuple[TopicIdentity, int], _OfPartition]:
    return {
        (_topic(planned), planned.partition): _OfPartition(source, planned)
        for source, planned in neighbour.inputs.items()
    }


def _is_moved_aside(folder: DatasetFolder, at: datetime, edge: _Edge, *, by_earlier: bool) -> bool:
    """Return whether a neighbour recorded the offset of a file that was moved aside as wrong.

    Args:
        folder: The data set.
        at: The time at which both intervals meet.
        edge: What they have of a partition.
        by_earlier: Whether the earlier of them is the published one.
    """
    planned = edge.planned
    path = folder.boundary(planned.topic, planned.topic_uuid, at)
    wrong = path.with_name(path.name + WRONG)
    with suppress(NotFoundError, FormatError):
        offset = read_boundary(wrong, planned.cluster).offset(planned.partition)
        if offset == edge.end if by_earlier else edge.meets(offset):
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
    for topic, time in sorted(beside, key=lambda key: (*astuple(key[0]), key[1])):
        before, after = beside[topic, time]
        at = parse_time(time)
        path = folder.boundary(topic.topic, topic.uuid, at)
        posix.make_public_dir(path.parent)
        with topic_lock(path.parent):
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
        return _HIDDEN
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
        return None if recorded == _HIDDEN else "changed"
    numbers = {*recorded, *found.partitions}
    wanted = {number: recorded[number].offset if number in recorded else 0 for number in numbers}
    is_right = all(found.offset(number) == offset for number, offset in wanted.items())
    return None if is_right else "changed"
