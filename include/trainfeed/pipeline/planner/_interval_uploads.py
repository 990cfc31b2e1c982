"""The uploads of an interval: checked before a plan, so that no file is passed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from trainfeed.dataset import DatasetFolder, Skip
from trainfeed.errors import EmptyUnprovenError
from trainfeed.intervals import Interval, format_time
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.inputs import Awaited
from trainfeed.pipeline.plans import first_few
from trainfeed.specification import DatasetSpec
from trainfeed.uploads import AppliedUpload, check_uploads

__all__ = [
    "awaited_labels",
    "check_interval_uploads",
    "require_labels",
    "skip_without_labels",
    "told_uploads",
]

_DIGEST_CHARS = 12
_NOTHING = "no upload of the interval was accepted"


def check_interval_uploads(
    spec: DatasetSpec, folder: DatasetFolder, interval: Interval
) -> str | None:
    """Check the files of an interval that have no receipt yet.

    Returns:
        The remark about files that are not used: refused ones, and unfinished ones; None if there
        are none, or the data set takes no uploads.

    Raises:
        FormatError: A receipt is damaged.
        StorageError: The publication root refused or failed.
    """
    if spec.uploads is None:
        return None
    report = check_uploads(spec, folder, [interval.name])
    lines = [f"{refusal.name}: {refusal.reason}" for refusal in report.refused]
    lines += [f"{name}: it is being written" for name in report.unfinished]
    return f"uploads that are not used: {first_few(lines)}" if lines else None


def awaited_labels(
    spec: DatasetSpec, interval: Interval, uploads: Sequence[AppliedUpload]
) -> Awaited | None:
    """Return what an interval waits for whose inner join would be one with nothing, or None."""
    if spec.uploads is None or spec.uploads.missing_rule is None or uploads:
        return None
    return Awaited.of(spec, interval, "uploads", spec.uploads.missing_rule)


def skip_without_labels(awaited: Awaited | None, now: datetime) -> Skip | None:
    """Return the decision to skip an interval without an upload, or None if the rule is another.

    Args:
        awaited: The uploads that the interval waits for, or None.
        now: Aware UTC time.

    Raises:
        WindowOpenError: The wait has not ended.
    """
    if awaited is None:
        return None
    if not awaited.is_over(now):
        raise awaited.not_yet(f"{_NOTHING}, and its inner join would leave out every sample")
    if awaited.rule.missing != "skip":
        return None
    return awaited.skip(f"{_NOTHING}; {awaited.since}", now)


def require_labels(awaited: Awaited | None) -> dict[str, str]:
    """Refuse an inner join with nothing, unless the specification takes it as empty.

    Returns:
        Why the version is empty, by ``uploads``, equal in every run; nothing if labels are there.

    Raises:
        EmptyUnprovenError: The interval has no upload.
    """
    if awaited is None:
        return {}
    if awaited.rule.missing == "empty":
        return {"uploads": f"missing: {_NOTHING}; {awaited.since}"}
    raise EmptyUnprovenError(
        f"expected at least one accepted upload for {awaited.dataset}/{awaited.interval.name}, got"
        f" none until {format_time(awaited.until)}: an inner join would leave out every sample;"
        f" nothing was read or published; put labels into uploads/{awaited.interval.name} of the"
        f" data set (trainfeed uploads ls {awaited.dataset} shows what is there), choose join:"
        " left, or decide with uploads.missing: empty or skip"
    )


def told_uploads(fingerprint_of: JsonObject, files: Sequence[Mapping[str, object]]) -> JsonObject:
    """Return the values of a fingerprint with the uploads by their names, for a message.

    Args:
        fingerprint_of: The values.
        files: The uploads, as a plan or a manifest has them.
    """
    if "uploads" not in fingerprint_of:
        return fingerprint_of
    named = {str(each["name"]): str(each["sha256"])[:_DIGEST_CHARS] for each in files}
    return {**fingerprint_of, "uploads": named}
