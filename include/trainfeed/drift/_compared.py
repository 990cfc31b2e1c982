"""Compares the samples of a version with those of earlier ones, field by field."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from trainfeed.drift._distances import Distance, distances
from trainfeed.drift._distribution import Distribution, distributions
from trainfeed.samples import FieldStatistics, Schema

__all__ = ["MOST_PARTS", "Compared", "Selection", "compare"]

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
        parts = _compared(statistics, [each.get(name) for each in versions])
        found |= {part: each for part, each in parts.items() if chosen.has(name, part)}
        if len(found) >= MOST_PARTS:
            break
    return dict(islice(found.items(), MOST_PARTS))


def _compared(
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
