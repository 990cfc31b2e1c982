"""Estimates the space that a build needs, and makes the error for a full disk or quota.

A range of offsets does not tell its bytes. The estimate therefore uses the newest version, whose
manifest counts records, their bytes, and the bytes of its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed.dataset import DatasetFolder, Version
from trainfeed.errors import QuotaExceededError, TrainFeedError
from trainfeed.pipeline.plans import Plan, landing_file
from trainfeed.pipeline.stage._opened_stage import Stage
from trainfeed.storage import Location

__all__ = [
    "Experience",
    "Space",
    "full",
    "landed_bytes",
    "require_space",
    "space",
]

# No estimate for an interval more than so many times larger than the version: in a small version,
# the fixed cost per version would count too much.
_MAX_FACTOR: Final = 20


@dataclass(frozen=True)
class Experience:
    """The bytes of a published version per planned position, to estimate others from.

    Attributes:
        version: Name of the version, as in ``2013-01-01/g0001``.
        positions: Planned positions: offsets, or bytes of log files.
        read_bytes: Bytes of records per planned position.
        published_bytes: Bytes of the version's files per planned position.
    """

    version: str
    positions: int
    read_bytes: float
    published_bytes: float

    @classmethod
    def for_plan(cls, plan: Plan, root: str) -> Experience | None:
        """Return the values of the newest readable version, or None if it is too small.

        Args:
            plan: The plan of the build.
            root: The publication root.
        """
        found = cls._newest(DatasetFolder(Path(root), plan.dataset))
        planned = sum(piece.end - piece.start for piece in plan.ranges)
        return found if found is not None and planned <= _MAX_FACTOR * found.positions else None

    @classmethod
    def _newest(cls, folder: DatasetFolder) -> Experience | None:
        for interval in reversed(folder.intervals()):
            generation = folder.readable_generation(interval)
            if generation is None:
                continue
            try:
                found = cls._of(Version.resolve(folder, interval, generation))
            except TrainFeedError:
                continue  # a damaged version must not prevent a build
            if found is not None:
                return found
        return None

    @classmethod
    def _of(cls, version: Version) -> Experience | None:
        manifest = version.manifest
        positions = sum(part["end"] - part["start"] for part in manifest.inputs.values())
        if not positions:
            return None
        read = sum(leaf["read"]["bytes"] for leaf in manifest.ledger.values())
        written = sum(num_bytes for num_bytes, _ in manifest.file_digests().values())
        return cls(version.name, positions, read / positions, written / positions)


@dataclass(frozen=True)
class Space:
    """Needed and free space of a place.

    Attributes:
        place: landing or root.
        uri: URI of the place.
        needed_bytes: About how many bytes the build writes there; None if unknown.
        free_bytes: Free bytes; None if the file system does not tell.
    """

    place: str
    uri: str
    needed_bytes: int | None
    free_bytes: int | None


def landed_bytes(stage: Stage) -> dict[int, int]:
    """Return index of a range → size of its landing file, for those that already exist."""
    sizes: dict[int, int] = {}
    if not stage.spec.source.kind.lands:
        return sizes
    for index, piece in enumerate(stage.plan.ranges):
        file = landing_file(stage.landing, stage.plan.inputs[piece.source], piece)
        if file.exists():
            sizes[index] = file.stat().size_bytes
    return sizes


def space(stage: Stage, landed: Mapping[int, int]) -> list[Space]:
    """Return needed and free space of the landing area and the root.

    Args:
        stage: A stage of the build.
        landed: Sizes from ``landed_bytes``.
    """
    plan, env = stage.plan, stage.env
    experience = Experience.for_plan(plan, env.root)
    missing = [piece for index, piece in enumerate(plan.ranges) if index not in landed]
    to_land = sum(piece.end - piece.start for piece in missing)
    positions = sum(piece.end - piece.start for piece in plan.ranges)
    landing = root = None
    if not stage.spec.source.kind.lands:
        landing = 0
    elif experience is not None:
        landing = round(to_land * experience.read_bytes)
    if experience is not None:
        root = round(positions * experience.published_bytes)
    return [
        Space(place, uri, needed, _free_bytes(uri))
        for place, uri, needed in (("landing", env.landing, landing), ("root", env.root, root))
    ]


def require_space(stage: Stage) -> None:
    """Refuse a build that does not fit into the free space.

    Raises:
        QuotaExceededError: A place has less free space than the estimate.
    """
    for place in space(stage, landed_bytes(stage)):
        needed, free = place.needed_bytes, place.free_bytes
        if needed is not None and free is not None and needed > free:
            raise QuotaExceededError(
                f"expected about {needed} bytes of space in {place.uri} ({place.place}),"
                f" going by the newest version of {stage.plan.dataset!r}, got {free} bytes free;"
                " nothing was read or written but the plan; make room, then run the build again"
            )


def _free_bytes(uri: str) -> int | None:
    """Return the free space of the nearest folder above that exists."""
    location = Location.parse(uri)
    while location.path != "/" and not location.exists():
        location = location.parent
    return location.free_bytes()


def full(stage: Stage, error: QuotaExceededError) -> QuotaExceededError:
    """Return the error of a build from the error of the file that did not fit."""
    places = space(stage, landed_bytes(stage))
    lines = [_line(each.place, each.needed_bytes, each.free_bytes) for each in places]
    work = _line("work", None, Location.parse(stage.env.work).free_bytes())
    landing = "landing files of this run, " if stage.spec.source.kind.lands else ""
    return QuotaExceededError(
        f"{error}; kept: {landing}the plan and every published version; nothing was published;"
        f" {'; '.join([*lines, work])}; make room and build the interval again, it goes on from"
        " there"
    )


def _line(place: str, needed: int | None, free: int | None) -> str:
    want = "an unknown number of" if needed is None else f"about {needed}"
    return f"{place}: {want} bytes needed in all, {'unknown' if free is None else free} free"
