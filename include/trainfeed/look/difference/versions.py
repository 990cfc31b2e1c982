"""What two versions of a data set have not alike, from the plan to the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trainfeed.core.canonical_json import JsonFields
from trainfeed.look.difference.records import RecordChange, RecordComparison, RecordCounts
from trainfeed.look.difference.sections import Section, Side, iter_sections
from trainfeed.pipeline.plans import PlannedInput, planned_of
from trainfeed.versions import Manifest, Version, has_positions
from trainfeed.versions.layout import POSITIONS

# --- The samples of two versions: whether they can be compared by position, and the comparison

_NO_POSITIONS: Final = (
    "{} was published without positions (output.positions: false); the counts of the ledgers are"
    " all that can be compared"
)


@dataclass(frozen=True)
class ComparedRecords:
    """The samples of two versions.

    Attributes:
        counts: Numbers of samples; None if they could not be compared.
        examples: The first changes of each kind.
        left_out: Why they could not be compared; empty if they were.
    """

    counts: RecordCounts | None
    examples: tuple[RecordChange, ...] = ()
    left_out: str = ""


def compare_records(first: Side, second: Side, most: int) -> ComparedRecords:
    """Compare the samples of two versions, with at most ``most`` examples of each kind.

    Raises:
        FormatError: A file is not the one that was published; the error names it.
        StorageError: A file cannot be read.
    """
    comparison = record_comparison(first, second)
    if isinstance(comparison, str):
        return ComparedRecords(None, left_out=comparison)
    if isinstance(comparison, RecordCounts):
        return ComparedRecords(comparison)
    examples = tuple(comparison.changes(most))
    return ComparedRecords(comparison.counts, examples)


def record_comparison(first: Side, second: Side) -> RecordComparison | RecordCounts | str:
    """Return the comparison of the samples, or its result, or why there can be none.

    Equal digests of content and positions show that all samples are alike: then nothing is read.

    Raises:
        ChecksumError: A file of positions is not the one that was published.
        StorageError: It cannot be read.
    """
    if first.version is None or second.version is None:
        gone = first if first.version is None else second
        return f"{gone.name} was removed by retention"
    reason = _incomparable(first.version, second.version)
    if reason is not None:
        return reason
    versions = first.version, second.version
    if _digests(first.version.manifest) == _digests(second.version.manifest):
        return RecordCounts(equal=first.version.manifest.num_samples())
    return RecordComparison(*versions, (first.seed, second.seed))


def _incomparable(first: Version, second: Version) -> str | None:
    one, other = first.manifest, second.manifest
    if (one.dataset, one.interval) != (other.dataset, other.interval):
        return (
            "positions of different intervals or data sets are different by nature; name two"
            " generations of one interval"
        )
    for version in (first, second):
        if not has_positions(version):
            return _NO_POSITIONS.format(version.name)
    return _replaced_topic(one, other)


def _replaced_topic(first: Manifest, second: Manifest) -> str | None:
    for source in sorted({*first.inputs} & {*second.inputs}):
        planned = planned_of(second.inputs[source])
        if isinstance(planned, PlannedInput):
            replaced = planned.replaced(first.inputs[source])
            if replaced is not None:
                return f"the same positions are other records, the topic was replaced: {replaced}"
    return None


def _digests(manifest: Manifest) -> tuple[Any, ...]:
    return manifest.content_digest, manifest.sources, manifest.file_digests()[POSITIONS]


# --- What two versions of a data set have not alike, from the plan to the samples


@dataclass(frozen=True)
class Difference(
    JsonFields,
    also=("differs", "is_complete"),
    without=("sections",),
    names={"is_complete": "complete"},
):
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
        sections = {section.name: section.to_json() for section in self.sections}
        return {**super().to_json(), "sections": sections}


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
