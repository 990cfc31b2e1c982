"""The report of a dry run, its JSON, and its lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Literal, TypeAlias

from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.stage import Space

__all__ = ["DryRun", "DryRunReport", "DryRunSkip", "PlannedRead", "PlannedVersion", "describe"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class PlannedRead:
    """The planned read of one source.

    Attributes:
        source: The source string.
        start: First offset of a topic partition, or byte of a log file.
        end: The offset or byte behind the last.
        unit: Unit of ``start`` and ``end``.
        pieces: Number of ranges in which the source is read.
        landed_pieces: Number of these ranges that have already landed.
        bytes: Size of the log file, or of the landing files if all are there; else None.
    """

    source: str
    start: int
    end: int
    unit: Literal["bytes", "offsets"]
    pieces: int
    landed_pieces: int
    bytes: int | None


@dataclass(frozen=True)
class PlannedVersion:
    """The version that would be published.

    Attributes:
        version: Name of the version, with that of the data set.
        path: Folder of the version.
        supersedes: Generation before it, and the reason; None for a first generation.
        bytes: Estimated size; None without an earlier version to estimate from.
        estimated_from: Name of the version that the estimate comes from, or None.
    """

    version: str
    path: str
    supersedes: Mapping[str, object] | None
    bytes: int | None
    estimated_from: str | None


@dataclass(frozen=True)
class DryRunReport:
    """The reads, tasks and version of a build that has not taken place.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        verdict: Verdict of the plan.
        generation: Name of the generation that would be built, or is published.
        lands: Whether records land before they are preprocessed.
        reads: The read of every source, of the first 100 at most.
        sources: Number of sources.
        offsets: Number of offsets that would be read in all.
        read_bytes: About how many bytes would come from the sources; None if unknown.
        tasks: Mapped stage → number of tasks.
        shards: Split → number of shards.
        publishes: The version.
        gaps: Ranges that are known to be lost.
        space: Needed and free space of every place.
        seconds: Duration of the dry run.
        note: Note of the plan, or None.
        empty_because: Source string → why nothing would be read of it.
        passed_over: The entries of the folder of logs that would not be read, in words, or None.
    """

    dataset: str
    interval: str
    verdict: Literal["build", "identical", "kept"]
    generation: str
    lands: bool
    reads: list[PlannedRead]
    sources: int
    offsets: int
    read_bytes: int | None
    tasks: Mapping[str, int]
    shards: Mapping[str, int]
    publishes: PlannedVersion
    gaps: list[JsonObject]
    space: list[Space]
    seconds: float
    _: KW_ONLY
    note: str | None = None
    empty_because: Mapping[str, str] = field(default_factory=dict)
    passed_over: str | None = None

    def to_json(self) -> JsonObject:
        """Return small JSON, without what does not apply."""
        told: JsonObject = {each.name: getattr(self, each.name) for each in fields(self)}
        told |= {
            "reads": [vars(each) for each in self.reads],
            "publishes": vars(self.publishes),
            "space": [vars(each) for each in self.space],
        }
        for name in ("note", "empty_because", "passed_over"):
            if not told[name]:
                del told[name]
        return {"dry_run": True, **told}


@dataclass(frozen=True)
class DryRunSkip:
    """A build would skip the interval; ``note`` has the reason."""

    dataset: str
    interval: str
    seconds: float
    note: str

    def to_json(self) -> JsonObject:
        """Return small JSON."""
        return {
            "dry_run": True,
            "dataset": self.dataset,
            "interval": self.interval,
            "verdict": "skipped",
            "seconds": self.seconds,
            "note": self.note,
        }


DryRun: TypeAlias = DryRunReport | DryRunSkip


def describe(report: DryRun) -> list[str]:
    """Return the report of ``dry_run`` as lines for a terminal."""
    name = f"{report.dataset}/{report.interval}"
    if isinstance(report, DryRunSkip):
        return [f"dry run of {name}: {report.note}; a build would publish nothing"]
    if report.verdict == "kept":
        return [f"dry run of {name}: {report.note}; a build would read and publish nothing"]
    if report.verdict == "identical":
        verdict = "a build would find it identical, read nothing and publish nothing"
        if report.note is not None:  # such as that its inputs were not compared
            return [f"dry run of {name}: {verdict}; {report.note}"]
        same = f"{report.generation} is published from the same inputs"
        return [f"dry run of {name}: {same}; {verdict}"]
    lines = [f"dry run of {name}: nothing was written"]
    lines += [_read_line(part, lands=report.lands) for part in report.reads]
    if (more := report.sources - len(report.reads)) > 0:
        lines.append(f"would read     {more} more, and so on")
    lines.append(_total_line(report))
    for source, reason in report.empty_because.items():
        lines.append(f"nothing there  {source}: {reason}")
    if report.passed_over is not None:
        lines.append(f"passes over    {report.passed_over}")
    tasks = ", ".join(f"{count} {stage}" for stage, count in report.tasks.items())
    shards = ", ".join(f"{split} {count}" for split, count in report.shards.items())
    lines.append(f"would build    tasks: {tasks}; shards: {shards}")
    lines.append(_publish_line(report.publishes))
    lines += [_space_line(place) for place in report.space]
    return lines


def _read_line(part: PlannedRead, *, lands: bool) -> str:
    count = part.end - part.start
    line = f"would read     {part.source}"
    if part.unit == "bytes":
        line = f"{line}: {_size(count)} in {_counted(part.pieces, 'piece')}"
    else:
        line = f"{line} [{part.start}, {part.end}): {_counted(count, 'offset')}"
    if not lands or not count:
        return line
    if part.landed_pieces == part.pieces:
        return f"{line}, landed already ({_size(part.bytes)})"
    return f"{line}, {part.landed_pieces} of {part.pieces} landing files there already"


def _total_line(report: DryRunReport) -> str:
    line = f"would read     {_counted(report.sources, 'source')} in all"
    if report.offsets:
        line += f", {_counted(report.offsets, 'offset')}"
    if report.read_bytes is None:
        return line
    return f"{line}, about {_size(report.read_bytes)} of it from the source"


def _publish_line(publishes: PlannedVersion) -> str:
    size = "size unknown, no version of about this size is there to estimate it from"
    if publishes.estimated_from is not None:
        size = f"about {_size(publishes.bytes)}, estimated from {publishes.estimated_from}"
    line = f"would publish  {publishes.version}: {size}"
    if publishes.supersedes is not None:
        line += f"; supersedes generation {publishes.supersedes['generation']}"
    return line


def _space_line(place: Space) -> str:
    needed, free = place.needed_bytes, place.free_bytes
    wanted = "unknown" if needed is None else f"about {_size(needed)}"
    is_short = needed is not None and free is not None and needed > free
    verdict = ": too little" if is_short else ""
    return f"space          {place.place} {place.uri}: needs {wanted}, {_size(free)} free{verdict}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _size(num_bytes: float | None) -> str:
    if num_bytes is None:
        return "unknown"
    for unit in _UNITS:
        if num_bytes < 1024 or unit == _UNITS[-1]:
            return f"{num_bytes:.0f} B" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    raise AssertionError
