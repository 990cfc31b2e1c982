"""Policies for damage in record files, and the account of dropped bytes.

The module serves RecordIO and TFRecord. The unit that is intact or damaged is a chunk in RecordIO,
with many records, and a record in TFRecord; both are called a piece here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final, NamedTuple, Self

from trainfeed.errors import ConfigError, FormatError, TruncatedError

# Limits for the search for intact pieces: bytes as a multiple of the file, a minimum for small
# files, and the cost of a place that looks like a piece, which is more than its bytes.
_MAX_WORK_RATIO: Final = 64
_MIN_WORK_BYTES: Final = 1 << 30
_CANDIDATE_WORK_BYTES: Final = 4096


class DamageMode(Enum):
    """The damage that a policy allows; see the constructors of ``DamagePolicy``."""

    STRICT = auto()
    TOLERATE_TRUNCATED_TAIL = auto()
    SKIP_CHUNK = auto()


@dataclass(frozen=True)
class DamagePolicy:
    """The reaction of a reader to damage. Make a policy with one of the constructors.

    No policy allows records that were not verified, and an intact chunk of another layout is an
    error with each policy.

    Attributes:
        mode: The allowed damage.
        max_dropped: The most ranges that may be dropped before damage is an error after all; for
            SKIP_CHUNK.
    """

    mode: DamageMode = DamageMode.STRICT
    max_dropped: int = 0

    @classmethod
    def strict(cls) -> Self:
        """Raise at the first damage."""
        return cls()

    @classmethod
    def tolerate_truncated_tail(cls) -> Self:
        """End a file at a torn piece, as a killed writer leaves it; raise at other damage.

        A damaged length looks like a torn piece. If there are intact pieces behind it, the piece
        was not torn, and the damage is an error.
        """
        return cls(DamageMode.TOLERATE_TRUNCATED_TAIL)

    @classmethod
    def skip_chunk(cls, *, max: int) -> Self:  # noqa: A002 (a keyword that calls read well with)
        """Drop damaged pieces, also torn tails, and go on with the next intact piece.

        A damaged piece ends where its content fits the checksum; otherwise where its header says,
        if another header or the end of the file is there. An intact piece before that place is
        dropped, too, because it may be part of a record.

        If header and checksum of a piece are both damaged, the scan searches for the next intact
        piece. If a record of the damaged piece contains an intact piece itself, uncompressed, that
        one is found: it cannot be told from a piece of the file.

        Args:
            max: The most ranges that one scan may drop; the next damage raises.

        Raises:
            ConfigError: ``max`` is negative.
        """
        if max < 0:
            raise ConfigError(f"expected max from 0, got {max}")
        return cls(DamageMode.SKIP_CHUNK, max)

    @property
    def skips(self) -> bool:
        """Whether reading may go on behind damage other than a torn tail."""
        return self.mode is DamageMode.SKIP_CHUNK

    def allows(self, error: FormatError) -> bool:
        """Return whether damage of this kind may be dropped, however much was dropped before."""
        torn = isinstance(error, TruncatedError)
        return self.skips or (self.mode is DamageMode.TOLERATE_TRUNCATED_TAIL and torn)

    def require_drop(self, error: FormatError, report: DamageReport) -> None:
        """Raise ``error`` unless the policy allows dropping the damaged place.

        Args:
            error: The error about the damage. If too much was dropped before, its message gets
                the number.
            report: The ranges dropped before.

        Raises:
            FormatError: The argument ``error``.
        """
        if not self.allows(error):
            raise error
        if not self.skips:
            return
        num_dropped = len(report.dropped)
        if num_dropped >= self.max_dropped:
            allowance = f"{num_dropped} ranges were dropped before, {self.max_dropped} may be"
            error.args = (f"{error.args[0]}; {allowance}",)
            raise error

    def drop_rest(
        self,
        report: DamageReport,
        path: str | None,
        start_bytes: int,
        end_bytes: int,
        error: FormatError,
    ) -> None:
        """Drop the end of a file that has not the size that its manifest states.

        A dropped piece right before is the same damage: its range is extended.

        Args:
            report: The ranges dropped before; gets the range.
            path: The file.
            start_bytes: The smaller of the two sizes.
            end_bytes: The larger one.
            error: The error about the size.

        Raises:
            FormatError: The argument ``error``: the policy does not allow it.
        """
        last = report.dropped[-1] if report.dropped else None
        if last is not None and (last.path, last.end_bytes) == (path, start_bytes):
            report.dropped[-1] = replace(last, end_bytes=end_bytes, num_records=None)
            return
        self.require_drop(error, report)
        report.drop(path, start_bytes, DamageGap(end_bytes), error)


class DamageGap(NamedTuple):
    """The known facts about a damaged place.

    Attributes:
        end_bytes: Where the next piece starts, or the file ends.
        num_records: Number of records of the piece, None if no reliable field has it.
        is_whole: For a chunk, whether its payload is complete and fits the checksum, so that only
            another word of the header is damaged.
    """

    end_bytes: int
    num_records: int | None = None
    is_whole: bool = False


@dataclass(frozen=True)
class DroppedRange:
    """Bytes of a file whose records were not yielded.

    Attributes:
        path: The file, None if it has no name.
        start_bytes: Offset of the first dropped byte; in a compressed TFRecord file, in its
            decompressed content.
        end_bytes: Offset at which reading went on; the end of the file if no intact piece follows.
            In a compressed TFRecord file, the end of the decompressed content, behind which
            nothing can be read. Of a shard that is shorter or longer than its manifest says, the
            larger of the two sizes.
        num_records: Number of lost records by the headers; None if the header is damaged, too, or
            more than one piece may have been there.
        reason: The error.
    """

    path: str | None
    start_bytes: int
    end_bytes: int
    num_records: int | None
    reason: str


@dataclass
class DamageReport:
    """The dropped ranges, in the order of reading.

    Attributes:
        dropped: The ranges. A range is one piece, or more if headers were damaged.
    """

    dropped: list[DroppedRange] = field(default_factory=list)

    def drop(self, path: str | None, start_bytes: int, gap: DamageGap, error: FormatError) -> None:
        """Add a damaged place of a file, with its error."""
        reason = str(error.args[0])
        self.dropped.append(DroppedRange(path, start_bytes, gap.end_bytes, gap.num_records, reason))

    @property
    def num_chunks(self) -> int:
        """Number of dropped pieces, at least: a range counts as one."""
        return len(self.dropped)

    @property
    def num_bytes(self) -> int:
        """Number of dropped bytes, headers included."""
        return sum(part.end_bytes - part.start_bytes for part in self.dropped)

    @property
    def num_records(self) -> int | None:
        """Number of lost records, None if it is unknown for any range."""
        total = 0
        for part in self.dropped:
            if part.num_records is None:
                return None
            total += part.num_records
        return total


class SearchBudget:
    """A bound for the bytes that are read in search of intact pieces.

    A file can consist of places that look like pieces, each with content to verify: without a
    bound, the search would take hours.

    Args:
        file_bytes: Size of the file.
        piece: Name of the pieces, for messages.
    """

    def __init__(self, file_bytes: int, piece: str) -> None:
        self._left_bytes = _MIN_WORK_BYTES + _MAX_WORK_RATIO * file_bytes
        self._piece = piece

    def spend(self, num_bytes: int) -> None:
        """Count bytes that are read.

        Raises:
            FormatError: The bound is exceeded.
        """
        self._left_bytes -= num_bytes
        if self._left_bytes < 0:
            raise FormatError(
                f"expected few damaged places, got more places that look like a {self._piece}"
                " than can be tried; restore the file, or cut it before the damage"
            )

    def spend_candidate(self) -> None:
        """Count a place that looks like a piece.

        Raises:
            FormatError: The bound is exceeded.
        """
        self.spend(_CANDIDATE_WORK_BYTES)
