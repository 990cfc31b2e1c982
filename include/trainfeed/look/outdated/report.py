"""The report about outdated versions: intervals, causes, what the source says, and the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.config import Environment
from trainfeed.core.intervals import parse_time
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.pipeline.members import parts_of
from trainfeed.pipeline.planner.fingerprint import Cause, PublishedVersion
from trainfeed.pipeline.plans import Planned, cut
from trainfeed.pipeline.tasks import Sizes
from trainfeed.sources import landing_name
from trainfeed.specification import DatasetSpec
from trainfeed.versions import DatasetFolder
from trainfeed.versions.layout import MANIFEST, generation_name

# --- What the source says about a published interval

SourceState: TypeAlias = Literal["same", "changed", "replaced", "lost", "away", "failed"]
_FOR_PEOPLE: Final[frozenset[SourceState]] = frozenset({"changed", "replaced", "failed"})


class SourceFinding(NamedTuple):
    """What the source says about a published interval.

    Attributes:
        state: ``same``: it has the inputs of the version; ``changed``: other or further ones;
            ``replaced``: another topic or file has the name, or a log file is gone; ``lost``: the
            same, but not all of its records can be read any more; ``away``: it does not answer;
            ``failed``: it could not be compared for another reason.
        text: Why; empty for ``same``.
        late: Where late records of the interval are, or an empty text. They are in a later version,
            and a build of this interval would not take them from there.
    """

    state: SourceState
    text: str = ""
    late: str = ""

    @property
    def needs_a_person(self) -> bool:
        """Whether something is to be decided or repaired; a source may forget what is published."""
        return self.state in _FOR_PEOPLE

    @property
    def told(self) -> str:
        """The finding as one line; empty if there is nothing to say."""
        said = "" if self.state == "same" else f"source {self.state}: {self.text}"
        return "; ".join(part for part in (said, self.late) if part)


# --- The cost of building outdated versions again, estimated from what is published


@dataclass(frozen=True)
class Cost:
    """The cost of building one version again.

    Attributes:
        records: Number of source records that the version was made of.
        record_bytes: Bytes of their values.
        landed: Whether a landing file of every range is there, so that no record is read from the
            source again. The files are not read here. None for a source that does not land, and if
            the landing area does not answer.
        version_bytes: Bytes of the files of the version, about what the next generation takes.
        seconds: Time from plan to publication of the version; None if its plan file is gone.
    """

    records: int
    record_bytes: int
    landed: bool | None
    version_bytes: int
    seconds: float | None


@dataclass(frozen=True)
class TotalCost(JsonFields):
    """The cost of several versions.

    Attributes:
        intervals: Number of versions.
        records: Number of source records.
        record_bytes: Bytes of their values.
        not_landed: Number of versions whose records are read from the source again.
        version_bytes: Bytes that the next generations take, about.
        seconds: Time of the builds one after another: the median of the known times, for each
            version; None without a known time.
        seconds_known: Number of versions with a known time.
    """

    intervals: int
    records: int
    record_bytes: int
    not_landed: int
    version_bytes: int
    seconds: float | None
    seconds_known: int

    @classmethod
    def of(cls, costs: Sequence[Cost]) -> TotalCost:
        """Return the sum of costs."""
        known = [cost.seconds for cost in costs if cost.seconds is not None]
        return cls(
            intervals=len(costs),
            records=sum(cost.records for cost in costs),
            record_bytes=sum(cost.record_bytes for cost in costs),
            not_landed=sum(not cost.landed for cost in costs),
            version_bytes=sum(cost.version_bytes for cost in costs),
            seconds=round(median(known) * len(costs), 1) if known else None,
            seconds_known=len(known),
        )


class Costs:
    """Costs of versions of one data set; every folder of landing files is listed once.

    Args:
        spec: The data set.
        env: Folders and connections.
    """

    def __init__(self, spec: DatasetSpec, env: Environment) -> None:
        self._spec = spec
        self._landing = Location.parse(env.landing)
        self._names: dict[str, frozenset[str]] = {}
        self.doubt: str | None = None

    def of(self, version: PublishedVersion, inputs: Mapping[str, Planned]) -> Cost:
        """Return the cost of a version.

        Args:
            version: The version.
            inputs: Its inputs.
        """
        folder, interval, manifest = version
        spec = self._spec.for_interval(parse_time(manifest.interval.start))
        return Cost(
            records=manifest.records_read,
            record_bytes=manifest.bytes_read,
            landed=self._is_landed(spec, inputs) if spec.source.kind.lands else None,
            version_bytes=sum(num_bytes for num_bytes, _ in manifest.file_digests().values()),
            seconds=_seconds(folder, interval, manifest.plan, manifest.generation),
        )

    def _is_landed(self, spec: DatasetSpec, inputs: Mapping[str, Planned]) -> bool | None:
        try:
            # A member that is read in place is read again.
            return all(
                part.spec.source.kind.lands
                and landing_name(piece.start, piece.end)
                in self._landed_in(inputs[piece.source].landing_folder)
                for part in parts_of(spec, inputs)
                for piece in part.pieces(cut(part.inputs, Sizes.of(part.spec).range_span))
            )
        except TrainFeedError as error:
            self.doubt = f"it is not known what has landed: {type(error).__name__}: {error}"
            return None

    def _landed_in(self, folder: str) -> frozenset[str]:
        if folder not in self._names:
            try:
                names = frozenset(info.name for info in (self._landing / folder).list())
            except NotFoundError:
                names = frozenset()
            self._names[folder] = names
        return self._names[folder]


def _seconds(folder: DatasetFolder, interval: str, plan: str, generation: int) -> float | None:
    """Return the time between two writes: of the plan file, and of the manifest."""
    begun = _modified(folder.plan(interval, plan))
    ended = _modified(folder.version(interval, generation) / MANIFEST)
    if begun is None or ended is None or ended < begun:
        return None
    return round(ended - begun, 3)


def _modified(path: Path) -> float | None:
    try:
        return path.lstat().st_mtime
    except OSError:
        return None


# --- The report about outdated versions of a data set: intervals, causes, and cost

State: TypeAlias = Literal[
    "current", "outdated", "unfinished", "unscheduled", "unreadable", "withdrawn", "removed"
]


@dataclass(frozen=True)
class IntervalFinding(JsonFields):
    """One interval.

    Attributes:
        interval: Name of the interval.
        state: ``current``: a build of now would make this version; ``outdated``: another one;
            ``unfinished``: this one, but readers still get an earlier generation, because its
            publication was killed before the last step, which the next build does;
            ``unscheduled``: no tick of today's schedule has this interval, so nothing can build it
            again; ``unreadable``: its manifest cannot be used; ``withdrawn``: a build
            would make a withdrawn version again, and is refused, or none is left besides withdrawn
            ones; ``removed``: every generation was removed.
        generation: The newest generation, which a build compares with; None if there is none.
        causes: Why it is outdated.
        reason: Why it is in another state than ``current`` and ``outdated``; else empty.
        cost: The cost of building it again; None if it is not outdated.
        source: The comparison with the source; None without one.
    """

    interval: str
    state: State
    generation: int | None = None
    causes: tuple[Cause, ...] = ()
    reason: str = ""
    cost: Cost | None = None
    source: SourceFinding | None = None

    @property
    def why(self) -> str:
        """The causes or the reason, and what the source says, in one line."""
        causes = "; ".join(cause.text for cause in self.causes)
        told = "" if self.source is None else self.source.told
        return "; ".join(part for part in (causes, self.reason, told) if part)

    def to_json(self) -> dict[str, Any]:
        """Return the interval as commands print it."""
        generation = None if self.generation is None else generation_name(self.generation)
        return {**super().to_json(), "generation": generation}


class CauseCount(NamedTuple):
    """A cause, with the number of versions that it makes outdated, and the first of them.

    Attributes:
        text: The cause.
        intervals: Number of versions.
        first: Interval and generation of the first version, as in ``2013-01-01/g0001``.
    """

    text: str
    intervals: int
    first: str


@dataclass(frozen=True)
class OutdatedReport(
    JsonFields,
    also=("counts", "is_in_order", "causes", "cost"),
    without=("asked",),
    names={"is_in_order": "in_order"},
):
    """The versions of a data set, compared with what a build of now would make.

    Attributes:
        dataset: Name of the data set.
        asked: The range that was asked for, or None.
        intervals: Every interval with a folder of versions, in order of names.
        doubts: What the answer does not cover, one line each.
    """

    dataset: str
    asked: str | None
    intervals: tuple[IntervalFinding, ...]
    doubts: tuple[str, ...]

    @property
    def outdated(self) -> list[IntervalFinding]:
        """The outdated intervals, oldest first."""
        return [each for each in self.intervals if each.state == "outdated"]

    @property
    def unfinished(self) -> list[IntervalFinding]:
        """The intervals whose publication the next build finishes, oldest first."""
        return [each for each in self.intervals if each.state == "unfinished"]

    @property
    def counts(self) -> dict[State, int]:
        """State → number of intervals."""
        return dict(Counter(each.state for each in self.intervals))

    @property
    def causes(self) -> list[CauseCount]:
        """The causes, in the order of their first version."""
        found: dict[str, list[str]] = {}
        for each in self.outdated:
            for cause in each.causes:
                version = f"{each.interval}/{generation_name(each.generation or 0)}"
                found.setdefault(cause.text, []).append(version)
        return [CauseCount(text, len(each), each[0]) for text, each in found.items()]

    @property
    def cost(self) -> TotalCost:
        """The cost of building all outdated versions again."""
        return TotalCost.of([each.cost for each in self.outdated if each.cost is not None])

    @property
    def is_unreadable(self) -> bool:
        """Whether a manifest cannot be used."""
        return "unreadable" in self.counts

    @property
    def is_in_order(self) -> bool:
        """Whether every version is what a build of now would make, as far as was asked."""
        told = [each.source for each in self.intervals if each.source is not None]
        is_built = not self.outdated and not self.unfinished
        return is_built and not any(each.needs_a_person for each in told)
