"""The samples of two versions: whether they can be compared by position, and the comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trainfeed.dataset import Manifest, Version, has_positions
from trainfeed.dataset.version import POSITIONS
from trainfeed.difference._side import Side
from trainfeed.difference.records import RecordChange, RecordComparison, RecordCounts
from trainfeed.pipeline.plans import PlannedInput, planned_of

__all__ = ["ComparedRecords", "compare_records", "record_comparison"]

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
