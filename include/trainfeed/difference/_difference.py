"""What two versions of a data set have not alike, from the plan to the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainfeed.difference._compared_records import ComparedRecords, compare_records
from trainfeed.difference._sample_json import change_to_json
from trainfeed.difference._sections import Section, iter_sections
from trainfeed.difference._side import Side

__all__ = ["Difference", "difference"]


@dataclass(frozen=True)
class Difference:
    """The difference of two versions.

    Attributes:
        first: The one version.
        second: The other.
        sections: Plan, code, specification, lookups, libraries, schema, counts, reasons, gates and
            statistics, in this order.
        records: The samples.
    """

    first: Side
    second: Side
    sections: tuple[Section, ...]
    records: ComparedRecords

    @property
    def differs(self) -> bool:
        """Whether a difference was found."""
        counts = self.records.counts
        has_changes = counts is not None and counts.has_changes
        return has_changes or self._contents_differ or any(each.differs for each in self.sections)

    @property
    def is_complete(self) -> bool:
        """Whether the contents of both versions are known, so that no difference means equal."""
        return self.first.manifest is not None and self.second.manifest is not None

    @property
    def _contents_differ(self) -> bool:
        one, other = self.first.manifest, self.second.manifest
        return one is not None and other is not None and one.content_digest != other.content_digest

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON values."""
        counts = self.records.counts
        return {
            "first": self.first.to_json(),
            "second": self.second.to_json(),
            "differs": self.differs,
            "complete": self.is_complete,
            "sections": {section.name: section.to_json() for section in self.sections},
            "records": {
                "left_out": self.records.left_out,
                "counts": None if counts is None else counts.to_json(),
                "examples": [change_to_json(change) for change in self.records.examples],
            },
        }


def difference(first: Side, second: Side, *, most_records: int = 5) -> Difference:
    """Compare two versions of one data set, or of two.

    Args:
        first: The one version.
        second: The other.
        most_records: How many samples are given as examples of each kind of change.

    Raises:
        ChecksumError: A file is not the one that was published; the error names it.
        FormatError: A file is damaged; the error names it.
        StorageError: A file cannot be read.
    """
    sections = tuple(iter_sections(first, second))
    return Difference(first, second, sections, compare_records(first, second, most_records))
