"""``SOURCES.arrow``: the inputs of a version of many files, and the account of each."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed.errors import ChecksumError, FormatError
from trainfeed.files import read_plain
from trainfeed.versions.arrow_list import FILE_FIELDS, MAX_LIST_BYTES, FileList
from trainfeed.versions.file_list import (
    COUNTS,
    FACTS,
    FILTERED,
    LEAVES,
    REASON,
    SUMS,
)
from trainfeed.versions.ledger import SourceLedger
from trainfeed.versions.listed_files import ListedFiles

_REFUSED: Final = (
    "repair the version (trainfeed repair), restore it from a backup, or build the interval with"
    " --rebuild WHY"
)


def _kind(count: str) -> pa.DataType:
    return pa.uint64() if count in SUMS else pa.int64()


_REASONS: Final = pa.struct(
    [
        pa.field(REASON, pa.utf8(), nullable=False),
        *(pa.field(count, _kind(count), nullable=False) for count in COUNTS),
    ]
)
_SCHEMA: Final = pa.schema(
    [
        *FILE_FIELDS,
        *(
            pa.field(f"{outcome}.{count}", _kind(count), nullable=False)
            for outcome, counts in LEAVES.items()
            for count in counts
        ),
        pa.field(FILTERED, pa.list_(pa.field("item", _REASONS, nullable=False)), nullable=False),
    ]
)


def list_of_version(
    inputs: Mapping[str, Mapping[str, Any]], ledger: Mapping[str, SourceLedger]
) -> FileList:
    """Return the list of a version of many files; equal values give equal bytes.

    Args:
        inputs: Source string → JSON of a planned file.
        ledger: Source string → its account.
    """
    columns: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}
    for source, facts in sorted(inputs.items(), key=lambda item: item[0].encode()):
        columns["source"].append(source)
        for name in FACTS:
            columns[name].append(facts.get(name))
        account = ledger[source]
        leaves: dict[str, dict[str, Any]] = {
            "read": vars(account.read),
            "valid": {**vars(account.valid.leaf), **vars(account.valid)},
            "quarantined": vars(account.quarantined),
        }
        for outcome, counts in LEAVES.items():
            for count in counts:
                columns[f"{outcome}.{count}"].append(leaves[outcome][count])
        reasons = account.filtered.items()
        columns[FILTERED].append([{REASON: reason, **vars(leaf)} for reason, leaf in reasons])
    return FileList.of(_SCHEMA, columns)


def read_list(path: Path, place: ListedFiles, counts: tuple[int, int, int]) -> FileList:
    """Read the list of a version.

    Args:
        path: The file.
        place: Digest and number of files, as the manifest has them.
        counts: Samples, quarantined and filtered records of the manifest.

    Raises:
        NotFoundError: The file is missing.
        ChecksumError: It is not the one that was published.
        FormatError: It is no such list, or contradicts the manifest.
        StorageError: It cannot be read.
    """
    data = read_plain(path, follow=False, max_bytes=MAX_LIST_BYTES)
    if sha256(data).hexdigest() != place.sha256:
        raise ChecksumError(
            f"expected the list of sources that the manifest names, got another; {_REFUSED}",
            path=str(path),
        )
    files = FileList(data, _SCHEMA, str(path))
    samples = int(files.numbers("valid.samples").sum())
    quarantined = int(files.numbers("quarantined.records").sum())
    filtered = int(files.sums(FILTERED, "records").sum())
    found, wanted = (len(files), samples, quarantined, filtered), (place.files, *counts)
    if found != wanted:
        raise FormatError(
            f"expected files, samples, quarantined and filtered records {wanted}, as the manifest"
            f" has them, got {found}; {_REFUSED}",
            path=str(path),
        )
    return files


def unequal(files: FileList) -> list[str]:
    """Return the sources whose read records are not all accounted for."""
    found = np.zeros(len(files), np.bool_)
    for count in COUNTS:
        accounted = files.numbers(f"valid.{count}") + files.numbers(f"quarantined.{count}")
        found |= files.numbers(f"read.{count}") != accounted + files.sums(FILTERED, count)
    return [files.sources[row] for row in np.flatnonzero(found).tolist()]
