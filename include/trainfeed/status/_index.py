"""The index of a data set: facts about its versions, so that manifests need not be opened again.

``<data set>/STATUS.jsonl`` has one line for each version that was opened, with a checksum. The file
is replaced as a whole, and never trusted: a row counts only if the interval's folder has exactly
the names that it had, and the two manifest files are the same files, unchanged. So the answer is
the same without an index, with an old one and with a damaged one; only the time differs. Nothing
but this room reads the file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import xxhash

from trainfeed.dataset import DatasetFolder
from trainfeed.errors import FormatError, StorageError
from trainfeed.paths import read_plain
from trainfeed.storage import posix

__all__ = ["INDEX", "IndexRow", "parse_index", "read_index", "write_index"]

logger = logging.getLogger(__name__)

INDEX: Final = "STATUS.jsonl"

# Room for a hundred thousand versions; a longer file is not read.
_MAX_BYTES: Final = 256 << 20
# Rows of another format are of no use, so they are left out like damaged ones.
_HEAD: Final = b'{"format":2,"sum":"'
_ROW: Final = b'","row":'
_SUM_CHARS: Final = 16
_AT: Final = len(_HEAD) + _SUM_CHARS + len(_ROW)


class IndexRow(NamedTuple):
    """One version, with the evidence that it is still the same.

    Attributes:
        interval: Name of the interval.
        names: Names in the folder of the interval, sorted.
        generation: The generation that readers get.
        identity: Numbers that change with the files of the manifest; see ``identity_of``.
        facts: The facts in the manifest, as JSON.
    """

    interval: str
    names: list[str]
    generation: int
    identity: list[int]
    facts: Mapping[str, Any]

    def to_line(self) -> bytes:
        """Return the line of the file, with its line end."""
        data = json.dumps(self, separators=(",", ":")).encode()
        return _HEAD + xxhash.xxh3_64_hexdigest(data).encode() + _ROW + data + b"}\n"


def parse_index(data: bytes) -> dict[str, IndexRow]:
    """Return the rows of an index by interval; lines that are damaged are left out.

    Args:
        data: The bytes of the file.
    """
    lines = [line[_AT:-1] for line in data.split(b"\n") if _is_intact(line)]
    try:
        values: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
        rows = [IndexRow._make(value) for value in values]
    except (ValueError, TypeError, RecursionError):
        return {}  # not written by this module, although the checksums are right
    return {row.interval: row for row in rows if _is_typed(row.interval, row.generation)}


def read_index(folder: DatasetFolder) -> dict[str, IndexRow]:
    """Return the rows of the index by interval; none if it cannot be read."""
    try:
        return parse_index(read_plain(folder.path / INDEX, follow=False, max_bytes=_MAX_BYTES))
    except (FormatError, StorageError) as error:
        logger.info("every manifest of %s is opened: %s", folder.name, error)
        return {}


def write_index(folder: DatasetFolder, rows: Iterable[IndexRow]) -> bool:
    """Replace the index; return whether this account could."""
    data = b"".join(row.to_line() for row in rows)
    try:
        posix.replace_file(folder.path / INDEX, data, is_public=True)
    except StorageError as error:
        logger.info("the next status of %s will take as long: %s", folder.name, error)
        return False
    return True


def _is_typed(interval: object, generation: object) -> bool:
    """Return whether values have the types that the others are compared by."""
    return isinstance(interval, str) and type(generation) is int


def _is_intact(line: bytes) -> bool:
    if not (line.startswith(_HEAD) and line.endswith(b"}")):
        return False
    written = line[len(_HEAD) : len(_HEAD) + _SUM_CHARS]
    return xxhash.xxh3_64_hexdigest(line[_AT:-1]).encode() == written
