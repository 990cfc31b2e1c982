"""Where the quarantined records of a version were, and why; without their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.dataset import Version
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import open_plain
from trainfeed.pipeline.quarantine._quarantined import PUBLISHED, arrow_errors
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA

__all__ = ["QuarantinedPositions", "quarantined_positions"]

_COLUMNS: Final = ("source", "offset", "reason")
_OPTIONS: Final = pa.ipc.IpcReadOptions(
    included_fields=[QUARANTINE_SCHEMA.get_field_index(name) for name in _COLUMNS]
)


class QuarantinedPositions(NamedTuple):
    """Neighbouring records; all of one length.

    Attributes:
        sources: Indices into ``sources`` of the manifest.
        offsets: Offsets of the records.
        reasons: The short codes with which the function rejected them.
    """

    sources: NDArray[Any]
    offsets: NDArray[Any]
    reasons: list[str]


def quarantined_positions(version: Version) -> Iterator[QuarantinedPositions]:
    """Yield the positions of the quarantined records, in order; their bytes are not read.

    Raises:
        AccessDeniedError: Only the account that builds may read them.
        NotFoundError: The version was published without quarantine, or the file is missing.
        FormatError: The file is damaged.
    """
    path = version.path / PUBLISHED
    if PUBLISHED not in version.manifest.file_digests():
        raise NotFoundError(f"version {version.name} has no file {PUBLISHED}")
    num_sources = len(version.manifest.sources)
    with open_plain(path, follow=False) as file, arrow_errors(path):
        reader = pa.ipc.open_file(file, options=_OPTIONS)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            # Without validation, an offset outside of a buffer would crash the process.
            batch.validate(full=True)
            sources, offsets = (batch[name].to_numpy() for name in _COLUMNS[:2])
            if ((sources < 0) | (sources >= num_sources)).any():
                raise FormatError("expected indices of the version's sources", path=str(path))
            yield QuarantinedPositions(sources, offsets, batch["reason"].to_pylist())
