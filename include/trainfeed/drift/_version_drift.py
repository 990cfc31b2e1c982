"""The drift of versions in the order of their intervals."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

from trainfeed.dataset import Version
from trainfeed.dataset.version import STATISTICS
from trainfeed.drift._compared import Compared, Selection, compare
from trainfeed.drift._judged import DriftRule, Judgement, judge, judgement_from_json
from trainfeed.errors import FormatError
from trainfeed.samples import FieldStatistics, Statistics

_Fields: TypeAlias = Mapping[str, FieldStatistics]

__all__ = ["Snapshot", "VersionDrift", "drift_of"]


class Snapshot:
    """The statistics of a version, read when they are needed.

    Args:
        name: Name of the version.
        load: Returns its statistics over all splits, by field.
        gates: The gates of its manifest.
    """

    def __init__(
        self, name: str, load: Callable[[], _Fields], gates: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        self.name = name
        self._load = load
        self._gates = [gate for gate in gates if gate.get("check") == "drift"]

    @classmethod
    def of(cls, version: Version, selection: Selection) -> Snapshot:
        """Return the snapshot of a published version, with statistics of the selected fields."""
        load = partial(_statistics, version, selection)
        return cls(version.name, load, version.manifest.gates)

    @cached_property
    def statistics(self) -> _Fields:
        """The statistics over all splits, by field.

        Raises:
            ChecksumError: The file of statistics is not the published one.
            FormatError: The file has other content.
            StorageError: The file cannot be read.
        """
        return self._load()

    def recorded(self, rule: DriftRule) -> dict[str, dict[str, Any]] | None:
        """Return the judgement in the manifest; None without one by a reference of equal length.

        Raises:
            FormatError: The manifest has something else in its place.
        """
        found: dict[str, dict[str, Any]] = {}
        alike = [g for g in self._gates if g.get("reference") == rule.reference]
        for gate in alike:
            found |= judgement_from_json(gate.get("distances"))
        return found if alike else None


@dataclass(frozen=True)
class VersionDrift:
    """The drift of one version.

    Attributes:
        name: Name of the version.
        judgement: Its distances and limits.
        is_recorded: Whether they stand in its manifest.
        versions: Number of earlier versions that were known, at most as many as limits need.
        compared: Compares the version with its reference again, to say what changed.
    """

    name: str
    judgement: Judgement
    is_recorded: bool
    versions: int
    compared: Callable[[], Mapping[str, Compared]]

    @property
    def beyond(self) -> list[str]:
        """The fields and components with a distance beyond its limit, the worst first."""
        worst = {
            part: max(each.excess for each in found.values())
            for part, found in self.judgement.items()
            if any(each.is_beyond for each in found.values())
        }
        return sorted(worst, key=lambda part: (-worst[part], part))


def drift_of(
    versions: Iterable[Snapshot], rule: DriftRule, selection: Selection
) -> Iterator[VersionDrift]:
    """Yield the drift of each version against those before it.

    Args:
        versions: In the order of their intervals.
        rule: How distances are measured and limited.
        selection: The fields and components that are compared where no manifest has distances.

    Raises:
        ChecksumError: A file of statistics is not the published one.
        FormatError: A file has other content.
        StorageError: A file cannot be read.
    """
    history: deque[Judgement] = deque(maxlen=rule.history)
    before: deque[Snapshot] = deque(maxlen=max(rule.history, rule.reference))
    for version in versions:
        reference = list(before)[-rule.reference :]
        compared = partial(_compared, version, reference, selection)
        recorded = judgement = version.recorded(rule)
        if judgement is None:
            distances = {part: each.distances for part, each in compared().items()}
            judgement = judge(distances, history, rule)
        yield VersionDrift(version.name, judgement, recorded is not None, len(before), compared)
        history.append(judgement)
        before.append(version)


def _compared(
    version: Snapshot, reference: Iterable[Snapshot], selection: Selection
) -> dict[str, Compared]:
    return compare(version.statistics, [each.statistics for each in reference], selection)


def _statistics(version: Version, selection: Selection) -> _Fields:
    schema = selection.schema(version.schema)
    if schema is None:
        return {}
    total = Statistics(schema)
    for split, part in version.statistics().items():
        missing = [name for name in schema.names if name not in part]
        if missing:
            raise FormatError(
                f"expected statistics of field {missing[0]!r} in split {split!r}, got none;"
                f" trainfeed verify {version.name} compares all files",
                path=str(version.path / STATISTICS),
            )
        total.merge(Statistics.from_json(schema, {name: part[name] for name in schema.names}))
    return total.fields
