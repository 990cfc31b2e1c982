"""Quarantined records of one build: where they were and why, and for this room their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import PlanRef

__all__ = [
    "MOST_RAW_BYTES",
    "Quarantine",
    "QuarantinedPlace",
    "QuarantinedPositions",
    "QuarantinedRecord",
    "Tables",
    "damaged",
    "raw_records",
]

# The quarantine keeps so many bytes of a value; the position leads to the whole.
MOST_RAW_BYTES: Final = 64 << 10

_PLACE: Final = ("source", "offset", "reason")
_RECORD: Final = (*_PLACE, "message", "raw")

# Reads a table for each batch, with the named columns of ``QUARANTINE_SCHEMA`` alone.
Tables = Callable[[Sequence[str]], Iterator[pa.Table]]


class QuarantinedPositions(NamedTuple):
    """Neighbouring records; all of one length.

    Attributes:
        sources: Indices into the sources of the build, in order of their names.
        offsets: Offsets of the records.
        reasons: The short codes with which the function rejected them.
    """

    sources: NDArray[Any]
    offsets: NDArray[Any]
    reasons: list[str]


@dataclass(frozen=True)
class QuarantinedPlace:
    """A record that the function turned down: where it is and the code for why.

    Messages often quote values, so they are read like bytes: ``QuarantinedRecord``.

    Attributes:
        source: Source string, as in ``kafka:clicks/0``.
        offset: Offset in the topic's partition; for a line, the byte at which it begins.
        reason: The short code with which the function rejected the record.
    """

    source: str
    offset: int
    reason: str


@dataclass(frozen=True)
class QuarantinedRecord(QuarantinedPlace):
    """The same with its message and its bytes, which may hold personal data.

    Attributes:
        message: The exact error, at most 500 characters.
        raw: The first 64 KiB of the value; empty for a record without a value.
    """

    message: str
    raw: bytes

    @property
    def may_be_cut(self) -> bool:
        """Whether the value may be longer than the bytes that are kept."""
        return len(self.raw) >= MOST_RAW_BYTES


@dataclass(frozen=True)
class Quarantine:
    """The quarantined records of one build of an interval; ``read_raw`` gives their bytes.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        origin: Name of the generation with the records, or id of the plan that is not published.
        plan: The plan of the build; its file may be gone.
        is_published: True if ``origin`` is a generation, False if it is a plan id.
        place: Path or URI of the file, or of the folder of the work files.
        modified_ms: When the records were written, milliseconds since 1970.
    """

    dataset: str
    interval: str
    origin: str
    plan: PlanRef
    is_published: bool
    place: str
    modified_ms: int
    _sources: tuple[str, ...]
    _tables: Tables

    def reasons(self) -> dict[str, int]:
        """Count the records by reason, the most frequent first.

        Raises:
            AccessDeniedError: Only the account that builds may read them.
            FormatError: A file is damaged.
        """
        counts: Counter[str] = Counter()
        for table in self._tables(("reason",)):
            for entry in table["reason"].value_counts().to_pylist():
                counts[entry["values"]] += entry["counts"]
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def places(self, reason: str | None = None) -> Iterator[QuarantinedPlace]:
        """Yield position and reason of the records in order of source and offset.

        Args:
            reason: Only records with this reason; None for all.

        Raises:
            AccessDeniedError: Only the account that builds may read them.
            FormatError: A file is damaged.
        """
        for row in self._rows(reason, _PLACE):
            yield QuarantinedPlace(**row)

    def positions(self) -> Iterator[QuarantinedPositions]:
        """Yield the positions of the records in order of source and offset, a batch at a time.

        Raises:
            AccessDeniedError: Only the account that builds may read them.
            FormatError: A file is damaged.
        """
        for table in self._tables(_PLACE):
            sources, offsets = (table[name].to_numpy() for name in ("source", "offset"))
            for index in {*sources.tolist()}:
                self._source(index)
            yield QuarantinedPositions(sources, offsets, table["reason"].to_pylist())

    def _rows(self, reason: str | None, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        for table in self._tables(columns):
            chosen = table if reason is None else table.filter(pc.field("reason") == reason)
            for row in chosen.to_pylist():
                yield {**row, "source": self._source(row["source"])}

    def _source(self, index: int) -> str:
        if not 0 <= index < len(self._sources):
            raise damaged(self.place, f"source {index} of {len(self._sources)}")
        return self._sources[index]


def raw_records(quarantine: Quarantine, reason: str | None = None) -> Iterator[QuarantinedRecord]:
    """Yield the records with their bytes, for this room alone: others use ``read_raw``.

    Args:
        quarantine: The quarantine.
        reason: Only records with this reason; None for all.

    Raises:
        AccessDeniedError: Only the account that builds may read them.
        FormatError: A file is damaged.
    """
    for row in quarantine._rows(reason, _RECORD):  # noqa: SLF001 - the same module
        yield QuarantinedRecord(**row)


def damaged(path: str, problem: str) -> FormatError:
    """Return the error about a file that holds no quarantined records of its build."""
    return FormatError(
        f"expected quarantined records: {problem}; compare the version: trainfeed verify", path=path
    )
