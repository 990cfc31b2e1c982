"""The uploads of an interval: checked before a plan, so that no file is passed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainfeed.dataset import DatasetFolder
from trainfeed.errors import EmptyUnprovenError
from trainfeed.intervals import Interval
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.plans import first_few
from trainfeed.specification import DatasetSpec
from trainfeed.uploads import AppliedUpload, check_uploads

__all__ = ["check_interval_uploads", "require_labels", "told_uploads"]

_DIGEST_CHARS = 12


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


def require_labels(spec: DatasetSpec, interval: Interval, uploads: Sequence[AppliedUpload]) -> None:
    """Refuse an inner join with nothing, which would publish an empty version.

    Raises:
        EmptyUnprovenError: The interval has no upload.
    """
    if spec.uploads is None or spec.uploads.join == "left" or uploads:
        return
    raise EmptyUnprovenError(
        f"expected at least one accepted upload for {spec.name}/{interval.name}, got none: an inner"
        " join would leave out every sample; nothing was read or published; put labels into"
        f" uploads/{interval.name} of the data set (trainfeed uploads ls {spec.name} shows what is"
        " there), or choose join: left"
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
