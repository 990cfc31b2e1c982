"""Compares versions with earlier ones, field by field, and holds the distances against limits.

The limits come from the distances that the data set itself had before.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np

from trainfeed.core.printable_text import printable, without_secrets
from trainfeed.errors import FormatError
from trainfeed.samples import FieldStatistics, Schema, Statistics
from trainfeed.versions import Version
from trainfeed.versions.drift.distances import (
    Distance,
    Distribution,
    NumberCells,
    are_categories,
    cell_counts,
    distances,
    distributions,
)
from trainfeed.versions.version import STATISTICS

# --- Compares the samples of a version with those of earlier ones, field by field

# Manifests hold the distances.
MOST_PARTS: Final = 1024


@dataclass(frozen=True)
class Selection:
    """The fields and components that are compared.

    Attributes:
        fields: Names of fields and components; None for all.
        ignore: Names of fields and components that are left out.
    """

    fields: Collection[str] | None = None
    ignore: Collection[str] = ()

    def schema(self, schema: Schema) -> Schema | None:
        """Return the fields of a schema of which something is compared; None without one.

        At most 1,024, in their order: statistics of more are not read.
        """
        wanted = None if self.fields is None else {name.partition("[")[0] for name in self.fields}
        names = [
            field
            for field in schema
            if field.name not in self.ignore and (wanted is None or field.name in wanted)
        ]
        return Schema(tuple(names[:MOST_PARTS])) if names else None

    def has(self, field: str, part: str) -> bool:
        """Whether a part of a field is compared."""
        wanted = self.fields is None or field in self.fields or part in self.fields
        return wanted and field not in self.ignore and part not in self.ignore


@dataclass(frozen=True)
class Compared:
    """A field or component of a version, and of its reference.

    Attributes:
        reference: The distribution in the reference.
        now: The distribution in the version.
        distances: Measure → distance.
    """

    reference: Distribution
    now: Distribution
    distances: Mapping[str, Distance]


def compare(
    now: Mapping[str, FieldStatistics],
    earlier: Iterable[Mapping[str, FieldStatistics]],
    selection: Selection | None = None,
) -> dict[str, Compared]:
    """Compare the statistics of a version with the sum of earlier ones.

    A field is compared with the earlier versions that have it with the same type and shape and, if
    it has components, those whose statistics have them. At most 1,024 fields and components are
    compared, in the order of the schema.

    Args:
        now: Statistics of the version by field.
        earlier: Those of the earlier versions.
        selection: The fields and components to compare; by default all.

    Returns:
        Field or component → what was compared, without those that no earlier version has.
    """
    chosen = selection or Selection()
    versions = list(earlier)
    found: dict[str, Compared] = {}
    for name, statistics in now.items():
        parts = _compared_parts(statistics, [each.get(name) for each in versions])
        found |= {part: each for part, each in parts.items() if chosen.has(name, part)}
        if len(found) >= MOST_PARTS:
            break
    return dict(islice(found.items(), MOST_PARTS))


def _compared_parts(
    now: FieldStatistics, earlier: Iterable[FieldStatistics | None]
) -> dict[str, Compared]:
    parts = dict(distributions(now.field, now.to_json()))
    known = dict(distributions(now.field, _sum(now, earlier).to_json()))
    compared = {
        part: Compared(known[part], each, distances(known[part], each))
        for part, each in parts.items()
        if part in known
    }
    return {part: each for part, each in compared.items() if each.distances}


def _sum(now: FieldStatistics, earlier: Iterable[FieldStatistics | None]) -> FieldStatistics:
    total = FieldStatistics(now.field, components=now.has_components)
    for each in earlier:
        if each is not None and _is_alike(now, each):
            # A field that became optional, or is no longer, is still compared.
            is_same = each.field == now.field
            total.merge(each if is_same else FieldStatistics.from_json(now.field, each.to_json()))
    return total


def _is_alike(now: FieldStatistics, other: FieldStatistics) -> bool:
    ours, theirs = now.field, other.field
    alike = (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    return alike and now.has_components == other.has_components


# --- Says in words what changed between a reference and a version

_OTHERS = ("values that the reference lacks", "values that are not finite", "absent values")


def change(compared: Compared) -> str:
    """Return the largest change of a share, and of the mean: ``before → now``."""
    reference, now = compared.reference, compared.now
    counts = cell_counts(reference, now)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    largest = int(np.abs(shares[1] - shares[0]).argmax())
    before, after = shares[:, largest].tolist()
    said = f"share of {_cell(compared, largest)} {before:.1%} → {after:.1%}"
    if reference.mean is None or now.mean is None:
        return said
    return f"{said}, mean {reference.mean:.4g} → {now.mean:.4g}"


def _cell(compared: Compared, number: int) -> str:
    """Return the name of a cell of ``cell_counts``."""
    names = _names(compared.reference, compared.now)
    return [*names, *_OTHERS][number]


def _names(reference: Distribution, now: Distribution) -> list[str]:
    if are_categories(reference, now):
        return [_category(value) for value in reference.categories or ()]
    cells = NumberCells.of(reference)
    return [
        f"about {first:.4g}" if first == last else f"about {first:.4g} to {last:.4g}"
        for first, last in zip(cells.first.tolist(), cells.last.tolist(), strict=True)
    ]


def _category(value: int | str) -> str:
    """Return a number, or a text that statistics have in hex."""
    if isinstance(value, int):
        return str(value)
    text = bytes.fromhex(value).decode("utf-8", "backslashreplace")
    return f"'{printable(without_secrets(text))}'"


# --- Limits for distances, from the distances that the data set itself had before

# There are no limits before a data set has as many versions.
LEAST_VERSIONS: Final = 14
_QUANTILE: Final = 0.99
_FLOORS: Final = {"absent": 0.01, "psi": 0.05, "ks": 0.05, "mean": 0.15}


@dataclass(frozen=True)
class DriftRule:
    """How distances are measured and limited.

    Attributes:
        reference: Number of earlier versions that together are the reference.
        history: Number of earlier versions whose distances make the limit.
        factor: The limit is this number times the 99 % quantile of the distances …
        floors: … and at least as large as this, by measure.
    """

    reference: int = 7
    history: int = 30
    factor: float = 1.5
    floors: Mapping[str, float] = field(default_factory=lambda: dict(_FLOORS))


@dataclass(frozen=True)
class Judged:
    """A distance and its limit.

    Attributes:
        distance: The distance.
        limit: Its limit; None if there were too few versions for one.
    """

    distance: float
    limit: float | None

    @property
    def is_beyond(self) -> bool:
        """Whether the distance exceeds its limit."""
        return self.limit is not None and self.distance > self.limit

    @property
    def excess(self) -> float:
        """The distance as a multiple of its limit; 0 without a limit."""
        return self.distance / self.limit if self.limit else 0.0

    @property
    def counted(self) -> float:
        """The distance as a part of later limits: at most the limit that it had.

        So a fault raises later limits by the factor, and does not hide other faults for a month.
        """
        return self.distance if self.limit is None else min(self.distance, self.limit)


# Field or component → measure → distance with its limit.
Judgement: TypeAlias = Mapping[str, Mapping[str, Judged]]


def judge(
    measured: Mapping[str, Mapping[str, Distance]], history: Sequence[Judgement], rule: DriftRule
) -> dict[str, dict[str, Judged]]:
    """Return the limits of distances.

    Args:
        measured: Field or component → measure → distance.
        history: The judgements of earlier versions, in any order.
        rule: The rule.
    """
    return {
        part: {
            measure: _judged(measure, distance, _counted(part, measure, history), rule)
            for measure, distance in found.items()
        }
        for part, found in measured.items()
    }


def judgement_to_json(judgement: Judgement) -> dict[str, dict[str, list[float | None]]]:
    """Return ``{field or component: {measure: [distance, limit or None]}}``."""
    return {
        part: {measure: [each.distance, each.limit] for measure, each in found.items()}
        for part, found in judgement.items()
    }


def judgement_from_json(value: Any) -> dict[str, dict[str, Judged]]:
    """Return the judgement that ``judgement_to_json`` gave.

    Raises:
        FormatError: ``value`` is no such JSON.
    """
    try:
        return {
            str(part): {str(measure): _entry(*each) for measure, each in found.items()}
            for part, found in value.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(f"expected distances of drift, got {str(value)[:200]}") from error


def _judged(measure: str, distance: Distance, earlier: Sequence[float], rule: DriftRule) -> Judged:
    limit = None
    # The first version of a data set has no distance.
    if len(earlier) >= LEAST_VERSIONS - 1:
        usual = sorted(earlier)[math.ceil(_QUANTILE * len(earlier)) - 1]
        limit = _rounded(max(rule.floors[measure], rule.factor * usual, distance.chance))
    return Judged(_rounded(distance.distance), limit)


def _counted(part: str, measure: str, history: Iterable[Judgement]) -> list[float]:
    found = (each[part].get(measure) for each in history if part in each)
    return [judged.counted for judged in found if judged is not None]


def _rounded(number: float) -> float:
    """Return six digits of a number: more mean nothing, and a manifest holds many."""
    return float(f"{number:.6g}")


def _entry(distance: Any, limit: Any) -> Judged:
    numbers = [distance] if limit is None else [distance, limit]
    if not all(type(each) in {int, float} and math.isfinite(each) for each in numbers):
        raise ValueError(f"expected two numbers, got {distance!r} and {limit!r}")
    return Judged(distance, limit)


# --- Rule and selection from the entry of a gate ``drift`` in a plan or a manifest


def rule_of(gate: Mapping[str, Any]) -> DriftRule:
    """Return the rule of a gate.

    Raises:
        FormatError: The entry is not that of a gate ``drift``.
    """
    try:
        floors = {str(measure): float(floor) for measure, floor in gate["floor"].items()}
        lengths = int(gate["reference"]), int(gate["history"])
        return DriftRule(*lengths, float(gate["factor"]), {**DriftRule().floors, **floors})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"expected a gate drift, got {str(gate)[:200]}: {error}") from error


def selection_of(gate: Mapping[str, Any]) -> Selection:
    """Return the fields and components that a gate compares."""
    fields = gate.get("fields")
    return Selection(None if fields is None else tuple(fields), tuple(gate.get("ignore") or ()))


# --- The drift of versions in the order of their intervals

_Fields: TypeAlias = Mapping[str, FieldStatistics]


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
        compared = partial(_compared_with_earlier, version, reference, selection)
        recorded = judgement = version.recorded(rule)
        if judgement is None:
            distances = {part: each.distances for part, each in compared().items()}
            judgement = judge(distances, history, rule)
        yield VersionDrift(version.name, judgement, recorded is not None, len(before), compared)
        history.append(judgement)
        before.append(version)


def _compared_with_earlier(
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
