"""The cost of building outdated versions again, estimated from what is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import MANIFEST
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.pipeline.planner import PublishedVersion
from trainfeed.pipeline.plans import Planned, Sizes, cut
from trainfeed.sources import landing_name
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location

__all__ = ["Cost", "Costs", "TotalCost"]


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
class TotalCost:
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

    def to_json(self) -> dict[str, Any]:
        """Return the cost as commands print it."""
        return asdict(self)


class Costs:
    """Costs of versions of one data set; every folder of landing files is listed once.

    Args:
        spec: The data set.
        env: Folders and connections.
    """

    def __init__(self, spec: DatasetSpec, env: Environment) -> None:
        self._lands = spec.source.kind.lands
        self._landing = Location.parse(env.landing)
        self._range_span = Sizes.of(spec).range_span
        self._names: dict[str, frozenset[str]] = {}
        self.doubt: str | None = None

    def of(self, version: PublishedVersion, inputs: Mapping[str, Planned]) -> Cost:
        """Return the cost of a version.

        Args:
            version: The version.
            inputs: Its inputs.
        """
        folder, interval, manifest = version
        read = [leaf["read"] for leaf in manifest.ledger.values()]
        return Cost(
            records=sum(leaf["records"] for leaf in read),
            record_bytes=sum(leaf["bytes"] for leaf in read),
            landed=self._is_landed(inputs) if self._lands else None,
            version_bytes=sum(num_bytes for num_bytes, _ in manifest.file_digests().values()),
            seconds=_seconds(folder, interval, manifest.plan, manifest.generation),
        )

    def _is_landed(self, inputs: Mapping[str, Planned]) -> bool | None:
        try:
            return all(
                landing_name(piece.start, piece.end)
                in self._landed_in(inputs[piece.source].landing_folder)
                for piece in cut(inputs, self._range_span)
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
